/** Delete nodes with their edges, edges and notes. */

import { isEdgeKey, isNodeKey, recordOf, type SelectableKey } from "../../model";
import { counted } from "../counted";
import type { EditStore } from "../store";

export function remove(store: EditStore, keys: Iterable<SelectableKey>): void {
  const there = [...keys].filter((key) => recordOf(store.document, key) !== undefined);
  store.transact(`Delete ${counted(there)}`, (transaction) => {
    const ids = new Set<string>();
    for (const key of there) {
      if (isNodeKey(key)) ids.add(transaction.get(key).id);
      transaction.remove(key);
    }
    // Of doubles that stay, the edges stay.
    for (const node of transaction.document.nodes.values()) ids.delete(node.id);
    for (const edge of transaction.document.edges.values()) {
      if (ids.has(edge.source) || ids.has(edge.target)) transaction.remove(edge.key);
    }
  });
}

/** Delete nodes and lead what led to them to what they led to, where that is one edge each. */
export function removeAndBridge(store: EditStore, keys: Iterable<SelectableKey>): void {
  const there = [...keys].filter((key) => recordOf(store.document, key) !== undefined);
  store.transact(`Delete ${counted(there)}, reconnect`, (transaction) => {
    for (const key of there) {
      if (!isNodeKey(key)) continue;
      const { id } = transaction.get(key);
      const edges = [...transaction.document.edges.values()];
      const [entering, leaving] = [edges.filter((edge) => edge.target === id), edges.filter((edge) => edge.source === id)];
      const next = leaving[0]?.target;
      if (leaving.length !== 1 || next === undefined || next === id) continue;
      for (const edge of entering) {
        const isThere = edges.some((each) => each.source === edge.source && each.handle === edge.handle && each.target === next);
        if (edge.source !== id && !isThere) transaction.setField(edge.key, "downstreamNodeID", JSON.stringify(next));
      }
    }
    remove(store, there.filter((key) => !isEdgeKey(key) || transaction.document.edges.has(key)));
  });
}
