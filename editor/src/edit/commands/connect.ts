/** Lead an edge from a handle to a node, or another way. */

import { DEFAULT_HANDLE, type EdgeKey, type NodeKey, type WorkflowDocument } from "../../model";
import type { EditStore } from "../store";
import { edgeText, handleText } from "./wiring";

/** Returns the edge; the one that is there already where there is one. */
export function connect(store: EditStore, source: NodeKey, handle: string, target: NodeKey): EdgeKey {
  return store.transact("Connect", (transaction) => {
    const [from, to] = [transaction.get(source).id, transaction.get(target).id];
    const known = edgeBetween(transaction.document, from, handle, to);
    return known ?? transaction.addEdge(edgeText(from, handle, to));
  });
}

export interface NewEnds {
  readonly source?: NodeKey;
  readonly handle?: string;
  readonly target?: NodeKey;
}

/** Lead an edge elsewhere. Where it would double another one it is removed. */
export function reconnect(store: EditStore, key: EdgeKey, ends: NewEnds): void {
  store.transact("Reconnect", (transaction) => {
    const edge = transaction.get(key);
    const source = ends.source === undefined ? edge.source : transaction.get(ends.source).id;
    const target = ends.target === undefined ? edge.target : transaction.get(ends.target).id;
    const handle = ends.handle ?? (ends.source === undefined ? edge.handle : DEFAULT_HANDLE);
    const known = edgeBetween(transaction.document, source, handle, target);
    if (known === key) return;
    if (known !== undefined) {
      transaction.remove(key);
      return;
    }
    if (source !== edge.source) transaction.setField(key, "upstreamNodeID", JSON.stringify(source));
    if (target !== edge.target) transaction.setField(key, "downstreamNodeID", JSON.stringify(target));
    if (handle !== edge.handle) transaction.setField(key, "sourceHandle", handleText(handle));
  });
}

function edgeBetween(document: WorkflowDocument, source: string, handle: string, target: string): EdgeKey | undefined {
  for (const edge of document.edges.values()) {
    if (edge.source === source && edge.handle === handle && edge.target === target) return edge.key;
  }
  return undefined;
}
