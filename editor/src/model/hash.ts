/** Hashes of documents: is it what was saved, was it validated already? */

import { kindOf, removeMember } from "../json";
import { recordsOf, writeDocument, type WorkflowDocument, type WorkflowRecord } from "./document";

/** Equal for documents with the same text, different for others (64 bits). Costs little after small changes. */
export function hashOf(document: WorkflowDocument): string {
  let hash = combined([document.around[0], document.around[1]].map(hashOfText));
  for (const record of recordsOf(document)) hash = mixed(hash, hashOfRecord(record));
  return shown(hash);
}

/**
 * The same for documents that mean the same to the server: where things lie on the canvas, and notes, do not count.
 * Answers of validate can be kept under it while nodes are dragged.
 */
export function meaningOf(document: WorkflowDocument): string {
  let hash = combined([]);
  for (const record of recordsOf(document)) {
    if (record.kind !== "note") hash = mixed(hash, meaningOfRecord(record));
  }
  return shown(hash);
}

function hashOfText(text: string): Hash {
  // FNV-1a, twice with different starts and multipliers.
  let [high, low] = [0x811c9dc5, 0x27d4eb2f];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    high = Math.imul(high ^ code, 0x01000193);
    low = Math.imul(low ^ code, 0x85ebca6b);
    low ^= low >>> 13;
  }
  return [high >>> 0, low >>> 0];
}

/** The size in bytes of the document, as it would be sent. */
export function bytesOf(document: WorkflowDocument): number {
  let bytes = 0;
  for (const character of writeDocument(document)) {
    const code = character.codePointAt(0)!;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
}

type Hash = readonly [number, number];

const recordHashes = new WeakMap<WorkflowRecord, Hash>();
const recordMeanings = new WeakMap<WorkflowRecord, Hash>();

function hashOfRecord(record: WorkflowRecord): Hash {
  let hash = recordHashes.get(record);
  if (hash === undefined) {
    hash = hashOfText(`${record.kind}\n${record.lead}\n${record.text}\n${record.trail}`);
    recordHashes.set(record, hash);
  }
  return hash;
}

function meaningOfRecord(record: WorkflowRecord): Hash {
  let hash = recordMeanings.get(record);
  if (hash === undefined) {
    hash = hashOfText(record.kind + meaningText(record));
    recordMeanings.set(record, hash);
  }
  return hash;
}

function meaningText(record: WorkflowRecord): string {
  if (kindOf(record.text) !== "object") return record.text;
  if (record.kind === "node") return removeMember(record.text, "position");
  return record.kind === "head" ? removeMember(record.text, "viewport") : record.text;
}

function combined(hashes: readonly Hash[]): Hash {
  return hashes.reduce<Hash>(mixed, [0x9e3779b9, 0x7f4a7c15]);
}

/** In order: the same records in another order have another hash. */
function mixed([high, low]: Hash, [nextHigh, nextLow]: Hash): Hash {
  const mixedHigh = Math.imul((high ^ nextHigh) + low, 0x01000193);
  const mixedLow = Math.imul((low ^ nextLow) + (mixedHigh >>> 7), 0x85ebca6b);
  return [(mixedHigh ^ (mixedHigh >>> 15)) >>> 0, (mixedLow ^ (mixedLow >>> 13)) >>> 0];
}

function shown([high, low]: Hash): string {
  return high.toString(16).padStart(8, "0") + low.toString(16).padStart(8, "0");
}
