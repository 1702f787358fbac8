/**
 * A workflow document as records: one per node, edge and note, and one for everything else (the head).
 *
 * Each record holds its own source text and the whitespace before it, so that `writeDocument(readDocument(text))` is
 * `text`, byte for byte, and a change of one node leaves all other bytes alone. What the canvas needs of a record is
 * read from its text once, when the record is made. Records are never changed: a change makes another one.
 *
 * Records have keys of their own, for ids may be missing, doubled or renamed; nodes and edges name each other by id,
 * as in the document. The order of records is that of their `rank`.
 */

import { entriesOf, itemsAt, JsonError, kindOf, memberText, membersAt, removeMember, scanDocument, setMember } from "../json";

export type NodeKey = `n${number}`;
export type EdgeKey = `e${number}`;
export type NoteKey = `o${number}`;
export type HeadKey = "head";
export type RecordKey = NodeKey | EdgeKey | NoteKey | HeadKey;

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Rect extends Point, Size {}

interface Source {
  /** The record as the document has it. */
  readonly text: string;
  /** The whitespace before it. */
  readonly lead: string;
  /** Whitespace between it and the comma after it. */
  readonly trail: string;
  /** Records are in the order of their ranks. */
  readonly rank: number;
}

export interface NodeRecord extends Source {
  readonly kind: "node";
  readonly key: NodeKey;
  /** "" where the document has none; several nodes of an invalid document may have the same. */
  readonly id: string;
  readonly type: string;
  /** What people call it; null: its id is shown. */
  readonly name: string | null;
  /** The source text of its config; null if it has none. */
  readonly config: string | null;
  readonly outputVariable: string | null;
  readonly joinMode: "all" | "any";
  readonly errorHandling: string | null;
  readonly disabled: boolean;
  /** Is it run once per item of a list? */
  readonly mapped: boolean;
  /** Null: it has to be laid out. */
  readonly position: Point | null;
  /** Is the position one of layout, which the document does not have? */
  readonly isLaidOut: boolean;
}

export interface EdgeRecord extends Source {
  readonly kind: "edge";
  readonly key: EdgeKey;
  readonly id: string | null;
  /** The id of the node that it leaves. */
  readonly source: string;
  /** The id of the node that it enters. */
  readonly target: string;
  /** `default` where the document has null, nothing or `default`. */
  readonly handle: string;
}

export interface NoteRecord extends Source {
  readonly kind: "note";
  readonly key: NoteKey;
  readonly content: string;
  readonly position: Point;
  readonly size: Size;
}

/** Everything but nodes, edges and notes: the document with these three lists empty. */
export interface HeadRecord extends Source {
  readonly kind: "head";
  readonly key: HeadKey;
  readonly title: string | null;
  readonly name: string | null;
}

export type WorkflowRecord = NodeRecord | EdgeRecord | NoteRecord | HeadRecord;

export type RecordOf<K extends RecordKey> = K extends NodeKey
  ? NodeRecord
  : K extends EdgeKey
    ? EdgeRecord
    : K extends NoteKey
      ? NoteRecord
      : HeadRecord;

export interface WorkflowDocument {
  readonly head: HeadRecord;
  /** In document order, as are edges and notes. */
  readonly nodes: ReadonlyMap<NodeKey, NodeRecord>;
  readonly edges: ReadonlyMap<EdgeKey, EdgeRecord>;
  readonly notes: ReadonlyMap<NoteKey, NoteRecord>;
  /** The whitespace around the document. */
  readonly around: readonly [string, string];
}

export const DEFAULT_HANDLE = "default";
export const ERROR_HANDLE = "error";

/** The size of a note whose document gives it none. */
export const NOTE_SIZE: Size = { width: 240, height: 120 };

export const EMPTY_DOCUMENT_TEXT = '{\n  "title": "",\n  "nodes": [\n  ],\n  "edges": [\n  ]\n}\n';

const LISTS = ["nodes", "edges", "notes"] as const;
type ListName = (typeof LISTS)[number];

