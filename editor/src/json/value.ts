/**
 * Values as their source text: written, compared and shown without passing through JavaScript numbers.
 *
 * Called by documents for configs and unknown fields, and by the value viewer for inputs and outputs of any size:
 * a value is opened one level at a time, so nobody reads what nobody looks at.
 */

import { itemsAt, kindAt, membersAt, scanDocument, scanString, skipSpace, type JsonKind } from "./scan";

/** Text that stands for itself where a value is written: `new RawJson("9007199254740993")`. */
export class RawJson {
  readonly text: string;

  constructor(text: string) {
    const { start, end } = scanDocument(text);
    this.text = text.slice(start, end);
  }
}

/** JSON of a value made here. Takes bigints and `RawJson` besides what JSON has; members that are undefined are left out. */
export function textOf(value: unknown): string {
  if (value instanceof RawJson) return value.text;
  if (typeof value === "bigint") return value.toString();
  if (Array.isArray(value)) return `[${value.map((item) => textOf(item ?? null)).join(", ")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}: ${textOf(member)}`).join(", ")}}`;
  }
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`no JSON value: ${typeof value}`);
  return text;
}

/**
 * The value that a text stands for, for code that only needs small and known parts of it. Integers that a JavaScript
 * number cannot hold are rounded: never write the result back, change the text (`setAt`).
 */
export function valueOf(text: string): unknown {
  return JSON.parse(text);
}

/** The kind of the value that a checked text holds. */
export function kindOf(text: string): JsonKind {
  return kindAt(text, skipSpace(text, 0));
}

/** The same JSON without whitespace, and with one spelling of each string; numbers stay as they are written. */
export function compact(text: string): string {
  const parts: string[] = [];
  let at = skipSpace(text, 0);
  while (at < text.length) {
    if (text[at] === '"') {
      const end = scanString(text, at);
      const raw = text.slice(at, end);
      parts.push(raw.includes("\\") ? JSON.stringify(JSON.parse(raw)) : raw);
      at = skipSpace(text, end);
    } else {
      const start = at;
      while (at < text.length && text[at] !== '"' && !isSpace(text, at)) at += 1;
      parts.push(text.slice(start, at));
      at = skipSpace(text, at);
    }
  }
  return parts.join("");
}

/** Do two texts say the same, whitespace and spelling of strings aside? `1.0` and `1` do not. */
export function isSameJson(left: string, right: string): boolean {
  return left === right || compact(left) === compact(right);
}

/** The same JSON on several lines; every token stays as it is written. */
export function prettyText(text: string, indent = 2): string {
  const parts: string[] = [];
  let depth = 0;
  const dense = compactTokens(text);
  dense.forEach((token, index) => {
    const next = dense[index + 1];
    if (token === "{" || token === "[") {
      const isEmpty = next === "}" || next === "]";
      depth += isEmpty ? 0 : 1;
      parts.push(isEmpty ? token : `${token}\n${" ".repeat(depth * indent)}`);
    } else if (token === "}" || token === "]") {
      const previous = dense[index - 1];
      if (previous === "{" || previous === "[") {
        parts.push(token);
      } else {
        depth -= 1;
        parts.push(`\n${" ".repeat(depth * indent)}${token}`);
      }
    } else if (token === ",") parts.push(`,\n${" ".repeat(depth * indent)}`);
    else parts.push(token === ":" ? ": " : token);
  });
  return parts.join("");
}

/** What an object or a list holds: with its name or index, as the text that it has in the source. */
export interface ValueEntry {
  readonly key: string | number;
  readonly text: string;
}

/** The entries of a value from `offset` on, `limit` at most; a scalar has none. Duplicate names are all listed. */
export function entriesOf(text: string, offset = 0, limit = Infinity): readonly ValueEntry[] {
  const start = skipSpace(text, 0);
  switch (kindAt(text, start)) {
    case "object":
      return membersAt(text, start)
        .members.slice(offset, offset + limit)
        .map((member) => ({ key: member.name, text: text.slice(member.start, member.end) }));
    case "array":
      return itemsAt(text, start)
        .items.slice(offset, offset + limit)
        .map((item, index) => ({ key: offset + index, text: text.slice(item.start, item.end) }));
    default:
      return [];
  }
}

/** How many entries an object or a list has; null for a scalar. */
export function entryCountOf(text: string): number | null {
  const start = skipSpace(text, 0);
  const kind = kindAt(text, start);
  if (kind === "object") return membersAt(text, start).members.length;
  return kind === "array" ? itemsAt(text, start).items.length : null;
}

export interface Table {
  readonly columns: readonly string[];
  /** A row per item, a cell per column; undefined where the item has no such member. */
  readonly rows: readonly (readonly (string | undefined)[])[];
  readonly rowsOmitted: number;
}

// 1,000 rows and 50 columns: what a person may scroll through; the tree has all of it.
export const TABLE_ROWS_MAX = 1_000;
export const TABLE_COLUMNS_MAX = 50;

/** A list of objects as a table; null for any other value. */
export function tableOf(text: string): Table | null {
  const items = kindOf(text) === "array" ? entriesOf(text) : [];
  if (items.length === 0 || items.some((item) => kindOf(item.text) !== "object")) return null;
  const rows = items.slice(0, TABLE_ROWS_MAX).map((item) => new Map(entriesOf(item.text).map(({ key, text }) => [String(key), text])));
  const columns = [...new Set(rows.flatMap((row) => [...row.keys()]))].slice(0, TABLE_COLUMNS_MAX);
  return {
    columns,
    rows: rows.map((row) => columns.map((column) => row.get(column))),
    rowsOmitted: items.length - rows.length,
  };
}

export interface Found {
  readonly path: readonly (string | number)[];
  /** Was it the name that matched, or the value? */
  readonly where: "name" | "value";
}

/** The places whose name or scalar value contains the query, upper and lower case aside; `limit` at most, in the order of the text. */
export function searchValue(text: string, query: string, limit = 200): readonly Found[] {
  const wanted = query.toLowerCase();
  const found: Found[] = [];
  const pending: { text: string; path: readonly (string | number)[] }[] = [{ text, path: [] }];
  while (wanted !== "" && pending.length > 0 && found.length < limit) {
    const { text: value, path } = pending.pop()!;
    const kind = kindOf(value);
    const name = path.at(-1);
    if (typeof name === "string" && name.toLowerCase().includes(wanted)) found.push({ path, where: "name" });
    else if (kind !== "object" && kind !== "array" && shownScalar(value).toLowerCase().includes(wanted)) {
      found.push({ path, where: "value" });
    }
    // What does not contain the query anywhere need not be opened. Escapes hide text: those are opened.
    if ((kind === "object" || kind === "array") && (value.includes("\\") || value.toLowerCase().includes(wanted))) {
      const inner = entriesOf(value).map((entry) => ({ text: entry.text, path: [...path, entry.key] }));
      pending.push(...inner.reverse());
    }
  }
  return found.slice(0, limit);
}

/** A scalar as it is shown: strings without quotes, numbers exactly as they are written. */
export function shownScalar(text: string): string {
  return kindOf(text) === "string" ? (JSON.parse(text) as string) : text.trim();
}

/** The expression that reads a place: `ctx.orders[0]['unit price']`. */
export function pathExpression(path: readonly (string | number)[], root = "ctx"): string {
  return path.reduce<string>((expression, name) => {
    if (typeof name === "number") return `${expression}[${name}]`;
    if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return `${expression}.${name}`;
    return `${expression}['${name.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}']`;
  }, root);
}

function compactTokens(text: string): string[] {
  const tokens: string[] = [];
  let at = skipSpace(text, 0);
  while (at < text.length) {
    const start = at;
    if (text[at] === '"') at = scanString(text, at);
    else if ("{}[],:".includes(text[at]!)) at += 1;
    else while (at < text.length && !"{}[],:".includes(text[at]!) && !isSpace(text, at)) at += 1;
    tokens.push(text.slice(start, at));
    at = skipSpace(text, at);
  }
  return tokens;
}

function isSpace(text: string, at: number): boolean {
  return skipSpace(text, at) !== at;
}
