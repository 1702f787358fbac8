/**
 * Where things are on the canvas: the fixed size of a node, and where its handles lie. Sizes are never measured.
 *
 * A node is a card. Edges enter at the left; exits are at the right, one row each where there are several; the error
 * exit is at the bottom.
 */

import { ERROR_HANDLE, type NodeRecord, type Point, type Rect, type Size, type WorkflowDocument } from "./document";

/** Positions are multiples of it. */
export const GRID = 8;
export const NODE_WIDTH = 216;
/** Icon, name and type. */
export const NODE_HEADER_HEIGHT = 56;
/** One exit with its label. */
export const EXIT_ROW_HEIGHT = 24;
/** The diameter of a handle: at least 24 pixels of target are around it. */
export const HANDLE_SIZE = 12;

/** Space between a frame's border and what is in it. */
export const FRAME_PADDING = 24;
/** The line of a frame's title. */
export const FRAME_TITLE_HEIGHT = 32;
/** Room under the members for back edges to run in. */
export const FRAME_BOTTOM_HEIGHT = 24;

/** Between nodes that are placed one behind the other, or one below the other. */
export const GAP_ACROSS = 80;
export const GAP_DOWN = 40;

/** What edges may leave from, and whether edges may enter: what a node's type says, or validate of this node. */
export interface Exits {
  /** Names of handles in order, `error` among them where the node has it. */
  readonly handles: readonly string[];
  /** False for a start. */
  readonly hasEntry: boolean;
}

export type ExitsOf = (node: NodeRecord) => Exits;

export interface HandlePlace extends Rect {
  /** Null: the entry. */
  readonly id: string | null;
  readonly type: "source" | "target";
  readonly position: "left" | "right" | "bottom";
}

export interface NodeGeometry extends Size {
  /** As React Flow's `handles`: places are relative to the node. */
  readonly handles: readonly HandlePlace[];
}

export function nodeSize(exits: Exits): Size {
  const rows = exits.handles.filter((handle) => handle !== ERROR_HANDLE).length;
  return { width: NODE_WIDTH, height: NODE_HEADER_HEIGHT + (rows > 1 ? rows * EXIT_ROW_HEIGHT : 0) };
}

export function nodeGeometry(exits: Exits): NodeGeometry {
  const { width, height } = nodeSize(exits);
  const rows = exits.handles.filter((handle) => handle !== ERROR_HANDLE);
  const handles: HandlePlace[] = [];
  const half = HANDLE_SIZE / 2;
  const place = (x: number, y: number) => ({ x: x - half, y: y - half, width: HANDLE_SIZE, height: HANDLE_SIZE });
  if (exits.hasEntry) handles.push({ id: null, type: "target", position: "left", ...place(0, NODE_HEADER_HEIGHT / 2) });
  rows.forEach((id, row) => {
    const y = rows.length > 1 ? NODE_HEADER_HEIGHT + (row + 0.5) * EXIT_ROW_HEIGHT : NODE_HEADER_HEIGHT / 2;
    handles.push({ id, type: "source", position: "right", ...place(width, y) });
  });
  if (exits.handles.includes(ERROR_HANDLE)) {
    handles.push({ id: ERROR_HANDLE, type: "source", position: "bottom", ...place(width / 2, height) });
  }
  return { width, height, handles };
}

export function snapped({ x, y }: Point): Point {
  return { x: Math.round(x / GRID) * GRID, y: Math.round(y / GRID) * GRID };
}

export function overlaps(left: Rect, right: Rect): boolean {
  return (
    left.x < right.x + right.width && right.x < left.x + left.width && left.y < right.y + right.height && right.y < left.y + left.height
  );
}

/** The smallest rectangle around all of them; null around none. */
export function around(rects: Iterable<Rect>): Rect | null {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y, width, height } of rects) {
    left = Math.min(left, x);
    top = Math.min(top, y);
    right = Math.max(right, x + width);
    bottom = Math.max(bottom, y + height);
  }
  return left === Infinity ? null : { x: left, y: top, width: right - left, height: bottom - top };
}

/** The place of a node, if it has one. */
export function rectOf(node: NodeRecord, exitsOf: ExitsOf): Rect | null {
  return node.position && { ...node.position, ...nodeSize(exitsOf(node)) };
}

/** A place for something new at or below the wanted one, where it covers no node. */
export function freePlace(document: WorkflowDocument, wanted: Point, size: Size, exitsOf: ExitsOf): Point {
  const taken = [...document.nodes.values()].map((node) => rectOf(node, exitsOf)).filter((rect) => rect !== null);
  let place = snapped(wanted);
  for (;;) {
    const inTheWay = taken.find((rect) => overlaps(rect, { ...place, ...size }));
    if (inTheWay === undefined) return place;
    place = { x: place.x, y: Math.ceil((inTheWay.y + inTheWay.height + GAP_DOWN) / GRID) * GRID };
  }
}
