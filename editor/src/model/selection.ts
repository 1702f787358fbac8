/** What is selected: a set of records, of which one may be the lead (it has the keyboard's focus, and its panel is shown). */

import { grouped } from "./grouped";
import { indexOf } from "./ids";
import { isEdgeKey, isNodeKey, type EdgeKey, type NodeKey, type NoteKey, type RecordKey, recordOf, type Rect, type WorkflowDocument } from "./document";
import { nodeSize, type ExitsOf } from "./geometry";

export type SelectableKey = NodeKey | EdgeKey | NoteKey;

export interface Selection {
  readonly keys: ReadonlySet<SelectableKey>;
  readonly lead: SelectableKey | null;
}

export const NOTHING_SELECTED: Selection = { keys: new Set(), lead: null };

export function selected(...keys: readonly SelectableKey[]): Selection {
  return { keys: new Set(keys), lead: keys.at(-1) ?? null };
}

/** The selection with one more record, or without it where it was selected. */
export function toggled(selection: Selection, key: SelectableKey): Selection {
  const keys = new Set(selection.keys);
  if (keys.delete(key)) return { keys, lead: selection.lead === key ? ([...keys].at(-1) ?? null) : selection.lead };
  return { keys: keys.add(key), lead: key };
}

/** The part of the selection that the document still has; the same object where it has all of it. */
export function stillThere(selection: Selection, document: WorkflowDocument): Selection {
  const exists = (key: RecordKey) => recordOf(document, key) !== undefined;
  if ([...selection.keys].every(exists)) return selection;
  const keys = new Set([...selection.keys].filter(exists));
  const lead = selection.lead !== null && keys.has(selection.lead) ? selection.lead : ([...keys].at(-1) ?? null);
  return { keys, lead };
}

export function selectedNodes(selection: Selection): NodeKey[] {
  return [...selection.keys].filter(isNodeKey);
}

export function selectedEdges(selection: Selection): EdgeKey[] {
  return [...selection.keys].filter(isEdgeKey);
}

/** Everything: nodes and notes, and the edges between them. */
export function everything(document: WorkflowDocument): Selection {
  return selected(...document.edges.keys(), ...document.notes.keys(), ...document.nodes.keys());
}

/** What a box drawn on the canvas covers wholly. */
export function within(document: WorkflowDocument, box: Rect, exitsOf: ExitsOf): Selection {
  const covers = (x: number, y: number, width: number, height: number) =>
    x >= box.x && y >= box.y && x + width <= box.x + box.width && y + height <= box.y + box.height;
  const nodes = [...document.nodes.values()].filter((node) => {
    const { width, height } = nodeSize(exitsOf(node));
    return node.position !== null && covers(node.position.x, node.position.y, width, height);
  });
  const ids = new Set(nodes.map((node) => node.id));
  const edges = [...document.edges.values()].filter((edge) => ids.has(edge.source) && ids.has(edge.target));
  const notes = [...document.notes.values()].filter((note) => covers(note.position.x, note.position.y, note.size.width, note.size.height));
  return selected(...edges.map((edge) => edge.key), ...notes.map((note) => note.key), ...nodes.map((node) => node.key));
}

export type Direction = "upstream" | "downstream";

/** These nodes and all that lead to them, or that they lead to, with the edges on the way. */
export function extended(document: WorkflowDocument, selection: Selection, direction: Direction): Selection {
  const nodes = new Set(selectedNodes(selection));
  const keys = new Set(selection.keys);
  const byID = indexOf(document);
  const pending = [...nodes];
  const leaving = edgesBy(document, direction);
  while (pending.length > 0) {
    const node = document.nodes.get(pending.pop()!);
    for (const edge of (node && leaving.get(node.id)) ?? []) {
      const next = byID.get(direction === "downstream" ? edge.target : edge.source);
      if (next === undefined) continue;
      keys.add(edge.key).add(next.key);
      if (!nodes.has(next.key)) {
        nodes.add(next.key);
        pending.push(next.key);
      }
    }
  }
  return { keys, lead: selection.lead };
}

function edgesBy(document: WorkflowDocument, direction: Direction) {
  return grouped(document.edges.values(), (edge) => (direction === "downstream" ? edge.source : edge.target));
}
