import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { documentTexts, documents } from "./arbitraries";
import {
  EMPTY_DOCUMENT_TEXT,
  extended,
  freeID,
  hashOf,
  Keys,
  makeNode,
  meaningOf,
  readDocument,
  selected,
  stillThere,
  structureOf,
  containersOf,
  allMembers,
  framesOf,
  NO_STRUCTURE,
  notchesOf,
  nodeGeometry,
  toggled,
  whyNoNodeID,
  whyNoVariable,
  withField,
  withRecords,
  withText,
  writeDocument,
  type NodeRecord,
  type WorkflowDocument,
} from ".";

const REAL = readFileSync(new URL("../../../tests/corpus/real_graphs.jsonl", import.meta.url), "utf8").trim().split("\n");

describe("documents", () => {
  it("come back byte for byte, with 64-bit integers, 1.0, integer-like and doubled names and any whitespace", () => {
    fc.assert(
      fc.property(documentTexts, (text) => {
        expect(writeDocument(readDocument(text))).toBe(text);
      }),
    );
    const odd = '\n{"nodes":[ {"id":"a","type":"set","config":{"n":9007199254740993,"f":1.0,"2":0,"1":0,"1":1}} , \n null],"edges":[ ],"1":2,"0":1} ';
    expect(writeDocument(readDocument(odd))).toBe(odd);
  });

  it("with a list that is there twice have the records of the last one, as for the server", () => {
    const text = '{"nodes": [ {"id": "a"} ], "edges": [], "nodes": [ {"id": "b"} , {"id": "c"}]}';
    const document = readDocument(text);
    expect([...document.nodes.values()].map((node) => node.id)).toEqual(["b", "c"]);
    expect(writeDocument(document)).toBe(text);
  });

  it("come back equal for every graph that people drew", () => {
    for (const line of REAL) {
      const text = JSON.stringify((JSON.parse(line) as { workflow: unknown }).workflow, null, 2);
      expect(writeDocument(readDocument(text))).toBe(text);
    }
  });

  it("keep all other bytes when one field of one node changes", () => {
    const text = '{"nodes": [\n  {"id": "a", "type": "set",\t"config": {"n": 1.0}},\n  {"id": "b", "type": "set"}\n],"edges":[]}';
    const document = readDocument(text);
    const changed = withField(document.nodes.get("n1")!, "name", '"Bee"');
    expect(writeDocument(withRecords(document, new Map([["n1", changed]])))).toBe(text.replace('"b", "type": "set"', '"b", "type": "set", "name": "Bee"'));
  });

  it("read what the canvas needs, with the defaults of the server", () => {
    const document = readDocument(
      '{"title": "T", "nodes": [{"id": "a", "type": "set", "disabled": true, "joinMode": "any", "forEach": "{{ctx.input}}", "position": {"x": 1, "y": 2.5}}, {"type": 7}, null],' +
        ' "edges": [{"upstreamNodeID": "a", "downstreamNodeID": "b", "sourceHandle": null}], "notes": [{"text": "hi"}]}',
    );
    expect(document.head.title).toBe("T");
    expect([...document.nodes.values()].map(({ id, type, disabled, joinMode, mapped, position }) => [id, type, disabled, joinMode, mapped, position])).toEqual([
      ["a", "set", true, "any", true, { x: 1, y: 2.5 }],
      ["", "", false, "all", false, null],
      ["", "", false, "all", false, null],
    ]);
    expect(document.edges.get("e0")).toMatchObject({ source: "a", target: "b", handle: "default", id: null });
    expect(document.notes.get("o0")).toMatchObject({ content: "hi", position: { x: 0, y: 0 } });
  });

  it("without a list of nodes or edges have one as soon as it is needed", () => {
    const document = readDocument('{"title": "x"}');
    const node = makeNode("n0", { text: '{"id": "a", "type": "set"}', lead: "", trail: "", rank: 0 });
    expect(writeDocument(withRecords(document, new Map([["n0", node]])))).toBe('{"title": "x", "nodes": [{"id": "a", "type": "set"}]}');
  });

  it("of another shape are refused with the place", () => {
    expect(() => readDocument("[]")).toThrowError("a workflow is an object at line 1, column 1");
    expect(() => readDocument('{"nodes": {}, "edges": []}')).toThrowError("nodes must be a list at line 1, column 11");
  });

  it("keep notes of another tool as they are", () => {
    const text = '{"nodes": [], "edges": [], "notes": "remember"}';
    expect(writeDocument(readDocument(text))).toBe(text);
  });
});

