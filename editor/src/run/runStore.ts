/**
 * A run as it is now: folds snapshots and updates, and notifies the views of a node that it has changed.
 *
 * It lives outside of React. Messages change maps and nothing else; once a frame, by the given scheduler, the nodes
 * that are shown and whose summary is another one are told. What is remembered is bounded: ended activations of
 * iterations give way, the oldest first and failures last; counts stay true.
 */

import {
  hasEnded,
  isOver,
  type Activation,
  type ActivationMessage,
  type Failure,
  type NodeSummary,
  type RunStatus,
  type RunView,
  type SnapshotMessage,
  type StatusMessage,
  type SummaryMessage,
  type UpdateMessage,
} from "./shapes";
import { isWithin, iterationOf, outerOf } from "./scopes";
import { Tally } from "./tally";

/** Runs a function before the next frame: `requestAnimationFrame`, or a test's own. */
export type Scheduler = (flush: () => void) => void;

// 20,000 activations: some 10 MB. A canvas shows one or the counts; lists ask the server.
export const ACTIVATIONS_KEPT_MAX = 20_000;

export interface RunHead {
  readonly status: RunStatus;
  readonly seq: number;
  readonly output: unknown;
  readonly error: unknown;
  /** Null until the run has ended, or where it is too large. */
  readonly context: unknown;
  readonly recoveries: number;
  /** How many activations the server has not listed. */
  readonly nodesOmitted: number;
}

interface Loop {
  iterations: number;
  /** How many there will be; null: not known. */
  total: number | null;
  failed: number;
}

class NodeEntry {
  readonly tally = new Tally();
  latest: Activation | null = null;
  firstFailure: { readonly scope: string; readonly seq: number } | null = null;
  summary: NodeSummary;

  constructor(nodeID: string) {
    this.summary = emptySummary(nodeID);
  }
}

export class RunStore implements RunView {
  #head: RunHead = { status: "PENDING", seq: 0, output: null, error: null, context: null, recoveries: 0, nodesOmitted: 0 };
  readonly #schedule: Scheduler;
  readonly #nodes = new Map<string, NodeEntry>();
  readonly #activations = new Map<string, Activation>();
  /** Ended activations of iterations, the oldest first: these may be forgotten. */
  readonly #forgettable = new Set<string>();
  readonly #failures = new Map<string, Failure>();
  readonly #loops = new Map<string, Loop>();
  readonly #dirty = new Set<string>();
  readonly #nodeListeners = new Map<string, Set<() => void>>();
  readonly #runListeners = new Set<() => void>();
  #isHeadDirty = false;
  #isScheduled = false;
  #sortedFailures: readonly Failure[] | null = null;

  constructor(schedule: Scheduler) {
    this.#schedule = schedule;
  }

  get head(): RunHead {
    return this.#head;
  }

  get seq(): number {
    return this.#head.seq;
  }

  get status(): RunStatus {
    return this.#head.status;
  }

