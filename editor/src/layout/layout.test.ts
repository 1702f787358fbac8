import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { LayoutCancelled, LayoutClient, layoutGraphOf, type LayoutGraph, type LayoutRequest, type LayoutWorker, type Places } from ".";
import { layout } from "./layout";
import { EditStore, setTitle } from "../edit";
import {
  containersOf,
  framesAround,
  GRID,
  nodeSize,
  NO_STRUCTURE,
  overlaps,
  readDocument,
  structureOf,
  withLayout,
  writeDocument,
  type Containers,
  type Exits,
  type NodeKey,
  type NodeRecord,
  type Rect,
  type Structure,
  type WorkflowDocument,
} from "../model";

const exitsOf = (node: NodeRecord): Exits => {
  if (node.type === "condition") return { handles: ["yes", "no", "else", "error"], hasEntry: true };
  if (node.type === "loop") return { handles: ["loop", "done", "error"], hasEntry: true };
  return { handles: ["default", "error"], hasEntry: node.type !== "start" };
};

interface Drawn {
  document: WorkflowDocument;
  structure: Structure;
  containers: Containers;
  graph: LayoutGraph;
}

/** A document with containers: `homes` of nodes by number, edges between numbers; loops are those that somebody lives in. */
function drawn(types: readonly string[], edges: readonly (readonly [number, number])[], homes: ReadonlyMap<number, number>, regions: readonly number[][] = []): Drawn {
  const id = (index: number) => `node${index}`;
  const text = JSON.stringify({
    nodes: types.map((type, index) => ({ id: id(index), type })),
    edges: edges.map(([source, target]) => ({ upstreamNodeID: id(source), downstreamNodeID: id(target) })),
  });
  const document = readDocument(text);
  const structure = structureOf(document, {
    homes: Object.fromEntries([...homes].map(([node, loop]) => [id(node), id(loop)])),
    regions: regions.map((members) => ({ header: id(members[0]!), members: members.map(id), again: [], exits: [] })),
    returning: edges.flatMap(([source, target], index) => (homes.get(source) === target ? [`/edges/${index}`] : [])),
    unreachable: [],
    neverLive: [],
  });
  const containers = containersOf(document, structure, (key) => document.nodes.get(key)!.type === "loop");
  return { document, structure, containers, graph: layoutGraphOf(document, containers, structure, exitsOf) };
}

/** Any graph in any tree of loops, cycles and edges across borders included. */
const drawings: fc.Arbitrary<Drawn> = fc
  .array(fc.record({ type: fc.constantFrom("set", "condition", "loop"), home: fc.nat(), leadsTo: fc.array(fc.nat(), { maxLength: 3 }) }), { minLength: 1, maxLength: 25 })
  .map((nodes) => {
    const homes = new Map<number, number>();
    nodes.forEach(({ home }, index) => {
      const candidate = home % (index + 1);
      if (candidate < index && nodes[candidate]!.type === "loop") homes.set(index, candidate);
    });
    const edges = nodes.flatMap(({ leadsTo }, index) => leadsTo.map((target) => [index, target % nodes.length] as const));
    return drawn(nodes.map(({ type }) => type), edges, homes);
  });

function rectsOf({ document }: Drawn, places: Places): Map<NodeKey, Rect> {
  return new Map([...document.nodes.values()].map((node) => [node.key, { ...places.get(node.key)!, ...nodeSize(exitsOf(node)) }]));
}

function isInside(inner: Rect, outer: Rect): boolean {
  return inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width && inner.y + inner.height <= outer.y + outer.height;
}

/** Every node on the grid, no two things over one another, members and nothing else inside of their frames. */
function expectGood(drawing: Drawn, places: Places): void {
  expect(places.size).toBe(drawing.document.nodes.size);
  const rects = rectsOf(drawing, places);
  for (const { x, y } of rects.values()) expect([Math.abs(x % GRID), Math.abs(y % GRID)]).toEqual([0, 0]);
  const all = [...rects];
  all.forEach(([key, rect], index) => {
    for (const [other, otherRect] of all.slice(index + 1)) expect(overlaps(rect, otherRect), `${key} over ${other}`).toBe(false);
  });
  const frames = framesAround(rects, drawing.containers);
  const memberships = new Map(frames.map((frame) => [frame.id, new Set<string>()]));
  for (const frame of frames) {
    for (const key of frame.kind === "loop" ? [frame.header, ...drawing.containers.byID.get(frame.id)!.members] : drawing.containers.byID.get(frame.id)!.members) {
      for (let at: string | null = frame.id; at !== null && at !== "root"; at = drawing.containers.byID.get(at as never)!.parent) memberships.get(at as never)?.add(key);
    }
  }
  for (const frame of frames) {
    for (const [key, rect] of rects) {
      if (memberships.get(frame.id)!.has(key)) expect(isInside(rect, frame), `${key} in ${frame.id}`).toBe(true);
      else expect(overlaps(rect, frame), `${key} over ${frame.id}`).toBe(false);
    }
    for (const other of frames) {
      if (other === frame) continue;
      const [outer, inner] = frame.depth < other.depth ? [frame, other] : [other, frame];
      const nested = isInside(inner, outer);
      expect(nested || !overlaps(inner, outer), `${inner.id} and ${outer.id}`).toBe(true);
    }
  }
}

