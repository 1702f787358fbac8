/** Templates with their pictures: drawn ones open as drafts, coded ones are shown with the command that makes their project. */

import { Copy } from "lucide-react";
import { useState, type ReactElement } from "react";
import { useNavigate } from "react-router";

import { ApiError, call, type Schemas } from "../../api/client";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Problem, Skeleton } from "../../ui/Notice";
import { toast } from "../../ui/toasts";
import { useAsk } from "../data";
import { createDraft } from "./newWorkflow";

type Summary = Schemas["TemplateSummary"];
type View = Schemas["TemplateView"];

/** They come with the server: asking once is enough. */
const STALE_MS = Infinity;

export function GalleryDialog({ onClose }: { onClose: () => void }): ReactElement {
  return (
    <Dialog open wide onClose={onClose} title="Templates" about="Workflows to begin with. Those marked as coded are Python: they need a project.">
      <Gallery />
    </Dialog>
  );
}

export function Gallery(): ReactElement {
  const templates = useAsk("list_templates", {}, { staleMs: STALE_MS });
  const [shown, setShown] = useState<View | null>(null);
  const navigate = useNavigate();
  const choose = async (name: string) => {
    const template = await call("get_template", { path: { template: name } });
    if (template.kind === "coded" || template.document === null) setShown(template);
    else void navigate(`/drafts/${encodeURIComponent(await createDraft(template.document))}`);
  };
  const press = (name: string) => {
    choose(name).catch((failure: unknown) => toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" }));
  };
  if (templates.error) return <Problem error={templates.error} onRetry={() => void templates.refetch()} />;
  if (templates.isPending) return <Skeleton />;
  return (
    <>
      <ul className="gallery">
        {templates.data.items.map((template) => (
          <li key={template.name}>
            <Card template={template} onPress={() => press(template.name)} />
          </li>
        ))}
      </ul>
      {shown && <CodedDialog template={shown} onClose={() => setShown(null)} />}
    </>
  );
}

function Card({ template, onPress }: { template: Summary; onPress: () => void }): ReactElement {
  const { title, description, kind, picture } = template;
  return (
    <button type="button" className="card template" onClick={onPress}>
      <img src={`data:image/svg+xml,${encodeURIComponent(picture)}`} alt="" loading="lazy" />
      <span className="row">
        <strong>{title}</strong>
        {kind === "coded" && <span className="badge">coded</span>}
      </span>
      <span className="faint small">{description}</span>
    </button>
  );
}

function CodedDialog({ template, onClose }: { template: View; onClose: () => void }): ReactElement {
  const command = `anabranch new my-project --template ${template.name}`;
  return (
    <Dialog
      open
      wide
      onClose={onClose}
      title={template.title}
      about="It is written in Python: this command makes a project of it, which anabranch dev runs and follows."
      footer={
        <Button look="primary" onClick={() => void navigator.clipboard.writeText(command).then(() => toast("Copied"))}>
          <Copy size={14} aria-hidden /> Copy the command
        </Button>
      }
    >
      <pre className="command">{command}</pre>
      <pre className="code-listing" tabIndex={0} aria-label="The Python of the template">
        {template.code}
      </pre>
    </Dialog>
  );
}
