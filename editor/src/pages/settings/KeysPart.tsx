/** API keys: who has which role. A key itself is shown once, when it is made. */

import { Copy, KeyRound, Plus } from "lucide-react";
import { useId, useState, type ReactElement } from "react";

import { call, serverNow, type Schemas } from "../../api/client";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Empty, Notice, Problem } from "../../ui/Notice";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh } from "../data";
import { ConfirmDialog } from "../lists/ConfirmDialog";
import { ListCard } from "../lists/ListCard";
import { useList } from "../lists/useList";
import { useSession } from "../session";

type Key = Schemas["KeySummary"];
type Role = Schemas["Role"];
type Open = { kind: "new" } | { kind: "revoke"; key: Key };

const ROLES: readonly [Role, string][] = [
  ["viewer", "reads workflows and runs"],
  ["operator", "also starts, cancels and signals runs"],
  ["editor", "also changes workflows, schedules and queries"],
  ["admin", "also manages keys, secrets and data sources"],
  ["executor", "is for executors: fetches what the jobs of its pools refer to, and may do nothing else"],
];

export function KeysPart(): ReactElement {
  const list = useList("list_keys");
  const own = useSession(({ me }) => me?.keyID);
  const [withOld, setWithOld] = useState(false);
  const [open, setOpen] = useState<Open | null>(null);
  const close = () => setOpen(null);
  const shown = list.items.map(({ value }) => value).filter((key) => withOld || stateOf(key) === "active");
  const old = list.items.length - list.items.filter(({ value }) => stateOf(value) === "active").length;
  const create = (
    <Button look="primary" onClick={() => setOpen({ kind: "new" })}>
      <Plus size={15} /> New key
    </Button>
  );
  return (
    <>
      <div className="part-head">
        <p className="page-about">Programs and people sign in with a key. Its role says what it may do.</p>
        {list.items.length > 0 && create}
      </div>
      {old > 0 && (
        <label className="check small">
          <input type="checkbox" checked={withOld} onChange={(event) => setWithOld(event.target.checked)} />
          Show {old} revoked or expired {old === 1 ? "key" : "keys"}
        </label>
      )}
      <ListCard list={list} label="Keys" columns={["Key", "Role", "Last used", "Made", "State"]} hasVerbs empty={<Empty icon={<KeyRound size={32} />} title="No key yet" action={create} />}>
        {shown.map((key) => (
          <tr key={key.keyID} data-key={key.keyID}>
            <td className="wide">
              <code className="name">{key.keyID}</code> {key.keyID === own && <span className="badge accent">yours</span>}
            </td>
            <td>
              {key.role}
              {key.pools !== null && <div className="small faint">{key.pools.map((pool) => (pool === "*" ? "every pool" : pool)).join(", ")}</div>}
            </td>
            <td className="tight">{key.lastUsedAt === null ? <span className="faint">never</span> : <Ago time={key.lastUsedAt} />}</td>
            <td>
              <Ago time={key.createdAt} /> <span className="faint small">by {key.createdBy}</span>
            </td>
            <td className="tight">
              {stateOf(key)}
              {key.expiresAt !== null && stateOf(key) === "active" && (
                <div className="small faint">
                  expires <Ago time={key.expiresAt} />
                </div>
              )}
            </td>
            <td className="verbs">
              {stateOf(key) === "active" && (
                <Button small look="danger" onClick={() => setOpen({ kind: "revoke", key })} aria-label={`Revoke… ${key.keyID}`}>
                  Revoke…
                </Button>
              )}
            </td>
          </tr>
        ))}
      </ListCard>
      {open?.kind === "new" && <NewKeyDialog onClose={close} />}
      {open?.kind === "revoke" && (
        <ConfirmDialog
          title={`Revoke ${open.key.keyID}?`}
          about="It is refused everywhere within two seconds, and cannot be brought back."
          verb="Revoke"
          onConfirm={async () => {
            await call("revoke_key", { path: { keyID: open.key.keyID } });
            refresh("list_keys");
            toast(`${open.key.keyID} is revoked.`);
          }}
          onClose={close}
        >
          {open.key.keyID === own && <Notice kind="warning">This is the key that you are signed in with: you will be signed out.</Notice>}
        </ConfirmDialog>
      )}
    </>
  );
}

function stateOf({ revokedAt, expiresAt }: Key): "active" | "revoked" | "expired" {
  if (revokedAt !== null) return "revoked";
  return expiresAt !== null && Date.parse(expiresAt) <= serverNow() ? "expired" : "active";
}

function namesIn(text: string): string[] {
  return text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

function NewKeyDialog({ onClose }: { onClose: () => void }): ReactElement {
  const id = useId();
  const [role, setRole] = useState<Role>("operator");
  const [pools, setPools] = useState("default");
  const [made, setMade] = useState<Schemas["MadeKey"] | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const create = () => {
    setBusy(true);
    setProblem(null);
    call("create_key", { body: { role, pools: role === "executor" ? namesIn(pools) : [] } })
      .then((answer) => {
        setMade(answer);
        refresh("list_keys");
      }, setProblem)
      .finally(() => setBusy(false));
  };
  if (made !== null) {
    return (
      <Dialog
        open
        onClose={onClose}
        title={`A key of the role ${made.role}`}
        about="Copy it now: it is shown this once and stored nowhere."
        footer={
          <Button look="primary" onClick={onClose}>
            I have copied it
          </Button>
        }
      >
        <div className="shown-once">
          <code aria-label="The new key">{made.key}</code>
          <Button onClick={() => void navigator.clipboard.writeText(made.key).then(() => toast("Copied"))}>
            <Copy size={14} /> Copy
          </Button>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title="New key"
      onSubmit={create}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="primary" disabled={isBusy || (role === "executor" && namesIn(pools).length === 0)}>
            Make the key
          </Button>
        </>
      }
    >
      <fieldset className="roles">
        <legend className="field-label">Role</legend>
        {ROLES.map(([value, does]) => (
          <label key={value} className="check">
            <input type="radio" name={`${id}-role`} value={value} checked={role === value} onChange={() => setRole(value)} />
            <span>
              {value} <span className="faint small">{does}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {role === "executor" && (
        <div className="field">
          <label htmlFor={`${id}-pools`}>Pools</label>
          <input id={`${id}-pools`} className="input mono" required value={pools} autoComplete="off" spellCheck={false} aria-describedby={`${id}-help`} onChange={(event) => setPools(event.target.value)} />
          <p id={`${id}-help`} className="field-help">
            Names, separated by commas; <code>*</code> for every pool.
          </p>
        </div>
      )}
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}
