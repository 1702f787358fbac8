/** Secrets: their names, never their values. */

import { KeyRound, Plus, Search, Trash2 } from "lucide-react";
import { useId, useState, type ReactElement } from "react";

import { call, type Schemas } from "../../api/client";
import { Button, IconButton } from "../../ui/Button";
import { Empty } from "../../ui/Notice";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh } from "../data";
import { ConfirmDialog } from "../lists/ConfirmDialog";
import { ListCard } from "../lists/ListCard";
import { SaveDialog } from "../lists/SaveDialog";
import { useList } from "../lists/useList";
import { namesSecret } from "./uses";
import { UsesDialog } from "./UsesDialog";

type Secret = Schemas["SecretSummary"];
type Open = { kind: "set"; name: string | null } | { kind: "uses" | "delete"; secret: Secret };

export function SecretsPart(): ReactElement {
  const list = useList("list_secrets");
  const [open, setOpen] = useState<Open | null>(null);
  const close = () => setOpen(null);
  const create = (
    <Button look="primary" onClick={() => setOpen({ kind: "set", name: null })}>
      <Plus size={15} /> New secret
    </Button>
  );
  return (
    <>
      <div className="part-head">
        <p className="page-about">
          Passwords and tokens that nodes use by name, as <code>{"{{secret.NAME}}"}</code>. They are stored encrypted, and nobody is ever shown a value again.
        </p>
        {list.items.length > 0 && create}
      </div>
      <ListCard
        list={list}
        label="Secrets"
        columns={["Name", "Changed", "Times set"]}
        hasVerbs
        empty={
          <Empty icon={<KeyRound size={32} />} title="No secret yet" action={create}>
            Store a password or a token here, and name it in a node.
          </Empty>
        }
      >
        {list.items.map(({ value: secret }) => (
          <tr key={secret.name} data-secret={secret.name}>
            <td className="wide">
              <code className="name">{secret.name}</code>
            </td>
            <td className="tight">
              <Ago time={secret.updatedAt} />
            </td>
            <td className="tight numbers">{secret.version}</td>
            <td className="verbs">
              <Button small onClick={() => setOpen({ kind: "uses", secret })} aria-label={`Where used: ${secret.name}`}>
                <Search size={13} aria-hidden /> Where used
              </Button>{" "}
              <Button small onClick={() => setOpen({ kind: "set", name: secret.name })} aria-label={`New value… of ${secret.name}`}>
                New value…
              </Button>{" "}
              <IconButton label={`Delete ${secret.name}`} icon={<Trash2 size={15} />} small onClick={() => setOpen({ kind: "delete", secret })} />
            </td>
          </tr>
        ))}
      </ListCard>
      {open?.kind === "set" && <SetDialog name={open.name} onClose={close} />}
      {open?.kind === "uses" && <UsesDialog what={open.secret.name} uses={(text) => namesSecret(text, open.secret.name)} onClose={close} />}
      {open?.kind === "delete" && (
        <ConfirmDialog
          title={`Delete ${open.secret.name}?`}
          about="Nodes that use it fail from then on. Its value cannot be brought back."
          verb="Delete"
          onConfirm={async () => {
            await call("delete_secret", { path: { secret: open.secret.name } });
            refresh("list_secrets");
            toast(`${open.secret.name} is deleted.`);
          }}
          onClose={close}
        />
      )}
    </>
  );
}

function SetDialog({ name: given, onClose }: { name: string | null; onClose: () => void }): ReactElement {
  const id = useId();
  const [name, setName] = useState(given ?? "");
  const [value, setValue] = useState("");
  const [isShown, setShown] = useState(false);
  const save = async () => {
    await call("set_secret", { body: { name: name.trim(), value } });
    refresh("list_secrets");
    toast(`${name.trim()} is stored.`);
  };
  return (
    <SaveDialog
      title={given === null ? "New secret" : `New value of ${given}`}
      about={given === null ? undefined : "It takes the place of the old one; attempts that begin from now on use it."}
      verb="Store it"
      isReady={name.trim() !== "" && value !== ""}
      onSave={save}
      onClose={onClose}
    >
      {given === null && (
        <div className="field">
          <label htmlFor={`${id}-name`}>Name</label>
          <input id={`${id}-name`} className="input mono" required value={name} autoComplete="off" spellCheck={false} placeholder="API_TOKEN" aria-describedby={`${id}-help`} onChange={(event) => setName(event.target.value)} />
          <p id={`${id}-help`} className="field-help">
            Up to 64 letters, digits and _; the first one is no digit.
          </p>
        </div>
      )}
      <div className="field">
        <label htmlFor={`${id}-value`}>Value</label>
        <textarea id={`${id}-value`} className={`input mono ${isShown ? "" : "concealed"}`} rows={3} required value={value} autoComplete="off" spellCheck={false} onChange={(event) => setValue(event.target.value)} />
      </div>
      <label className="check small">
        <input type="checkbox" checked={isShown} onChange={(event) => setShown(event.target.checked)} />
        Show what I type
      </label>
    </SaveDialog>
  );
}
