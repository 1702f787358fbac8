/** Walking from node to node: left and right along edges, up and down between siblings. */

import { indexOf, type NodeKey, type WorkflowDocument } from "../model";
import type { NodeTypes } from "./nodeTypes";

export type Way = "left" | "right" | "up" | "down";

/** The next node in a direction; null if there is none. */
export function neighbour(document: WorkflowDocument, from: NodeKey, way: Way, types: NodeTypes): NodeKey | null {
  const node = document.nodes.get(from);
  if (node === undefined) return null;
  if (way === "left" || way === "right") {
    const order = types.viewOf(node, undefined).map(({ id }) => id);
    const edges = [...document.edges.values()].filter((edge) => (way === "right" ? edge.source : edge.target) === node.id);
    if (way === "right") edges.sort((one, other) => order.indexOf(one.handle) - order.indexOf(other.handle));
    for (const edge of edges) {
      const next = indexOf(document).get(way === "right" ? edge.target : edge.source);
      if (next !== undefined && next.key !== from) return next.key;
    }
    return null;
  }
  return sibling(document, from, way);
}

/** The nearest node above or below in the same column, as people see it; else the one before or after in the document. */
function sibling(document: WorkflowDocument, from: NodeKey, way: "up" | "down"): NodeKey | null {
  const nodes = [...document.nodes.values()];
  const node = document.nodes.get(from)!;
  const here = node.position;
  if (here === null) {
    const index = nodes.indexOf(node) + (way === "down" ? 1 : -1);
    return nodes[index]?.key ?? null;
  }
  let best: NodeKey | null = null;
  let least = Infinity;
  for (const other of nodes) {
    if (other.key === from || other.position === null) continue;
    const down = (other.position.y - here.y) * (way === "down" ? 1 : -1);
    const across = Math.abs(other.position.x - here.x);
    if (down <= 0) continue;
    const distance = down + 2 * across;
    if (distance < least) {
      least = distance;
      best = other.key;
    }
  }
  return best;
}
