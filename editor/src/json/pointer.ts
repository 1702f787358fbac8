/** JSON pointers (RFC 6901): `/nodes/3/config/a~1b` names a place in a document. */

export type Pointer = readonly string[];

/** The names on the way. Throws `RangeError` for a text that is no pointer. */
export function parsePointer(text: string): Pointer {
  if (text === "") return [];
  if (!text.startsWith("/")) throw new RangeError(`no JSON pointer: ${text}`);
  return text
    .slice(1)
    .split("/")
    .map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
}

export function formatPointer(pointer: readonly (string | number)[]): string {
  return pointer.map((name) => `/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}
