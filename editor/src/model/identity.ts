/** Which record of one document is which of another: nodes by id, edges by id or by what they connect. */

import { compact, memberText } from "../json";
import { Keys } from "./ids";
import {
  recordsOf,
  type EdgeKey,
  type NodeKey,
  type NoteKey,
  type RecordKey,
  type WorkflowDocument,
  type WorkflowRecord,
} from "./document";

/** The records of a document by what they are called in every version of it. Of doubles, each has a name of its own. */
export function identitiesOf(document: WorkflowDocument): ReadonlyMap<string, WorkflowRecord> {
  const found = new Map<string, WorkflowRecord>();
  for (const record of recordsOf(document)) {
    const name = nameOf(record);
    let unique = name;
    for (let count = 2; found.has(unique); count += 1) unique = `${name} (${count})`;
    found.set(unique, record);
  }
  return found;
}

/** The same document with the keys that its records have in another one, so that selection and history go on. */
export function rekeyed(document: WorkflowDocument, like: WorkflowDocument): WorkflowDocument {
  const known = identitiesOf(like);
  const keys = new Keys(like);
  const nodes = new Map<NodeKey, WorkflowRecord>();
  const edges = new Map<EdgeKey, WorkflowRecord>();
  const notes = new Map<NoteKey, WorkflowRecord>();
  for (const [identity, record] of identitiesOf(document)) {
    const other = known.get(identity);
    switch (record.kind) {
      case "node": {
        const key = other?.kind === "node" ? other.key : keys.node();
        nodes.set(key, { ...record, key });
        break;
      }
      case "edge": {
        const key = other?.kind === "edge" ? other.key : keys.edge();
        edges.set(key, { ...record, key });
        break;
      }
      case "note": {
        const key = other?.kind === "note" ? other.key : keys.note();
        notes.set(key, { ...record, key });
        break;
      }
    }
  }
  return { ...document, nodes, edges, notes } as WorkflowDocument;
}

/** The records in which one document differs from another with the same keys; null for those that it lacks. */
export function differences(from: WorkflowDocument, to: WorkflowDocument): ReadonlyMap<RecordKey, WorkflowRecord | null> {
  const changes = new Map<RecordKey, WorkflowRecord | null>();
  const wanted = new Map([...recordsOf(to)].map((record) => [record.key as RecordKey, record]));
  for (const record of recordsOf(from)) {
    const other = wanted.get(record.key);
    if (other === undefined) changes.set(record.key, null);
    else if (!isSameSource(record, other)) changes.set(record.key, other);
    wanted.delete(record.key);
  }
  for (const [key, record] of wanted) changes.set(key, record);
  return changes;
}

/** Are two records the same, byte for byte and at the same place? */
export function isSameSource(left: WorkflowRecord, right: WorkflowRecord): boolean {
  return left === right || (left.text === right.text && left.lead === right.lead && left.trail === right.trail && left.rank === right.rank);
}

function nameOf(record: WorkflowRecord): string {
  switch (record.kind) {
    case "head":
      return "head";
    case "node":
      return `node ${record.id}`;
    case "edge":
      return record.id === null ? `edge ${JSON.stringify([record.source, record.handle, record.target])}` : `edge ${record.id}`;
    case "note": {
      const id = record.text.startsWith("{") ? memberText(record.text, "id") : undefined;
      return id === undefined ? `note ${compact(record.text)}` : `note ${id}`;
    }
  }
}
