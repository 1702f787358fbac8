/** What is different between two versions of a document: record by record for the canvas, field by field for the list. */

import { compact, entriesOf, formatPointer, isSameJson, kindOf, removeMember } from "../json";
import { identitiesOf } from "./identity";
import type { WorkflowDocument, WorkflowRecord } from "./document";

export interface FieldChange {
  /** Where in the record. */
  readonly pointer: string;
  /** Source text; null where it did not exist. */
  readonly before: string | null;
  /** Source text; null where it does not exist any more. */
  readonly after: string | null;
}

export interface RecordChange {
  readonly kind: WorkflowRecord["kind"];
  /** What the record is called in both versions. */
  readonly identity: string;
  /** `moved`: nothing but its place on the canvas is different. */
  readonly change: "added" | "removed" | "changed" | "moved";
  readonly before: WorkflowRecord | null;
  readonly after: WorkflowRecord | null;
  readonly fields: readonly FieldChange[];
}

/** The changes from one version to another: the later one's order, then what was removed. */
export function diffDocuments(before: WorkflowDocument, after: WorkflowDocument): readonly RecordChange[] {
  const old = identitiesOf(before);
  const changes: RecordChange[] = [];
  for (const [identity, record] of identitiesOf(after)) {
    const earlier = old.get(identity) ?? null;
    const fields = diffFields(earlier?.text ?? null, record.text);
    if (fields.length === 0) continue;
    const isMove = earlier !== null && fields.every(({ pointer }) => pointer.startsWith("/position"));
    changes.push({
      kind: record.kind,
      identity,
      change: earlier === null ? "added" : isMove ? "moved" : "changed",
      before: earlier,
      after: record,
      fields,
    });
  }
  const kept = identitiesOf(after);
  for (const [identity, record] of old) {
    if (kept.has(identity)) continue;
    changes.push({ kind: record.kind, identity, change: "removed", before: record, after: null, fields: diffFields(record.text, null) });
  }
  return changes;
}

/** The places where two values differ. Objects are compared by name, lists item by item; order of names does not count. */
export function diffFields(before: string | null, after: string | null): readonly FieldChange[] {
  const changes: FieldChange[] = [];
  const pending: { path: readonly (string | number)[]; before: string | null; after: string | null }[] = [{ path: [], before, after }];
  while (pending.length > 0) {
    const place = pending.pop()!;
    const { path, before: left, after: right } = place;
    if (left !== null && right !== null) {
      if (isSameJson(left, right)) continue;
      const kind = kindOf(left);
      if (kind === kindOf(right) && (kind === "object" || kind === "array")) {
        const [old, now] = [lastEntries(left), lastEntries(right)];
        const names = [...new Set([...old.keys(), ...now.keys()])].reverse();
        pending.push(...names.map((name) => ({ path: [...path, name], before: old.get(name) ?? null, after: now.get(name) ?? null })));
        continue;
      }
    }
    changes.push({ pointer: formatPointer(path), before: left, after: right });
  }
  return changes;
}

/** Does the record say the same, its place on the canvas aside? */
export function isSameButPlace(left: WorkflowRecord, right: WorkflowRecord): boolean {
  return contentOf(left) === contentOf(right);
}

/** A record without its place on the canvas, in one spelling. */
export function contentOf(record: WorkflowRecord): string {
  const isPlaced = record.kind === "node" && kindOf(record.text) === "object";
  return compact(isPlaced ? removeMember(record.text, "position") : record.text);
}

function lastEntries(text: string): ReadonlyMap<string | number, string> {
  return new Map(entriesOf(text).map(({ key, text: value }) => [key, value]));
}
