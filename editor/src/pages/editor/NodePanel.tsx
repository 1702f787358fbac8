/** The panel of the open node: what it can read, its settings, what it put out. It lies over the canvas. */

import { useQuery } from "@tanstack/react-query";
import { Pin, Play, X } from "lucide-react";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore, type ReactElement } from "react";
import { useStore } from "zustand";

import { callText } from "../../api/client";
import { flowOf } from "../../canvas/Canvas";
import { useCanvas, useCanvasModel } from "../../canvas/CanvasModel";
import type { CanvasActions } from "../../canvas/commands";
import { titleOf } from "../../canvas/flow";
import { focusNode } from "../../canvas/focus";
import { TypeIcon } from "../../canvas/icons";
import { usePins } from "../../canvas/pins";
import { useNodeRun, useShownRun } from "../../canvas/run";
import { renameHandle, renameNode, renameVariable, setConfig, setName } from "../../edit";
import { entriesOf, memberText, parsePointer, setAt, textAt } from "../../json";
import { withText, type NodeKey, type NodeRecord } from "../../model";
import { Button, IconButton } from "../../ui/Button";
import { FormContext, type FieldProblem, type FormServices, type Variable } from "../../ui/forms/context";
import { JsonArea, SchemaForm } from "../../ui/forms/SchemaForm";
import { withCode } from "../../ui/withCode";
import { Notice } from "../../ui/Notice";
import { Status } from "../../ui/Status";
import { ValueViewer } from "../../ui/ValueViewer";
import { useAsk } from "../data";
import { LoadedValue } from "../LoadedValue";
import { outputLoader, useOutput } from "../outputs";
import { useMay } from "../session";
import { togglePin } from "./EditorPage";
import { HookAddresses } from "./HookAddresses";
import { useExpressionPreview, useSamples } from "./preview";
import type { EditorSession } from "./session";

const HIDDEN_FIELDS = ["id", "type", "config", "position", "name"];
const MAPPING_FIELDS = ["concurrency", "onItemError", "batchSize"];
const TABS = ["input", "settings", "output"] as const;

interface NodePanelProps {
  session: EditorSession;
  actions: CanvasActions;
}

export function NodePanel({ session, actions }: NodePanelProps): ReactElement | null {
  const key = useCanvas((view) => view.open);
  const node = useCanvas((view) => (view.open === null ? undefined : view.document.nodes.get(view.open)));
  if (key === null || node === undefined) return null;
  return <Panel key={key} session={session} actions={actions} nodeKey={key} node={node} />;
}

