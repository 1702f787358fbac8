import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { documents } from "./arbitraries";
import {
  diffDocuments,
  differences,
  identitiesOf,
  Keys,
  makeNode,
  merge3,
  readDocument,
  rekeyed,
  withField,
  withRecords,
  writeDocument,
  type RecordKey,
  type WorkflowDocument,
  type WorkflowRecord,
} from ".";
import { compact } from "../json";

/** A document and a few changes of it: fields set, records removed, nodes added. */
const edits = fc.array(fc.tuple(fc.constantFrom("config", "move", "remove", "add", "title"), fc.nat(), fc.nat({ max: 3 })), { maxLength: 4 });

function edited(document: WorkflowDocument, changes: readonly [string, number, number][], letter: string): WorkflowDocument {
  return changes.reduce((result, [what, which, value]) => {
    const put = (record: WorkflowRecord) => withRecords(result, new Map([[record.key as RecordKey, record]]));
    const nodes = [...result.nodes.values()];
    const node = nodes[which % (nodes.length || 1)];
    if (what === "title") return put(withField(result.head, "title", `"${letter}${value}"`));
    if (what === "add") {
      const text = `{"id": "${letter}${value}", "type": "set"}`;
      if (nodes.some((each) => each.id === `${letter}${value}`)) return result;
      return put(makeNode(new Keys(result).node(), { text, lead: "", trail: "", rank: 100 + value }));
    }
    if (node === undefined) return result;
    if (what === "config") return put(withField(node, "config", `{"${letter}": ${value}}`));
    if (what === "move") return put(withField(node, "position", `{"x": ${value}, "y": ${letter.length}}`));
    const edges = [...result.edges.values()].filter((edge) => edge.source === node.id || edge.target === node.id);
    return withRecords(result, new Map([node, ...edges].map((record) => [record.key, null])));
  }, document);
}

const threeWays = fc.tuple(documents, edits, edits).map(([base, mine, theirs]) => ({
  base,
  mine: edited(base, mine, "m"),
  theirs: edited(base, theirs, "t"),
}));

/** What a document says, whatever its order and layout. */
function said(document: WorkflowDocument): ReadonlyMap<string, string> {
  const records = [...identitiesOf(document)].map(([identity, record]): [string, string] => [identity, canonical(record)]);
  return new Map(records.sort(([left], [right]) => (left < right ? -1 : 1)));
}

function canonical(record: WorkflowRecord): string {
  if (record.kind === "head") return compact(record.text);
  // Fields may stand in another order where one side's place was put into the other side's node.
  const fields = Object.entries(JSON.parse(record.text) as object).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  return fields.sort().join("\n");
}

