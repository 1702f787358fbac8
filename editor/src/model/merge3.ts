/**
 * Three-way merge of documents, record by record.
 *
 * What one side alone changed is taken; what both changed in the same way is no conflict; of everything else mine
 * stays until somebody chooses. A node's place on the canvas is merged apart from the rest of it, and so is each field
 * of the head: a node may be moved here and configured there, and one that is removed need not be moved. A node that
 * one side removed and the other connected is a conflict.
 *
 * `merge3(base, mine, base)` is mine, `merge3(base, base, theirs)` is theirs, `merge3(base, same, same)` is that same.
 */

import { entriesOf, isSameJson, memberText, removeMember, setMember, textOf } from "../json";
import { contentOf, diffFields, type FieldChange } from "./diff";
import {
  type EdgeRecord,
  type HeadRecord,
  makeEdge,
  makeNode,
  makeNote,
  type NodeRecord,
  type RecordKey,
  withField,
  withRecords,
  withText,
  type WorkflowDocument,
  type WorkflowRecord,
} from "./document";
import { GAP_DOWN } from "./geometry";
import { hashOf } from "./hash";
import { identitiesOf, rekeyed } from "./identity";
import { freeID, indexOf, Keys, nodeIDsOf } from "./ids";

export type Choice = "mine" | "theirs" | "both";

export interface Conflict {
  /** Unique among the conflicts of a merge. */
  readonly id: string;
  /** `content`: of a record; `place`: of a node on the canvas; `field`: of the head; `connection`: an edge to a removed node. */
  readonly about: "content" | "place" | "field" | "connection";
  readonly kind: WorkflowRecord["kind"];
  readonly identity: string;
  /** Of a `field` its name, of a `connection` what it connects. */
  readonly name: string;
  /** Source texts; null where that side has none. */
  readonly base: string | null;
  readonly mine: string | null;
  readonly theirs: string | null;
  /** From mine to theirs. */
  readonly fields: readonly FieldChange[];
  readonly choices: readonly Choice[];
}

export interface Merge {
  /** The merge with mine wherever there is a conflict, with the keys of mine. */
  readonly document: WorkflowDocument;
  readonly conflicts: readonly Conflict[];
  /** The merge with these choices, by the conflict's id; where none is made, mine stays. */
  resolve(choices: ReadonlyMap<string, Choice>): WorkflowDocument;
}

export function merge3(base: WorkflowDocument, mine: WorkflowDocument, theirs: WorkflowDocument): Merge {
  if (hashOf(mine) === hashOf(theirs) || hashOf(base) === hashOf(theirs)) return clean(mine);
  if (hashOf(base) === hashOf(mine)) return clean(rekeyed(theirs, mine));
  return {
    ...merged(base, mine, theirs, new Map()),
    resolve: (choices) => merged(base, mine, theirs, choices).document,
  };
}

function clean(document: WorkflowDocument): Merge {
  return { document, conflicts: [], resolve: () => document };
}

type Side = "mine" | "theirs";

