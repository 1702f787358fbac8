/** Data queries: SQL that workflows run by name. */

import { FileSearch, MoreHorizontal, Pencil, Play, Plus, Search, Trash2, X } from "lucide-react";
import { useState, type ReactElement } from "react";
import { useSearchParams } from "react-router";

import { call, type Schemas } from "../../api/client";
import { entryCountOf, memberText, removeMember, setMember, shownScalar } from "../../json";
import { Button, IconButton } from "../../ui/Button";
import type { JsonSchema } from "../../ui/forms/schema";
import { Menu } from "../../ui/Menu";
import { Empty } from "../../ui/Notice";
import { duration } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh } from "../data";
import { ConfirmDialog } from "../lists/ConfirmDialog";
import { FormDialog } from "../lists/FormDialog";
import { ListCard } from "../lists/ListCard";
import { useList, type Listed } from "../lists/useList";
import { useMay } from "../session";
import { TryDialog } from "./TryDialog";
import { runsQuery } from "./uses";
import { UsesDialog } from "./UsesDialog";

type Query = Schemas["QuerySummary"];
type Open = { kind: "new" } | { kind: "edit" | "try" | "uses" | "delete"; query: Listed<Query> };

export function QueriesPart(): ReactElement {
  const list = useList("list_queries");
  const sources = useList("list_sources");
  const mayEdit = useMay("editor");
  const [params, setParams] = useSearchParams();
  const source = params.get("source");
  const [open, setOpen] = useState<Open | null>(null);
  const close = () => setOpen(null);
  const nameOf = (dataSourceID: string) => sources.items.find(({ value }) => value.dataSourceID === dataSourceID)?.value.name ?? dataSourceID;
  const shown = list.items.filter(({ value }) => source === null || nameOf(value.dataSourceID) === source);
  const create = mayEdit && sources.items.length > 0 && (
    <Button look="primary" onClick={() => setOpen({ kind: "new" })}>
      <Plus size={15} /> New query
    </Button>
  );
  return (
    <>
      <div className="part-head">
        <p className="page-about">SQL statements that workflows run by name, on a data source. Values are bound to parameters, never written into the SQL.</p>
        {list.items.length > 0 && create}
      </div>
      {source !== null && (
        <div>
          <Button small onClick={() => setParams({}, { replace: true })}>
            <X size={14} aria-hidden /> Only those of {source}
          </Button>
        </div>
      )}
      <ListCard
        list={list}
        label="Data queries"
        columns={["Name", "Source", "SQL", "Parameters"]}
        hasVerbs
        empty={
          <Empty icon={<FileSearch size={32} />} title="No data query yet" action={create}>
            {sources.items.length === 0 ? "A query runs on a data source: add one of those first." : "Write a statement once, and run it in any workflow."}
          </Empty>
        }
      >
        {shown.map((query) => {
          const { dataQueryID, name, dataSourceID, sql, params: declared, writes, timeoutMs } = query.value;
          return (
            <tr key={dataQueryID} data-query={name}>
              <td>
                <span className="name">{name}</span>
                <div className="small faint">
                  {writes && <span className="badge warning">changes data</span>} up to {duration(timeoutMs)}
                </div>
              </td>
              <td>{nameOf(dataSourceID)}</td>
              <td className="wide">
                <pre className="sql" title={sql}>
                  {sql}
                </pre>
              </td>
              <td className="small">
                {Object.keys(declared).length === 0 ? <span className="faint">none declared</span> : Object.keys(declared).join(", ")}
              </td>
              <td className="verbs">
                {mayEdit && (
                  <Button small onClick={() => setOpen({ kind: "try", query })} aria-label={`Try it: ${name}`}>
                    <Play size={13} aria-hidden /> Try it
                  </Button>
                )}{" "}
                <Menu
                  trigger={<IconButton label={`More about ${name}`} icon={<MoreHorizontal size={16} />} small />}
                  entries={[
                    { label: "Where used", icon: <Search size={15} />, onSelect: () => setOpen({ kind: "uses", query }) },
                    ...(mayEdit
                      ? [
                          { label: "Edit…", icon: <Pencil size={15} />, onSelect: () => setOpen({ kind: "edit", query }) },
                          null,
                          { label: "Delete…", icon: <Trash2 size={15} />, danger: true, onSelect: () => setOpen({ kind: "delete", query }) },
                        ]
                      : []),
                  ]}
                />
              </td>
            </tr>
          );
        })}
      </ListCard>
      {open?.kind === "new" && <QueryDialog query={null} sources={sources.items.map(({ value }) => value)} onClose={close} />}
      {open?.kind === "edit" && <QueryDialog query={open.query} sources={sources.items.map(({ value }) => value)} onClose={close} />}
      {open?.kind === "try" && <TryDialog query={open.query.value} onClose={close} />}
      {open?.kind === "uses" && <UsesDialog what={open.query.value.name} uses={(text) => runsQuery(text, open.query.value)} onClose={close} />}
      {open?.kind === "delete" && (
        <ConfirmDialog
          title={`Delete ${open.query.value.name}?`}
          about="Nodes that run it fail from then on."
          verb="Delete"
          onConfirm={async () => {
            await call("delete_query", { path: { query: open.query.value.dataQueryID } });
            refresh("list_queries");
            toast(`${open.query.value.name} is deleted.`);
          }}
          onClose={close}
        />
      )}
    </>
  );
}

