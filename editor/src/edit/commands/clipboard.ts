/** Copy, paste and duplicate: what is on the clipboard is a workflow document with the selected records only. */

import { memberText, setMember, textOf } from "../../json";
import {
  freeID,
  nodeIDsOf,
  readDocument,
  recordOf,
  snapped,
  type NodeRecord,
  type NoteRecord,
  type Point,
  type SelectableKey,
  type WorkflowDocument,
} from "../../model";
import { counted } from "../counted";
import type { EditStore, Transaction } from "../store";
import { keepPlaces } from "./move";
import { replaceDocument } from "./replace";

/** How far from the original a copy lies. */
export const COPY_OFFSET = 32;

/** The JSON of these records: nodes, the edges between them, notes. Null where there is neither node nor note. */
export function copy(document: WorkflowDocument, keys: ReadonlySet<SelectableKey>): string | null {
  const nodes = [...document.nodes.values()].filter((node) => keys.has(node.key));
  const notes = [...document.notes.values()].filter((note) => keys.has(note.key));
  if (nodes.length + notes.length === 0) return null;
  const ids = new Set(nodes.map((node) => node.id));
  const edges = [...document.edges.values()].filter((edge) => ids.has(edge.source) && ids.has(edge.target));
  const list = (texts: readonly string[]) => (texts.length === 0 ? "[]" : `[\n    ${texts.join(",\n    ")}\n  ]`);
  const members = [
    `"nodes": ${list(nodes.map(placedText))}`,
    `"edges": ${list(edges.map((edge) => edge.text))}`,
    ...(notes.length === 0 ? [] : [`"notes": ${list(notes.map((note) => note.text))}`]),
  ];
  return `{\n  ${members.join(",\n  ")}\n}\n`;
}

/**
 * Put copied JSON on the canvas, with fresh ids where its own are taken; `at` is where its upper left corner comes to
 * lie. A whole workflow on an empty canvas is imported: title and options too. Throws `JsonError` for other text.
 */
export function paste(store: EditStore, text: string, at?: Point): SelectableKey[] {
  const pasted = readDocument(text);
  const isEmpty = store.document.nodes.size + store.document.notes.size === 0;
  if (isEmpty && isWhole(pasted)) {
    replaceDocument(store, "Import", pasted);
    return [...store.document.nodes.keys(), ...store.document.notes.keys()];
  }
  const keys = [...pasted.nodes.keys(), ...pasted.notes.keys()];
  return store.transact(`Paste ${counted(keys)}`, (transaction) => insert(transaction, pasted, offsetOf(pasted, at)));
}

/** Copy and paste in one step, a little below; the clipboard stays as it is. */
export function duplicate(store: EditStore, keys: ReadonlySet<SelectableKey>): SelectableKey[] {
  const text = copy(store.document, keys);
  if (text === null) return [];
  const there = [...keys].filter((key) => recordOf(store.document, key) !== undefined);
  return store.transact(`Duplicate ${counted(there)}`, (transaction) => insert(transaction, readDocument(text), { x: COPY_OFFSET, y: COPY_OFFSET }));
}

function insert(transaction: Transaction, pasted: WorkflowDocument, offset: Point): SelectableKey[] {
  keepPlaces(transaction);
  const taken = new Set(nodeIDsOf(transaction.document));
  const ids = new Map<string, string>();
  const added: SelectableKey[] = [];
  for (const node of pasted.nodes.values()) {
    const id = freeID(node.id || "node", taken);
    taken.add(id);
    if (!ids.has(node.id)) ids.set(node.id, id);
    added.push(transaction.addNode(moved(node, setMember(node.text, "id", JSON.stringify(id)), offset)));
  }
  const edgeIDs = new Set([...transaction.document.edges.values()].map((edge) => edge.id));
  for (const edge of pasted.edges.values()) {
    const [source, target] = [ids.get(edge.source), ids.get(edge.target)];
    if (source === undefined || target === undefined) continue;
    let text = setMember(edge.text, "upstreamNodeID", JSON.stringify(source));
    text = setMember(text, "downstreamNodeID", JSON.stringify(target));
    if (edge.id !== null) {
      const id = freeID(edge.id, new Set([...edgeIDs].filter((each) => each !== null)));
      edgeIDs.add(id);
      text = setMember(text, "id", JSON.stringify(id));
    }
    transaction.addEdge(text);
  }
  const noteIDs = new Set([...transaction.document.notes.values()].map((note) => memberText(note.text, "id")));
  for (const note of pasted.notes.values()) {
    const id = memberText(note.text, "id");
    const known = new Set([...noteIDs].filter((each) => each?.startsWith('"')).map((each) => JSON.parse(each!) as string));
    const fresh = id?.startsWith('"') ? JSON.stringify(freeID(JSON.parse(id) as string, known)) : undefined;
    if (fresh !== undefined) noteIDs.add(fresh);
    added.push(transaction.addNote(moved(note, fresh === undefined ? note.text : setMember(note.text, "id", fresh), offset)));
  }
  return added;
}

function moved(record: NodeRecord | NoteRecord, text: string, offset: Point): string {
  const { position } = record;
  return position === null ? text : setMember(text, "position", textOf(snapped({ x: position.x + offset.x, y: position.y + offset.y })));
}

function placedText(node: NodeRecord): string {
  return node.isLaidOut && node.position !== null ? setMember(node.text, "position", textOf(node.position)) : node.text;
}

function offsetOf(pasted: WorkflowDocument, at: Point | undefined): Point {
  if (at === undefined) return { x: COPY_OFFSET, y: COPY_OFFSET };
  const places = [...pasted.nodes.values(), ...pasted.notes.values()].map((record) => record.position).filter((place) => place !== null);
  if (places.length === 0) return { x: 0, y: 0 };
  return { x: at.x - Math.min(...places.map(({ x }) => x)), y: at.y - Math.min(...places.map(({ y }) => y)) };
}

/** Is it more than copied records: a workflow with a title, a name or options of its own? */
function isWhole(document: WorkflowDocument): boolean {
  return ["title", "name", "workflowOptions"].some((name) => memberText(document.head.text, name) !== undefined);
}
