/**
 * The document that is being edited, and its history.
 *
 * Every change is a transaction with a name: a function that puts and removes records. What each touched record was
 * before and after is recorded; undo and redo put these back, so no command knows its own inverse. Selection, viewport
 * and pins are not here. History is unlimited and knows nothing of saving: undo works across publish and conflict.
 */

import { memberText } from "../json";
import {
  differences,
  hashOf,
  isSameSource,
  Keys,
  makeEdge,
  makeNode,
  makeNote,
  recordOf,
  withField,
  withRecords,
  type EdgeKey,
  type NodeKey,
  type NoteKey,
  type RecordKey,
  type RecordOf,
  type WorkflowDocument,
  type WorkflowRecord,
} from "../model";

/** Why a command did nothing; for people to read. */
export class EditRefused extends Error {
  override readonly name = "EditRefused";
}

/** One entry of the history. */
export interface Step {
  readonly name: string;
  readonly before: ReadonlyMap<RecordKey, WorkflowRecord | null>;
  readonly after: ReadonlyMap<RecordKey, WorkflowRecord | null>;
  readonly burst: string | null;
  readonly at: number;
}

export interface Change {
  readonly reason: "edit" | "undo" | "redo" | "layout" | "saved";
  readonly name: string;
  readonly keys: ReadonlySet<RecordKey>;
}

export interface TransactOptions {
  /** Steps of one burst (a drag, typing in one field) that follow one another become one. */
  readonly burst?: string;
  /** How long after its last step a burst goes on. Drags have no limit: each has a name of its own. */
  readonly withinMs?: number;
}

// 1 s: who stops typing for longer has finished a thought.
export const BURST_MS = 1_000;

/** What a command changes the document by. */
export class Transaction {
  readonly keys: Keys;
  readonly changes = new Map<RecordKey, WorkflowRecord | null>();
  readonly #start: WorkflowDocument;
  #document: WorkflowDocument;
  #isStale = false;
  /** The last rank of each list, once something was added to it. */
  readonly #ranks: { node?: number; edge?: number; note?: number } = {};

  constructor(document: WorkflowDocument, keys: Keys) {
    this.#start = document;
    this.#document = document;
    this.keys = keys;
  }

