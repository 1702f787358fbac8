/**
 * Changes to a JSON text that touch nothing but the place they are about.
 *
 * Every function takes a checked text of one value without space around it, and returns another. Added members are
 * written as their neighbours are: same whitespace before the name and around the colon. Of duplicate names the last
 * one counts, as for the server.
 */

import { formatPointer, parsePointer, type Pointer } from "./pointer";
import { itemsAt, kindAt, membersAt, scanDocument, type Members, type Span } from "./scan";

/** Raised for a change of a place that the document does not have. */
export class PlaceError extends Error {
  override readonly name = "PlaceError";
  readonly pointer: string;

  constructor(message: string, pointer: Pointer) {
    super(`${message}: ${formatPointer(pointer) || "the document"}`);
    this.pointer = formatPointer(pointer);
  }
}

/** The text of an object's member; undefined if it has none, or is not an object. */
export function memberText(text: string, name: string): string | undefined {
  const span = kindAt(text, 0) === "object" ? lastMember(membersAt(text, 0), name) : undefined;
  return span && text.slice(span.start, span.end);
}

/** The same object with this member: its value replaced, or added at the end. */
export function setMember(text: string, name: string, value: string): string {
  const object = membersAt(text, 0);
  const known = lastMember(object, name);
  if (known !== undefined) return replaced(text, known, value);
  const last = object.members.at(-1);
  if (last === undefined) return `{${JSON.stringify(name)}: ${value}}`;
  const previous = object.members.at(-2);
  const colon = text.slice(last.nameEnd, last.start);
  // The space of a first member is what follows the brace: `{"a": 1}` has none, and its second member wants some.
  const gap = text.slice(previous?.end ?? object.open + 1, last.nameStart).replace(/^\s*,/, "");
  const lead = gap === "" && previous === undefined && colon !== ":" ? " " : gap;
  return `${text.slice(0, last.end)},${lead}${JSON.stringify(name)}${colon}${value}${text.slice(last.end)}`;
}

/** The same object without this member, however often it has it. */
export function removeMember(text: string, name: string): string {
  let result = text;
  for (;;) {
    const object = membersAt(result, 0);
    const index = object.members.findLastIndex((member) => member.name === name);
    if (index < 0) return result;
    const spans = object.members.map((member) => ({ start: member.nameStart, end: member.end }));
    result = without(result, spans, index, object.open, object.close);
  }
}

/** The text at a place; undefined if there is none. */
export function textAt(text: string, pointer: Pointer): string | undefined {
  const span = spanAt(text, pointer);
  return span && text.slice(span.start, span.end);
}

/** The document with this value at that place. Objects on the way are made where they are missing. */
export function setAt(text: string, pointer: Pointer, value: string): string {
  const [name, ...rest] = pointer;
  if (name === undefined) return value;
  switch (kindAt(text, 0)) {
    case "object": {
      const inner = memberText(text, name);
      return setMember(text, name, rest.length === 0 ? value : setAt(inner ?? "{}", rest, value));
    }
    case "array": {
      const { items } = itemsAt(text, 0);
      if (rest.length === 0 && (name === "-" || name === String(items.length))) return insertItem(text, items.length, value);
      const item = items[indexOf(name)];
      if (item === undefined) throw new PlaceError("there is no such item", pointer);
      return replaced(text, item, rest.length === 0 ? value : setAt(text.slice(item.start, item.end), rest, value));
    }
    default:
      throw new PlaceError("neither an object nor a list holds it", pointer);
  }
}

/** The document without what is at that place. */
export function removeAt(text: string, pointer: Pointer): string {
  const place = pointer.slice(0, -1);
  const name = pointer.at(-1);
  const owner = name === undefined ? undefined : textAt(text, place);
  if (name === undefined || owner === undefined || textAt(owner, [name]) === undefined) {
    throw new PlaceError("there is nothing to remove", pointer);
  }
  const smaller = kindAt(owner, 0) === "object" ? removeMember(owner, name) : removeItem(owner, indexOf(name));
  return setAt(text, place, smaller);
}

/** The array with a value before the item at `index`, or at the end. */
export function insertItem(text: string, index: number, value: string): string {
  const array = itemsAt(text, 0);
  const first = array.items[0];
  if (first === undefined) return `[${value}]`;
  const lead = text.slice(array.open + 1, first.start);
  const next = array.items[index];
  if (next !== undefined) return `${text.slice(0, next.start)}${value},${lead || " "}${text.slice(next.start)}`;
  const last = array.items.at(-1)!;
  const separator = array.items.length > 1 ? text.slice(array.items.at(-2)!.end, last.start) : `,${lead || " "}`;
  return `${text.slice(0, last.end)}${separator}${value}${text.slice(last.end)}`;
}

