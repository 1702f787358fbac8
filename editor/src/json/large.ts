/** What the server sends in place of a value that is too large to be sent unasked. */

import { memberText } from "./edit";
import { entriesOf, kindOf, valueOf } from "./value";

export interface LargePart {
  /** Where in the value it is. */
  readonly path: readonly (string | number)[];
  readonly sha256: string;
  readonly bytes: number;
}

export interface Large {
  readonly bytes: number;
  readonly parts: readonly LargePart[];
}

/** 64 kB: what is not larger is sent as it is. */
const SENT_BYTES_MAX = 65_536;

const FIELDS = new Set<string | number>(["truncated", "bytes", "values"]);

/** What stands in place of a value; null: the text is the value. */
export function largeOf(text: string): Large | null {
  if (kindOf(text) !== "object" || memberText(text, "truncated") !== "true" || !entriesOf(text).every(({ key }) => FIELDS.has(key))) return null;
  const { bytes, values = [] } = valueOf(text) as { bytes?: unknown; values?: LargePart[] };
  return typeof bytes === "number" && bytes > SENT_BYTES_MAX ? { bytes, parts: values } : null;
}
