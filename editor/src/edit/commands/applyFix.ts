/** Apply a fix of a problem: a JSON patch of the document that was validated. */

import { applyPatch, formatPointer, isSameJson, JsonError, parsePointer, PlaceError, textOf, type PatchOperation } from "../../json";
import { hashOf, readDocument, rekeyed, withText, writeDocument, type WorkflowDocument, type WorkflowRecord } from "../../model";
import { EditRefused, type EditStore, type Transaction } from "../store";
import { replaceWithSameKeys } from "./replace";

export interface Fix {
  readonly title: string;
  readonly patch: readonly PatchOperation[];
}

/** `judged`: the document that the problem was found in. Fixes of records that were changed since are refused. */
export function applyFix(store: EditStore, fix: Fix, judged: WorkflowDocument): void {
  store.transact(`Fix: ${fix.title}`, (transaction) => {
    try {
      if (fix.patch.every(isInsideRecord)) for (const operation of fix.patch) patchRecord(transaction, operation, judged);
      else patchDocument(store, fix, judged);
    } catch (error) {
      if (error instanceof PlaceError || error instanceof JsonError) throw stale();
      throw error;
    }
  });
}

/** Does it change one record and nothing of the order of records? Then later edits of others do not matter. */
function isInsideRecord(operation: PatchOperation): boolean {
  const [list, index, ...rest] = parsePointer(operation.path);
  const isRecord = (list === "nodes" || list === "edges") && /^\d+$/.test(index ?? "") && rest.length > 0;
  return isRecord && (!("from" in operation) || operation.from.startsWith(`/${list}/${index}/`));
}

function patchRecord(transaction: Transaction, operation: PatchOperation, judged: WorkflowDocument): void {
  const [list, index, ...rest] = parsePointer(operation.path);
  const records: readonly WorkflowRecord[] = [...(list === "nodes" ? judged.nodes : judged.edges).values()];
  const old = records[Number(index)];
  if (old === undefined) throw stale();
  const record = transaction.get(old.key) as WorkflowRecord;
  const inside = { ...operation, path: formatPointer(rest) };
  if ("from" in inside) inside.from = formatPointer(parsePointer(inside.from).slice(2));
  const isFirst = !transaction.changes.has(record.key);
  if (isFirst && record.text !== old.text) throw stale();
  transaction.put(withText(record, applyPatch(record.text, [inside as PatchOperation], textOf, isSameJson)));
}

function patchDocument(store: EditStore, fix: Fix, judged: WorkflowDocument): void {
  if (hashOf(store.document) !== hashOf(judged)) throw stale();
  const patched = readDocument(applyPatch(writeDocument(judged).trim(), fix.patch, textOf, isSameJson));
  replaceWithSameKeys(store, fix.title, rekeyed(patched, store.document));
}

function stale(): EditRefused {
  return new EditRefused("The workflow was changed meanwhile; the fix does not fit any more.");
}