describe("a layout", () => {
  it("puts nothing over anything, and members inside of their frames", () => {
    fc.assert(
      fc.property(drawings, (drawing) => {
        expectGood(drawing, layout(drawing.graph));
      }),
      { numRuns: 100 },
    );
  });

  it("is the same every time", () => {
    fc.assert(
      fc.property(drawings, (drawing) => {
        const first = layout(drawing.graph);
        layout(drawn(["set", "set"], [[0, 1]], new Map()).graph);
        expect([...layout(structuredClone(drawing.graph))]).toEqual([...first]);
      }),
      { numRuns: 50 },
    );
  });

  it("goes from left to right, the loop node first in its frame, and what follows behind the frame", () => {
    // start → each { a → b → each } → end
    const drawing = drawn(["start", "loop", "set", "set", "end"], [[0, 1], [1, 2], [2, 3], [3, 1], [1, 4]], new Map([[2, 1], [3, 1]]));
    const places = layout(drawing.graph);
    expectGood(drawing, places);
    const x = ["n0", "n1", "n2", "n3", "n4"].map((key) => places.get(key as NodeKey)!.x);
    expect(x).toEqual(x.toSorted((left, right) => left - right));
    const [frame] = framesAround(rectsOf(drawing, places), drawing.containers);
    expect(x[4]).toBeGreaterThan(frame!.x + frame!.width);
  });

  it("puts the loop node left of members that nothing leads to", () => {
    const drawing = drawn(["loop", "set", "set"], [[1, 2]], new Map([[1, 0], [2, 0]]));
    const places = layout(drawing.graph);
    expect(places.get("n0")!.x).toBeLessThan(places.get("n1")!.x);
  });

  it("draws regions as frames around their members, without edges that lead again", () => {
    const text = '{"nodes": [{"id": "a"}, {"id": "ask"}, {"id": "look"}, {"id": "end"}], "edges": [{"upstreamNodeID": "a", "downstreamNodeID": "ask"}, {"upstreamNodeID": "ask", "downstreamNodeID": "look"}, {"upstreamNodeID": "look", "downstreamNodeID": "ask"}, {"upstreamNodeID": "look", "downstreamNodeID": "end"}]}';
    const document = readDocument(text);
    const structure = structureOf(document, { homes: {}, regions: [{ header: "ask", members: ["ask", "look"], again: ["/edges/2"], exits: ["/edges/3"] }], returning: [], unreachable: [], neverLive: [] });
    const containers = containersOf(document, structure, () => false);
    const graph = layoutGraphOf(document, containers, structure, exitsOf);
    expect(graph.edges).toHaveLength(3);
    const places = layout(graph);
    expectGood({ document, structure, containers, graph }, places);
    expect(places.get("n1")!.x).toBeLessThan(places.get("n2")!.x);
  });

  it("of a selection leaves its upper left corner where it is", () => {
    const drawing = drawn(["set", "loop", "set", "set"], [[0, 1], [1, 2], [0, 3]], new Map([[2, 1]]));
    const document = withLayout(drawing.document, new Map([["n0", { x: 800, y: 80 }], ["n1", { x: 400, y: 160 }], ["n2", { x: 0, y: 0 }], ["n3", { x: 8, y: 8 }]]));
    const only = new Set<NodeKey>(["n0", "n1", "n2"]);
    const places = layout(layoutGraphOf(document, drawing.containers, drawing.structure, exitsOf, only));
    expect([...places.keys()].sort()).toEqual(["n0", "n1", "n2"]);
    expect(Math.min(...[...places.values()].map(({ x }) => x))).toBe(0);
    // The loop alone is no frame without its body: it lies among the selected.
    const loose = layout(layoutGraphOf(document, drawing.containers, drawing.structure, exitsOf, new Set<NodeKey>(["n0", "n1"])));
    const [set, loop] = [loose.get("n0")!, loose.get("n1")!];
    expect([set.x, Math.min(set.y, loop.y), loop.x > 400]).toEqual([400, 80, true]);
  });

  it("of all graphs that people drew puts nothing over anything, and none of it is in what is saved", () => {
    const lines = readFileSync(new URL("../../../tests/corpus/real_graphs.jsonl", import.meta.url), "utf8").trim().split("\n");
    expect(lines.length).toBe(367);
    for (const line of lines) {
      const { workflow } = JSON.parse(line) as { workflow: object };
      const document = readDocument(JSON.stringify({ ...workflow, title: "Before" }));
      const containers = containersOf(document, NO_STRUCTURE, (key) => document.nodes.get(key)!.type === "loop");
      const graph = layoutGraphOf(document, containers, NO_STRUCTURE, exitsOf);
      const places = layout(graph);
      expectGood({ document, structure: NO_STRUCTURE, containers, graph }, places);
      // As the editor does it: laid out at opening, edited, saved.
      const store = new EditStore(document, () => 0);
      store.layOut(withLayout(document, places));
      setTitle(store, "After");
      expect(writeDocument(store.document)).toBe(JSON.stringify({ ...workflow, title: "After" }));
    }
  });

  it("of nothing is nothing", () => {
    expect(layout(drawn([], [], new Map()).graph).size).toBe(0);
  });

  // A layered graph as people draw them: chains that branch and join, every tenth node a loop with a body of three.
  function large(count: number): Drawn {
    const types: string[] = [];
    const edges: [number, number][] = [];
    const homes = new Map<number, number>();
    for (let index = 0; index < count; index += 1) {
      const place = index % 10;
      types.push(place === 0 ? "loop" : place === 5 ? "condition" : "set");
      if (place >= 1 && place <= 3) homes.set(index, index - place);
      if (index === 0) continue;
      if (place === 0) edges.push([index - 1, index], ...(index > 40 ? [[index - 37, index] as [number, number]] : []));
      else if (place === 4) edges.push([index - 4, index]);
      else if (place === 6 || place === 7) edges.push([index - (place - 5), index]);
      else edges.push([index - 1, index]);
      if (place === 8) edges.push([index - 2, index]);
    }
    return drawn(types, edges, homes);
  }

  // How long it may take is measured in `benchmarks.canvas`.
  it.each([500, 2_000])("of %i nodes, more than edges are made short for, has a place of its own for each", (count) => {
    const drawing = large(count);
    const places = layout(drawing.graph);
    expect(places.size).toBe(count);
    expect(new Set([...places.values()].map(({ x, y }) => `${x} ${y}`)).size).toBe(count);
  });
});