function Panel({ session, actions, nodeKey, node }: NodePanelProps & { nodeKey: NodeKey; node: NodeRecord }): ReactElement {
  const model = useCanvasModel();
  const panel = useRef<HTMLDivElement>(null);
  const [tab, setTab] = useState<(typeof TABS)[number]>("settings");
  const place = useCanvas((view) => view.openPlace);
  const type = model.types.get(node.type);
  const close = () => {
    model.set({ open: null, openPlace: null });
    focusNode(model, flowOf(model), nodeKey);
  };
  useEffect(() => {
    const wanted = place === null ? null : fieldFor(panel.current, place.replace(/^\/config/, ""));
    const target = wanted ?? panel.current?.querySelector<HTMLElement>(".panel-settings input, .panel-settings textarea, .panel-settings select");
    (target ?? panel.current)?.focus({ preventScroll: wanted === null });
  }, [place]);
  return (
    <div
      ref={panel}
      className="node-panel"
      role="dialog"
      aria-modal="false"
      aria-label={`Node ${titleOf(node)}`}
      tabIndex={-1}
      onKeyDown={(event) => {
        if (event.key === "Escape" && !event.defaultPrevented) {
          event.preventDefault();
          close();
        }
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && actions.test) {
          event.preventDefault();
          actions.test();
        }
      }}
      onBlur={() => session.store.endBurst()}
    >
      <header className="panel-head">
        <span className="node-icon" data-category={type?.category}>
          <TypeIcon icon={type?.icon} title={type?.title ?? node.type} />
        </span>
        <div className="grow">
          <input
            className="title-field"
            aria-label="Name of the node"
            placeholder={node.id}
            value={node.name ?? ""}
            readOnly={model.isReadOnly}
            autoComplete="off"
            onChange={(event) => model.try(() => setName(session.store, nodeKey, event.target.value))}
          />
          <p className="faint small clip">
            {type?.title ?? node.type} · <code>{node.id}</code>
          </p>
        </div>
        {actions.runAlone && (
          <Button small onClick={() => actions.runAlone?.(nodeKey)}>
            <Play size={13} /> Run this node
          </Button>
        )}
        <IconButton label="Close the node" icon={<X size={16} />} onClick={close} />
      </header>
      <div className="panel-tabs tabs-list" role="tablist" aria-label="Parts of the node">
        {TABS.map((each) => (
          <button key={each} type="button" role="tab" className="tab" aria-selected={tab === each} onClick={() => setTab(each)}>
            {each.charAt(0).toUpperCase() + each.slice(1)}
          </button>
        ))}
      </div>
      <div className="panel-columns" data-tab={tab}>
        <section className="panel-input" aria-label="Input">
          <h3>Input</h3>
          <InputColumn nodeID={node.id} />
        </section>
        <section className="panel-settings" aria-label="Settings">
          <h3>Settings</h3>
          <Settings session={session} nodeKey={nodeKey} node={node} />
        </section>
        <section className="panel-output" aria-label="Output">
          <h3>Output</h3>
          <OutputColumn session={session} node={node} />
        </section>
      </div>
    </div>
  );
}

function fieldFor(panel: HTMLElement | null, place: string): HTMLElement | null {
  for (let at = place; at !== ""; at = at.slice(0, at.lastIndexOf("/"))) {
    const field = panel?.querySelector<HTMLElement>(`[data-pointer="${CSS.escape(at)}"]`);
    const control = field?.querySelector<HTMLElement>("input, textarea, select, [contenteditable=true]");
    if (field && control) {
      field.scrollIntoView({ block: "center" });
      return control;
    }
  }
  return null;
}

function Settings({ session, nodeKey, node }: { session: EditorSession; nodeKey: NodeKey; node: NodeRecord }): ReactElement {
  const model = useCanvasModel();
  const type = model.types.get(node.type);
  const verdict = useCanvas((view) => view.verdict);
  const problems = useMemo(() => verdict?.byKey.get(nodeKey) ?? [], [verdict, nodeKey]);
  const services = useFormServices(session, nodeKey, node);
  const configProblems = useMemo<FieldProblem[]>(
    () => problems.filter(({ place }) => place.startsWith("/config/")).map((each) => ({ ...each, pointer: each.place.slice("/config".length) })),
    [problems],
  );
  const fieldProblems = useMemo<FieldProblem[]>(
    () => problems.filter(({ place }) => place !== "" && !place.startsWith("/config")).map((each) => ({ ...each, pointer: each.place })),
    [problems],
  );
  const unmapped = type?.mappable === false ? ["forEach", ...MAPPING_FIELDS] : MAPPING_FIELDS;
  const omitted = new Set(node.mapped ? HIDDEN_FIELDS : [...HIDDEN_FIELDS, ...unmapped]);
  const general = problems.filter(({ place }) => place === "" || place === "/config");
  const change = (text: string) =>
    model.try(() => session.store.transact("Change settings", (transaction) => transaction.put(withText(transaction.get(nodeKey), text)), { burst: `node ${nodeKey}` }));
  return (
    <FormContext.Provider value={services}>
      <div className="stack" style={{ gap: 16 }}>
        {type?.description && <p className="faint">{withCode(type.description)}</p>}
        {general.map((problem, index) => (
          <Notice key={index} kind={problem.severity}>
            {withCode(problem.message)} <code className="faint">{problem.code}</code>
          </Notice>
        ))}
        {node.type === "webhook" && <HookAddresses session={session} nodeID={node.id} />}
        {type === undefined ? (
          <>
            <Notice kind="warning">
              The type <code>{node.type}</code> is not installed here. Its settings are kept as they are; a worker that has it can run it.
            </Notice>
            <JsonArea label="Settings, as JSON" place={{ value: node.config ?? "{}", set: (value) => model.try(() => setConfig(session.store, nodeKey, "", value)) }} />
          </>
        ) : (
          <SchemaForm schema={type.configSchema} text={node.config ?? "{}"} templates problems={configProblems} onChange={(text) => model.try(() => setConfig(session.store, nodeKey, "", text))} />
        )}
        <SchemaForm schema={model.types.nodeFields} text={node.text} problems={fieldProblems} omit={omitted} onChange={change} />
        {!model.isReadOnly && <RenameEverywhere session={session} nodeKey={nodeKey} node={node} />}
      </div>
    </FormContext.Provider>
  );
}

