/**
 * JSON as spans of its source text: where each value, member and item begins and ends.
 *
 * Nothing here makes JavaScript values of JSON, so nothing is lost: 64-bit integers, `1.0`, the order and the
 * repetition of names, and whitespace stay in the text. Nesting of any depth is scanned without recursion.
 */

export class JsonError extends Error {
  override readonly name = "JsonError";
  /** Where in the text it is, counted from 0. */
  readonly offset: number;
  readonly line: number;
  readonly column: number;

  constructor(message: string, text: string, offset: number) {
    const before = text.slice(0, offset);
    const line = before.split("\n").length;
    const column = offset - (before.lastIndexOf("\n") + 1) + 1;
    super(`${message} at line ${line}, column ${column}`);
    this.offset = offset;
    this.line = line;
    this.column = column;
  }
}

export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A member of an object: `start` and `end` are those of its value. */
export interface MemberSpan extends Span {
  readonly name: string;
  readonly nameStart: number;
  readonly nameEnd: number;
}

export interface Members {
  readonly open: number;
  /** Where the closing brace is. */
  readonly close: number;
  readonly members: readonly MemberSpan[];
}

export interface Items {
  readonly open: number;
  /** Where the closing bracket is. */
  readonly close: number;
  readonly items: readonly Span[];
}

export type JsonKind = "null" | "boolean" | "number" | "string" | "array" | "object";

const QUOTE = 34;
const COMMA = 44;
const MINUS = 45;
const DOT = 46;
const ZERO = 48;
const NINE = 57;
const COLON = 58;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

/** The kind of the value that begins at `at`, by its first character. */
export function kindAt(text: string, at: number): JsonKind {
  const code = text.charCodeAt(at);
  if (code === OPEN_BRACE) return "object";
  if (code === OPEN_BRACKET) return "array";
  if (code === QUOTE) return "string";
  if (code === MINUS || isDigit(code)) return "number";
  return text[at] === "n" ? "null" : "boolean";
}

/** The first place at or after `at` that is no whitespace of JSON. */
export function skipSpace(text: string, at: number): number {
  for (;;) {
    const code = text.charCodeAt(at);
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return at;
    at += 1;
  }
}

/** Check the value that begins at `start`; returns where it ends. Throws `JsonError`. */
export function scanValue(text: string, start: number): number {
  const closers: number[] = [];
  let at = start;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code === OPEN_BRACE) {
      at = skipSpace(text, at + 1);
      if (text.charCodeAt(at) !== CLOSE_BRACE) {
        closers.push(CLOSE_BRACE);
        at = scanName(text, at);
        continue;
      }
      at += 1;
    } else if (code === OPEN_BRACKET) {
      at = skipSpace(text, at + 1);
      if (text.charCodeAt(at) !== CLOSE_BRACKET) {
        closers.push(CLOSE_BRACKET);
        continue;
      }
      at += 1;
    } else {
      at = scanScalar(text, at);
    }
    // A value has ended: whatever it was the last of ends with it.
    for (;;) {
      const closer = closers[closers.length - 1];
      if (closer === undefined) return at;
      at = skipSpace(text, at);
      const next = text.charCodeAt(at);
      if (next === COMMA) {
        at = skipSpace(text, at + 1);
        if (closer === CLOSE_BRACE) at = scanName(text, at);
        break;
      }
      if (next !== closer) throw unexpected(text, at, closer === CLOSE_BRACE ? "',' or '}'" : "',' or ']'");
      closers.pop();
      at += 1;
    }
  }
}

/** Check that the text is one JSON value, with nothing but whitespace around it; returns where the value is. */
export function scanDocument(text: string): Span {
  const start = skipSpace(text, 0);
  const end = scanValue(text, start);
  if (skipSpace(text, end) !== text.length) throw unexpected(text, skipSpace(text, end), "the end");
  return { start, end };
}