describe("hashes", () => {
  it("are equal exactly for equal texts", () => {
    fc.assert(
      fc.property(documentTexts, documentTexts, (left, right) => {
        expect(hashOf(readDocument(left)) === hashOf(readDocument(right))).toBe(left === right);
      }),
    );
  });

  it("know the order of records", () => {
    const nodes = ['{"id": "a"}', '{"id": "b"}'];
    const hashes = [nodes, nodes.toReversed()].map((each) => hashOf(readDocument(`{"nodes": [${each.join(",")}], "edges": []}`)));
    expect(hashes[0]).not.toBe(hashes[1]);
  });

  it("of the meaning do not count places, and count everything else of a node", () => {
    fc.assert(
      fc.property(documents, (document) => {
        const node = [...document.nodes.values()][0];
        fc.pre(node !== undefined);
        const put = (changed: NodeRecord) => withRecords(document, new Map([[changed.key, changed]]));
        const placed = put(withField(node, "position", '{"x": 5, "y": 1}'));
        expect(meaningOf(put(withField(node, "position", '{"x": 9, "y": 2}')))).toBe(meaningOf(placed));
        expect(meaningOf(put(withField(node, "name", '"another"')))).not.toBe(meaningOf(document));
      }),
    );
  });
});

describe("ids", () => {
  it("are free, and such as the server takes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.array(fc.string()), (wanted, taken) => {
        const known = new Set([...taken, wanted]);
        const id = freeID(wanted, known);
        expect(known.has(id)).toBe(false);
        expect(whyNoNodeID(id)).toBeNull();
      }),
    );
    expect(freeID("set", new Set(["set", "set2"]))).toBe("set3");
    expect(freeID("set2", new Set(["set", "set2"]))).toBe("set3");
  });

  it("and variables that the server refuses are refused with a reason", () => {
    expect(whyNoNodeID("")).not.toBeNull();
    expect(whyNoNodeID("a/b")).not.toBeNull();
    expect(whyNoNodeID("a".repeat(129))).not.toBeNull();
    expect(whyNoVariable("orders_2")).toBeNull();
    for (const name of ["input", "2x", "a__b", "a-b", ""]) expect(whyNoVariable(name)).not.toBeNull();
  });

  it("of records are never given twice", () => {
    const keys = new Keys(readDocument('{"nodes": [{}, {}], "edges": [{}]}'));
    expect([keys.node(), keys.edge(), keys.note()]).toEqual(["n2", "e3", "o4"]);
  });
});

describe("selection", () => {
  const chain = graph(["a", "b", "c", "d"], [["a", "b"], ["b", "c"], ["c", "b"], ["c", "d"]]);

  it("goes up and down the edges, also where they lead back", () => {
    expect([...extended(chain, selected("n1"), "downstream").keys].sort()).toEqual(["e1", "e2", "e3", "n1", "n2", "n3"]);
    expect([...extended(chain, selected("n1"), "upstream").keys].sort()).toEqual(["e0", "e1", "e2", "n0", "n1", "n2"]);
  });

  it("forgets what is removed, and keeps a lead", () => {
    const both = toggled(selected("n0"), "n1");
    expect(both.lead).toBe("n1");
    expect(stillThere(both, chain)).toBe(both);
    expect(stillThere(both, withRecords(chain, new Map([["n1", null]])))).toEqual(selected("n0"));
    expect(toggled(both, "n1")).toEqual(selected("n0"));
  });
});

