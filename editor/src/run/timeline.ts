/** The timeline of a run: what each activation did when, iterations grouped under their loop, failures first. */

import { outerOf, partsOf } from "./scopes";
import { hasEnded, instantOf, STATUS_OF_ROW, type Activation, type LogRow, type NodeStatus } from "./shapes";
import type { RunLog } from "./runLog";

export interface Segment {
  readonly kind: "queued" | "running" | "waiting" | "retrying";
  readonly attempt: number;
  /** Milliseconds since the epoch; null: it goes on. */
  readonly from: number;
  readonly to: number | null;
}

export interface Bar {
  readonly kind: "activation";
  readonly nodeID: string;
  readonly scope: string;
  readonly depth: number;
  readonly status: NodeStatus;
  readonly segments: readonly Segment[];
}

/** All iterations, or passes, of a loop in one scope; or one of them. */
export interface Group {
  readonly kind: "loop" | "iteration";
  readonly nodeID: string;
  /** Of a loop the scope that it is in, of an iteration its own. */
  readonly scope: string;
  readonly depth: number;
  readonly failed: number;
  readonly count: number;
}

export type TimelineRow = Bar | Group;

/** What is opened in the list: `groupKey` of loops and iterations. */
export type Opened = ReadonlySet<string>;

export function groupKey(group: Pick<Group, "kind" | "nodeID" | "scope">): string {
  return `${group.kind} ${group.nodeID}\n${group.scope}`;
}

export interface TimelineOptions {
  readonly opened: Opened;
  /** Leave out what did not fail, or does not wait. */
  readonly only?: "failed" | "waiting" | null;
  /** Leave out nodes whose name does not contain it. */
  readonly text?: string;
  readonly nameOf?: (nodeID: string) => string;
}

interface Branch {
  readonly bars: Bar[];
  /** By loop, then by iteration scope. */
  readonly loops: Map<string, Map<string, Branch>>;
  failed: number;
  count: number;
}

/** The rows of the list from top to bottom: as many as are opened, for a virtualised list. */
export function timelineOf(log: RunLog, endedAt: number | null, options: TimelineOptions): readonly TimelineRow[] {
  const root = branch();
  const wanted = (options.text ?? "").toLowerCase();
  for (const { nodeID, scope } of log.places()) {
    const bar = barOf(log.rowsOf(nodeID, scope), endedAt);
    if (options.only === "failed" && bar.status !== "error") continue;
    if (options.only === "waiting" && bar.status !== "waiting" && bar.status !== "retrying") continue;
    if (wanted !== "" && !(options.nameOf?.(nodeID) ?? nodeID).toLowerCase().includes(wanted)) continue;
    let at = root;
    const path: string[] = [];
    for (const part of scope === "" ? [] : scope.split("/")) {
      path.push(part);
      const iteration = path.join("/");
      const { nodeID: loopID } = outerOf(part)!.part;
      at.failed += bar.status === "error" ? 1 : 0;
      const iterations = at.loops.get(loopID) ?? new Map<string, Branch>();
      at.loops.set(loopID, iterations);
      const inner = iterations.get(iteration) ?? branch();
      iterations.set(iteration, inner);
      at = inner;
    }
    at.failed += bar.status === "error" ? 1 : 0;
    at.bars.push(bar);
  }
  const rows: TimelineRow[] = [];
  emit(root, "", 0, options.opened, rows);
  return rows;
}

function emit(at: Branch, scope: string, depth: number, opened: Opened, rows: TimelineRow[]): void {
  const shown = new Set<string>();
  const loopRows = (loopID: string) => {
    const iterations = at.loops.get(loopID);
    if (iterations === undefined || shown.has(loopID)) return;
    shown.add(loopID);
    const branches = [...iterations];
    const failed = branches.filter(([, inner]) => inner.failed > 0).length;
    const group: Group = { kind: "loop", nodeID: loopID, scope, depth: depth + 1, failed, count: branches.length };
    rows.push(group);
    if (!opened.has(groupKey(group))) return;
    branches.sort(([left, a], [right, b]) => Number(b.failed > 0) - Number(a.failed > 0) || indexOf(left) - indexOf(right));
    for (const [iteration, inner] of branches) {
      const row: Group = { kind: "iteration", nodeID: loopID, scope: iteration, depth: depth + 2, failed: inner.failed, count: inner.bars.length };
      rows.push(row);
      if (opened.has(groupKey(row))) emit(inner, iteration, depth + 3, opened, rows);
    }
  };
  for (const bar of openFirst(at.bars)) {
    rows.push({ ...bar, depth });
    loopRows(bar.nodeID);
  }
  // Loops that are filtered out themselves, and regions, whose header has no activation around them.
  for (const loopID of at.loops.keys()) loopRows(loopID);
}

/** What an activation did, from its rows. `endedAt`: when the run ended. */
export function barOf(rows: readonly LogRow[], endedAt: number | null): Bar {
  const segments: Segment[] = [];
  let status: NodeStatus = "running";
  rows.forEach((row, index) => {
    const from = instantOf(row.createdAt);
    const next = rows[index + 1];
    const to = next === undefined ? endedAt : instantOf(next.createdAt);
    status = STATUS_OF_ROW[row.eventType] ?? status;
    if (hasEnded(status)) return;
    const kind = status as Segment["kind"];
    const last = segments.at(-1);
    if (last?.kind === kind && last.attempt === row.nodeAttempt) segments[segments.length - 1] = { ...last, to };
    else segments.push({ kind, attempt: row.nodeAttempt, from, to });
  });
  const { nodeID, scope } = rows[0]!;
  const shown = endedAt !== null && !hasEnded(status) ? "cancelled" : status;
  return { kind: "activation", nodeID, scope, depth: partsOf(scope).length, status: shown, segments };
}

/** The same with when the handler of its last attempt began: until then it was queued. Null: it is not known to have. */
export function withBeginning(bar: Bar, { isQueued, beganAt }: Pick<Activation, "isQueued" | "beganAt">): Bar {
  const index = bar.segments.findLastIndex(({ kind }) => kind === "running");
  const running = bar.segments[index];
  if (running === undefined || (beganAt === null && !isQueued)) return bar;
  const began = beganAt === null ? null : Math.max(running.from, instantOf(beganAt));
  if (began !== null && running.to !== null && began >= running.to) return bar;
  const queued: Segment = { ...running, kind: "queued", to: began };
  const segments = began === null ? [queued] : began === running.from ? [running] : [queued, { ...running, from: began }];
  return { ...bar, segments: bar.segments.toSpliced(index, 1, ...segments) };
}

/** Failures first, then what goes on, then all else as it began. */
function openFirst(bars: readonly Bar[]): Bar[] {
  const rank = ({ status }: Bar) => (status === "error" ? 0 : hasEnded(status) ? 2 : 1);
  return bars.toSorted((left, right) => rank(left) - rank(right));
}

function indexOf(scope: string): number {
  return outerOf(scope)!.part.index;
}

function branch(): Branch {
  return { bars: [], loops: new Map(), failed: 0, count: 0 };
}