export function removeItem(text: string, index: number): string {
  const array = itemsAt(text, 0);
  return without(text, array.items, index, array.open, array.close);
}

export type PatchOperation =
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string }
  | { readonly op: "move" | "copy"; readonly path: string; readonly from: string };

/** The document after a JSON patch (RFC 6902), all of it or `PlaceError`. `writeValue` makes text of its values. */
export function applyPatch(
  text: string,
  patch: readonly PatchOperation[],
  writeValue: (value: unknown) => string,
  isSame: (left: string, right: string) => boolean,
): string {
  return patch.reduce((result, operation) => {
    const pointer = parsePointer(operation.path);
    switch (operation.op) {
      case "add":
        return addAt(result, pointer, writeValue(operation.value));
      case "replace":
        required(result, pointer);
        return setAt(result, pointer, writeValue(operation.value));
      case "test":
        if (isSame(required(result, pointer), writeValue(operation.value))) return result;
        throw new PlaceError("another value is there than the patch expects", pointer);
      case "remove":
        return removeAt(result, pointer);
      case "copy":
        return addAt(result, pointer, required(result, parsePointer(operation.from)));
      case "move": {
        const from = parsePointer(operation.from);
        return addAt(removeAt(result, from), pointer, required(result, from));
      }
    }
  }, text);
}

function addAt(text: string, pointer: Pointer, value: string): string {
  const owner = pointer.length === 0 ? undefined : textAt(text, pointer.slice(0, -1));
  const name = pointer.at(-1);
  if (owner === undefined || name === undefined) {
    if (pointer.length === 0) return value;
    throw new PlaceError("there is nothing to add to", pointer);
  }
  if (kindAt(owner, 0) !== "array" || name === "-") return setAt(text, pointer, value);
  const index = indexOf(name);
  if (index < 0 || index > itemsAt(owner, 0).items.length) throw new PlaceError("there is no such item", pointer);
  return setAt(text, pointer.slice(0, -1), insertItem(owner, index, value));
}

function required(text: string, pointer: Pointer): string {
  const found = textAt(text, pointer);
  if (found === undefined) throw new PlaceError("there is nothing", pointer);
  return found;
}

function spanAt(text: string, pointer: Pointer): Span | undefined {
  let span: Span | undefined = scanDocument(text);
  for (const name of pointer) {
    if (span === undefined) return undefined;
    const kind = kindAt(text, span.start);
    if (kind === "object") span = lastMember(membersAt(text, span.start), name);
    else if (kind === "array") span = itemsAt(text, span.start).items[indexOf(name)];
    else return undefined;
  }
  return span;
}

function lastMember(object: Members, name: string) {
  return object.members.findLast((member) => member.name === name);
}

/** The index that a pointer's name stands for; -1 if it is none. */
function indexOf(name: string): number {
  return /^(0|[1-9][0-9]*)$/.test(name) ? Number(name) : -1;
}

function replaced(text: string, span: Span, value: string): string {
  return text.slice(0, span.start) + value + text.slice(span.end);
}

function without(text: string, spans: readonly Span[], index: number, open: number, close: number): string {
  const [previous, next] = [spans[index - 1], spans[index + 1]];
  if (previous !== undefined) return text.slice(0, previous.end) + text.slice(spans[index]!.end);
  if (next !== undefined) return text.slice(0, spans[index]!.start) + text.slice(next.start);
  return text.slice(0, open + 1) + text.slice(close);
}

/** A stretch of a string and what to write in its place; places count UTF-16 units, as the server and JavaScript do. */
export interface StringChange {
  readonly start: number;
  readonly end: number;
  readonly value: string;
}

/** The text of a string with these stretches replaced; all others keep their spelling, escapes included. */
export function replaceInString(text: string, changes: readonly StringChange[]): string {
  const places = characterPlaces(text);
  return changes
    .toSorted((left, right) => right.start - left.start)
    .reduce((result, { start, end, value }) => {
      const [from, to] = [places[start], places[end]];
      if (from === undefined || to === undefined) throw new RangeError(`the text has no characters ${start} to ${end}`);
      return result.slice(0, from) + JSON.stringify(value).slice(1, -1) + result.slice(to);
    }, text);
}

/** Where each UTF-16 unit of a JSON string begins in its text, and where the last one ends. */
function characterPlaces(text: string): readonly number[] {
  const places: number[] = [];
  let at = 1;
  while (at < text.length - 1) {
    places.push(at);
    at += text[at] !== "\\" ? 1 : text[at + 1] === "u" ? 6 : 2;
  }
  places.push(at);
  return places;
}