describe("containers", () => {
  // each { x, inner { y } }, then a region ask → look → ask inside of each.
  const ids = ["start", "each", "x", "inner", "y", "ask", "look", "end"];
  const document = graph(ids, [["start", "each"], ["each", "x"], ["x", "inner"], ["inner", "y"], ["x", "ask"], ["ask", "look"], ["look", "ask"], ["each", "end"]]);
  const structure = structureOf(document, {
    homes: { x: "each", inner: "each", y: "inner", ask: "each", look: "each" },
    regions: [{ header: "ask", members: ["ask", "look"], again: ["/edges/6"], exits: [] }],
    returning: [],
    unreachable: ["end"],
    neverLive: ["/edges/7"],
  });
  const containers = containersOf(document, structure, (key) => document.nodes.get(key)!.id === "each");

  it("are the loops and regions that the server found, as a tree", () => {
    const shape = [...containers.byID.values()].map(({ id, parent, members, depth }) => [id, parent, members.map((key) => document.nodes.get(key)!.id), depth]);
    expect(shape).toEqual([
      ["root", null, ["start", "each", "end"], 0],
      ["loop:n1", "root", ["x", "inner"], 1],
      ["loop:n3", "loop:n1", ["y"], 2],
      ["region:n5", "loop:n1", ["ask", "look"], 2],
    ]);
    expect(structure.again).toEqual(new Set(["e6"]));
    expect(structure.neverLive).toEqual(new Set(["e7"]));
    expect(structure.unreachable).toEqual(new Set(["n7"]));
    expect(allMembers(containers, "loop:n1").length).toBe(6);
  });

  it("hold a dropped node where it was put, until the server has judged it", () => {
    const added = makeNode("n9", { text: '{"id": "new"}', lead: "", trail: "", rank: 9 });
    const later = withRecords(document, new Map([["n9", added]]));
    const dropped = new Map([["n9", "loop:n3"] as const, ["n2", "root"] as const]);
    const isLoop = () => false;
    expect(containersOf(later, structure, isLoop, dropped).of.get("n9")).toBe("loop:n3");
    expect(containersOf(later, structure, isLoop, dropped).of.get("n2")).toBe("loop:n1");
    expect(containersOf(later, structure, isLoop).of.get("n9")).toBe("root");
  });

  it("survive an answer that makes a circle of them, and loops that were removed since", () => {
    const circle = structureOf(document, { homes: { each: "inner", inner: "each", x: "each" }, regions: [], returning: [], unreachable: [], neverLive: [] });
    expect(containersOf(document, circle, () => false).byID.size).toBe(3);
    const without = withRecords(document, new Map([["n1", null]]));
    expect(containersOf(without, structure, () => false).of.get("n2")).toBe("root");
  });

  it("keep the body of a loop inside of a region in the loop, also where the region lists it", () => {
    const region = graph(["ask", "each", "x"], []);
    const regions = [{ header: "ask", members: ["ask", "each", "x"], again: [], exits: [] }];
    const nested = containersOf(region, structureOf(region, { homes: { x: "each" }, regions, returning: [], unreachable: [], neverLive: [] }), () => false);
    expect(nested.of.get("n2")).toBe("loop:n1");
    expect(nested.byID.get("loop:n1")?.parent).toBe("region:n0");
  });

  it("with regions of one header inside of another nest by size", () => {
    const flat = graph(["a", "b", "c"], []);
    const regions = [
      { header: "a", members: ["a", "b", "c"], again: [], exits: [] },
      { header: "b", members: ["b", "c"], again: [], exits: [] },
    ];
    const nested = containersOf(flat, structureOf(flat, { homes: {}, regions, returning: [], unreachable: [], neverLive: [] }), () => false);
    expect(nested.byID.get("region:n1")?.parent).toBe("region:n0");
    expect(nested.of.get("n0")).toBe("region:n0");
    expect(nested.of.get("n2")).toBe("region:n1");
  });

  it("are drawn around all that is in them, inner frames included", () => {
    let placed = document;
    let x = 0;
    for (const node of document.nodes.values()) {
      placed = withRecords(placed, new Map([[node.key, withField(node, "position", `{"x": ${(x += 300)}, "y": 0}`)]]));
    }
    const exits = () => ({ handles: ["default"], hasEntry: true });
    const frames = framesOf(placed, containers, exits);
    expect(frames.map((frame) => frame.id).sort()).toEqual(["loop:n1", "loop:n3", "region:n5"]);
    const [outer, ...inner] = frames;
    for (const frame of inner) {
      expect(frame.x).toBeGreaterThan(outer!.x);
      expect(frame.y).toBeGreaterThan(outer!.y);
      expect(frame.x + frame.width).toBeLessThan(outer!.x + outer!.width);
      expect(frame.y + frame.height).toBeLessThan(outer!.y + outer!.height);
    }
    expect(framesOf(document, containersOf(document, NO_STRUCTURE, () => false), exits)).toEqual([]);
  });
});

