/** Going to a node: it is selected, brought into view, and has the focus. */

import type { ReactFlowInstance } from "@xyflow/react";

import { NODE_HEADER_HEIGHT, NODE_WIDTH, selected, type NodeKey } from "../model";
import type { CanvasModel } from "./CanvasModel";
import type { CanvasNode, WireEdge } from "./flow";

export type Flow = ReactFlowInstance<CanvasNode, WireEdge>;

/** The canvas goes to a node that is walked to, unless it is seen. */
export function focusNode(model: CanvasModel, flow: Flow | null, key: NodeKey): void {
  model.select(selected(key));
  reveal(model, flow, key);
  const focus = () => document.querySelector<HTMLElement>(`[data-node="${key}"]`)?.focus({ preventScroll: true });
  focus(); // now, where it is mounted: the next key must not be lost
  afterMount(focus);
}

/** Room that is left between a revealed node and the border. */
const REVEAL_MARGIN = 40;

/** Bring a node into view without selecting it; what is seen moves no further than needed. */
export function reveal(model: CanvasModel, flow: Flow | null, key: NodeKey): void {
  const position = model.document.nodes.get(key)?.position;
  const box = document.querySelector(".react-flow")?.getBoundingClientRect();
  if (flow === null || position == null || box === undefined) return;
  const { x, y, zoom } = flow.getViewport();
  const place = flow.flowToScreenPosition(position);
  const shift = (start: number, size: number, from: number, to: number) => {
    if (start < from + REVEAL_MARGIN) return from + REVEAL_MARGIN - start;
    return Math.min(0, to - REVEAL_MARGIN - (start + size));
  };
  const [byX, byY] = [shift(place.x, NODE_WIDTH * zoom, box.left, box.right), shift(place.y, NODE_HEADER_HEIGHT * zoom, box.top, box.bottom)];
  if (byX !== 0 || byY !== 0) void flow.setViewport({ x: x + byX, y: y + byY, zoom }, { duration: motionMs() });
}

/** Two frames: React draws what changed, React Flow mounts what is now in view. */
function afterMount(then: () => void): void {
  requestAnimationFrame(() => requestAnimationFrame(then));
}

export function motionMs(): number {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 120;
}
