/** Data sources: databases that data queries run on. */

import { Database, Pencil, Plus, Trash2 } from "lucide-react";
import { useId, useState, type ReactElement } from "react";
import { Link } from "react-router";

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
import { useMay } from "../session";

type Source = Schemas["SourceSummary"];
type Open = { kind: "save"; source: Source | null } | { kind: "delete"; source: Source };

export function SourcesPart(): ReactElement {
  const list = useList("list_sources");
  const queries = useList("list_queries");
  const isAdmin = useMay("admin");
  const [open, setOpen] = useState<Open | null>(null);
  const close = () => setOpen(null);
  const create = isAdmin && (
    <Button look="primary" onClick={() => setOpen({ kind: "save", source: null })}>
      <Plus size={15} /> New data source
    </Button>
  );
  return (
    <>
      <div className="part-head">
        <p className="page-about">Databases that data queries run on. Passwords are stored encrypted and never shown again.</p>
        {list.items.length > 0 && create}
      </div>
      <ListCard
        list={list}
        label="Data sources"
        columns={["Name", "Address", "Used by", "Changed"]}
        hasVerbs={isAdmin}
        empty={
          <Empty icon={<Database size={32} />} title="No data source yet" action={create}>
            A data source is a SQLite file, or a PostgreSQL or MySQL database, that queries of workflows read.{!isAdmin && " A key of the role admin can add one."}
          </Empty>
        }
      >
        {list.items.map(({ value: source }) => {
          const users = queries.items.filter(({ value }) => value.dataSourceID === source.dataSourceID);
          return (
            <tr key={source.dataSourceID} data-source={source.name}>
              <td>
                <span className="name">{source.name}</span>
                <div className="small faint">{source.kind}</div>
              </td>
              <td className="wide">
                <code>{source.address}</code>
              </td>
              <td>
                {users.length === 0 ? (
                  <span className="faint">no query</span>
                ) : (
                  <Link to={`/settings/queries?source=${encodeURIComponent(source.name)}`}>
                    {users.length === 1 ? users[0]!.value.name : `${users.length} queries`}
                  </Link>
                )}
              </td>
              <td className="tight faint">
                <Ago time={source.updatedAt} />
              </td>
              {isAdmin && (
                <td className="verbs">
                  <IconButton label={`Edit ${source.name}`} icon={<Pencil size={15} />} small onClick={() => setOpen({ kind: "save", source })} />
                  <IconButton label={`Delete ${source.name}`} icon={<Trash2 size={15} />} small onClick={() => setOpen({ kind: "delete", source })} />
                </td>
              )}
            </tr>
          );
        })}
      </ListCard>
      {open?.kind === "save" && <SourceDialog source={open.source} onClose={close} />}
      {open?.kind === "delete" && (
        <ConfirmDialog
          title={`Delete ${open.source.name}?`}
          about="This is refused while queries use it. The database itself stays as it is."
          verb="Delete"
          onConfirm={async () => {
            await call("delete_source", { path: { source: open.source.dataSourceID } });
            refresh("list_sources");
            toast(`${open.source.name} is deleted.`);
          }}
          onClose={close}
        />
      )}
    </>
  );
}

function SourceDialog({ source, onClose }: { source: Source | null; onClose: () => void }): ReactElement {
  const id = useId();
  const [name, setName] = useState(source?.name ?? "");
  const [url, setUrl] = useState("");
  const save = async () => {
    const body = { name: name.trim(), url: url.trim() };
    const { warnings } = await (source === null ? call("create_source", { body }) : call("update_source", { path: { source: source.dataSourceID }, body }));
    refresh("list_sources");
    toast([`${body.name} is saved.`, ...warnings.map(({ message }) => message)].join(" "));
  };
  return (
    <SaveDialog
      title={source === null ? "New data source" : `Edit ${source.name}`}
      about={source === null ? "Saving connects to the database, and refuses an account that may do more than queries need." : `It is at ${source.address} now. The URL is never shown again: enter the whole new one.`}
      verb="Connect and save"
      busyVerb="Connecting"
      isReady={name.trim() !== "" && url.trim() !== ""}
      onSave={save}
      onClose={onClose}
    >
      <div className="field">
        <label htmlFor={`${id}-name`}>Name</label>
        <input id={`${id}-name`} className="input" required value={name} autoComplete="off" spellCheck={false} placeholder="shop" onChange={(event) => setName(event.target.value)} />
      </div>
      <div className="field">
        <label htmlFor={`${id}-url`}>URL</label>
        <input id={`${id}-url`} className="input mono" required value={url} autoComplete="off" spellCheck={false} placeholder="postgresql://user:password@host/database" aria-describedby={`${id}-help`} onChange={(event) => setUrl(event.target.value)} />
        <p id={`${id}-help`} className="field-help">
          <code>sqlite:///shop.db</code>, <code>postgresql://…</code> or <code>mysql://…</code>. A secret may stand for the user or the password: <code>{"{{secret.NAME}}"}</code>.
        </p>
      </div>
    </SaveDialog>
  );
}