/** Renames the variable, or the node itself, in all that names it: exactly the places that the server's parser found. */
function RenameEverywhere({ session, nodeKey, node }: { session: EditorSession; nodeKey: NodeKey; node: NodeRecord }): ReactElement | null {
  const document = useCanvas((view) => view.document);
  const answer = useCanvas((view) => (view.verdict?.document === view.document ? view.verdict.answer : null));
  if (answer?.nodes === undefined) return null;
  const references = Object.fromEntries(Object.entries(answer.nodes).map(([id, { references: found }]) => [id, found ?? []]));
  const usesOf = (name: string) => Object.values(references).flat().filter(({ path }) => path[0] === name).length;
  const wires = [...document.edges.values()].filter((edge) => edge.source === node.id || edge.target === node.id).length;
  const variable = node.outputVariable;
  return (
    <>
      {variable !== null && <Rename what="variable" name={variable} uses={usesOf(variable)} onRename={(to) => renameVariable(session.store, variable, to, references)} />}
      <Rename
        what="id"
        name={node.id}
        uses={wires + usesOf(`__node_${node.id}`)}
        onRename={(to) => {
          renameNode(session.store, nodeKey, to, references);
          session.movePin(node.id, to);
        }}
      />
    </>
  );
}

function Rename({ what, name, uses, onRename }: { what: string; name: string; uses: number; onRename: (to: string) => void }): ReactElement {
  const model = useCanvasModel();
  const [typed, setTyped] = useState("");
  const rename = () => {
    const done = model.try(() => {
      onRename(typed.trim());
      return true;
    });
    if (done) setTyped("");
  };
  return (
    <details>
      <summary className="small">
        Rename the {what} <code>{name}</code> everywhere ({uses} {uses === 1 ? "use" : "uses"})
      </summary>
      <div className="row" style={{ paddingTop: 8 }}>
        <input className="input mono" aria-label={`New name of the ${what} ${name}`} placeholder={name} value={typed} onChange={(event) => setTyped(event.target.value)} />
        <Button disabled={typed.trim() === ""} onClick={rename}>
          Rename
        </Button>
      </div>
    </details>
  );
}

function useFormServices(session: EditorSession, nodeKey: NodeKey, node: NodeRecord): FormServices {
  const model = useCanvasModel();
  const mayAdmin = useMay("admin");
  const type = model.types.get(node.type);
  const named = type?.dynamicHandles;
  const widgets = JSON.stringify(type?.configSchema ?? {});
  const workflows = useAsk("list_workflows", { query: { limit: 100 } }, { enabled: widgets.includes('"widget":"workflow"'), staleMs: 30_000 });
  const queries = useAsk("list_queries", { query: { limit: 100 } }, { enabled: widgets.includes('"widget":"query"'), staleMs: 30_000 });
  const secrets = useAsk("list_secrets", { query: { limit: 100 } }, { enabled: mayAdmin && widgets.includes('"widget":"secret"'), staleMs: 30_000 });
  const preview = useExpressionPreview(session, node.id);
  const variables = useSamples(session, node.id, useVariables(node.id), preview);
  return useMemo<FormServices>(
    () => ({
      variables,
      preview,
      workflows: workflows.data?.items.map(({ name }) => name) ?? [],
      queries: queries.data?.items.map(({ dataQueryID, name }) => ({ id: dataQueryID, name })) ?? [],
      secrets: secrets.data?.items.map(({ name }) => name) ?? [],
      exits: named == null ? null : { items: named.items, id: named.id, rename: (from, to) => void model.try(() => renameExit(session, nodeKey, named, from, to)) },
      filters: model.types.templateFilters,
      readOnly: model.isReadOnly,
    }),
    [variables, preview, workflows.data, queries.data, secrets.data, named, model, nodeKey, session],
  );
}

