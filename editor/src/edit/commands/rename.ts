/** Rename node ids and variables: the place that defines the name, and exactly the references that the server's parser found. */

import { kindOf, parsePointer, replaceInString, setAt, textAt, valueOf } from "../../json";
import { indexOf, nodeIDsOf, whyNoNodeID, whyNoVariable, withText, type NodeKey } from "../../model";
import { EditRefused, type EditStore, type Transaction } from "../store";

/** A reference of a node to the context, as validate lists it. `start` and `end` are those of the first name of the path. */
export interface Reference {
  /** Into the node. */
  readonly pointer: string;
  readonly start: number;
  readonly end: number;
  readonly path: readonly (string | number)[];
}

/** The references of the document as it is now, by node id. */
export type References = Readonly<Record<string, readonly Reference[]>>;

/** Rename a variable: in the nodes that write it, and in all templates and code that read it. */
export function renameVariable(store: EditStore, from: string, to: string, references: References): void {
  refuse(whyNoVariable(to));
  store.transact(`Rename ${from} to ${to}`, (transaction) => {
    renameReferences(transaction, from, to, references);
    for (const node of transaction.document.nodes.values()) {
      if (node.outputVariable === from) transaction.setField(node.key, "outputVariable", JSON.stringify(to));
    }
  });
}

/** Give a node another id: its edges follow, and references to its output by `__node_<id>`. */
export function renameNode(store: EditStore, key: NodeKey, to: string, references: References): void {
  const from = store.document.nodes.get(key)?.id;
  if (from === to) return;
  refuse(whyNoNodeID(to));
  refuse(nodeIDsOf(store.document).has(to) ? "Another node has this id." : null);
  store.transact(`Rename ${from} to ${to}`, (transaction) => {
    renameReferences(transaction, `__node_${from}`, `__node_${to}`, references);
    transaction.setField(key, "id", JSON.stringify(to));
    // Edges name a node by its id: where a double keeps it, they are the double's.
    if (indexOf(transaction.document).has(from!)) return;
    for (const edge of store.document.edges.values()) {
      if (edge.source === from) transaction.setField(edge.key, "upstreamNodeID", JSON.stringify(to));
      if (edge.target === from) transaction.setField(edge.key, "downstreamNodeID", JSON.stringify(to));
    }
  });
}

function renameReferences(transaction: Transaction, from: string, to: string, references: References): void {
  const byID = indexOf(transaction.document);
  for (const [id, found] of Object.entries(references)) {
    const node = byID.get(id);
    const wanted = found.filter((reference) => reference.path[0] === from);
    if (node === undefined || wanted.length === 0) continue;
    let text = node.text;
    for (const pointer of new Set(wanted.map((reference) => reference.pointer))) {
      const path = parsePointer(pointer);
      const source = textAt(text, path);
      // The answer is about an older document where the place holds something else by now.
      if (source === undefined || kindOf(source) !== "string") throw stale();
      const written = valueOf(source) as string;
      const changes = wanted.filter((reference) => reference.pointer === pointer).map(({ start, end }) => {
        if (written.slice(start, end) !== from) throw stale();
        return { start, end, value: to };
      });
      text = setAt(text, path, replaceInString(source, changes));
    }
    transaction.put(withText(node, text));
  }
}

function stale(): EditRefused {
  return new EditRefused("The workflow was changed meanwhile; try again in a moment.");
}

function refuse(reason: string | null): void {
  if (reason !== null) throw new EditRefused(reason);
}