describe("notches", () => {
  it("are where edges leave a region, each at the height of its exit and none over another", () => {
    const edges = [["start", "ask"], ["ask", "look"], ["look", "ask"], ["ask", "end"], ["look", "end"], ["look", "log"]] as const;
    const drawn = graph(["start", "ask", "look", "end", "log"], edges);
    const placed = withRecords(drawn, new Map([...drawn.nodes.values()].map((node, index) => [node.key, withField(node, "position", `{"x": ${index * 300}, "y": 0}`)])));
    const judged = structureOf(placed, {
      homes: {},
      regions: [{ header: "ask", members: ["ask", "look"], again: ["/edges/2"], exits: ["/edges/3", "/edges/4", "/edges/5"] }],
      returning: [],
      unreachable: [],
      neverLive: [],
    });
    const exits = () => ({ handles: ["default"], hasEntry: true });
    const [frame] = framesOf(placed, containersOf(placed, judged, () => false), exits);
    const notches = notchesOf(placed, judged, [frame!], exits);
    expect(notches.map(({ edge, x, y }) => [edge, x - frame!.x - frame!.width, y])).toEqual([
      ["e3", 0, 28],
      ["e4", 0, 52],
      ["e5", 0, 76],
    ]);
    expect(notchesOf(placed, NO_STRUCTURE, [frame!], exits)).toEqual([]);
  });
});

describe("geometry", () => {
  it("has a place for every handle, the error exit at the bottom", () => {
    const { width, height, handles } = nodeGeometry({ handles: ["yes", "else", "error"], hasEntry: true });
    expect(handles.map(({ id, type, position }) => [id, type, position])).toEqual([
      [null, "target", "left"],
      ["yes", "source", "right"],
      ["else", "source", "right"],
      ["error", "source", "bottom"],
    ]);
    for (const handle of handles) {
      expect(handle.x + handle.width / 2).toBeLessThanOrEqual(width);
      expect(handle.y + handle.height / 2).toBeLessThanOrEqual(height);
    }
  });
});

it("a new document is one that the server can read", () => {
  expect(JSON.parse(EMPTY_DOCUMENT_TEXT)).toEqual({ title: "", nodes: [], edges: [] });
  expect(withText(readDocument(EMPTY_DOCUMENT_TEXT).head, '{"title": "b"}').title).toBe("b");
});

function graph(ids: readonly string[], edges: readonly (readonly [string, string])[]): WorkflowDocument {
  return readDocument(
    JSON.stringify({
      nodes: ids.map((id) => ({ id, type: "set" })),
      edges: edges.map(([source, target]) => ({ upstreamNodeID: source, downstreamNodeID: target })),
    }),
  );
}