function merged(base: WorkflowDocument, mine: WorkflowDocument, theirs: WorkflowDocument, choices: ReadonlyMap<string, Choice>) {
  const [bases, ours, others] = [identitiesOf(base), identitiesOf(mine), identitiesOf(theirs)];
  const keys = new Keys(mine);
  const changes = new Map<RecordKey, WorkflowRecord | null>();
  const conflicts: Conflict[] = [];
  const takenIDs = new Set([...nodeIDsOf(mine), ...nodeIDsOf(theirs)]);
  let rank = [...ours.values()].reduce((last, record) => Math.max(last, record.rank), 0);

  const conflict = (found: Omit<Conflict, "id" | "name" | "fields">, name = ""): Choice => {
    const id = `${found.about} ${found.identity} ${name}`.trimEnd();
    conflicts.push({ ...found, id, name, fields: diffFields(found.mine, found.theirs) });
    return choices.get(id) ?? "mine";
  };
  const adopt = (record: WorkflowRecord, text = record.text) => {
    rank += 1;
    const source = { text, lead: record.lead, trail: record.trail, rank };
    const added =
      record.kind === "node" ? makeNode(keys.node(), source) : record.kind === "edge" ? makeEdge(keys.edge(), source) : makeNote(keys.note(), source);
    changes.set(added.key, added);
  };

  for (const identity of new Set([...ours.keys(), ...others.keys()])) {
    const [old, our, their] = [bases.get(identity) ?? null, ours.get(identity) ?? null, others.get(identity) ?? null];
    if (our?.kind === "head") {
      changes.set("head", mergedHead(old as HeadRecord, our, their as HeadRecord, conflict));
      continue;
    }
    const record = (our ?? their)!;
    const [b, m, t] = [old, our, their].map((each) => each && contentOf(each));
    let side = pick(b ?? null, m ?? null, t ?? null);
    if (side === null) {
      const canBeBoth = our !== null && their !== null;
      const found = { kind: record.kind, identity, base: old?.text ?? null, mine: our?.text ?? null, theirs: their?.text ?? null };
      const choice = conflict({ ...found, about: "content", choices: canBeBoth ? ["mine", "theirs", "both"] : ["mine", "theirs"] });
      if (choice === "both" && their !== null) adopt(their, copyText(their, takenIDs));
      side = choice === "theirs" ? "theirs" : "mine";
    }
    if (our === null) {
      if (side === "theirs" && their !== null) adopt(their);
    } else if (their === null) {
      if (side === "theirs") changes.set(our.key, null);
    } else if (our.kind === "node" && their.kind === "node") {
      const place = mergedPlace(old, our, their, identity, conflict);
      const taken = side === "mine" ? our : withText(our, their.text);
      const node = place === memberText(taken.text, "position") ? taken : withField(taken, "position", place);
      if (node !== our) changes.set(our.key, node);
    } else if (side === "theirs") {
      changes.set(our.key, withText(our, their.text));
    }
  }

  // Edges whose node one side removed: the other side must have added or kept them on purpose.
  let document = withRecords(mine, changes);
  for (const edge of document.edges.values()) {
    for (const id of new Set([edge.source, edge.target])) {
      const identity = `node ${id}`;
      const [our, their] = [ours.get(identity), others.get(identity)];
      const removed: Side | null = our === undefined && their !== undefined ? "mine" : their === undefined && our !== undefined ? "theirs" : null;
      if (indexOf(document).has(id) || removed === null || !bases.has(identity)) continue;
      const node = (our ?? their) as NodeRecord;
      const texts = { base: bases.get(identity)!.text, mine: our?.text ?? null, theirs: their?.text ?? null };
      const choice = conflict({ about: "connection", kind: "node", identity, ...texts, choices: ["mine", "theirs"] }, JSON.stringify([edge.source, edge.handle, edge.target]));
      if (choice !== removed) {
        // The side that connected the node keeps it.
        if (our === undefined) adopt(node);
        else changes.set(node.key, node);
      } else {
        changes.set(edge.key, null);
      }
      document = withRecords(mine, changes);
    }
  }
  return { document, conflicts };
}

type Report = (found: Omit<Conflict, "id" | "name" | "fields">, name?: string) => Choice;

function mergedHead(base: HeadRecord, mine: HeadRecord, theirs: HeadRecord, conflict: Report): HeadRecord {
  const lists = new Set(["nodes", "edges"]);
  const names = [...new Set([...entriesOf(mine.text), ...entriesOf(theirs.text)].map(({ key }) => String(key)))];
  let text = mine.text;
  for (const name of names) {
    const [b, m, t] = [base, mine, theirs].map((head) => memberText(head.text, name) ?? null);
    if (lists.has(name) || (name === "notes" && [m, t].some((each) => each?.startsWith("[")))) continue;
    let side = pick(b ?? null, m ?? null, t ?? null);
    if (side === null) {
      const found = { base: b ?? null, mine: m ?? null, theirs: t ?? null };
      const choice = conflict({ about: "field", kind: "head", identity: "head", ...found, choices: ["mine", "theirs"] }, name);
      side = choice === "theirs" ? "theirs" : "mine";
    }
    if (side === "theirs") text = t == null ? removeMember(text, name) : setMember(text, name, t);
  }
  return text === mine.text ? mine : withText(mine, text);
}

function mergedPlace(base: WorkflowRecord | null, mine: NodeRecord, theirs: NodeRecord, identity: string, conflict: Report): string | undefined {
  const [b, m, t] = [base, mine, theirs].map((node) => (node === null ? null : (memberText(node.text, "position") ?? null)));
  let side = pick(b ?? null, m ?? null, t ?? null);
  if (side === null) {
    const found = { base: b ?? null, mine: m ?? null, theirs: t ?? null };
    const choice = conflict({ about: "place", kind: "node", identity, ...found, choices: ["mine", "theirs"] });
    side = choice === "theirs" ? "theirs" : "mine";
  }
  return (side === "theirs" ? t : m) ?? undefined;
}

/** Whose value to take; null if both changed it, and differently. */
function pick(base: string | null, mine: string | null, theirs: string | null): Side | null {
  if (isSame(mine, theirs) || isSame(base, theirs)) return "mine";
  return isSame(base, mine) ? "theirs" : null;
}

function isSame(left: string | null, right: string | null): boolean {
  return left === null || right === null ? left === right : isSameJson(left, right);
}

/** The text of a record that is kept beside another one of its id: a node under a free id and a little below. */
function copyText(record: WorkflowRecord, takenIDs: Set<string>): string {
  if (record.kind === "edge") return removeMember((record as EdgeRecord).text, "id");
  if (record.kind === "note") return removeMember(record.text, "id");
  const node = record as NodeRecord;
  const id = freeID(node.id, takenIDs);
  takenIDs.add(id);
  const renamed = setMember(node.text, "id", JSON.stringify(id));
  if (node.position === null) return renamed;
  return setMember(renamed, "position", textOf({ x: node.position.x, y: node.position.y + 2 * GAP_DOWN }));
}
