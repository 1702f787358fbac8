/* Times and durations as people read them; those that still grow are kept up to date.
 *
 * Called by the views. A `time` element carries the moment it speaks of, and one timer for the
 * whole page rewrites those whose words have changed.
 */

import { setAttribute, setText } from "./dom.js";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Below this the two clocks are as good as equal: the server's header has whole seconds only. */
const SKEW_IGNORED_MS = 2_000;

let skew_ms = 0;

/** Learn from an answer's `Date` header how far this machine's clock is from the server's. */
export function noteServerDate(header) {
  const difference = Date.parse(header ?? "") - Date.now();
  if (!Number.isNaN(difference)) skew_ms = Math.abs(difference) > SKEW_IGNORED_MS ? difference : 0;
}

/** The server's time, in milliseconds. */
export function now() {
  return Date.now() + skew_ms;
}

/** Let a `time` element say how long ago a moment was; an absent moment leaves it empty. */
export function showAgo(target, iso) {
  if (iso) {
    setAttribute(target, "datetime", iso);
    setAttribute(target, "title", new Date(iso).toLocaleString());
  } else target.removeAttribute("datetime");
  target.dataset.kind = "ago";
  rewrite(target);
}

/** Let a `time` element say how long something took, or takes while `until` is absent. */
export function showDuration(target, since, until) {
  target.dataset.kind = "duration";
  target.dataset.since = since ?? "";
  target.dataset.until = until ?? "";
  rewrite(target);
}

/** `850 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export function duration(milliseconds) {
  const whole = Math.max(0, milliseconds);
  if (whole < SECOND) return `${Math.round(whole)} ms`;
  if (whole < 10 * SECOND) return `${(Math.floor(whole / 100) / 10).toFixed(1)} s`;
  if (whole < MINUTE) return `${Math.floor(whole / SECOND)} s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} min ${Math.floor((whole % MINUTE) / SECOND)} s`;
  if (whole < DAY) return `${Math.floor(whole / HOUR)} h ${Math.floor((whole % HOUR) / MINUTE)} min`;
  return `${Math.floor(whole / DAY)} d ${Math.floor((whole % DAY) / HOUR)} h`;
}

/** While it grows, tenths of a second would only be unrest. */
function growing(milliseconds) {
  return milliseconds < MINUTE ? `${Math.max(0, Math.floor(milliseconds / SECOND))} s` : duration(milliseconds);
}

function ago(milliseconds) {
  const whole = Math.max(0, milliseconds);
  if (whole < 5 * SECOND) return "just now";
  if (whole < MINUTE) return `${Math.floor(whole / SECOND)} s ago`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)} min ago`;
  if (whole < DAY) return `${Math.floor(whole / HOUR)} h ago`;
  return `${Math.floor(whole / DAY)} d ago`;
}

function rewrite(target) {
  const { kind, since, until } = target.dataset;
  if (kind === "ago") {
    const moment = target.getAttribute("datetime");
    setText(target, moment ? ago(now() - Date.parse(moment)) : "");
  } else if (!since) setText(target, "");
  else if (until) setText(target, duration(Date.parse(until) - Date.parse(since)));
  else setText(target, growing(now() - Date.parse(since)));
}

setInterval(() => document.querySelectorAll("time[data-kind]").forEach(rewrite), SECOND);
