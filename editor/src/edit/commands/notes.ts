/** Notes: texts that lie beneath the nodes and have no effect on a run. */

import { memberText, textOf } from "../../json";
import { freeID, NOTE_SIZE, snapped, type NoteKey, type Point, type Size } from "../../model";
import type { EditStore } from "../store";

export function addNote(store: EditStore, at: Point, content = ""): NoteKey {
  return store.transact("Add note", (transaction) => {
    const ids = [...transaction.document.notes.values()].map((note) => memberText(note.text, "id") ?? "");
    const id = freeID("note", new Set(ids.filter((each) => each.startsWith('"')).map((each) => JSON.parse(each) as string)));
    return transaction.addNote(textOf({ id, text: content, position: snapped(at), size: NOTE_SIZE }));
  });
}

export function setNoteText(store: EditStore, key: NoteKey, content: string): void {
  store.transact("Edit note", (transaction) => transaction.setField(key, "text", JSON.stringify(content)), { burst: `note ${key}` });
}

/** Give a note another size; all calls of one drag are one step. */
export function resizeNote(store: EditStore, key: NoteKey, { width, height }: Size, drag: string): void {
  const { x, y } = snapped({ x: width, y: height });
  store.transact("Resize note", (transaction) => transaction.setField(key, "size", textOf({ width: x, height: y })), {
    burst: `resize ${drag}`,
    withinMs: Infinity,
  });
}
