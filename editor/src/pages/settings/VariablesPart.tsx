/** Variables of the tenant: plain values that workflows read by name. */

import { Plus, Trash2, Variable } from "lucide-react";
import { useId, useState, type ReactElement } from "react";

import { ApiError, call, type Schemas } from "../../api/client";
import { Button, IconButton } from "../../ui/Button";
import { Empty } from "../../ui/Notice";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh } from "../data";
import { ConfirmDialog } from "../lists/ConfirmDialog";
import { ListCard } from "../lists/ListCard";
import { SaveDialog } from "../lists/SaveDialog";
import { useList } from "../lists/useList";
import { useMay } from "../session";

type Value = Schemas["ListedVariable"];
type Open = { kind: "set"; variable: Value | null } | { kind: "delete"; variable: Value };

/** A value as it is typed: text as it is, everything else as JSON. */
function typed(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function VariablesPart(): ReactElement {
  const list = useList("list_variables");
  const mayEdit = useMay("editor");
  const [open, setOpen] = useState<Open | null>(null);
  const close = () => setOpen(null);
  const showFailure = (failure: unknown) => toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" });
  /** Values that the list does not have are read first. */
  const change = (variable: Value) => {
    if (variable.value !== null) setOpen({ kind: "set", variable });
    else call("get_variable", { path: { variable: variable.name } }).then((whole) => setOpen({ kind: "set", variable: whole }), showFailure);
  };
  const create = mayEdit ? (
    <Button look="primary" onClick={() => setOpen({ kind: "set", variable: null })}>
      <Plus size={15} /> New variable
    </Button>
  ) : undefined;
  return (
    <>
      <div className="part-head">
        <p className="page-about">
          Values that workflows read by name, with nodes of the type <code>readVariables</code>. Everybody who may read workflows can read them.
        </p>
        {list.items.length > 0 && create}
      </div>
      <ListCard
        list={list}
        label="Variables"
        columns={["Name", "Value", "Changed"]}
        hasVerbs
        empty={
          <Empty icon={<Variable size={32} />} title="No variable yet" action={create}>
            Set a value here, and read it in a workflow.
          </Empty>
        }
      >
        {list.items.map(({ value: variable }) => (
          <tr key={variable.name} data-variable={variable.name}>
            <td className="tight">
              <code className="name">{variable.name}</code>
            </td>
            <td className="wide mono">{variable.value === null ? `${variable.size.toLocaleString()} bytes` : typed(variable.value).slice(0, 120)}</td>
            <td className="tight">
              <Ago time={variable.updatedAt} />
            </td>
            <td className="verbs">
              {mayEdit && (
                <>
                  <Button small onClick={() => change(variable)} aria-label={`New value… of ${variable.name}`}>
                    New value…
                  </Button>{" "}
                  <IconButton label={`Delete ${variable.name}`} icon={<Trash2 size={15} />} small onClick={() => setOpen({ kind: "delete", variable })} />
                </>
              )}
            </td>
          </tr>
        ))}
      </ListCard>
      {open?.kind === "set" && <SetVariableDialog variable={open.variable} onClose={close} />}
      {open?.kind === "delete" && (
        <ConfirmDialog
          title={`Delete ${open.variable.name}?`}
          about="Nodes that read it find nothing under its name from then on."
          verb="Delete"
          onConfirm={async () => {
            await call("delete_variable", { path: { variable: open.variable.name } });
            refresh("list_variables");
            toast(`${open.variable.name} is deleted.`);
          }}
          onClose={close}
        />
      )}
    </>
  );
}

function SetVariableDialog({ variable, onClose }: { variable: Value | null; onClose: () => void }): ReactElement {
  const id = useId();
  const [name, setName] = useState(variable?.name ?? "");
  const [text, setText] = useState(variable === null ? "" : typed(variable.value));
  const [isJson, setJson] = useState(variable !== null && typeof variable.value !== "string");
  const save = async () => {
    const value: unknown = isJson ? JSON.parse(text) : text;
    await call("set_variable", { path: { variable: name.trim() }, body: { value } });
    refresh("list_variables");
    toast(`${name.trim()} is set.`);
  };
  return (
    <SaveDialog
      title={variable === null ? "New variable" : `New value of ${variable.name}`}
      verb="Set it"
      isReady={name.trim() !== "" && !(isJson && text.trim() === "")}
      onSave={save}
      onClose={onClose}
    >
      {variable === null && (
        <div className="field">
          <label htmlFor={`${id}-name`}>Name</label>
          <input id={`${id}-name`} className="input mono" required value={name} autoComplete="off" spellCheck={false} placeholder="REGION" onChange={(event) => setName(event.target.value)} />
        </div>
      )}
      <div className="field">
        <label htmlFor={`${id}-value`}>Value</label>
        <textarea id={`${id}-value`} className="input mono" rows={3} value={text} autoComplete="off" spellCheck={false} onChange={(event) => setText(event.target.value)} />
      </div>
      <label className="check small">
        <input type="checkbox" checked={isJson} onChange={(event) => setJson(event.target.checked)} />
        The value is JSON
      </label>
    </SaveDialog>
  );
}
