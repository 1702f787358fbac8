/** What the server tells of runs: snapshots and updates by socket, steps and log rows over REST. See docs/sockets.md. */

export type NodeStatus = "running" | "waiting" | "retrying" | "success" | "error" | "skipped" | "cancelled";
export type RunStatus = "PENDING" | "RUNNING" | "WAITING" | "SUSPENDED" | "COMPLETED" | "FAILED" | "CANCELLED";

/** Worst first: of a node with several activations the first of these that any of them has is shown. */
export const NODE_STATUSES: readonly NodeStatus[] = ["error", "retrying", "running", "waiting", "cancelled", "success", "skipped"];

export type Counts = Readonly<Partial<Record<NodeStatus, number>>>;

export interface WaitsFor {
  readonly kind: "timer" | "signal" | "child";
  readonly dueAt?: string | null;
  readonly event?: string | null;
  readonly match?: unknown;
  readonly events?: Readonly<Record<string, unknown>> | null;
  readonly childID?: string | null;
}

/** How far an attempt has said it is. */
export interface Progress {
  readonly done: number;
  readonly total: number | null;
  readonly text: string;
}

/** One node in one scope, as the server says it: a node of a snapshot, a step, or what a node update says. */
export interface ActivationMessage {
  readonly nodeID: string;
  readonly scope: string;
  readonly status: NodeStatus;
  readonly attempt: number;
  /** Null: a hint, told before anything of it is committed. */
  readonly seq: number | null;
  readonly error?: unknown;
  readonly output?: unknown;
  readonly startedAt?: string | null;
  readonly endedAt?: string | null;
  /** When the latest event was written. */
  readonly at?: string | null;
  /** The live exits of an ended activation. */
  readonly handles?: readonly string[] | null;
  readonly waitsFor?: WaitsFor | null;
  readonly progress?: Progress | null;
  /** It is given to a handler that is not known to have begun. */
  readonly queued?: boolean;
  /** When the handler of its attempt began, where that was told. */
  readonly beganAt?: string | null;
  /** Of a loop: how many iterations there will be, where that is known. */
  readonly iterations?: number | null;
}

export interface SnapshotMessage {
  readonly instanceID: string;
  readonly status: RunStatus;
  readonly nodes: readonly ActivationMessage[];
  readonly seq: number;
  readonly counts?: Readonly<Record<string, Counts>>;
  readonly nodesOmitted?: number;
}

export interface StatusMessage {
  readonly instanceID: string;
  readonly status: RunStatus;
  readonly seq: number;
  readonly output?: unknown;
  readonly error?: unknown;
  readonly contextData?: unknown;
  readonly recoveries?: number;
}

export type UpdateMessage =
  | ({ readonly event: "workflow_node_update" } & { readonly instanceID: string } & ActivationMessage)
  | ({ readonly event: "workflow_status_update" } & StatusMessage);

/** `GET …/summary`: the first screen of a big run. */
export interface SummaryMessage {
  readonly seq: number;
  readonly nodes: readonly {
    readonly nodeID: string;
    readonly counts: Counts;
    readonly firstError?: { readonly scope: string; readonly seq: number } | null;
    readonly busyMs?: number | null;
  }[];
  readonly loops: readonly { readonly nodeID: string; readonly scope: string; readonly iterations: number; readonly failed: number }[];
}

/** A row of `GET …/log`, without its payload. */
export interface LogRow {
  readonly seq: number;
  readonly nodeID: string;
  readonly scope: string;
  readonly eventType: string;
  readonly nextHandle: string | null;
  readonly nodeAttempt: number;
  readonly createdAt: string;
  readonly errorMessage?: string | null;
}

/** An activation as the canvas knows it. Objects are replaced, never changed. */
export interface Activation {
  readonly nodeID: string;
  readonly scope: string;
  readonly status: NodeStatus;
  readonly attempt: number;
  readonly seq: number;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly at: string | null;
  readonly handles: readonly string[] | null;
  readonly waitsFor: WaitsFor | null;
  readonly error: unknown;
  /** Undefined: not known here; it is fetched when somebody looks. */
  readonly output: unknown;
  readonly progress: Progress | null;
  readonly isQueued: boolean;
  readonly beganAt: string | null;
}

