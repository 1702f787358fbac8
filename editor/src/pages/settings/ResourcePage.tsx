/** A list with what can be done to its entries, and a form for a new one. */

import { Plus, Settings } from "lucide-react";
import { useState, type ReactElement } from "react";

import { call, type Operation } from "../../api/client";
import { textOf } from "../../json";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { FormContext, NO_SERVICES } from "../../ui/forms/context";
import { SchemaForm } from "../../ui/forms/SchemaForm";
import { sketch } from "../../ui/forms/schema";
import { Empty, Notice, Problem, Skeleton } from "../../ui/Notice";
import { Ago } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh, useAsk } from "../data";
import { useMay } from "../session";
import { useTitle } from "../title";
import type { Column, Resource } from "./resources";

type Item = Record<string, unknown>;

/** An operation that is chosen by a description is called without the types of one of its own. */
const callAny = call as (operation: Operation, request: { path?: Record<string, string>; bodyText?: string }) => Promise<unknown>;

export function ResourcePage({ resource }: { resource: Resource }): ReactElement {
  useTitle(resource.title);
  const mayRead = useMay(resource.reads);
  const mayCreate = useMay(resource.create?.needs ?? "admin") && resource.create !== undefined;
  const mayRemove = useMay(resource.remove?.needs ?? "admin") && resource.remove !== undefined;
  const mayAct = useMay(resource.act?.needs ?? "admin") && resource.act !== undefined;
  const list = useAsk(resource.list, { query: { limit: 100 } } as never, { enabled: mayRead, everyMs: 10_000 });
  const [isNew, setNew] = useState(false);
  const [removed, setRemoved] = useState<Item | null>(null);
  const items = (list.data as { items?: Item[] } | undefined)?.items ?? [];
  const act = (item: Item) => {
    const { operation, parameter, done } = resource.act!;
    callAny(operation, { path: { [parameter]: String(item[resource.id]) } }).then(
      () => toast(done),
      (failure: Error) => toast(failure.message, { kind: "error" }),
    );
  };
  const create = mayCreate && (
    <Button look="primary" onClick={() => setNew(true)}>
      <Plus size={15} /> New {resource.one}
    </Button>
  );
  return (
    <section className="stack" style={{ gap: 16 }} aria-labelledby="resource-title">
      <div className="content-head">
        <h1 id="resource-title">{resource.title}</h1>
        {items.length > 0 && create}
      </div>
      {!mayRead ? (
        <Notice kind="info">Your key may not read this: it needs the role {resource.reads}.</Notice>
      ) : list.error ? (
        <Problem error={list.error} onRetry={() => void list.refetch()} />
      ) : list.isPending ? (
        <Skeleton />
      ) : items.length === 0 ? (
        <div className="card">
          <Empty icon={<Settings size={28} />} title={`No ${resource.one} yet`} action={create}>
            {resource.about}
          </Empty>
        </div>
      ) : (
        <div className="card scroll-x">
          <table className="table collapses">
            <thead>
              <tr>
                {resource.columns.map(({ title }) => (
                  <th key={title} scope="col">
                    {title}
                  </th>
                ))}
                <th scope="col">
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {items.map((item) => (
                <tr key={String(item[resource.id])}>
                  {resource.columns.map((column) => (
                    <td key={column.field}>
                      <Cell column={column} value={item[column.field]} />
                    </td>
                  ))}
                  <td className="tight">
                    <div className="row">
                      {mayAct && (
                        <Button small onClick={() => act(item)}>
                          {resource.act!.verb}
                        </Button>
                      )}
                      {mayRemove && (
                        <Button small look="danger" aria-label={`${resource.remove!.verb} ${String(item[resource.name])}`} onClick={() => setRemoved(item)}>
                          {resource.remove!.verb}…
                        </Button>
                      )}
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {isNew && <CreateDialog resource={resource} onClose={() => setNew(false)} />}
      {removed && <RemoveDialog resource={resource} item={removed} onClose={() => setRemoved(null)} />}
    </section>
  );
}

function Cell({ column, value }: { column: Column; value: unknown }): ReactElement {
  if (value === null || value === undefined) return <span className="faint">–</span>;
  if (column.kind === "time") return <Ago time={String(value)} />;
  if (column.kind === "yes") return <>{value ? "yes" : "no"}</>;
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return column.kind === "code" ? <code className="resource-code">{text}</code> : <>{text}</>;
}

function CreateDialog({ resource, onClose }: { resource: Resource; onClose: () => void }): ReactElement {
  const { operation, schema } = resource.create!;
  const [text, setText] = useState(() => textOf(Object.fromEntries((schema.required ?? []).map((name) => [name, sketch(schema.properties?.[name]) ?? ""]))));
  const [problem, setProblem] = useState<unknown>(null);
  const [made, setMade] = useState<string | null>(null);
  const workflows = useAsk("list_workflows", { query: { limit: 100 } }, { staleMs: 30_000 });
  const create = () => {
    callAny(operation, { bodyText: text }).then((answer) => {
      refresh(resource.list);
      const key = (answer as { key?: string } | null)?.key;
      if (key === undefined) onClose();
      else setMade(key);
    }, setProblem);
  };
  if (made !== null) {
    return (
      <Dialog open onClose={onClose} title="The key is made" about="It is shown this once. Keep it where you keep passwords." footer={<Button onClick={onClose}>I have it</Button>}>
        <input className="input mono" aria-label="The new key" readOnly value={made} onFocus={(event) => event.target.select()} />
      </Dialog>
    );
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title={`New ${resource.one}`}
      about={resource.about}
      onSubmit={create}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="primary">
            Save
          </Button>
        </>
      }
    >
      <FormContext.Provider value={{ ...NO_SERVICES, workflows: workflows.data?.items.map(({ name }) => name) ?? [] }}>
        <SchemaForm schema={schema} text={text} onChange={setText} />
      </FormContext.Provider>
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}

function RemoveDialog({ resource, item, onClose }: { resource: Resource; item: Item; onClose: () => void }): ReactElement {
  const { operation, parameter, verb } = resource.remove!;
  const [problem, setProblem] = useState<unknown>(null);
  const remove = () => {
    callAny(operation, { path: { [parameter]: String(item[resource.id]) } }).then(() => {
      refresh(resource.list);
      onClose();
    }, setProblem);
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={`${verb} ${String(item[resource.name])}?`}
      about="What uses it fails from then on."
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" onClick={remove}>
            {verb}
          </Button>
        </>
      }
    >
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}