/** Gives an exit that the settings name another name, also in the edges that leave by it. */
function renameExit({ model, store }: EditorSession, nodeKey: NodeKey, { items, id }: { items: string; id: string }, from: string, to: string): void {
  const config = model.document.nodes.get(nodeKey)?.config ?? "{}";
  const list = parsePointer(items);
  const index = entriesOf(textAt(config, list) ?? "[]").findIndex(({ text }) => memberText(text, id) === JSON.stringify(from));
  if (index >= 0) renameHandle(store, nodeKey, from, to, setAt(config, [...list, String(index), id], JSON.stringify(to)));
}

/** What `ctx` has at a node, as the validator says; without its answer, what the nodes write. */
function useVariables(nodeID: string): readonly Variable[] {
  const answer = useCanvas((view) => view.verdict?.answer ?? null);
  const document = useCanvas((view) => view.document);
  return useMemo(() => {
    const input: Variable = { name: "input", certain: true, writers: ["the run's input"], members: inputMembers(document.head.text) };
    const told = answer?.nodes?.[nodeID]?.variables;
    if (told === undefined) {
      const written = [...document.nodes.values()].filter((node) => node.outputVariable !== null && node.id !== nodeID);
      return [input, ...written.map((node): Variable => ({ name: node.outputVariable!, certain: false, writers: [titleOf(node)], members: [] }))];
    }
    const found = Object.entries(told).map(
      ([name, { certain, writers, schema }]): Variable => ({ name, certain: certain === "always", writers, members: Object.keys(schema?.properties ?? {}) }),
    );
    return found.some(({ name }) => name === "input") ? found : [input, ...found];
  }, [answer, document, nodeID]);
}

function inputMembers(head: string): string[] {
  const options = memberText(head, "workflowOptions");
  const schema = options === undefined ? undefined : memberText(options, "inputSchema");
  const properties = schema === undefined ? undefined : memberText(schema, "properties");
  return properties === undefined ? [] : entriesOf(properties).map(({ key }) => String(key));
}

/** What the node can read: names with who writes them; with a run, its values. */
function InputColumn({ nodeID }: { nodeID: string }): ReactElement {
  const variables = useVariables(nodeID);
  const run = useShownRun();
  const input = useRunInput(run?.instanceID ?? null);
  const { document } = useCanvasModel();
  return (
    <div className="stack">
      {input !== null && <ValueViewer text={input} label="Input of the run" root="ctx.input" />}
      {variables
        .filter(({ name }) => name !== "input" || input === null)
        .map((variable) => {
          const writer = [...document.nodes.values()].find((node) => node.outputVariable === variable.name);
          return <VariableRow key={variable.name} variable={variable} writerID={writer?.id ?? null} />;
        })}
      {run === null && <p className="faint small">Run a test to see values here, and to drag them into the settings.</p>}
    </div>
  );
}

function VariableRow({ variable, writerID }: { variable: Variable; writerID: string | null }): ReactElement {
  const run = useShownRun();
  const latest = useNodeRun(writerID ?? "")?.latest ?? null;
  const value = useOutput(latest === null ? null : (run?.instanceID ?? null), writerID ?? "", latest?.scope ?? "", latest?.status ?? null).data ?? null;
  const expression = `ctx.${variable.name}`;
  return (
    <div className="variable">
      <div className="row">
        <code
          className="variable-name"
          draggable
          onDragStart={(event) => event.dataTransfer.setData("text/plain", `{{ ${expression} }}`)}
        >
          {expression}
        </code>
        <span className={`badge ${variable.certain ? "accent" : ""}`}>{variable.certain ? "always" : "maybe"}</span>
        <span className="faint small clip">{variable.writers.join(", ")}</span>
      </div>
      {value !== null && run !== null && writerID !== null && (
        <LoadedValue key={latest?.scope} text={value} label={expression} root={expression} load={outputLoader(run.instanceID, writerID, latest?.scope ?? "")} />
      )}
    </div>
  );
}