/** What is shown: the log knows an attempt that is queued as one that runs. */
export type ShownStatus = NodeStatus | "queued";

export function shownStatus({ status, isQueued }: Pick<Activation, "status" | "isQueued">): ShownStatus {
  return isQueued ? "queued" : status;
}

export interface Failure {
  readonly nodeID: string;
  readonly scope: string;
  readonly seq: number;
  /** Its error exit, or `errorHandling: ignore`, took it. */
  readonly isHandled: boolean;
}

/** All activations of one node together. The same object as long as nothing of it has changed. */
export interface NodeSummary {
  readonly nodeID: string;
  readonly counts: Counts;
  /** How many activations it had so far. */
  readonly total: number;
  readonly ended: number;
  /** What the node shows: the worst of its activations; null while it was not reached. */
  readonly status: ShownStatus | null;
  /** The activation, if there was one only; else the latest. */
  readonly latest: Activation | null;
  /** How many activations left by each handle. */
  readonly exits: Readonly<Record<string, number>>;
  readonly firstFailure: { readonly scope: string; readonly seq: number } | null;
  /** Of a loop, or a mapped node, outside of loops: how many iterations it has in all, where that is known. */
  readonly iterationsInAll: number | null;
}

export type Verdict = "open" | "live" | "dead";

/** An edge over all activations of its source. */
export interface EdgeSummary {
  readonly verdict: Verdict;
  /** How many activations of the source left this way. */
  readonly live: number;
  readonly dead: number;
}

/** What is known of a run, now (`RunStore`) or as of an earlier row (`RunLog.asOf`). */
export interface RunView {
  readonly seq: number;
  readonly status: RunStatus;
  node(nodeID: string): NodeSummary;
  activation(nodeID: string, scope: string): Activation | undefined;
  /** What failed: unhandled failures first, then in the order of the log. */
  failures(): readonly Failure[];
  /** The iterations of a loop in a scope that were opened, as far as they are known. */
  iterations(loopID: string, scope: string): number;
}

/** The status that a row of the log gives its activation, by the row's type; other rows are about none. */
export const STATUS_OF_ROW: Readonly<Record<string, NodeStatus>> = {
  NODE_DISPATCHED: "running",
  NODE_WAITING: "waiting",
  NODE_ATTEMPT_FAILED: "retrying",
  LOOP_OPENED: "running",
  NODE_COMPLETED: "success",
  NODE_FAILED: "error",
  NODE_SKIPPED: "skipped",
};

const ENDED: ReadonlySet<NodeStatus> = new Set(["success", "error", "skipped", "cancelled"]);
const OVER: ReadonlySet<RunStatus> = new Set(["COMPLETED", "FAILED", "CANCELLED"]);

export function hasEnded(status: NodeStatus): boolean {
  return ENDED.has(status);
}

export function isOver(status: RunStatus): boolean {
  return OVER.has(status);
}

export function worstOf(counts: Counts): NodeStatus | null {
  return NODE_STATUSES.find((status) => (counts[status] ?? 0) > 0) ?? null;
}

/** The verdict of an edge in a scope: is its handle among the exits that its source took there? */
export function edgeVerdict(source: Activation | undefined, handle: string): Verdict {
  if (source?.handles?.includes(handle)) return "live";
  return source === undefined || !hasEnded(source.status) || source.status === "cancelled" ? "open" : "dead";
}

/** The edges of a handle over all activations of their source. */
export function edgeSummary(source: NodeSummary, handle: string): EdgeSummary {
  const live = source.exits[handle] ?? 0;
  const dead = Math.max(0, source.ended - (source.counts.cancelled ?? 0) - live);
  return { verdict: live > 0 ? "live" : source.total > 0 && source.total === dead ? "dead" : "open", live, dead };
}

/** A time of the wire in milliseconds since the epoch. */
export function instantOf(time: string): number {
  // eslint-disable-next-line no-restricted-globals -- reading a text asks no clock
  return Date.parse(time);
}