  /** The document with all changes so far. */
  get document(): WorkflowDocument {
    if (this.#isStale) this.#document = withRecords(this.#start, this.changes);
    this.#isStale = false;
    return this.#document;
  }

  /** The record as it is by now. Throws `EditRefused` where there is none. */
  get<K extends RecordKey>(key: K): RecordOf<K> {
    const changed = this.changes.get(key);
    const record = changed === undefined ? recordOf(this.#start, key) : changed;
    if (record == null) throw new EditRefused("It is not there any more.");
    return record as RecordOf<K>;
  }

  put(record: WorkflowRecord): void {
    this.changes.set(record.key, record);
    this.#isStale = true;
  }

  remove(key: RecordKey): void {
    this.changes.set(key, null);
    this.#isStale = true;
  }

  /** Set one field of a record to a JSON text, or remove it. */
  setField(key: RecordKey, name: string, value: string | undefined): void {
    this.put(withField(this.get(key) as WorkflowRecord, name, value));
  }

  addNode(text: string): NodeKey {
    const key = this.keys.node();
    this.put(makeNode(key, this.#sourceOf(text, "node")));
    return key;
  }

  /** Add an edge: at the end, or right behind another one. */
  addEdge(text: string, behind?: EdgeKey): EdgeKey {
    const key = this.keys.edge();
    const source = this.#sourceOf(text, "edge");
    this.put(makeEdge(key, behind === undefined ? source : { ...source, rank: this.#rankBehind(behind, source.rank) }));
    return key;
  }

  addNote(text: string): NoteKey {
    if (/^[^[]/.test(memberText(this.get("head").text, "notes") ?? "")) throw new EditRefused("The notes of this workflow are another tool's.");
    const key = this.keys.note();
    this.put(makeNote(key, this.#sourceOf(text, "note")));
    return key;
  }

  #sourceOf(text: string, kind: "node" | "edge" | "note") {
    const rank = (this.#ranks[kind] ?? lastRank(listOf(this.#start, kind))) + 1;
    this.#ranks[kind] = rank;
    return { text, lead: leadFor(this.#start, kind), trail: "", rank };
  }

  #rankBehind(key: EdgeKey, otherwise: number): number {
    const ranks = [...this.document.edges.values()].map((edge) => edge.rank);
    const rank = this.get(key).rank;
    const next = ranks[ranks.indexOf(rank) + 1] ?? otherwise + 1;
    const between = (rank + next) / 2;
    return between > rank && between < next ? between : otherwise;
  }
}

export class EditStore {
  #document: WorkflowDocument;
  #base: string;
  readonly #keys: Keys;
  readonly #now: () => number;
  #done: Step[] = [];
  #undone: Step[] = [];
  #open: Transaction | null = null;
  #isBurstOver = true;
  readonly #listeners = new Set<(change: Change) => void>();

  /** `now`: milliseconds, for bursts. */
  constructor(document: WorkflowDocument, now: () => number) {
    this.#document = document;
    this.#base = hashOf(document);
    this.#keys = new Keys(document);
    this.#now = now;
  }

  get document(): WorkflowDocument {
    return this.#document;
  }

  /** Is it another document than the one that was saved last? Undoing back to that one makes it clean again. */
  get isDirty(): boolean {
    return hashOf(this.#document) !== this.#base;
  }

  /** This document is what the server has now. */
  saved(document: WorkflowDocument): void {
    this.#base = hashOf(document);
    this.#tell({ reason: "saved", name: "saved", keys: new Set() });
  }

  /**
   * Change the document in one step with a name. A transaction inside of another one is a part of it. Where `fn` throws
   * nothing has changed; where it changes nothing there is no step.
   */
  transact<T>(name: string, fn: (transaction: Transaction) => T, { burst, withinMs = BURST_MS }: TransactOptions = {}): T {
    if (this.#open !== null) return fn(this.#open);
    const transaction = new Transaction(this.#document, this.#keys);
    this.#open = transaction;
    let result: T;
    try {
      result = fn(transaction);
    } finally {
      this.#open = null;
    }
    const before = new Map<RecordKey, WorkflowRecord | null>();
    const after = new Map<RecordKey, WorkflowRecord | null>();
    for (const [key, record] of transaction.changes) {
      const old = recordOf(this.#document, key) ?? null;
      if (isUnchanged(old, record)) continue;
      // What was made elsewhere, such as a merge, has keys that this store never gave.
      this.#keys.reserve(key);
      before.set(key, old);
      after.set(key, record);
    }
    if (after.size > 0) {
      this.#document = withRecords(this.#document, after);
      this.#remember({ name, before, after, burst: burst ?? null, at: this.#now() }, withinMs);
      this.#tell({ reason: "edit", name, keys: new Set(after.keys()) });
    }
    return result;
  }

  /** Put laid out nodes to other places without a step; see `withLayout`. */
  layOut(document: WorkflowDocument): void {
    const keys = new Set(differences(this.#document, document).keys());
    for (const [key, node] of document.nodes) if (this.#document.nodes.get(key) !== node) keys.add(key);
    this.#document = document;
    this.#tell({ reason: "layout", name: "layout", keys });
  }

  /** The next step is one of its own, whatever burst it belongs to: the selection changed, a field lost the focus. */
  endBurst(): void {
    this.#isBurstOver = true;
  }

  /** The names of what can be undone, the latest last. */
  get undoable(): readonly string[] {
    return this.#done.map((step) => step.name);
  }

  /** The names of what can be done again, the next last. */
  get redoable(): readonly string[] {
    return this.#undone.map((step) => step.name);
  }

  /** Undo the latest step; null if there is none. */
  undo(): Step | null {
    const step = this.#done.pop() ?? null;
    if (step !== null) {
      this.#undone.push(step);
      this.#apply(step.before, "undo", step.name);
    }
    return step;
  }

  redo(): Step | null {
    const step = this.#undone.pop() ?? null;
    if (step !== null) {
      this.#done.push(step);
      this.#apply(step.after, "redo", step.name);
    }
    return step;
  }

  /** Be told of every change, after it; returns how to stop. */
  subscribe(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #apply(records: ReadonlyMap<RecordKey, WorkflowRecord | null>, reason: "undo" | "redo", name: string): void {
    this.#isBurstOver = true;
    this.#document = withRecords(this.#document, records);
    this.#tell({ reason, name, keys: new Set(records.keys()) });
  }

  #remember(step: Step, withinMs: number): void {
    const last = this.#done.at(-1);
    const goesOn =
      !this.#isBurstOver && last !== undefined && step.burst !== null && last.burst === step.burst && step.at - last.at <= withinMs;
    this.#undone = [];
    this.#isBurstOver = false;
    if (!goesOn) {
      this.#done.push(step);
      return;
    }
    const before = new Map([...step.before, ...last.before]);
    const after = new Map([...last.after, ...step.after]);
    for (const [key, record] of after) {
      if (!isUnchanged(before.get(key) ?? null, record)) continue;
      before.delete(key);
      after.delete(key);
    }
    this.#done.pop();
    // A drag that ended where it began was none.
    if (after.size > 0) this.#done.push({ ...step, before, after });
    else this.#isBurstOver = true;
  }

  #tell(change: Change): void {
    for (const listener of [...this.#listeners]) listener(change);
  }
}

function isUnchanged(before: WorkflowRecord | null, after: WorkflowRecord | null): boolean {
  return before === null || after === null ? before === after : isSameSource(before, after);
}

function listOf(document: WorkflowDocument, kind: "node" | "edge" | "note"): WorkflowRecord[] {
  return [...{ node: document.nodes, edge: document.edges, note: document.notes }[kind].values()];
}

function lastRank(records: Iterable<WorkflowRecord>): number {
  let last = -1;
  for (const record of records) last = Math.max(last, record.rank);
  return last;
}

/** The whitespace before an added record: its neighbours', or a line of its own in a document that has lines. */
function leadFor(document: WorkflowDocument, kind: "node" | "edge" | "note"): string {
  const records = listOf(document, kind);
  const last = records.at(-1);
  if (last === undefined) return document.head.text.includes("\n") ? "\n    " : "";
  return records.length === 1 && last.lead === "" ? " " : last.lead;
}