  /** The answer to a join, or what comes in place of missed updates: what it does not list has not changed since. */
  takeSnapshot(snapshot: SnapshotMessage): void {
    if (snapshot.seq < this.#head.seq) return;
    for (const node of snapshot.nodes) this.#upsert(node);
    for (const [nodeID, counts] of Object.entries(snapshot.counts ?? {})) {
      this.#entry(nodeID).tally.setCounts(counts);
      this.#touch(nodeID);
    }
    this.#setHead({ status: snapshot.status, seq: snapshot.seq, nodesOmitted: snapshot.nodesOmitted ?? 0 });
  }

  /** A batch of updates, or one. Those of an older seq than an activation has are passed over. */
  takeUpdates(updates: readonly UpdateMessage[]): void {
    for (const update of updates) {
      if (update.event === "workflow_node_update") {
        this.#upsert(update);
        if (update.seq !== null && update.seq > this.#head.seq) this.#setHead({ seq: update.seq });
      } else {
        this.takeStatus(update);
      }
    }
  }

  takeStatus(update: StatusMessage): void {
    if (update.seq < this.#head.seq) return;
    const { status, seq, output = null, error = null, contextData = null, recoveries = this.#head.recoveries } = update;
    this.#setHead({ status, seq, output, error, context: contextData, recoveries });
  }

  /** Activations that were asked for: steps, or those of one iteration. They change no counts that the server gave. */
  takeSteps(steps: readonly ActivationMessage[]): void {
    for (const step of steps) {
      const entry = this.#entry(step.nodeID);
      const isCounted = (step.seq ?? 0) <= this.#head.seq && entry.tally.total > 0 && !this.#activations.has(keyOf(step.nodeID, step.scope));
      const before = new Tally(entry.tally);
      this.#upsert(step);
      if (!isCounted) continue;
      entry.tally.setCounts(before.counts);
      // What was forgotten here had left its exits behind; what was never listed had not.
      if (this.#head.nodesOmitted === 0) entry.tally.setExits(before.exits);
    }
  }

  /** The whole of a big run in one answer. */
  takeSummary(summary: SummaryMessage): void {
    for (const { nodeID, counts, firstError } of summary.nodes) {
      const entry = this.#entry(nodeID);
      entry.tally.setCounts(counts);
      entry.firstFailure = firstError == null ? entry.firstFailure : { scope: firstError.scope, seq: firstError.seq };
      this.#touch(nodeID);
    }
    for (const { nodeID, scope, iterations, failed } of summary.loops) {
      const loop = this.#loop(nodeID, scope);
      loop.iterations = Math.max(loop.iterations, iterations);
      loop.failed = failed;
      this.#touch(nodeID);
    }
    if (summary.seq > this.#head.seq) this.#setHead({ seq: summary.seq });
  }

  /** The summary of a node: the same object until the frame after something of it has changed. */
  node(nodeID: string): NodeSummary {
    return this.#entry(nodeID).summary;
  }

  activation(nodeID: string, scope: string): Activation | undefined {
    return this.#activations.get(keyOf(nodeID, scope));
  }

  /** The same of the activations in one iteration, or below it, as far as they are known here. */
  nodeWithin(nodeID: string, scope: string): NodeSummary {
    const tally = new Tally();
    let latest: Activation | null = null;
    let failure: Activation | null = null;
    for (const activation of this.#activations.values()) {
      if (activation.nodeID !== nodeID || !isWithin(activation.scope, scope)) continue;
      tally.move(undefined, activation);
      if (latest === null || activation.seq >= latest.seq) latest = activation;
      if (activation.status === "error" && (failure === null || activation.seq < failure.seq)) failure = activation;
    }
    return this.#summaryOf(nodeID, { tally, latest, firstFailure: failure && { scope: failure.scope, seq: failure.seq } });
  }

  failures(): readonly Failure[] {
    this.#sortedFailures ??= sortedFailures(this.#failures.values());
    return this.#sortedFailures;
  }

  iterations(loopID: string, scope: string): number {
    return this.#loops.get(keyOf(loopID, scope))?.iterations ?? 0;
  }

  /** How many iterations a loop will have had at its end, where that is known. */
  iterationsInAll(loopID: string, scope: string): number | null {
    return this.#loops.get(keyOf(loopID, scope))?.total ?? null;
  }

  /** How many iterations of a loop have failed, as the server's summary has said or the failures that are known say. */
  failedIterations(loopID: string, scope: string): number {
    const told = this.#loops.get(keyOf(loopID, scope))?.failed ?? 0;
    const known = new Set([...this.#failures.values()].map((failure) => (failure.isHandled ? null : iterationOf(failure.scope, loopID, scope))));
    known.delete(null);
    return Math.max(told, known.size);
  }

  subscribeNode(nodeID: string, listener: () => void): () => void {
    const listeners = this.#nodeListeners.get(nodeID) ?? new Set();
    this.#nodeListeners.set(nodeID, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#nodeListeners.get(nodeID) === listeners) this.#nodeListeners.delete(nodeID);
    };
  }

  /** Be told when status, seq or failures have changed, once a frame. */
  subscribeRun(listener: () => void): () => void {
    this.#runListeners.add(listener);
    return () => this.#runListeners.delete(listener);
  }

  #upsert(message: ActivationMessage): void {
    const key = keyOf(message.nodeID, message.scope);
    const before = this.#activations.get(key);
    // A hint is about what is open, and in no row yet.
    if (message.seq === null && (before === undefined || hasEnded(before.status))) return;
    if (before !== undefined && message.seq !== null && message.seq < before.seq) return;
    const after = merged(before, message);
    if (before !== undefined && isSameActivation(before, after)) return;
    const entry = this.#entry(message.nodeID);
    entry.tally.move(before, after);
    // To the end of the map only when it is new: the oldest is the one that was reached first.
    this.#activations.set(key, after);
    if (entry.latest === null || after.seq >= entry.latest.seq || keyOf(entry.latest.nodeID, entry.latest.scope) === key) entry.latest = after;
    this.#noteFailure(key, entry, after);
    this.#noteIteration(message.scope);
    if (message.iterations != null) this.#loop(message.nodeID, message.scope).total = message.iterations;
    this.#forget(key, after);
    this.#touch(message.nodeID);
  }

  #noteFailure(key: string, entry: NodeEntry, { nodeID, scope, status, seq, handles }: Activation): void {
    if (status === "error") {
      this.#failures.set(key, { nodeID, scope, seq, isHandled: (handles ?? []).length > 0 });
      if (entry.firstFailure === null || seq < entry.firstFailure.seq) entry.firstFailure = { scope, seq };
    } else if (this.#failures.delete(key) && entry.firstFailure?.scope === scope) {
      entry.firstFailure = firstOf([...this.#failures.values()].filter((failure) => failure.nodeID === nodeID));
    } else {
      return;
    }
    this.#sortedFailures = null;
    this.#isHeadDirty = true;
  }

  #noteIteration(scope: string): void {
    const outer = outerOf(scope);
    if (outer === null) return;
    const { nodeID, kind, index } = outer.part;
    const loop = this.#loop(nodeID, outer.scope);
    const count = kind === "iteration" ? index + 1 : index;
    if (count <= loop.iterations) return;
    loop.iterations = count;
    this.#touch(nodeID);
  }

  #forget(key: string, { scope, status }: Activation): void {
    if (scope === "" || status === "error" || !hasEnded(status)) {
      this.#forgettable.delete(key);
      return;
    }
    this.#forgettable.add(key);
    if (this.#activations.size <= ACTIVATIONS_KEPT_MAX) return;
    const oldest = this.#forgettable.values().next().value!;
    this.#forgettable.delete(oldest);
    this.#activations.delete(oldest);
  }

  #setHead(change: Partial<RunHead>): void {
    this.#head = { ...this.#head, ...change };
    this.#isHeadDirty = true;
    this.#wake();
  }

  #touch(nodeID: string): void {
    this.#dirty.add(nodeID);
    this.#wake();
  }

  #wake(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#schedule(() => this.#flush());
  }

  #flush(): void {
    this.#isScheduled = false;
    const changed: string[] = [];
    for (const nodeID of this.#dirty) {
      const entry = this.#entry(nodeID);
      const summary = this.#summaryOf(nodeID, entry);
      if (isSameSummary(entry.summary, summary)) continue;
      entry.summary = summary;
      changed.push(nodeID);
    }
    this.#dirty.clear();
    const isHeadDirty = this.#isHeadDirty;
    this.#isHeadDirty = false;
    for (const nodeID of changed) for (const listener of [...(this.#nodeListeners.get(nodeID) ?? [])]) listener();
    if (isHeadDirty) for (const listener of [...this.#runListeners]) listener();
  }

  #summaryOf(nodeID: string, { tally, latest, firstFailure }: Pick<NodeEntry, "tally" | "latest" | "firstFailure">): NodeSummary {
    const exits = { ...tally.exits };
    // An open loop has left by `loop` already; its handles are told with its end.
    if (exits["loop"] === undefined && latest !== null && this.iterations(nodeID, latest.scope) > 0) exits["loop"] = 1;
    const counts = { ...tally.counts };
    return { nodeID, counts, total: tally.total, ended: tally.ended, status: tally.status, latest, exits, firstFailure, iterationsInAll: this.iterationsInAll(nodeID, "") };
  }

  #entry(nodeID: string): NodeEntry {
    let entry = this.#nodes.get(nodeID);
    if (entry === undefined) {
      entry = new NodeEntry(nodeID);
      this.#nodes.set(nodeID, entry);
    }
    return entry;
  }

  #loop(nodeID: string, scope: string): Loop {
    const key = keyOf(nodeID, scope);
    let loop = this.#loops.get(key);
    if (loop === undefined) {
      loop = { iterations: 0, total: null, failed: 0 };
      this.#loops.set(key, loop);
    }
    return loop;
  }
}

/** The failure after this one, as the list has them; the first after the last, null where nothing failed. `loop`: of that one only. */
export function nextFailure(
  view: RunView,
  after: { readonly nodeID: string; readonly scope: string } | null,
  loop?: { readonly nodeID: string; readonly outer: string },
): Failure | null {
  const failures = view.failures().filter(({ scope }) => loop === undefined || iterationOf(scope, loop.nodeID, loop.outer) !== null);
  const index = after === null ? -1 : failures.findIndex(({ nodeID, scope }) => nodeID === after.nodeID && scope === after.scope);
  return failures[(index + 1) % failures.length] ?? null;
}

/** One sentence for the live region: "3 running, 1 failed: charge"; "" while nothing is known. */
export function spokenSummary(view: RunView, nodeIDs: Iterable<string>, nameOf: (nodeID: string) => string): string {
  if (isOver(view.status) && view.status !== "FAILED") return `Run ${view.status.toLowerCase()}`;
  let [running, waiting] = [0, 0];
  for (const nodeID of nodeIDs) {
    const { counts } = view.node(nodeID);
    running += (counts.running ?? 0) + (counts.retrying ?? 0);
    waiting += counts.waiting ?? 0;
  }
  const failures = view.failures().filter((failure) => !failure.isHandled);
  const names = [...new Set(failures.map((failure) => nameOf(failure.nodeID)))].slice(0, 3);
  const parts = [
    running > 0 ? `${running} running` : "",
    waiting > 0 ? `${waiting} waiting` : "",
    failures.length > 0 ? `${failures.length} failed: ${names.join(", ")}` : "",
  ].filter((part) => part !== "");
  return [view.status === "FAILED" ? "Run failed" : "", ...parts].filter((part) => part !== "").join(", ");
}

export function sortedFailures(failures: Iterable<Failure>): readonly Failure[] {
  return [...failures].sort((left, right) => Number(left.isHandled) - Number(right.isHandled) || left.seq - right.seq);
}

export function emptySummary(nodeID: string): NodeSummary {
  return { nodeID, counts: {}, total: 0, ended: 0, status: null, latest: null, exits: {}, firstFailure: null, iterationsInAll: null };
}

export function keyOf(nodeID: string, scope: string): string {
  return `${nodeID}\n${scope}`;
}

function merged(before: Activation | undefined, message: ActivationMessage): Activation {
  const { nodeID, scope, status, attempt } = message;
  const seq = message.seq ?? before?.seq ?? 0;
  const at = message.at ?? null;
  const ended = hasEnded(status) && status !== "cancelled";
  return {
    nodeID,
    scope,
    status,
    attempt,
    seq,
    at,
    // An update has no times but its own: the first one of an activation that runs is its beginning.
    startedAt: message.startedAt ?? before?.startedAt ?? (before === undefined && status === "running" ? at : null),
    endedAt: message.endedAt ?? (ended ? at : null),
    handles: message.handles ?? null,
    waitsFor: message.waitsFor ?? null,
    error: message.error ?? null,
    output: "output" in message ? message.output : before?.output,
    progress: message.progress ?? null,
    isQueued: message.queued === true,
    beganAt: message.beganAt ?? (before?.attempt === attempt ? before.beganAt : null),
  };
}

function firstOf(failures: readonly Failure[]): { readonly scope: string; readonly seq: number } | null {
  const first = failures.reduce<Failure | null>((least, failure) => (least === null || failure.seq < least.seq ? failure : least), null);
  return first && { scope: first.scope, seq: first.seq };
}

function isSameSummary(left: NodeSummary, right: NodeSummary): boolean {
  return (
    left.latest === right.latest &&
    left.status === right.status &&
    left.iterationsInAll === right.iterationsInAll &&
    left.firstFailure?.seq === right.firstFailure?.seq &&
    left.firstFailure?.scope === right.firstFailure?.scope &&
    isSameRecord(left.counts, right.counts) &&
    isSameRecord(left.exits, right.exits)
  );
}

/** Was it only told again? */
function isSameActivation(left: Activation, right: Activation): boolean {
  if (left.seq !== right.seq || left.status !== right.status || left.output !== right.output) return false;
  const said = ({ startedAt, endedAt, at, handles, waitsFor, error, progress, isQueued, beganAt }: Activation) =>
    JSON.stringify([startedAt, endedAt, at, handles, waitsFor, error, progress, isQueued, beganAt]);
  return said(left) === said(right);
}

function isSameRecord(left: Readonly<Record<string, unknown>>, right: Readonly<Record<string, unknown>>): boolean {
  const names = Object.keys(left);
  return names.length === Object.keys(right).length && names.every((name) => left[name] === right[name]);
}
