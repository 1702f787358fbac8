/** The lines of edges: curves that go forward, and lines with round corners that go back or around. */

import type { Point } from "../model";

/** How an edge runs. `back`: to the header of its frame; `leave`: out of a loop that is done, below its body; `exit`: out of regions. */
export type Route =
  | { readonly kind: "forward" }
  | { readonly kind: "error" }
  | { readonly kind: "back"; readonly lane: number }
  | { readonly kind: "leave"; readonly lane: number; readonly right: number }
  | { readonly kind: "exit"; readonly through: readonly Point[] };

export interface Line {
  readonly path: string;
  /** Where something about the edge may be shown. */
  readonly middle: Point;
}

const CORNER = 8;
/** How far an edge goes straight before it turns. */
const STUB = 14;

export function lineOf(route: Route, from: Point, to: Point, isFar: boolean): Line {
  if (isFar && (route.kind === "forward" || route.kind === "error")) return straight(from, to);
  switch (route.kind) {
    case "back":
      return rounded([from, { x: from.x + STUB, y: from.y }, { x: from.x + STUB, y: route.lane }, { x: to.x - STUB, y: route.lane }, { x: to.x - STUB, y: to.y }, to]);
    case "leave":
      return rounded([
        from,
        { x: from.x + STUB + 8, y: from.y },
        { x: from.x + STUB + 8, y: route.lane },
        { x: route.right + STUB, y: route.lane },
        { x: route.right + STUB, y: to.y },
        to,
      ]);
    case "exit": {
      let at = from;
      let path = "";
      for (const notch of route.through) {
        path += continued(path, lineOf({ kind: "forward" }, at, notch, isFar).path);
        at = notch;
      }
      const last = lineOf({ kind: "forward" }, at, to, isFar);
      return { path: path + continued(path, last.path), middle: last.middle };
    }
    case "error":
      return curve(from, { x: from.x, y: from.y + Math.max(48, Math.abs(to.y - from.y) / 2) }, { x: to.x - Math.max(48, Math.abs(to.x - from.x) / 2), y: to.y }, to);
    case "forward": {
      if (to.x < from.x) {
        const lane = Math.max(from.y, to.y) + 64;
        return rounded([from, { x: from.x + STUB, y: from.y }, { x: from.x + STUB, y: lane }, { x: to.x - STUB, y: lane }, { x: to.x - STUB, y: to.y }, to]);
      }
      const reach = Math.min(160, Math.max((to.x - from.x) / 2, Math.min(32, to.x - from.x)));
      return curve(from, { x: from.x + reach, y: from.y }, { x: to.x - reach, y: to.y }, to);
    }
  }
}

/** A path that begins where another one ends. */
function continued(before: string, path: string): string {
  return before === "" ? path : path.replace(/^M[^A-Z]*/, "");
}

function straight(from: Point, to: Point): Line {
  return { path: `M${from.x},${from.y}L${to.x},${to.y}`, middle: { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 } };
}

function curve(from: Point, one: Point, two: Point, to: Point): Line {
  const middle = { x: (from.x + 3 * one.x + 3 * two.x + to.x) / 8, y: (from.y + 3 * one.y + 3 * two.y + to.y) / 8 };
  return { path: `M${from.x},${from.y}C${one.x},${one.y} ${two.x},${two.y} ${to.x},${to.y}`, middle };
}

/** A line through these points with round corners. Its middle is that of its longest stretch. */
function rounded(points: readonly Point[]): Line {
  let path = `M${points[0]!.x},${points[0]!.y}`;
  let middle = points[0]!;
  let longest = -1;
  for (let index = 1; index < points.length; index += 1) {
    const [before, at, after] = [points[index - 1]!, points[index]!, points[index + 1]];
    const length = Math.hypot(at.x - before.x, at.y - before.y);
    if (length > longest) {
      longest = length;
      middle = { x: (before.x + at.x) / 2, y: (before.y + at.y) / 2 };
    }
    if (after === undefined) {
      path += `L${at.x},${at.y}`;
      continue;
    }
    const radius = Math.min(CORNER, length / 2, Math.hypot(after.x - at.x, after.y - at.y) / 2);
    const [into, out] = [towards(at, before, radius), towards(at, after, radius)];
    path += `L${into.x},${into.y}Q${at.x},${at.y} ${out.x},${out.y}`;
  }
  return { path, middle };
}

function towards(from: Point, to: Point, distance: number): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: from.x + ((to.x - from.x) / length) * distance, y: from.y + ((to.y - from.y) / length) * distance };
}