describe("the layout client", () => {
  const graph = drawn(["set", "set"], [[0, 1]], new Map()).graph;

  function opened() {
    const workers: (LayoutWorker & { requests: LayoutRequest[]; isEnded: boolean })[] = [];
    const client = new LayoutClient(() => {
      const requests: LayoutRequest[] = [];
      const worker = { onmessage: null, onerror: null, requests, isEnded: false, postMessage: (request: LayoutRequest) => requests.push(request), terminate: () => (worker.isEnded = true) };
      workers.push(worker as never);
      return worker as never;
    });
    return { client, workers };
  }

  it("answers with the places, and keeps its worker", async () => {
    const { client, workers } = opened();
    for (const id of [1, 2]) {
      const promise = client.layout(graph);
      workers[0]!.onmessage!({ data: { id, places: layout(graph) } });
      expect((await promise).size).toBe(2);
    }
    expect(workers).toHaveLength(1);
  });

  it("ends what is under way for a newer request", async () => {
    const { client, workers } = opened();
    const first = client.layout(graph);
    const second = client.layout(graph);
    await expect(first).rejects.toThrow(LayoutCancelled);
    expect(workers.map((worker) => worker.isEnded)).toEqual([true, false]);
    workers[1]!.onmessage!({ data: { id: 2, places: new Map() } });
    expect((await second).size).toBe(0);
  });

  it("reports a worker that fails, and opens another for the next request", async () => {
    const { client, workers } = opened();
    const first = client.layout(graph);
    workers[0]!.onerror!({ message: "no memory" });
    await expect(first).rejects.toThrow("no memory");
    const second = client.layout(graph);
    workers[1]!.onmessage!({ data: { id: 2, places: new Map() } });
    await second;
  });
});
