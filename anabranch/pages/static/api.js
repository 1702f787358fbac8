/* The REST door as the page uses it: the key, one request, and what its refusals say.
 *
 * Called by the views. The key lives in this tab's sessionStorage: not in a cookie, so that no other
 * page can act with it, and not in the address bar, where it would be copied along with a link.
 */

import { noteServerDate } from "./times.js";

const KEY = "anabranch.key";

/** A list that is paged: never more than this at once. */
export const PAGE_MAX = 100;

/** A refusal of the server, or its silence (`status` 0), in words for the person who reads. */
export class Refusal extends Error {
  constructor(status, { code = "", message = "", hint = "", details = null } = {}) {
    super(message || `the server answered with ${status}`);
    Object.assign(this, { status, code, hint, details });
  }

  /** What happened and what to do, as one text. */
  get advice() {
    return [this.message, this.hint].filter(Boolean).map(sentence).join(" ");
  }
}

/** Take the key that came with the address, and remove it from there and from the history at once. */
export function takeKeyFromAddress() {
  const address = new URL(location.href);
  const key = address.searchParams.get("key");
  if (key === null) return;
  address.searchParams.delete("key");
  history.replaceState(null, "", address.pathname + address.search + address.hash);
  if (key) setKey(key);
}

export function key() {
  return sessionStorage.getItem(KEY);
}

export function setKey(value) {
  if (value === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, value);
}

/** The JSON answer of a path below /v1. Throws a Refusal otherwise. */
export async function request(path, { method = "GET", body } = {}) {
  // A byte that HTTP headers cannot carry makes fetch throw, and such a key is none.
  if (!/^[\x21-\x7e]+$/.test(key() ?? "")) throw new Refusal(401, { message: "this is not an API key" });
  const headers = { Authorization: `Bearer ${key()}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`/v1${path}`, { method, headers, body: JSON.stringify(body) });
  } catch {
    throw new Refusal(0, { message: "the server does not answer", hint: "This page goes on trying." });
  }
  noteServerDate(answer.headers.get("Date"));
  const content = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refusal(answer.status, content?.error);
  return content;
}

/** A path with a query; values that are null or empty are left out. */
export function withQuery(path, values) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value != null && value !== ""));
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

function sentence(text) {
  const begun = text[0].toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