describe("a three-way merge", () => {
  it("with one side unchanged is the other side, byte for byte", () => {
    fc.assert(
      fc.property(threeWays, ({ base, mine }) => {
        const reread = (document: WorkflowDocument) => readDocument(writeDocument(document));
        expect(writeDocument(merge3(base, mine, reread(base)).document)).toBe(writeDocument(mine));
        expect(writeDocument(merge3(base, base, reread(mine)).document)).toBe(writeDocument(mine));
        expect(merge3(base, base, mine).conflicts).toEqual([]);
      }),
    );
  });

  it("of the same changes on both sides is these, without a conflict", () => {
    fc.assert(
      fc.property(threeWays, ({ base, mine }) => {
        const merge = merge3(base, mine, readDocument(writeDocument(mine)));
        expect(merge.conflicts).toEqual([]);
        expect(writeDocument(merge.document)).toBe(writeDocument(mine));
      }),
    );
  });

  it("says the same whoever is mine, where there is no conflict, and conflicts in the same places", () => {
    fc.assert(
      fc.property(threeWays, ({ base, mine, theirs }) => {
        const [there, back] = [merge3(base, mine, theirs), merge3(base, theirs, mine)];
        expect(there.conflicts.map((conflict) => conflict.id).sort()).toEqual(back.conflicts.map((conflict) => conflict.id).sort());
        if (there.conflicts.length === 0) expect(said(there.document)).toEqual(said(back.document));
      }),
      { numRuns: 200 },
    );
  });

  it("holds every change that one side alone made, and no other", () => {
    fc.assert(
      fc.property(threeWays, ({ base, mine, theirs }) => {
        const merge = merge3(base, mine, theirs);
        fc.pre(merge.conflicts.length === 0);
        const [before, after] = [said(base), said(merge.document)];
        const [ours, others] = [said(mine), said(theirs)];
        for (const name of new Set([...before.keys(), ...ours.keys(), ...others.keys(), ...after.keys()])) {
          if (name === "head" || name.startsWith("node ")) continue; // merged field by field, below
          const [b, m, t] = [before.get(name), ours.get(name), others.get(name)];
          expect(after.get(name)).toBe(m === b ? t : m);
        }
        for (const { identity, fields } of diffDocuments(base, mine)) {
          for (const { pointer, after: value } of fields) {
            if (pointer.startsWith("/position") && !others.has(identity)) continue; // moved here, removed there
            const now = diffDocuments(base, merge.document).find((change) => change.identity === identity);
            expect(now?.fields.find((field) => field.pointer === pointer)?.after, `${identity} ${pointer}`).toBe(value);
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  it("loses nothing: mine stays under a conflict, theirs comes by choice, both as two nodes", () => {
    const base = readDocument('{"title": "a", "nodes": [{"id": "x", "type": "set", "position": {"x": 0, "y": 0}}], "edges": []}');
    const mine = edited(base, [["config", 0, 1]], "m");
    const theirs = edited(base, [["config", 0, 2], ["move", 0, 3]], "t");
    const merge = merge3(base, mine, theirs);
    expect(merge.conflicts).toMatchObject([{ about: "content", identity: "node x", choices: ["mine", "theirs", "both"] }]);
    const { id } = merge.conflicts[0]!;
    const configs = (document: WorkflowDocument) => [...document.nodes.values()].map((node) => [node.id, node.config]);
    expect(configs(merge.document)).toEqual([["x", '{"m": 1}']]);
    expect(merge.document.nodes.get("n0")!.position).toEqual({ x: 3, y: 1 });
    expect(configs(merge.resolve(new Map([[id, "theirs"]])))).toEqual([["x", '{"t": 2}']]);
    expect(configs(merge.resolve(new Map([[id, "both"]])))).toEqual([["x", '{"m": 1}'], ["x2", '{"t": 2}']]);
  });

  it("never leaves an edge to a node that the other side removed", () => {
    const base = readDocument('{"nodes": [{"id": "x"}, {"id": "y"}], "edges": []}');
    const removed = edited(base, [["remove", 1, 0]], "m");
    const connected = readDocument('{"nodes": [{"id": "x"}, {"id": "y"}], "edges": [{"upstreamNodeID": "x", "downstreamNodeID": "y"}]}');
    const merge = merge3(base, removed, connected);
    expect(merge.conflicts).toMatchObject([{ about: "connection", identity: "node y", mine: null }]);
    expect(merge.document.edges.size).toBe(0);
    const kept = merge.resolve(new Map([[merge.conflicts[0]!.id, "theirs"]]));
    expect([kept.nodes.size, kept.edges.size]).toEqual([2, 1]);
    const other = merge3(base, connected, removed);
    expect([other.document.nodes.size, other.document.edges.size]).toEqual([2, 1]);
    expect(other.resolve(new Map([[other.conflicts[0]!.id, "theirs"]])).edges.size).toBe(0);
  });
});

describe("differences", () => {
  it("are none between a document and itself, and each is told with its fields", () => {
    fc.assert(
      fc.property(documents, (document) => {
        expect(diffDocuments(document, readDocument(writeDocument(document)))).toEqual([]);
      }),
    );
    const base = readDocument('{"title": "a", "nodes": [{"id": "x", "config": {"n": 1, "l": [1, 2]}, "position": {"x": 0, "y": 0}}, {"id": "y"}], "edges": []}');
    const other = readDocument('{"edges": [], "title": "b", "nodes": [{"id": "x", "position": {"x": 8, "y": 0}, "config": {"l": [1, 3], "n": 1.0}}, {"id": "z"}]}');
    expect(diffDocuments(base, other).map(({ identity, change, fields }) => [identity, change, fields.map((field) => field.pointer)])).toEqual([
      ["head", "changed", ["/title"]],
      ["node x", "changed", ["/config/n", "/config/l/1", "/position/x"]],
      ["node z", "added", [""]],
      ["node y", "removed", [""]],
    ]);
    const moved = edited(base, [["move", 0, 2]], "m");
    expect(diffDocuments(base, moved).map(({ change }) => change)).toEqual(["moved"]);
  });

  it("lead from one document to the other, whose records keep their keys", () => {
    fc.assert(
      fc.property(documents, documents, (from, to) => {
        const target = rekeyed(to, from);
        expect(writeDocument({ ...withRecords(from, differences(from, target)), around: to.around })).toBe(writeDocument(to));
      }),
    );
  });
});
