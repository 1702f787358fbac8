/** Going to a node: it is selected, brought into view, and has the focus. */

import { getViewportForBounds, type ReactFlowInstance } from "@xyflow/react";

import { around, NODE_HEADER_HEIGHT, NODE_WIDTH, nodeSize, selected, type NodeKey } from "../model";
import type { CanvasModel } from "./CanvasModel";
import type { CanvasNode, WireEdge } from "./flow";

export type Flow = ReactFlowInstance<CanvasNode, WireEdge>;

/** The canvas goes to a node that is walked to, unless it is seen. */
export function focusNode(model: CanvasModel, flow: Flow | null, key: NodeKey): void {
  model.select(selected(key));
  reveal(model, flow, key);
  const focus = () => document.querySelector<HTMLElement>(`[data-node="${key}"]`)?.focus({ preventScroll: true });
  focus(); // now, where it is mounted: the next key must not be lost
  const turn = ++turns;
  // Quick keys go on before it is mounted: an earlier node must not take the focus back.
  afterMount(() => turn === turns && focus());
}

/** How often a node was gone to. */
let turns = 0;

export const ZOOM_MIN = 0.01;
/** As a share of what is shown. */
const FIT_PADDING = 0.12;

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

/** All of the graph in view, at 100 % at most; not only what is mounted. */
export function showEverything(model: CanvasModel, flow: Flow, duration = 0): void {
  const { document, frames } = model.view.getState();
  const cards = [...document.nodes.values()].map((node) => ({ ...(node.position ?? { x: 0, y: 0 }), ...nodeSize(model.types.exitsOf(node)) }));
  const notes = [...document.notes.values()].map(({ position, size }) => ({ ...position, ...size }));
  const all = around([...cards, ...notes, ...frames]);
  const box = window.document.querySelector(".react-flow");
  if (all !== null && box !== null) void flow.setViewport(getViewportForBounds(all, box.clientWidth, box.clientHeight, ZOOM_MIN, 1, FIT_PADDING), { duration });
}

/** Two frames: React draws what changed, React Flow mounts what is now in view. */
function afterMount(then: () => void): void {
  requestAnimationFrame(() => requestAnimationFrame(then));
}

export function motionMs(): number {
  return matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 120;
}
