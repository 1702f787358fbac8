/** The run that a canvas shows on its nodes and edges, if it shows one. */

import { createContext, useCallback, useContext, useSyncExternalStore } from "react";

import { edgeSummary, RunStore, type EdgeSummary, type NodeSummary } from "../run";

export interface ShownRun {
  readonly instanceID: string;
  readonly store: RunStore;
}

export const RunContext = createContext<ShownRun | null>(null);

const NO_RUN = new RunStore(() => undefined);

export function useShownRun(): ShownRun | null {
  return useContext(RunContext);
}

/** How a node stands in the run; null where no run is shown, or the run did not come to it. Drawn again only when that changes. */
export function useNodeRun(nodeID: string): NodeSummary | null {
  const store = useContext(RunContext)?.store ?? NO_RUN;
  const subscribe = useCallback((listener: () => void) => store.subscribeNode(nodeID, listener), [store, nodeID]);
  const summary = useSyncExternalStore(subscribe, () => store.node(nodeID));
  return summary.total === 0 ? null : summary;
}

/** Whether the edges of an exit were taken; null where no run is shown. */
export function useEdgeRun(source: string, handle: string): EdgeSummary | null {
  const store = useContext(RunContext)?.store ?? null;
  const subscribe = useCallback((listener: () => void) => (store ?? NO_RUN).subscribeNode(source, listener), [store, source]);
  const summary = useSyncExternalStore(subscribe, () => (store ?? NO_RUN).node(source));
  return store === null ? null : edgeSummary(summary, handle);
}
