/** Move nodes and notes: by a drag, by arrows, or to where layout says. */

import { textOf } from "../../json";
import { GRID, isNodeKey, recordOf, snapped, type NodeKey, type NoteKey, type Point } from "../../model";
import { counted } from "../counted";
import type { EditStore, Transaction } from "../store";

export type Movable = NodeKey | NoteKey;

/** Move to these places. All calls of one drag, which has an id of its own, are one step. */
export function moveTo(store: EditStore, places: ReadonlyMap<Movable, Point>, drag?: string): void {
  const keys = [...places.keys()].filter((key) => recordOf(store.document, key) !== undefined);
  store.transact(
    `Move ${counted(keys)}`,
    (transaction) => {
      keepPlaces(transaction);
      for (const key of keys) place(transaction, key, places.get(key)!);
    },
    drag === undefined ? {} : { burst: `drag ${drag}`, withinMs: Infinity },
  );
}

/** Move by steps of the grid, as arrows do; a burst of them is one step. */
export function moveBy(store: EditStore, keys: Iterable<Movable>, columns: number, rows: number): void {
  const places = new Map<Movable, Point>();
  for (const key of keys) {
    const position = recordOf(store.document, key)?.position;
    if (position != null) places.set(key, { x: position.x + columns * GRID, y: position.y + rows * GRID });
  }
  const moved = [...places.keys()];
  store.transact(`Move ${counted(moved)}`, () => moveTo(store, places), { burst: `arrows ${moved.join(" ")}` });
}

/** Apply what layout computed, as one step. */
export function tidy(store: EditStore, places: ReadonlyMap<NodeKey, Point>): void {
  store.transact("Tidy up", () => moveTo(store, places));
}

/** Write down the places of nodes that were laid out at opening: beside a stored place they must not change again. */
export function keepPlaces(transaction: Transaction): void {
  for (const node of transaction.document.nodes.values()) {
    if (node.isLaidOut && node.position !== null) place(transaction, node.key, node.position);
  }
}

function place(transaction: Transaction, key: Movable, to: Point): void {
  const { x, y } = snapped(to);
  const record = isNodeKey(key) ? transaction.get(key) : transaction.get(key);
  const isThere = record.position?.x === x && record.position.y === y && !(record.kind === "node" && record.isLaidOut);
  // Other fields of the position are kept.
  if (!isThere) transaction.setField(key, "position", textOf({ x, y }));
}
