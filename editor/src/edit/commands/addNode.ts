/** Put a new node on the canvas: free, behind a node, out of a handle, or on an edge; wired. */

import { textOf } from "../../json";
import {
  ERROR_HANDLE,
  freeID,
  freePlace,
  GAP_ACROSS,
  makeNode,
  nodeByID,
  nodeIDsOf,
  nodeSize,
  snapped,
  type EdgeKey,
  type ExitsOf,
  type NodeKey,
  type Point,
  type WorkflowDocument,
} from "../../model";
import { EditRefused, type EditStore, type Transaction } from "../store";
import { keepPlaces } from "./move";
import { edgeText, nextExit } from "./wiring";

export interface NewNode {
  readonly type: string;
  /** What people call it; without one its id is shown. */
  readonly name?: string;
  /** The source text of its config. */
  readonly config?: string;
  readonly exitsOf: ExitsOf;
}

export type Where =
  | { readonly at: Point }
  | { readonly behind: NodeKey; readonly handle?: string; readonly at?: Point }
  | { readonly onEdge: EdgeKey };

/** Returns the new node. */
export function addNode(store: EditStore, node: NewNode, where: Where): NodeKey {
  return store.transact(`Add ${node.name ?? node.type}`, (transaction) => {
    keepPlaces(transaction);
    if ("onEdge" in where) return addOnEdge(transaction, node, where.onEdge);
    if ("behind" in where) return addBehind(transaction, node, where.behind, where.handle, where.at);
    return create(transaction, node, where.at);
  });
}

function addBehind(transaction: Transaction, added: NewNode, key: NodeKey, wanted?: string, at?: Point): NodeKey {
  const { document } = transaction;
  const node = transaction.get(key);
  const exits = added.exitsOf(node);
  const handle = wanted ?? nextExit(document, node, exits);
  const { width } = nodeSize(exits);
  const place = at ?? { x: (node.position?.x ?? 0) + width + GAP_ACROSS, y: node.position?.y ?? 0 };
  if (handle === null) return create(transaction, added, place);
  const leaving = [...document.edges.values()].filter((edge) => edge.source === node.id && edge.handle === handle);
  // Every exit leads somewhere already: the new node goes in between.
  if (wanted === undefined && leaving.length === 1) return addOnEdge(transaction, added, leaving[0]!.key);
  const key2 = create(transaction, added, place);
  const created = transaction.get(key2);
  if (added.exitsOf(created).hasEntry) transaction.addEdge(edgeText(node.id, handle, created.id));
  return key2;
}

function addOnEdge(transaction: Transaction, added: NewNode, key: EdgeKey): NodeKey {
  const { document } = transaction;
  const edge = transaction.get(key);
  const [source, target] = [nodeByID(document, edge.source), nodeByID(document, edge.target)];
  const size = nodeSize(added.exitsOf(template(added)));
  const from = source?.position ?? target?.position ?? { x: 0, y: 0 };
  const behind = from.x + (source === undefined ? 0 : nodeSize(added.exitsOf(source)).width + GAP_ACROSS);
  if (target?.position != null && source !== undefined) {
    makeRoom(transaction, document, target.key, behind, behind + size.width + GAP_ACROSS);
  }
  const middle = target?.position == null ? from.y : (from.y + target.position.y) / 2;
  const created = create(transaction, added, { x: behind, y: middle });
  const node = transaction.get(created);
  const exits = added.exitsOf(node);
  if (!exits.hasEntry) throw new EditRefused("Nothing can lead to this node.");
  const exit = exits.handles.find((handle) => handle !== ERROR_HANDLE);
  transaction.setField(key, "downstreamNodeID", JSON.stringify(node.id));
  if (exit !== undefined) transaction.addEdge(edgeText(node.id, exit, edge.target), key);
  return created;
}

/** Move what lies behind a node to the right, until the node is at `x` or further. What lies left of `from` stays. */
function makeRoom(transaction: Transaction, document: WorkflowDocument, first: NodeKey, from: number, x: number): void {
  const shift = x - transaction.get(first).position!.x;
  if (shift <= 0 || transaction.get(first).position!.x < from - GAP_ACROSS) return;
  const seen = new Set<NodeKey>([first]);
  const pending = [first];
  while (pending.length > 0) {
    const node = transaction.get(pending.pop()!);
    for (const edge of document.edges.values()) {
      if (edge.source !== node.id) continue;
      const next = nodeByID(document, edge.target);
      if (next === undefined || seen.has(next.key) || (next.position?.x ?? -Infinity) < transaction.get(first).position!.x) continue;
      seen.add(next.key);
      pending.push(next.key);
    }
  }
  for (const key of seen) {
    const { position } = transaction.get(key);
    if (position !== null) transaction.setField(key, "position", textOf(snapped({ x: position.x + shift, y: position.y })));
  }
}

function create(transaction: Transaction, added: NewNode, wanted: Point): NodeKey {
  const { document } = transaction;
  const id = freeID(added.type, nodeIDsOf(document));
  const size = nodeSize(added.exitsOf(template(added)));
  const position = freePlace(document, wanted, size, added.exitsOf);
  const name = added.name === undefined ? "" : `"name": ${JSON.stringify(added.name)}, `;
  const config = added.config === undefined ? "" : `"config": ${added.config}, `;
  return transaction.addNode(
    `{"id": ${JSON.stringify(id)}, "type": ${JSON.stringify(added.type)}, ${name}${config}"position": ${textOf(position)}}`,
  );
}

/** The node as its type alone makes it: for its size, before it has an id. */
function template({ type, config }: NewNode) {
  const text = `{"type": ${JSON.stringify(type)}${config === undefined ? "" : `, "config": ${config}`}}`;
  return makeNode("n0", { text, lead: "", trail: "", rank: 0 });
}