const PARAMETER_TYPES = ["string", "int", "float", "bool", "json", "datetime", "any"];

function schemaFor(sources: readonly Schemas["SourceSummary"][]): JsonSchema {
  return {
    type: "object",
    required: ["name", "dataSourceID", "sql", "timeout"],
    properties: {
      name: { type: "string", "x-ui": { placeholder: "orders-of-customer" } },
      dataSourceID: { title: "Data source", enum: sources.map(({ name }) => name) },
      sql: { title: "SQL", type: "string", description: "One statement. Parameters are written `:name`.", "x-ui": { widget: "code", language: "sql" } },
      params: {
        title: "Parameters",
        type: "object",
        additionalProperties: {},
        description: `Without any, those of the SQL take any value. Names with their types: ${PARAMETER_TYPES.map((type) => `\`${type}\``).join(", ")}. As JSON with a default, such as \`{"type": "int", "default": 100}\`, it may be left out.`,
        "x-ui": { widget: "keyValue" },
      },
      writes: { title: "May it change data?", type: "boolean", default: false },
      timeout: { title: "Time limit", type: "string", description: "Up to ten minutes.", "x-ui": { placeholder: "25s" } },
    },
  };
}

const KEPT_BY_SERVER = ["dataQueryID", "createdAt", "updatedAt", "timeoutMs"];

function QueryDialog({ query, sources, onClose }: { query: Listed<Query> | null; sources: readonly Schemas["SourceSummary"][]; onClose: () => void }): ReactElement {
  const [text, setText] = useState(() => textFor(query, sources));
  const save = async () => {
    // None declared: then each parameter of the SQL takes any value.
    const bodyText = entryCountOf(memberText(text, "params") ?? "{}") === 0 ? removeMember(text, "params") : text;
    const { name } = query === null ? await call("create_query", { bodyText }) : await call("update_query", { path: { query: query.value.dataQueryID }, bodyText });
    refresh("list_queries");
    toast(`${name} is saved.`);
  };
  return (
    <FormDialog
      wide
      title={query === null ? "New data query" : `Edit ${query.value.name}`}
      about={query === null ? undefined : "Runs that come to it later run the new one."}
      schema={schemaFor(sources)}
      text={text}
      onChange={setText}
      verb={query === null ? "Create the query" : "Save"}
      onSave={save}
      onClose={onClose}
    />
  );
}

function textFor(query: Listed<Query> | null, sources: readonly Schemas["SourceSummary"][]): string {
  if (query === null) return `{"name": "", "dataSourceID": ${JSON.stringify(sources[0]?.name ?? "")}, "sql": ""}`;
  const shown = KEPT_BY_SERVER.reduce((text, name) => removeMember(text, name), query.text);
  const id = shownScalar(memberText(query.text, "dataSourceID") ?? '""');
  const source = sources.find(({ dataSourceID }) => dataSourceID === id);
  return setMember(setMember(shown, "dataSourceID", JSON.stringify(source?.name ?? id)), "timeout", JSON.stringify(`${query.value.timeoutMs}ms`));
}