/** The document of a text. Throws `JsonError` where it is not JSON, and where it has no list of nodes or of edges. */
export function readDocument(text: string): WorkflowDocument {
  const { start, end } = scanDocument(text);
  if (kindOf(text) !== "object") throw new JsonError("a workflow is an object", text, start);
  const found: Record<ListName, Source[]> = { nodes: [], edges: [], notes: [] };
  const object = membersAt(text, start);
  let head = "";
  let copied = start;
  object.members.forEach((member, index) => {
    const list = LISTS.find((name) => name === member.name);
    const isLast = !object.members.slice(index + 1).some((later) => later.name === member.name);
    if (list === undefined || !isLast) return;
    if (text[member.start] !== "[") {
      // Notes of another tool may be anything; they stay in the head as they are.
      if (list === "notes") return;
      throw new JsonError(`${list} must be a list`, text, member.start);
    }
    const array = itemsAt(text, member.start);
    let at = array.open + 1;
    found[list] = array.items.map((item, rank) => {
      const next = array.items[rank + 1];
      const comma = next === undefined ? item.end : text.indexOf(",", item.end);
      const source = { text: text.slice(item.start, item.end), lead: text.slice(at, item.start), trail: text.slice(item.end, comma), rank };
      at = comma + 1;
      return source;
    });
    head += text.slice(copied, array.open + 1);
    copied = array.items.length === 0 ? array.open + 1 : array.items.at(-1)!.end;
  });
  head += text.slice(copied, end);
  return {
    head: makeHead({ text: head, lead: "", trail: "", rank: 0 }),
    nodes: new Map(found.nodes.map((source, index) => [`n${index}`, makeNode(`n${index}`, source)])),
    edges: new Map(found.edges.map((source, index) => [`e${index}`, makeEdge(`e${index}`, source)])),
    notes: new Map(found.notes.map((source, index) => [`o${index}`, makeNote(`o${index}`, source)])),
    around: [text.slice(0, start), text.slice(end)],
  };
}

/** The text of a document. */
export function writeDocument(document: WorkflowDocument): string {
  let text = document.head.text;
  const lists: Record<ListName, readonly Source[]> = {
    nodes: [...document.nodes.values()],
    edges: [...document.edges.values()],
    notes: [...document.notes.values()],
  };
  for (const name of LISTS) {
    const records = lists[name];
    if (records.length === 0) continue;
    if (memberText(text, name) === undefined) text = setMember(text, name, "[]");
    const list = membersAt(text, 0).members.findLast((member) => member.name === name)!;
    const items = records
      .map(({ lead, text: item, trail }, index) => (index === records.length - 1 ? lead + item : `${lead}${item}${trail},`))
      .join("");
    text = text.slice(0, list.start + 1) + items + text.slice(list.start + 1);
  }
  return document.around[0] + text + document.around[1];
}

export function makeNode(key: NodeKey, source: Source): NodeRecord {
  const fields = fieldsOf(source.text);
  return {
    ...bare(source),
    kind: "node",
    key,
    id: stringOr(fields.get("id"), ""),
    type: stringOr(fields.get("type"), ""),
    name: stringOr(fields.get("name"), null),
    config: fields.get("config") ?? null,
    outputVariable: stringOr(fields.get("outputVariable"), null),
    joinMode: stringOr(fields.get("joinMode"), null) === "any" ? "any" : "all",
    errorHandling: stringOr(fields.get("errorHandling"), null),
    disabled: fields.get("disabled") === "true",
    mapped: (fields.get("forEach") ?? "null") !== "null",
    position: pointOf(fields.get("position")),
    isLaidOut: false,
  };
}

export function makeEdge(key: EdgeKey, source: Source): EdgeRecord {
  const fields = fieldsOf(source.text);
  return {
    ...bare(source),
    kind: "edge",
    key,
    id: stringOr(fields.get("id"), null),
    source: stringOr(fields.get("upstreamNodeID"), ""),
    target: stringOr(fields.get("downstreamNodeID"), ""),
    handle: stringOr(fields.get("sourceHandle"), DEFAULT_HANDLE),
  };
}

export function makeNote(key: NoteKey, source: Source): NoteRecord {
  const fields = fieldsOf(source.text);
  const size = fields.get("size");
  return {
    ...bare(source),
    kind: "note",
    key,
    content: stringOr(fields.get("text"), ""),
    position: pointOf(fields.get("position")) ?? { x: 0, y: 0 },
    size: {
      width: numberOr(size && memberOf(size, "width"), NOTE_SIZE.width),
      height: numberOr(size && memberOf(size, "height"), NOTE_SIZE.height),
    },
  };
}

export function makeHead(source: Source): HeadRecord {
  return {
    ...bare(source),
    kind: "head",
    key: "head",
    title: stringOr(memberText(source.text, "title"), null),
    name: stringOr(memberText(source.text, "name"), null),
  };
}

/** The same record with another text. */
export function withText<R extends WorkflowRecord>(record: R, text: string): R;
export function withText(record: WorkflowRecord, text: string): WorkflowRecord {
  return remade(record, { ...bare(record), text });
}

