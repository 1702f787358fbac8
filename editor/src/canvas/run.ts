/**
 * The run that a canvas shows on its nodes and edges, if it shows one, and which iteration of it is looked at: nodes
 * in that loop then show how they stand in this iteration, all others how they stand altogether.
 */

import { createContext, useCallback, useContext, useMemo, useSyncExternalStore } from "react";
import { useStore } from "zustand";
import { createStore, type StoreApi } from "zustand/vanilla";

import { call } from "../api/client";
import { indexOf, type ContainerID } from "../model";
import { edgeSummary, partsOf, RunStore, sharedScope, type EdgeSummary, type NodeSummary, type SummaryMessage } from "../run";
import { CanvasContext, type CanvasView } from "./CanvasModel";

/** As many activations as the server gives in one answer. */
const STEPS_READ_MAX = 1_000;

export interface ShownRun {
  readonly instanceID: string;
  readonly store: RunStore;
  /** The scope that is looked at; "": all iterations together. */
  readonly focus: StoreApi<{ readonly scope: string }>;
  /** Is it shown as of an earlier row? Then nothing more is to be asked of it. */
  readonly isPast: boolean;
}

export function shownRun(instanceID: string, store: RunStore, { isPast = false, scope = "" } = {}): ShownRun {
  return { instanceID, store, isPast, focus: createStore(() => ({ scope })) };
}

/** Look at an iteration; what of it is not known here is read. */
export function lookAt({ instanceID, store, focus, isPast }: ShownRun, scope: string): void {
  if (scope === focus.getState().scope) return;
  focus.setState({ scope });
  if (scope === "" || isPast) return;
  const query = { within: scope, outputs: false, limit: STEPS_READ_MAX };
  call("get_steps", { path: { instanceID }, query }).then(({ items }) => {
    store.takeSteps(items as never);
    if (focus.getState().scope === scope) focus.setState({ scope }); // a new object: what is shown is made again
  }, ignored);
}

/** The first failures of a run. */
export async function readFailures({ instanceID, store, isPast }: ShownRun): Promise<void> {
  if (isPast) return;
  const query = { status: ["error"], outputs: false, limit: STEPS_READ_MAX };
  await call("get_steps", { path: { instanceID }, query } as never).then(({ items }) => store.takeSteps(items as never), ignored);
}

/** The totals of all activations, of which a snapshot lists the newest only. */
export function readTotals({ instanceID, store }: ShownRun): void {
  call("get_totals", { path: { instanceID } }).then((totals) => store.takeSummary(totals as unknown as SummaryMessage), ignored);
}

/** A server that is away is said by the page. */
function ignored(): void {}

export const RunContext = createContext<ShownRun | null>(null);

const NO_RUN = new RunStore(() => undefined);
const NO_FOCUS = createStore(() => ({ scope: "" }));
const NO_VIEW = createStore<Pick<CanvasView, "containers" | "document"> | null>(() => null);

export function useShownRun(): ShownRun | null {
  return useContext(RunContext);
}

/** The loops and regions around a container, itself included, by the id of their header; the outermost first. */
export function loopsAround({ containers, document }: Pick<CanvasView, "containers" | "document">, id: ContainerID | undefined): readonly string[] {
  const found: string[] = [];
  for (let at = id; at !== undefined && at !== "root"; at = containers.byID.get(at)?.parent ?? undefined) {
    const header = containers.byID.get(at)?.header;
    found.unshift((header && document.nodes.get(header)?.id) ?? "");
  }
  return found;
}

/** The iteration of the scope that is looked at which a node is in; "": it is in none of its loops. */
export function scopeOfNode(view: Pick<CanvasView, "containers" | "document">, nodeID: string, focus: string): string {
  if (focus === "") return "";
  const key = indexOf(view.document).get(nodeID)?.key;
  return sharedScope(focus, loopsAround(view, key && view.containers.of.get(key)));
}

/** The scope of a node's one activation there; null where the scope that is looked at leaves several. */
export function exactScope(view: Pick<CanvasView, "containers" | "document">, nodeID: string, focus: string): string | null {
  const key = indexOf(view.document).get(nodeID)?.key;
  const around = loopsAround(view, key && view.containers.of.get(key));
  const shared = sharedScope(focus, around);
  return partsOf(shared).length === around.length ? shared : null;
}

/** How a node stands, in the iteration that is looked at. */
export function summaryAt(run: ShownRun, view: Pick<CanvasView, "containers" | "document">, nodeID: string): NodeSummary {
  const scope = scopeOfNode(view, nodeID, run.focus.getState().scope);
  return scope === "" ? run.store.node(nodeID) : run.store.nodeWithin(nodeID, scope);
}

/** The same as a component shows it: drawn again only when it changes. Zero activations are a summary, too. */
function useSummary(nodeID: string): NodeSummary {
  const run = useContext(RunContext);
  const model = useContext(CanvasContext);
  const store = run?.store ?? NO_RUN;
  const subscribe = useCallback((listener: () => void) => store.subscribeNode(nodeID, listener), [store, nodeID]);
  const summary = useSyncExternalStore(subscribe, () => store.node(nodeID));
  const focus = useStore(run?.focus ?? NO_FOCUS);
  const scope = useStore((model?.view ?? NO_VIEW) as typeof NO_VIEW, (view) => (view === null ? "" : scopeOfNode(view, nodeID, focus.scope)));
  // `focus` and `summary` are new objects when something of the iteration may be another.
  return useMemo(() => (scope === "" ? summary : store.nodeWithin(nodeID, scope)), [scope, summary, store, nodeID, focus]); // eslint-disable-line react-hooks/exhaustive-deps
}

/** How a node stands in the run; null where no run is shown, or the run did not come to it. */
export function useNodeRun(nodeID: string): NodeSummary | null {
  const summary = useSummary(nodeID);
  return summary.total === 0 ? null : summary;
}

/** Whether the edges of an exit were taken; null where no run is shown. */
export function useEdgeRun(source: string, handle: string): EdgeSummary | null {
  const isShown = useContext(RunContext) !== null;
  const summary = useSummary(source);
  return isShown ? edgeSummary(summary, handle) : null;
}
