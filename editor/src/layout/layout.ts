/**
 * Layered layout of a graph of containers, from left to right.
 *
 * dagre's own clusters fail on edges that end at them, so each container is laid out alone, the innermost first, with
 * inner containers as boxes; an edge across a border ends at the box. Edges that lead back are left out. The same graph
 * always gets the same places, and ties go by the order of the document.
 */

import { Graph, layout as dagre } from "@dagrejs/dagre";

import { around, FRAME_PADDING, FRAME_TITLE_HEIGHT, framed, GAP_ACROSS, GAP_DOWN, snapped, type NodeKey, type Point, type Rect, type Size } from "../model";
import type { LayoutContainer, LayoutGraph, Places } from "./graph";

// Up to 200 things in one container edges are made as short as possible; beyond that the first good ranking is taken,
// which halves the time for thousands and looks much the same.
const EXACT_ITEMS_MAX = 200;

/** A node or an inner container, as an item of the container around it. */
type Item = string;

interface Laid {
  /** Where items lie, relative to the upper left corner of what is in the container. */
  readonly places: ReadonlyMap<Item, Point>;
  readonly size: Size;
}

export function layout(graph: LayoutGraph): Places {
  const sizes = new Map<Item, Size>(graph.nodes.map(({ key, width, height }) => [key, { width, height }]));
  const order = new Map<Item, number>(graph.nodes.map(({ key }, index) => [key, index]));
  const parents = new Map<Item, string>();
  for (const { id, header, members, children } of graph.containers) {
    for (const item of [...(header === null ? [] : [header]), ...members, ...children]) parents.set(item, id);
  }
  const edges = edgesByContainer(graph, parents);
  const laid = new Map<string, Laid>();
  for (const container of graph.containers) {
    const items = itemsOf(container, sizes, order);
    if (items.length === 0) continue;
    const result = layoutContainer(container, items, edges.get(container.id) ?? [], sizes);
    laid.set(container.id, result);
    const { width, height } = framed({ x: 0, y: 0, ...result.size });
    sizes.set(container.id, { width, height });
    order.set(container.id, Math.min(...items.map((item) => order.get(item)!)));
  }
  const places = new Map<NodeKey, Point>();
  const root = graph.containers.at(-1);
  if (root !== undefined) place(root.id, graph.origin, laid, places);
  return places;
}

function place(id: string, origin: Point, laid: ReadonlyMap<string, Laid>, places: Map<NodeKey, Point>): void {
  const pending = [{ id, origin }];
  while (pending.length > 0) {
    const container = pending.pop()!;
    for (const [item, { x, y }] of laid.get(container.id)?.places ?? []) {
      const at = { x: container.origin.x + x, y: container.origin.y + y };
      if (laid.has(item)) pending.push({ id: item, origin: { x: at.x + FRAME_PADDING, y: at.y + FRAME_PADDING + FRAME_TITLE_HEIGHT } });
      else places.set(item as NodeKey, at);
    }
  }
}

/** What lies directly in a container, in document order. */
function itemsOf({ header, members, children }: LayoutContainer, sizes: ReadonlyMap<Item, Size>, order: ReadonlyMap<Item, number>): Item[] {
  const items = [...(header === null ? [] : [header]), ...members, ...children].filter((item) => sizes.has(item));
  return items.sort((left, right) => order.get(left)! - order.get(right)!);
}

function layoutContainer({ header }: LayoutContainer, items: readonly Item[], edges: readonly (readonly [Item, Item])[], sizes: ReadonlyMap<Item, Size>): Laid {
  const graph = new Graph({ multigraph: false, compound: false });
  const ranker = items.length <= EXACT_ITEMS_MAX ? "network-simplex" : "tight-tree";
  graph.setGraph({ rankdir: "LR", nodesep: GAP_DOWN, edgesep: GAP_DOWN / 2, ranksep: GAP_ACROSS, ranker });
  graph.setDefaultEdgeLabel(() => ({}));
  // Positions are those of centres: even sizes keep them, and with them the corners, on whole numbers.
  for (const item of items) graph.setNode(item, { ...sizes.get(item)! });
  const entered = new Set<Item>();
  for (const [source, target] of edges) {
    graph.setEdge(source, target);
    entered.add(target);
  }
  // The loop node is the left end of its frame, whatever lies in it without an edge that leads there.
  if (header !== null) for (const item of items) if (item !== header && !entered.has(item)) graph.setEdge(header, item, { weight: 0 });
  dagre(graph);
  const rects = new Map<Item, Rect>();
  for (const item of items) {
    const { x, y, width, height } = graph.node(item) as Rect;
    rects.set(item, { ...snapped({ x: x - width / 2, y: y - height / 2 }), width, height });
  }
  const all = around(rects.values())!;
  const places = new Map([...rects].map(([item, { x, y }]): [Item, Point] => [item, { x: x - all.x, y: y - all.y }]));
  return { places, size: { width: all.width, height: all.height } };
}

/** Each edge in the innermost container that both its ends are in, between the items that hold these. */
function edgesByContainer(graph: LayoutGraph, parents: ReadonlyMap<Item, string>): ReadonlyMap<string, (readonly [Item, Item])[]> {
  const edges = new Map<string, (readonly [Item, Item])[]>();
  const pathOf = (item: Item) => {
    const path = [item];
    for (let at = parents.get(item); at !== undefined; at = parents.get(at)) path.push(at);
    return path;
  };
  for (const { source, target } of graph.edges) {
    const [from, to] = [pathOf(source), pathOf(target)];
    const inside = new Set(to);
    const meeting = from.findIndex((item) => inside.has(item));
    const [container, left] = [from[meeting], from[meeting - 1]];
    const right = container === undefined ? undefined : to[to.indexOf(container) - 1];
    if (container === undefined || left === undefined || right === undefined || left === right) continue;
    const known = edges.get(container);
    if (known === undefined) edges.set(container, [[left, right]]);
    else known.push([left, right]);
  }
  return edges;
}