/** The same record at another place in the order. */
export function withRank<R extends WorkflowRecord>(record: R, rank: number): R;
export function withRank(record: WorkflowRecord, rank: number): WorkflowRecord {
  return { ...record, rank };
}

/** The same record with one field set to a JSON text, or without it. */
export function withField<R extends WorkflowRecord>(record: R, name: string, value: string | undefined): R {
  return withText(record, value === undefined ? removeMember(record.text, name) : setMember(record.text, name, value));
}

/**
 * The document with places for nodes that have none. They are shown and not stored: text and hash stay as they were,
 * until somebody moves a node.
 */
export function withLayout(document: WorkflowDocument, places: ReadonlyMap<NodeKey, Point>): WorkflowDocument {
  const changes = new Map<NodeKey, NodeRecord>();
  for (const [key, position] of places) {
    const node = document.nodes.get(key);
    if (node !== undefined && (node.position === null || node.isLaidOut)) changes.set(key, { ...node, position, isLaidOut: true });
  }
  return withRecords(document, changes);
}

/** The document with these records in place of those with their keys; null takes one out. */
export function withRecords(document: WorkflowDocument, changes: ReadonlyMap<RecordKey, WorkflowRecord | null>): WorkflowDocument {
  const [nodes, edges, notes] = [changed(document.nodes, changes, "n"), changed(document.edges, changes, "e"), changed(document.notes, changes, "o")];
  const head = changes.get("head") as HeadRecord | null | undefined;
  return { head: head ?? document.head, nodes, edges, notes, around: document.around };
}

export function recordOf<K extends RecordKey>(document: WorkflowDocument, key: K): RecordOf<K> | undefined;
export function recordOf(document: WorkflowDocument, key: RecordKey): WorkflowRecord | undefined {
  if (key === "head") return document.head;
  if (isNodeKey(key)) return document.nodes.get(key);
  return isEdgeKey(key) ? document.edges.get(key) : document.notes.get(key as NoteKey);
}

export function isNodeKey(key: string): key is NodeKey {
  return key.startsWith("n");
}

export function isEdgeKey(key: string): key is EdgeKey {
  return key.startsWith("e");
}

export function isNoteKey(key: string): key is NoteKey {
  return key.startsWith("o");
}

/** All records, in document order. */
export function* recordsOf(document: WorkflowDocument): Generator<WorkflowRecord> {
  yield document.head;
  yield* document.nodes.values();
  yield* document.edges.values();
  yield* document.notes.values();
}

function changed<K extends RecordKey, R extends WorkflowRecord>(
  records: ReadonlyMap<K, R>,
  changes: ReadonlyMap<RecordKey, WorkflowRecord | null>,
  letter: string,
): ReadonlyMap<K, R> {
  let result: Map<K, R> | undefined;
  let isSorted = true;
  for (const [key, record] of changes) {
    if (!key.startsWith(letter) || key === "head") continue;
    result ??= new Map(records);
    if (record === null) {
      result.delete(key as K);
    } else {
      isSorted &&= result.get(key as K)?.rank === record.rank;
      result.set(key as K, record as R);
    }
  }
  if (result === undefined) return records;
  return isSorted ? result : new Map([...result].sort(([, left], [, right]) => left.rank - right.rank));
}

function remade(record: WorkflowRecord, source: Source): WorkflowRecord {
  switch (record.kind) {
    case "node": {
      const node = makeNode(record.key, source);
      return node.position === null && record.isLaidOut ? { ...node, position: record.position, isLaidOut: true } : node;
    }
    case "edge":
      return makeEdge(record.key, source);
    case "note":
      return makeNote(record.key, source);
    case "head":
      return makeHead(source);
  }
}

function bare({ text, lead, trail, rank }: Source): Source {
  return { text, lead, trail, rank };
}

function fieldsOf(text: string): ReadonlyMap<string, string> {
  return new Map(entriesOf(kindOf(text) === "object" ? text : "{}").map(({ key, text: value }) => [String(key), value]));
}

function memberOf(text: string, name: string): string | undefined {
  return memberText(text, name);
}

function stringOr<T>(text: string | undefined, otherwise: T): string | T {
  return text?.startsWith('"') ? (JSON.parse(text) as string) : otherwise;
}

function numberOr<T>(text: string | undefined, otherwise: T): number | T {
  return text !== undefined && kindOf(text) === "number" ? Number(text) : otherwise;
}

function pointOf(text: string | undefined): Point | null {
  if (text === undefined) return null;
  const [x, y] = [numberOr(memberOf(text, "x"), null), numberOr(memberOf(text, "y"), null)];
  return x === null || y === null ? null : { x, y };
}
