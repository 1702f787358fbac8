/** Frames: the rectangles drawn around loops and regions. Their size follows from what is in them; nothing of them is stored. */

import { around, EXIT_ROW_HEIGHT, FRAME_BOTTOM_HEIGHT, FRAME_PADDING, FRAME_TITLE_HEIGHT, HANDLE_SIZE, nodeGeometry, rectOf, type ExitsOf } from "./geometry";
import { indexOf } from "./ids";
import type { Containers, ContainerID, Structure } from "./containers";
import type { EdgeKey, NodeKey, Point, Rect, WorkflowDocument } from "./document";

export interface Frame extends Rect {
  readonly id: ContainerID;
  readonly kind: "loop" | "region";
  readonly header: NodeKey;
  readonly depth: number;
}

/** The frames of a document, outer ones first, so that inner ones are drawn above them. */
export function framesOf(document: WorkflowDocument, containers: Containers, exitsOf: ExitsOf): readonly Frame[] {
  const rects = new Map<NodeKey, Rect>();
  for (const node of document.nodes.values()) {
    const rect = rectOf(node, exitsOf);
    if (rect !== null) rects.set(node.key, rect);
  }
  return framesAround(rects, containers);
}

/** The same for nodes that lie at these places. */
export function framesAround(rects: ReadonlyMap<NodeKey, Rect>, containers: Containers): readonly Frame[] {
  const frames = new Map<ContainerID, Frame>();
  for (const container of containers.innermostFirst) {
    const { header, kind, id, depth } = container;
    if (header === null || kind === "root") continue;
    const nodes = kind === "loop" ? [header, ...container.members] : container.members;
    const inside = around([
      ...nodes.map((node) => rects.get(node)).filter((rect) => rect !== undefined),
      ...container.children.map((child) => frames.get(child)).filter((frame) => frame !== undefined),
    ]);
    if (inside !== null) frames.set(id, { id, kind, header, depth, ...framed(inside) });
  }
  return [...frames.values()].reverse();
}

/** The frame around what is in it. */
export function framed({ x, y, width, height }: Rect): Rect {
  return {
    x: x - FRAME_PADDING,
    y: y - FRAME_PADDING - FRAME_TITLE_HEIGHT,
    width: width + 2 * FRAME_PADDING,
    height: height + 2 * FRAME_PADDING + FRAME_TITLE_HEIGHT + FRAME_BOTTOM_HEIGHT,
  };
}

/** The innermost frame that a point is in; null outside of all. */
export function frameAt(frames: readonly Frame[], x: number, y: number): Frame | null {
  return frames.findLast((frame) => x >= frame.x && x <= frame.x + frame.width && y >= frame.y && y <= frame.y + frame.height) ?? null;
}

/** Where an edge leaves a region: a labelled notch in the right border of its frame. */
export interface Notch extends Point {
  readonly frame: ContainerID;
  readonly edge: EdgeKey;
}

/** The notches of all regions, inner frames first: an edge that leaves several passes one in each. */
export function notchesOf(document: WorkflowDocument, structure: Structure, frames: readonly Frame[], exitsOf: ExitsOf): readonly Notch[] {
  const notches: Notch[] = [];
  const byID = structure.regions.length === 0 ? new Map() : indexOf(document);
  for (const frame of frames.toReversed()) {
    const region = frame.kind === "region" ? structure.regions.find(({ header }) => header === frame.header) : undefined;
    const leaving: { edge: EdgeKey; y: number }[] = [];
    for (const key of region?.exits ?? []) {
      const edge = document.edges.get(key);
      const source = edge && byID.get(edge.source);
      if (edge === undefined || source?.position == null) continue;
      const handle = nodeGeometry(exitsOf(source)).handles.find(({ id }) => id === edge.handle);
      leaving.push({ edge: key, y: source.position.y + (handle === undefined ? 0 : handle.y + HANDLE_SIZE / 2) });
    }
    let free = frame.y + FRAME_TITLE_HEIGHT + EXIT_ROW_HEIGHT / 2;
    for (const { edge, y } of leaving.sort((left, right) => left.y - right.y)) {
      const at = Math.max(free, y);
      notches.push({ frame: frame.id, edge, x: frame.x + frame.width, y: at });
      free = at + EXIT_ROW_HEIGHT;
    }
  }
  return notches;
}
