/** What layout needs of a document: plain data, so that it can be sent to a worker. */

import {
  allMembers,
  around,
  indexOf,
  nodeSize,
  rectOf,
  type Containers,
  type EdgeKey,
  type ExitsOf,
  type NodeKey,
  type Point,
  type Structure,
  type WorkflowDocument,
} from "../model";

export interface LayoutNode {
  readonly key: NodeKey;
  readonly width: number;
  readonly height: number;
}

export interface LayoutEdge {
  readonly source: NodeKey;
  readonly target: NodeKey;
}

export interface LayoutContainer {
  readonly id: string;
  /** The loop node, which lies in the frame at the left; null for regions and for the root. */
  readonly header: NodeKey | null;
  readonly members: readonly NodeKey[];
  readonly children: readonly string[];
}

export interface LayoutGraph {
  /** In document order. */
  readonly nodes: readonly LayoutNode[];
  /** Without those that lead back. */
  readonly edges: readonly LayoutEdge[];
  /** Inner ones before those around them; the root is last. */
  readonly containers: readonly LayoutContainer[];
  /** Where the upper left corner of all of it comes to lie. */
  readonly origin: Point;
}

export type Places = ReadonlyMap<NodeKey, Point>;

/** The graph to lay out: all of a document, or the selected nodes, which then stay where their upper left corner is. */
export function layoutGraphOf(
  document: WorkflowDocument,
  containers: Containers,
  structure: Structure,
  exitsOf: ExitsOf,
  only?: ReadonlySet<NodeKey>,
): LayoutGraph {
  const nodes = [...document.nodes.values()].filter((node) => only === undefined || only.has(node.key));
  const byID = indexOf(document);
  const isBack = (key: EdgeKey) => structure.returning.has(key) || structure.again.has(key);
  const edges: LayoutEdge[] = [];
  for (const edge of document.edges.values()) {
    const [source, target] = [byID.get(edge.source)?.key, byID.get(edge.target)?.key];
    if (source === undefined || target === undefined || isBack(edge.key)) continue;
    if (only === undefined || (only.has(source) && only.has(target))) edges.push({ source, target });
  }
  const rects = only === undefined ? [] : nodes.map((node) => rectOf(node, exitsOf)).filter((rect) => rect !== null);
  const corner = around(rects);
  return {
    nodes: nodes.map((node) => ({ key: node.key, ...nodeSize(exitsOf(node)) })),
    edges,
    containers: only === undefined ? wholeContainers(containers) : selectedContainers(containers, only),
    origin: corner === null ? { x: 0, y: 0 } : { x: corner.x, y: corner.y },
  };
}

function wholeContainers(containers: Containers): LayoutContainer[] {
  return containers.innermostFirst.map(({ id, kind, header, members, children }) => {
    const framed = new Set(children.map((child) => containers.byID.get(child)).filter((child) => child?.kind === "loop").map((child) => child!.header));
    return { id, header: kind === "loop" ? header : null, members: members.filter((key) => !framed.has(key)), children };
  });
}

/** Frames of which everything is selected stay frames; the nodes of others lie among their neighbours. */
function selectedContainers(containers: Containers, only: ReadonlySet<NodeKey>): LayoutContainer[] {
  const whole = new Set(
    containers.innermostFirst.filter(({ id }) => id !== "root" && allMembers(containers, id).every((key) => only.has(key))).map(({ id }) => id),
  );
  const all = wholeContainers(containers);
  const loose = new Set(only);
  const kept = all.filter(({ id }) => whole.has(id as never));
  for (const { header, members } of kept) for (const key of [header, ...members]) if (key !== null) loose.delete(key);
  const inner = new Set(kept.flatMap(({ children }) => children));
  const root = { id: "root", header: null, members: [...only].filter((key) => loose.has(key)), children: kept.map(({ id }) => id).filter((id) => !inner.has(id)) };
  return [...kept, root];
}
