/** Names that are free: keys of records, ids of nodes, variables. */

import { recordsOf, type EdgeKey, type NodeKey, type NodeRecord, type NoteKey, type RecordKey, type WorkflowDocument } from "./document";

/** The server takes ids of 1 to 128 characters, without these. */
export const NODE_ID_LENGTH_MAX = 128;
const NODE_ID_FORBIDDEN = /[/[\]#@\u0000-\u001f\u007f-\u009f]/g;

const VARIABLES_RESERVED: ReadonlySet<string> = new Set(["input", "output", "item", "index", "count", "results", "secret"]);

/** Why the server would not take this node id; null if it would. */
export function whyNoNodeID(id: string): string | null {
  if (id === "") return "An id has at least one character.";
  if (id.length > NODE_ID_LENGTH_MAX) return `An id has at most ${NODE_ID_LENGTH_MAX} characters.`;
  return id.search(NODE_ID_FORBIDDEN) < 0 ? null : "An id has none of / [ ] # @ and no control characters.";
}

/** Why the server would not take this variable name; null if it would. */
export function whyNoVariable(name: string): string | null {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return "A variable has letters, digits and _ only, and begins with no digit.";
  return VARIABLES_RESERVED.has(name) || name.includes("__") ? "This name is the engine's own." : null;
}

/** An id like `wanted` that is not taken: itself, or with the next free number at its end. */
export function freeID(wanted: string, taken: ReadonlySet<string>): string {
  const base = wanted.replace(NODE_ID_FORBIDDEN, "_").slice(0, NODE_ID_LENGTH_MAX - 8) || "node";
  if (!taken.has(base)) return base;
  const stem = base.replace(/[0-9]+$/, "") || base;
  for (let number = 2; ; number += 1) {
    const id = `${stem}${number}`;
    if (!taken.has(id)) return id;
  }
}

/** The ids of all nodes. */
export function nodeIDsOf(document: WorkflowDocument): ReadonlySet<string> {
  return new Set([...document.nodes.values()].map((node) => node.id));
}

/** The first node with this id; an invalid document may have several. */
export function nodeByID(document: WorkflowDocument, id: string): NodeRecord | undefined {
  return indexOf(document).get(id);
}

/** Nodes by id, made once per set of nodes. */
export function indexOf(document: WorkflowDocument): ReadonlyMap<string, NodeRecord> {
  let index = indexes.get(document.nodes);
  if (index === undefined) {
    index = new Map([...document.nodes.values()].reverse().map((node) => [node.id, node]));
    indexes.set(document.nodes, index);
  }
  return index;
}

const indexes = new WeakMap<ReadonlyMap<NodeKey, NodeRecord>, ReadonlyMap<string, NodeRecord>>();

/** Makes keys that no record of the document ever had. */
export class Keys {
  #next = 0;

  constructor(document: WorkflowDocument) {
    for (const { key } of recordsOf(document)) this.reserve(key);
  }

  /** This key is taken from now on. */
  reserve(key: RecordKey): void {
    if (key !== "head") this.#next = Math.max(this.#next, Number(key.slice(1)) + 1);
  }

  node(): NodeKey {
    return `n${this.#next++}`;
  }

  edge(): EdgeKey {
    return `e${this.#next++}`;
  }

  note(): NoteKey {
    return `o${this.#next++}`;
  }
}
