/** Frames: the rectangles drawn around loops and regions. Their size follows from what is in them; nothing of them is stored. */

import { around, FRAME_BOTTOM_HEIGHT, FRAME_PADDING, FRAME_TITLE_HEIGHT, rectOf, type ExitsOf } from "./geometry";
import type { Containers, ContainerID } from "./containers";
import type { NodeKey, Rect, WorkflowDocument } from "./document";

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