function useRunInput(instanceID: string | null): string | null {
  const run = useQuery({
    queryKey: ["run-input", instanceID],
    queryFn: async ({ signal }) => memberText((await callText("get_run", { path: { instanceID: instanceID! }, signal })).text, "input") ?? "null",
    enabled: instanceID !== null,
    staleTime: Infinity,
  });
  return instanceID === null ? null : (run.data ?? null);
}

function OutputColumn({ session, node }: { session: EditorSession; node: NodeRecord }): ReactElement {
  const model = useCanvasModel();
  const run = useShownRun();
  const summary = useNodeRun(node.id);
  const pin = usePins((pins) => pins[node.id] ?? null);
  const latest = summary?.latest ?? null;
  const output = useOutput(run?.instanceID ?? null, node.id, latest?.scope ?? "", latest?.status ?? null).data ?? null;
  const failures = useSyncExternalStore(
    (changed) => run?.store.subscribeRun(changed) ?? (() => undefined),
    () => run?.store.failures() ?? NO_FAILURES,
  );
  const isStarting = useStore(session.test, (state) => state.isStarting);
  const failed = failures.filter((failure) => failure.nodeID === node.id);
  const error = latest?.error as { code?: string; message?: string } | null | undefined;
  return (
    <div className="stack">
      {pin !== null && (
        <div className="pin-box">
          <div className="row">
            <span className="badge pinned">
              <Pin size={12} /> pinned
            </span>
            <span className="small faint grow">Test runs take this and do not execute the node.</span>
            {!model.isReadOnly && (
              <Button small onClick={() => void togglePin(session, node.id)}>
                Unpin
              </Button>
            )}
          </div>
          <JsonArea label="Pinned output, as JSON" place={{ value: pin.output, set: (value) => value !== undefined && session.setPins({ ...session.pins.getState(), [node.id]: { ...pin, output: value } }) }} />
        </div>
      )}
      {latest !== null && (
        <div className="row row-wrap">
          <Status status={latest.status} />
          {latest.scope !== "" && <code className="faint small">{latest.scope}</code>}
          {summary !== null && summary.total > 1 && <span className="faint small">{summary.total.toLocaleString("en")} times</span>}
          {failed.length > 0 && <span className="badge error">{failed.length} failed</span>}
        </div>
      )}
      {error?.message && (
        <Notice kind="error">
          {withCode(error.message)} <code className="faint">{error.code}</code>
        </Notice>
      )}
      {output !== null && run !== null && (
        <LoadedValue
          key={latest?.scope}
          text={output}
          label={`Output of ${titleOf(node)}`}
          root={node.outputVariable === null ? null : `ctx.${node.outputVariable}`}
          load={outputLoader(run.instanceID, node.id, latest?.scope ?? "")}
        />
      )}
      {latest === null && pin === null && <p className="faint small">{isStarting ? "The test begins." : run === null ? "Run a test to see the output of this node." : "The run did not come to this node."}</p>}
      {!model.isReadOnly && pin === null && (
        <div>
          {latest !== null && output !== null ? (
            <Button small onClick={() => session.setPins({ ...session.pins.getState(), [node.id]: { output, handle: latest.handles?.[0] ?? null } })}>
              <Pin size={13} /> Pin this output
            </Button>
          ) : (
            <Button small look="quiet" onClick={() => session.setPins({ ...session.pins.getState(), [node.id]: { output: "{}", handle: null } })}>
              <Pin size={13} /> Pin an output by hand
            </Button>
          )}
        </div>
      )}
    </div>
  );
}

const NO_FAILURES: readonly { nodeID: string }[] = [];