/** The members of the object that begins at `start`. The text must have been checked. */
export function membersAt(text: string, start: number): Members {
  const members: MemberSpan[] = [];
  let at = skipSpace(text, start + 1);
  while (text.charCodeAt(at) !== CLOSE_BRACE) {
    if (members.length > 0) at = skipSpace(text, at + 1);
    const nameStart = at;
    const nameEnd = scanString(text, at);
    const valueStart = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const end = scanValue(text, valueStart);
    members.push({ name: stringAt(text, nameStart, nameEnd), nameStart, nameEnd, start: valueStart, end });
    at = skipSpace(text, end);
  }
  return { open: start, close: at, members };
}

/** The string between these places of a checked text, quotes included. */
function stringAt(text: string, start: number, end: number): string {
  const inside = text.slice(start + 1, end - 1);
  return inside.includes("\\") ? (JSON.parse(text.slice(start, end)) as string) : inside;
}

/** The items of the array that begins at `start`. The text must have been checked. */
export function itemsAt(text: string, start: number): Items {
  const items: Span[] = [];
  let at = skipSpace(text, start + 1);
  while (text.charCodeAt(at) !== CLOSE_BRACKET) {
    if (items.length > 0) at = skipSpace(text, at + 1);
    const end = scanValue(text, at);
    items.push({ start: at, end });
    at = skipSpace(text, end);
  }
  return { open: start, close: at, items };
}

/** Does the text hold exactly one JSON number, as a form field may? */
export function isNumberText(text: string): boolean {
  return /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/.test(text);
}

function scanName(text: string, at: number): number {
  if (text.charCodeAt(at) !== QUOTE) throw unexpected(text, at, "a name in quotes");
  const colon = skipSpace(text, scanString(text, at));
  if (text.charCodeAt(colon) !== COLON) throw unexpected(text, colon, "':'");
  return skipSpace(text, colon + 1);
}

function scanScalar(text: string, at: number): number {
  const code = text.charCodeAt(at);
  if (code === QUOTE) return scanString(text, at);
  if (code === MINUS || isDigit(code)) return scanNumber(text, at);
  for (const word of ["true", "false", "null"]) {
    if (text.startsWith(word, at)) return at + word.length;
  }
  throw unexpected(text, at, "a value");
}

/** Where the string that begins at `at` ends, after its closing quote. */
export function scanString(text: string, at: number): number {
  let next = at + 1;
  for (;;) {
    const code = text.charCodeAt(next);
    if (code === QUOTE) return next + 1;
    if (Number.isNaN(code)) throw new JsonError("a text without its closing quote", text, at);
    if (code < 32) throw new JsonError("a control character inside of a text", text, next);
    if (code !== BACKSLASH) {
      next += 1;
    } else {
      const escape = text[next + 1];
      if (escape === "u" && /^[0-9a-fA-F]{4}$/.test(text.slice(next + 2, next + 6))) next += 6;
      else if (escape !== undefined && '"\\/bfnrt'.includes(escape)) next += 2;
      else throw new JsonError("an unknown escape inside of a text", text, next);
    }
  }
}

function scanNumber(text: string, at: number): number {
  let next = text.charCodeAt(at) === MINUS ? at + 1 : at;
  if (text.charCodeAt(next) === ZERO) next += 1;
  else next = scanDigits(text, next);
  if (text.charCodeAt(next) === DOT) next = scanDigits(text, next + 1);
  if (text[next] === "e" || text[next] === "E") {
    const signed = text[next + 1] === "+" || text[next + 1] === "-";
    next = scanDigits(text, next + (signed ? 2 : 1));
  }
  return next;
}

function scanDigits(text: string, at: number): number {
  let next = at;
  while (isDigit(text.charCodeAt(next))) next += 1;
  if (next === at) throw unexpected(text, at, "a digit");
  return next;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE;
}

function unexpected(text: string, at: number, wanted: string): JsonError {
  return new JsonError(at >= text.length ? `the text ends where ${wanted} should stand` : `${wanted} expected`, text, at);
}
