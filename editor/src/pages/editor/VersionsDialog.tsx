/** The versions of a workflow: what is different to what is on the canvas, field by field; and going back to one. */

import { useQuery } from "@tanstack/react-query";
import { useMemo, useState, type ReactElement } from "react";
import { Link } from "react-router";

import { ApiError, call, callText } from "../../api/client";
import { replaceDocument } from "../../edit";
import { diffDocuments, readDocument, type RecordChange } from "../../model";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Problem, Skeleton } from "../../ui/Notice";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh, useAsk } from "../data";
import { useMay } from "../session";
import { DiffPicture } from "./DiffPicture";
import type { EditorSession } from "./session";

interface VersionsDialogProps {
  session: EditorSession;
  workflow: string;
  onClose: () => void;
}

export function VersionsDialog({ session, workflow, onClose }: VersionsDialogProps): ReactElement {
  const versions = useAsk("list_versions", { path: { workflow }, query: { limit: 100 } });
  const [chosen, setChosen] = useState<number | null>(null);
  const version = chosen ?? versions.data?.items[0]?.version ?? null;
  const chosenVersion = versions.data?.items.find((each) => each.version === version);
  const mayEdit = useMay("editor");
  const [isBusy, setBusy] = useState(false);
  const activate = () => {
    if (version === null) return;
    setBusy(true);
    call("activate_version", { path: { workflow }, body: { version } })
      .then(
        () => {
          refresh("list_versions", "list_workflows");
          toast(`Starts take version ${version} from now on.`);
        },
        (failure: unknown) => toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" }),
      )
      .finally(() => setBusy(false));
  };
  const document = useQuery({
    queryKey: ["document", workflow, version],
    queryFn: ({ signal }) => callText("get_workflow_document", { path: { workflow }, query: { version }, signal }),
    enabled: version !== null,
    staleTime: Infinity,
  });
  const before = useMemo(() => (document.data === undefined ? null : readDocument(document.data.text)), [document.data]);
  const after = session.store.document;
  const changes = useMemo(() => (before === null ? null : diffDocuments(before, after)), [before, after]);
  const restore = () => {
    if (before === null) return;
    session.model.try(() => replaceDocument(session.store, `Restore version ${version}`, before));
    toast(`Version ${version} is on the canvas. Undo brings your draft back; Publish makes it the newest version.`);
    onClose();
  };
  return (
    <Dialog
      open
      onClose={onClose}
      wide
      title="Versions"
      about="How the canvas differs from the chosen version."
      footer={
        <>
          {version !== null && (
            <Link className="button" to={`/workflows/${encodeURIComponent(workflow)}?version=${version}`} onClick={onClose}>
              Look at version {version}
            </Link>
          )}
          {mayEdit && chosenVersion !== undefined && !chosenVersion.active && chosenVersion.kind === "drawn" && (
            <Button disabled={isBusy} onClick={activate}>
              Activate version {version}
            </Button>
          )}
          {!session.model.isReadOnly && (
            <Button look="primary" disabled={changes === null || changes.length === 0} onClick={restore}>
              Put version {version} on the canvas
            </Button>
          )}
        </>
      }
    >
      <div className="versions">
        {versions.error ? <Problem error={versions.error} /> : null}
        <ul className="version-list">
          {versions.data?.items.map((each) => (
            <li key={each.version}>
              <button type="button" className="version" aria-pressed={each.version === version} onClick={() => setChosen(each.version)}>
                <strong className="numbers">v{each.version}</strong> {each.active && <span className="badge accent">active</span>}
                <span className="faint small">
                  <Ago time={each.createdAt} />
                </span>
              </button>
            </li>
          ))}
        </ul>
        <div className="grow" role="region" aria-label={`Differences to version ${version}`}>
          {changes === null ? (
            <Skeleton lines={3} />
          ) : changes.length === 0 ? (
            <p className="faint">There is no difference.</p>
          ) : (
            <>
              <DiffPicture before={before!} after={after} changes={changes} exitsOf={session.model.types.exitsOf} />
              {changes.map((change) => (
                <Change key={change.identity} change={change} />
              ))}
            </>
          )}
        </div>
      </div>
    </Dialog>
  );
}

/** "each"; of an edge its ends, `approve → each`. */
function shownIdentity({ kind, identity }: RecordChange): string {
  if (kind === "head") return "";
  const text = identity.startsWith(`${kind} `) ? identity.slice(kind.length + 1) : identity;
  const [, source, handle, target] = /^\["([^"]*)","([^"]*)","([^"]*)"/.exec(text) ?? [];
  if (source === undefined) return text;
  return `${source} → ${target}${handle === "default" ? "" : ` by ${handle}`}`;
}

function Change({ change }: { change: RecordChange }): ReactElement {
  return (
    <details className="change" data-change={change.change}>
      <summary>
        <span className="badge">{change.change}</span> {change.kind === "head" ? "the workflow" : change.kind} <code>{shownIdentity(change)}</code>
      </summary>
      <table className="table small">
        <tbody>
          {change.fields.map((field) => (
            <tr key={field.pointer}>
              <td>
                <code>{field.pointer || "all of it"}</code>
              </td>
              <td className="before">{field.before !== null && <del>{field.before}</del>}</td>
              <td className="after">{field.after !== null && <ins>{field.after}</ins>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
