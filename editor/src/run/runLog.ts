/**
 * A run's log without payloads, and the run as of any row of it: for the time slider and the timeline.
 *
 * Rows are taken in order. Every 500 rows the counts of all nodes are kept; the run as of a row is the checkpoint before
 * it and at most 500 rows more. What a single activation was is read from its own rows.
 */

import {
  hasEnded,
  isOver,
  STATUS_OF_ROW,
  worstOf,
  type Activation,
  type Counts,
  type Failure,
  type LogRow,
  type NodeStatus,
  type NodeSummary,
  type RunStatus,
  type RunView,
} from "./shapes";
import { keyOf, sortedFailures } from "./runStore";
import { outerOf } from "./scopes";
import { Tally } from "./tally";

// 500 rows are folded in a millisecond; 50,000 rows of some 200 bytes are 10 MB.
export const CHECKPOINT_ROWS = 500;
export const LOG_ROWS_MAX = 50_000;

const RUN_STATUS_OF: Readonly<Record<string, RunStatus>> = {
  INSTANCE_COMPLETED: "COMPLETED",
  INSTANCE_FAILED: "FAILED",
  INSTANCE_CANCELLED: "CANCELLED",
  INSTANCE_SUSPENDED: "SUSPENDED",
  INSTANCE_RESUMED: "RUNNING",
  INSTANCE_REOPENED: "RUNNING",
};

/** The run's own activation in coded runs: its function. It is not a node. */
const FUNCTION_NODE_ID = "";

interface Checkpoint {
  readonly tallies: ReadonlyMap<string, Tally>;
  readonly status: RunStatus;
  /** The row that ended the run; 0 while it is open. */
  readonly endedBy: number;
}

export class RunLog {
  readonly #rows: LogRow[] = [];
  /** The row before this one of the same activation, as an index; -1 for the first. */
  readonly #previous: number[] = [];
  /** Indexes of rows by activation, and activations by node, each in the order of the log. */
  readonly #activations = new Map<string, number[]>();
  readonly #byNode = new Map<string, string[]>();
  readonly #failures: Failure[] = [];
  /** When each loop opened its first iteration, and the highest index that was opened by each row, by loop. */
  readonly #iterations = new Map<string, { seq: number; index: number }[]>();
  readonly #checkpoints: Checkpoint[] = [{ tallies: new Map(), status: "PENDING", endedBy: 0 }];
  #isCut = false;

  get rows(): readonly LogRow[] {
    return this.#rows;
  }

  get lastSeq(): number {
    return this.#rows.length;
  }

