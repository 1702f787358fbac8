/** Times and durations as people read them; relative ones go on by themselves. */

import { useSyncExternalStore, type ReactElement } from "react";

import { serverNow } from "../api/client";

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const ABSOLUTE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

const STEPS: readonly [limit: number, unit: Intl.RelativeTimeFormatUnit, size: number][] = [
  [60_000, "second", 1_000],
  [3_600_000, "minute", 60_000],
  [86_400_000, "hour", 3_600_000],
  [30 * 86_400_000, "day", 86_400_000],
];

/** A time as seen from now: "3 min. ago", "in 2 hr."; older than a month, its date. */
export function relative(time: string, now: number): string {
  const difference = Date.parse(time) - now;
  if (Math.abs(difference) < 2_000) return "now";
  for (const [limit, unit, size] of STEPS) {
    if (Math.abs(difference) < limit) return RELATIVE.format(Math.round(difference / size), unit);
  }
  return new Date(time).toLocaleDateString("en-GB", { dateStyle: "medium" });
}

export function absolute(time: string): string {
  return ABSOLUTE.format(Date.parse(time));
}

export function clock(time: number): string {
  return CLOCK.format(time);
}

/** 0 → "0 ms", 1532 → "1.5 s", 3 700 000 → "1 h 2 min". */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const parts: readonly [number, string][] = [
    [Math.floor(ms / 86_400_000), "d"],
    [Math.floor(ms / 3_600_000) % 24, "h"],
    [Math.floor(ms / 60_000) % 60, "min"],
    [Math.floor(ms / 1_000) % 60, "s"],
  ];
  return parts
    .filter(([count]) => count > 0)
    .slice(0, 2)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(" ");
}

const watchers = new Set<() => void>();
let now = 0;
let timer: ReturnType<typeof setInterval> | undefined;

function watchClock(changed: () => void): () => void {
  watchers.add(changed);
  timer ??= setInterval(() => {
    now = serverNow();
    for (const watcher of [...watchers]) watcher();
  }, 1_000);
  return () => {
    watchers.delete(changed);
    if (watchers.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The time by the server's clock, new every second. */
export function useNow(): number {
  return useSyncExternalStore(watchClock, () => (timer === undefined || now === 0 ? (now = serverNow()) : now));
}

export function Ago({ time }: { time: string }): ReactElement {
  const at = useNow();
  return (
    <time dateTime={time} title={absolute(time)}>
      {relative(time, at)}
    </time>
  );
}

/** How long something took, or has taken so far. */
export function Took({ from, to }: { from: string | null; to: string | null }): ReactElement | null {
  const at = useNow();
  if (from === null) return null;
  return <span className="numbers">{duration((to === null ? at : Date.parse(to)) - Date.parse(from))}</span>;
}