  /** Were rows left out because there are more than are kept? */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Take the next rows; those that were taken before are passed over. Throws `RangeError` where rows are missing. */
  take(rows: readonly LogRow[]): void {
    for (const row of rows) {
      if (row.seq <= this.#rows.length) continue;
      if (this.#rows.length >= LOG_ROWS_MAX) {
        this.#isCut = true;
        return;
      }
      if (row.seq !== this.#rows.length + 1) throw new RangeError(`row ${row.seq} after row ${this.#rows.length}`);
      this.#add(row);
      if (this.#rows.length % CHECKPOINT_ROWS === 0) this.#checkpoints.push(this.#foldTo(this.#rows.length));
    }
  }

  /** The log as it was when it had so many rows. */
  to(seq: number): RunLog {
    const earlier = new RunLog();
    earlier.take(this.#rows.slice(0, Math.max(0, seq)));
    return earlier;
  }

  /** The run after its first `seq` rows. */
  asOf(seq: number): RunView {
    const last = Math.max(0, Math.min(seq, this.#rows.length));
    return new EarlierView(last, this.#foldTo(last), this);
  }

  /** The activations of a node that were reached by then, in order. */
  activationsOf(nodeID: string, seq = this.#rows.length): Activation[] {
    const keys = this.#byNode.get(nodeID) ?? [];
    const { endedBy } = this.#foldTo(seq);
    return keys.map((key) => this.#activationAt(key, seq, endedBy)).filter((activation) => activation !== undefined);
  }

  activationAt(nodeID: string, scope: string, seq: number, endedBy: number): Activation | undefined {
    return this.#activationAt(keyOf(nodeID, scope), seq, endedBy);
  }

  latestAt(nodeID: string, seq: number, endedBy: number): Activation | null {
    const keys = this.#byNode.get(nodeID) ?? [];
    let latest: Activation | null = null;
    // From the last one that was reached: the latest row is nearly always its own.
    for (let index = firstAfter(keys, (key) => this.#activations.get(key)![0]! + 1, seq) - 1; index >= 0; index -= 1) {
      const activation = this.#activationAt(keys[index]!, seq, endedBy)!;
      if (latest === null || activation.seq > latest.seq) latest = activation;
      if (keys.length - index > 100) break;
    }
    return latest;
  }

  /** The rows of an activation, in order. */
  rowsOf(nodeID: string, scope: string): readonly LogRow[] {
    return (this.#activations.get(keyOf(nodeID, scope)) ?? []).map((index) => this.#rows[index]!);
  }

  failuresTo(seq: number): readonly Failure[] {
    return sortedFailures(this.#failures.filter((failure) => failure.seq <= seq));
  }

  iterationsTo(loopID: string, scope: string, seq: number): number {
    const opened = this.#iterations.get(keyOf(loopID, scope)) ?? [];
    return (opened[firstAfter(opened, (each) => each.seq, seq) - 1]?.index ?? -1) + 1;
  }

  /** All activations that were reached, in the order of their first rows. */
  *places(): Generator<{ readonly nodeID: string; readonly scope: string }> {
    for (const indexes of this.#activations.values()) {
      const { nodeID, scope } = this.#rows[indexes[0]!]!;
      yield { nodeID, scope };
    }
  }

  #add(row: LogRow): void {
    const index = this.#rows.push(row) - 1;
    this.#previous.push(-1);
    if (STATUS_OF_ROW[row.eventType] === undefined || row.nodeID === FUNCTION_NODE_ID) return;
    const key = keyOf(row.nodeID, row.scope);
    const known = this.#activations.get(key);
    if (known === undefined) {
      this.#activations.set(key, [index]);
      const keys = this.#byNode.get(row.nodeID);
      if (keys === undefined) this.#byNode.set(row.nodeID, [key]);
      else keys.push(key);
      this.#noteIteration(row);
    } else {
      this.#previous[index] = known.at(-1)!;
      known.push(index);
    }
    if (row.eventType === "NODE_FAILED") {
      this.#failures.push({ nodeID: row.nodeID, scope: row.scope, seq: row.seq, isHandled: row.nextHandle !== null });
    }
  }

  #noteIteration({ scope, seq }: LogRow): void {
    const outer = outerOf(scope);
    if (outer?.part.kind !== "iteration") return;
    const key = keyOf(outer.part.nodeID, outer.scope);
    const opened = this.#iterations.get(key) ?? [];
    this.#iterations.set(key, opened);
    if (outer.part.index > (opened.at(-1)?.index ?? -1)) opened.push({ seq, index: outer.part.index });
  }

  #foldTo(seq: number): Checkpoint {
    const from = this.#checkpoints[Math.min(Math.floor(seq / CHECKPOINT_ROWS), this.#checkpoints.length - 1)]!;
    const start = CHECKPOINT_ROWS * this.#checkpoints.indexOf(from);
    if (start === seq) return from;
    const tallies = new Map(from.tallies);
    const own = new Set<string>();
    let { status, endedBy } = from;
    for (let index = start; index < seq; index += 1) {
      const row = this.#rows[index]!;
      const after = STATUS_OF_ROW[row.eventType];
      const runStatus = RUN_STATUS_OF[row.eventType];
      if (runStatus !== undefined) {
        status = runStatus;
        endedBy = isOver(runStatus) ? row.seq : 0;
      } else if (after !== undefined) {
        if (row.eventType === "NODE_DISPATCHED" || status === "PENDING") status = "RUNNING";
        if (row.nodeID === FUNCTION_NODE_ID) continue;
        let tally = tallies.get(row.nodeID);
        if (tally === undefined || !own.has(row.nodeID)) {
          tally = new Tally(tally);
          own.add(row.nodeID);
          tallies.set(row.nodeID, tally);
        }
        const previous = this.#previous[index]!;
        const before = previous < 0 ? undefined : this.#stateAt(previous);
        tally.move(before, this.#stateAt(index));
      }
    }
    return { tallies, status, endedBy };
  }

  /** What a row made of its activation. */
  #stateAt(index: number): Pick<Activation, "status" | "handles"> {
    const { eventType, nextHandle, nodeID, scope, seq } = this.#rows[index]!;
    const status = STATUS_OF_ROW[eventType]!;
    if (!hasEnded(status)) return { status, handles: null };
    // The items of a mapped node have its id; the edges leave the whole of it.
    const around = outerOf(scope)?.part;
    const isItem = around?.kind === "iteration" && around.nodeID === nodeID;
    const handles = nextHandle === null || isItem ? [] : [nextHandle];
    const hasIterated = this.iterationsTo(nodeID, scope, seq) > 0;
    return { status, handles: hasIterated ? ["loop", ...handles] : handles };
  }

  #activationAt(key: string, seq: number, endedBy: number): Activation | undefined {
    const indexes = this.#activations.get(key) ?? [];
    const count = firstAfter(indexes, (index) => index + 1, seq);
    const index = indexes[count - 1];
    if (index === undefined) return undefined;
    const [first, row] = [this.#rows[indexes[0]!]!, this.#rows[index]!];
    const { status, handles } = this.#stateAt(index);
    const isCancelled = endedBy > 0 && endedBy <= seq && !hasEnded(status);
    const end = isCancelled ? this.#rows[endedBy - 1]! : row;
    return {
      nodeID: row.nodeID,
      scope: row.scope,
      status: isCancelled ? "cancelled" : status,
      attempt: row.nodeAttempt,
      seq: end.seq,
      startedAt: first.eventType === "NODE_DISPATCHED" ? first.createdAt : null,
      endedAt: hasEnded(status) ? row.createdAt : null,
      at: end.createdAt,
      handles: isCancelled ? this.#exitsWhenCancelled(row, seq) : handles,
      waitsFor: null,
      error: status === "error" || status === "retrying" ? (row.errorMessage ?? null) : null,
      output: undefined,
      progress: null,
      isQueued: false,
      beganAt: null,
    };
  }

  #exitsWhenCancelled({ nodeID, scope }: LogRow, seq: number): readonly string[] {
    return this.iterationsTo(nodeID, scope, seq) > 0 ? ["loop"] : [];
  }
}

class EarlierView implements RunView {
  readonly seq: number;
  readonly status: RunStatus;
  readonly #checkpoint: Checkpoint;
  readonly #log: RunLog;
  readonly #summaries = new Map<string, NodeSummary>();
  #failures: readonly Failure[] | null = null;

  constructor(seq: number, checkpoint: Checkpoint, log: RunLog) {
    this.seq = seq;
    this.status = checkpoint.status;
    this.#checkpoint = checkpoint;
    this.#log = log;
  }

  node(nodeID: string): NodeSummary {
    let summary = this.#summaries.get(nodeID);
    if (summary === undefined) {
      summary = this.#summaryOf(nodeID);
      this.#summaries.set(nodeID, summary);
    }
    return summary;
  }

  activation(nodeID: string, scope: string): Activation | undefined {
    return this.#log.activationAt(nodeID, scope, this.seq, this.#checkpoint.endedBy);
  }

  failures(): readonly Failure[] {
    this.#failures ??= this.#log.failuresTo(this.seq);
    return this.#failures;
  }

  iterations(loopID: string, scope: string): number {
    return this.#log.iterationsTo(loopID, scope, this.seq);
  }

  #summaryOf(nodeID: string): NodeSummary {
    const tally = this.#checkpoint.tallies.get(nodeID) ?? new Tally();
    const counts = this.#checkpoint.endedBy > 0 ? withCancelled(tally.counts) : { ...tally.counts };
    const latest = this.#log.latestAt(nodeID, this.seq, this.#checkpoint.endedBy);
    const exits = { ...tally.exits };
    if (exits["loop"] === undefined && latest !== null && this.iterations(nodeID, latest.scope) > 0) exits["loop"] = 1;
    const ended = this.#checkpoint.endedBy > 0 ? tally.total : tally.ended;
    const failure = this.failures().reduce<Failure | null>((first, each) => {
      return each.nodeID === nodeID && (first === null || each.seq < first.seq) ? each : first;
    }, null);
    const firstFailure = failure && { scope: failure.scope, seq: failure.seq };
    return { nodeID, counts, total: tally.total, ended, status: worstOf(counts), latest, exits, firstFailure, iterationsInAll: null };
  }
}

/** What was open when the run ended is awaited by nobody any more. */
function withCancelled(counts: Counts): Counts {
  const result: Partial<Record<NodeStatus, number>> = {};
  for (const [status, count] of Object.entries(counts) as [NodeStatus, number][]) {
    const shown = hasEnded(status) ? status : "cancelled";
    result[shown] = (result[shown] ?? 0) + count;
  }
  return result;
}

/** How many of the items, which are in the order of their seqs, have one up to this. */
function firstAfter<T>(items: readonly T[], seqOf: (item: T) => number, seq: number): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (seqOf(items[middle]!) <= seq) low = middle + 1;
    else high = middle;
  }
  return low;
}
