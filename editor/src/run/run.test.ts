import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  ACTIVATIONS_KEPT_MAX,
  CHECKPOINT_ROWS,
  edgeSummary,
  edgeVerdict,
  groupKey,
  isWithin,
  iterationScope,
  LOG_ROWS_MAX,
  iterationOf,
  nextFailure,
  sharedScope,
  partsOf,
  RunLog,
  RunStore,
  spokenSummary,
  timelineOf,
  withBeginning,
  type ActivationMessage,
  type Counts,
  type LogRow,
  type NodeStatus,
  type RunStatus,
  type RunView,
  type UpdateMessage,
} from ".";

type Row = [number, string, string, string, string | null, number, string, string | null];
type Listed = [string, string, NodeStatus, number, number, string | null, string | null, string, string[] | null];
interface Watched {
  name: string;
  rows: Row[];
  updates: UpdateMessage[][];
  snapshots: { status: RunStatus; nodes: Listed[]; counts: Record<string, Counts> }[];
}

/** Runs as the server told them, with its own snapshot after each row: see tests/golden/watched.py. */
const WATCHED = readFileSync(new URL("watched_runs.jsonl", import.meta.url), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Watched);

const rowOf = ([seq, nodeID, scope, eventType, nextHandle, nodeAttempt, createdAt, errorMessage]: Row): LogRow => {
  return { seq, nodeID, scope, eventType, nextHandle, nodeAttempt, createdAt, errorMessage };
};

/** A view in the form of the recorded snapshots. */
function seen(view: RunView, nodes: Listed[]): unknown {
  return {
    status: view.status,
    nodes: nodes.map(([nodeID, scope]) => {
      const found = view.activation(nodeID, scope);
      return found && [nodeID, scope, found.status, found.attempt, found.seq, found.startedAt, found.endedAt, found.at, found.handles];
    }),
    counts: Object.fromEntries([...new Set(nodes.map(([nodeID]) => nodeID))].map((nodeID) => [nodeID, view.node(nodeID).counts])),
  };
}

function storeWithFrames(): { store: RunStore; frame: () => void } {
  const pending: (() => void)[] = [];
  return { store: new RunStore((flush) => pending.push(flush)), frame: () => pending.splice(0).forEach((flush) => flush()) };
}

function node(nodeID: string, seq: number, status: NodeStatus, more: Partial<ActivationMessage> = {}): UpdateMessage {
  return { event: "workflow_node_update", instanceID: "i", nodeID, scope: "", status, attempt: 1, seq, ...more };
}

describe("a recorded run", () => {
  it("is known in enough variety", () => {
    const types = new Set(WATCHED.flatMap((run) => run.rows.map((row) => row[3])));
    expect([...types].sort()).toEqual(expect.arrayContaining(["LOOP_OPENED", "NODE_ATTEMPT_FAILED", "NODE_FAILED", "NODE_SKIPPED", "NODE_WAITING", "INSTANCE_CANCELLED", "INSTANCE_FAILED", "INSTANCE_RECOVERED"]));
  });

  it("folded from its log is what the server says, as of every row", () => {
    for (const { name, rows, snapshots } of WATCHED) {
      const log = new RunLog();
      log.take(rows.map(rowOf));
      snapshots.forEach((snapshot, index) => expect(seen(log.asOf(index + 1), snapshot.nodes), `${name} at ${index + 1}`).toEqual(snapshot));
    }
  });

  it("joined at any row and followed by updates is what the server says", () => {
    for (const { name, updates, snapshots } of WATCHED) {
      for (let joined = 0; joined <= snapshots.length; joined += 1) {
        const { store, frame } = storeWithFrames();
        const first = snapshots[joined - 1];
        if (first !== undefined) store.takeSnapshot(snapshotMessage(first, joined));
        for (const batch of updates.slice(joined)) store.takeUpdates(batch);
        frame();
        const last = snapshots.at(-1)!;
        expect(seen(store, last.nodes), `${name} joined at ${joined}`).toEqual(last);
      }
    }
  });

  it("is the same after updates that come twice, and after a snapshot in the middle", () => {
    for (const { updates, snapshots } of WATCHED) {
      const { store, frame } = storeWithFrames();
      const middle = Math.floor(updates.length / 2);
      for (const batch of updates) store.takeUpdates(batch);
      store.takeSnapshot(snapshotMessage(snapshots[middle]!, middle + 1));
      for (const batch of updates) store.takeUpdates(batch);
      store.takeSnapshot(snapshotMessage(snapshots.at(-1)!, snapshots.length));
      frame();
      expect(seen(store, snapshots.at(-1)!.nodes)).toEqual(snapshots.at(-1));
    }
  });
});

function snapshotMessage({ status, nodes, counts }: Watched["snapshots"][number], seq: number) {
  const listed = nodes.map(([nodeID, scope, status, attempt, seq, startedAt, endedAt, at, handles]) => ({ nodeID, scope, status, attempt, seq, startedAt, endedAt, at, handles }));
  return { instanceID: "i", status, nodes: listed, counts, seq };
}

/** Logs that no engine needs to have written: any activations in any order, with an end or without. */
const logs = fc
  .tuple(
    fc.array(fc.tuple(fc.constantFrom("a", "b", "each"), fc.constantFrom("", "each[0]", "each[1]", "each[1]/in[2]"), fc.constantFrom("NODE_DISPATCHED", "NODE_WAITING", "NODE_ATTEMPT_FAILED", "NODE_COMPLETED", "NODE_FAILED", "NODE_SKIPPED", "LOOP_OPENED"), fc.constantFrom(null, "default", "yes")), { maxLength: 60 }),
    fc.constantFrom(null, "INSTANCE_COMPLETED", "INSTANCE_FAILED"),
    fc.integer({ min: 1, max: 30 }),
  )
  .map(([rows, end, repeat]) => {
    const many = Array.from({ length: repeat }, () => rows).flat();
    const all: LogRow[] = many.map(([nodeID, scope, eventType, nextHandle], index) => logRow(index + 1, nodeID, scope, eventType, nextHandle));
    return end === null ? all : [...all, logRow(all.length + 1, "", "", end)];
  });

function logRow(seq: number, nodeID: string, scope: string, eventType: string, nextHandle: string | null = null, nodeAttempt = 1): LogRow {
  return { seq, nodeID, scope, eventType, nextHandle, nodeAttempt, createdAt: `2026-01-01T00:00:${String(seq % 60).padStart(2, "0")}.000Z` };
}

describe("as of a row", () => {
  it("a long log is what its first rows alone are, beyond checkpoints too", () => {
    fc.assert(
      fc.property(logs, fc.nat(), (rows, place) => {
        const seq = place % (rows.length + 1);
        const [whole, part] = [new RunLog(), new RunLog()];
        whole.take(rows);
        for (const row of rows.slice(0, seq)) part.take([row]);
        const [there, here] = [whole.asOf(seq), part.asOf(seq)];
        expect(there.status).toBe(here.status);
        expect(there.failures()).toEqual(here.failures());
        for (const nodeID of ["a", "b", "each"]) {
          expect(there.node(nodeID)).toEqual(here.node(nodeID));
          for (const scope of ["", "each[0]", "each[1]", "each[1]/in[2]"]) expect(there.activation(nodeID, scope)).toEqual(here.activation(nodeID, scope));
        }
        expect(there.iterations("each", "")).toBe(here.iterations("each", ""));
      }),
      { numRuns: 200 },
    );
  });

  it("counts are those of the activations one by one", () => {
    fc.assert(
      fc.property(logs, fc.nat(), (rows, place) => {
        const seq = place % (rows.length + 1);
        const log = new RunLog();
        log.take(rows);
        const view = log.asOf(seq);
        for (const nodeID of ["a", "b", "each"]) {
          const found = log.activationsOf(nodeID, seq);
          const counts: Partial<Record<NodeStatus, number>> = {};
          for (const { status } of found) counts[status] = (counts[status] ?? 0) + 1;
          expect(view.node(nodeID).counts).toEqual(counts);
          expect(view.node(nodeID).total).toBe(found.length);
        }
      }),
    );
  });

  it("of 50,000 rows any is found by folding a few hundred at most, and further rows are said to be missing", () => {
    const log = new RunLog();
    const folded = new Set<number>();
    const rows = Array.from({ length: LOG_ROWS_MAX + 1 }, (_, index) => {
      const { eventType, ...row } = logRow(index + 1, "body", `each[${index >> 1}]`, index % 2 === 0 ? "NODE_DISPATCHED" : "NODE_COMPLETED", index % 2 === 0 ? null : "default");
      return Object.defineProperty(row, "eventType", { get: () => (folded.add(index), eventType) }) as LogRow;
    });
    log.take(rows);
    expect(log.isCut).toBe(true);
    for (let seq = 1; seq < LOG_ROWS_MAX; seq += 997) {
      folded.clear();
      const view = log.asOf(seq);
      expect(folded.size).toBeLessThanOrEqual(CHECKPOINT_ROWS);
      expect(view.node("body").total).toBe(Math.ceil(seq / 2));
      expect(view.iterations("each", "")).toBe(Math.ceil(seq / 2));
    }
  });

  it("rows that are missing are noticed, and those that come again are passed over", () => {
    const log = new RunLog();
    log.take([logRow(1, "a", "", "NODE_DISPATCHED")]);
    log.take([logRow(1, "a", "", "NODE_DISPATCHED"), logRow(2, "a", "", "NODE_COMPLETED")]);
    expect(log.asOf(99).node("a").counts).toEqual({ success: 1 });
    expect(() => log.take([logRow(4, "b", "", "NODE_DISPATCHED")])).toThrow(RangeError);
  });
});

describe("the run store", () => {
  it("tells a node once a frame, however much has happened, and others not at all", () => {
    const { store, frame } = storeWithFrames();
    const told: string[] = [];
    store.subscribeNode("a", () => told.push("a"));
    const stop = store.subscribeNode("b", () => told.push("b"));
    store.subscribeRun(() => told.push("run"));
    for (let seq = 1; seq <= 100; seq += 1) store.takeUpdates([node("a", seq, "running", { scope: `each[${seq}]` })]);
    expect(told).toEqual([]);
    frame();
    expect(told).toEqual(["a", "run"]);
    expect(store.node("a").counts).toEqual({ running: 100 });
    const summary = store.node("a");
    store.takeUpdates([node("b", 101, "running")]);
    stop();
    frame();
    expect(told).toEqual(["a", "run", "run"]);
    expect(store.node("a")).toBe(summary);
    frame();
    expect(told).toHaveLength(3);
  });

  it("asks for one frame at a time", () => {
    let asked = 0;
    const store = new RunStore(() => (asked += 1));
    store.takeUpdates([node("a", 1, "running"), node("b", 2, "running")]);
    store.takeUpdates([node("a", 3, "success", { handles: [] })]);
    expect(asked).toBe(1);
  });

  it("tells nobody of what is told again, and passes over what is older", () => {
    const { store, frame } = storeWithFrames();
    let told = 0;
    store.subscribeNode("a", () => (told += 1));
    store.takeUpdates([node("a", 5, "success", { handles: ["default"], at: "2026-01-01T00:00:00Z" })]);
    frame();
    store.takeUpdates([node("a", 5, "success", { handles: ["default"], at: "2026-01-01T00:00:00Z" }), node("a", 4, "running")]);
    frame();
    expect([told, store.node("a").status, store.activation("a", "")?.seq]).toEqual([1, "success", 5]);
    store.takeSummary({ seq: 5, nodes: [{ nodeID: "a", counts: { success: 1 } }], loops: [] });
    frame();
    expect(told).toBe(1);
  });

  it("shows the worst of a node's activations, and lists failures that nobody handled first", () => {
    const { store, frame } = storeWithFrames();
    store.takeUpdates([
      node("charge", 1, "error", { scope: "each[0]", handles: ["error"] }),
      node("charge", 2, "error", { scope: "each[7]", handles: [] }),
      node("charge", 3, "success", { scope: "each[8]", handles: ["default"] }),
      node("ship", 4, "running"),
    ]);
    frame();
    expect(store.node("charge")).toMatchObject({ status: "error", total: 3, firstFailure: { scope: "each[0]", seq: 1 }, exits: { error: 1, default: 1 } });
    expect(store.failures().map((failure) => failure.scope)).toEqual(["each[7]", "each[0]"]);
    expect(nextFailure(store, null)?.scope).toBe("each[7]");
    expect(nextFailure(store, { nodeID: "charge", scope: "each[7]" })?.scope).toBe("each[0]");
    expect(nextFailure(store, { nodeID: "charge", scope: "each[0]" })?.scope).toBe("each[7]");
    expect(nextFailure(store, null, { nodeID: "each", outer: "" })?.scope).toBe("each[7]");
    expect(nextFailure(store, null, { nodeID: "other", outer: "" })).toBeNull();
    expect(store.iterations("each", "")).toBe(9);
    expect(spokenSummary(store, ["charge", "ship"], (id) => id)).toBe("1 running, 1 failed: charge");
  });

  it("keeps true counts where the server has not listed everything", () => {
    const { store, frame } = storeWithFrames();
    const listed: ActivationMessage[] = [{ nodeID: "body", scope: "each[1499]", status: "success", attempt: 1, seq: 3000, handles: ["default"] }];
    store.takeSnapshot({ instanceID: "i", status: "RUNNING", seq: 3000, nodes: listed, counts: { body: { success: 1497, error: 3 } }, nodesOmitted: 1499 });
    store.takeSteps([{ nodeID: "body", scope: "each[3]", status: "error", attempt: 1, seq: 17, handles: [] }]);
    store.takeUpdates([node("body", 3001, "running", { scope: "each[1500]" }), node("body", 3002, "success", { scope: "each[1500]", handles: ["default"] })]);
    frame();
    expect(store.node("body").counts).toEqual({ success: 1498, error: 3 });
    expect(store.node("body").firstFailure).toEqual({ scope: "each[3]", seq: 17 });
    expect(store.head.nodesOmitted).toBe(1499);
    expect(store.node("body").latest?.scope).toBe("each[1500]");
  });

  it("takes the summary of a big run for its first screen", () => {
    const { store, frame } = storeWithFrames();
    store.takeSummary({
      seq: 3004,
      nodes: [{ nodeID: "body", counts: { success: 1497, error: 3 }, firstError: { scope: "each[12]", seq: 80 }, busyMs: 5 }],
      loops: [{ nodeID: "each", scope: "", iterations: 1500, failed: 3 }],
    });
    frame();
    expect(store.node("body")).toMatchObject({ status: "error", total: 1500, firstFailure: { scope: "each[12]", seq: 80 } });
    expect([store.iterations("each", ""), store.failedIterations("each", ""), store.seq]).toEqual([1500, 3, 3004]);
  });

  it("says how a node stands in one iteration, and below it", () => {
    const { store, frame } = storeWithFrames();
    store.takeUpdates([
      node("body", 1, "success", { scope: "each[0]", handles: ["yes"] }),
      node("body", 2, "error", { scope: "each[1]", handles: [] }),
      node("deep", 3, "success", { scope: "each[1]/inner[0]", handles: ["default"] }),
      node("deep", 4, "error", { scope: "each[10]/inner[0]", handles: [] }),
    ]);
    frame();
    expect(store.nodeWithin("body", "each[0]")).toMatchObject({ status: "success", total: 1, exits: { yes: 1 } });
    expect(store.nodeWithin("body", "each[1]")).toMatchObject({ status: "error", firstFailure: { scope: "each[1]" } });
    expect(store.nodeWithin("deep", "each[1]")).toMatchObject({ status: "success", total: 1 });
    expect(store.nodeWithin("deep", "each[2]").total).toBe(0);
    expect([store.failedIterations("each", ""), store.failedIterations("inner", "each[10]"), store.failedIterations("inner", "each[1]")]).toEqual([2, 1, 0]);
  });

  it("takes hints of progress for what is open, and keeps its place in the log", () => {
    const { store, frame } = storeWithFrames();
    const progress = { done: 3, total: 8, text: "pages" };
    const hint = (id: string) => ({ ...node(id, 0, "running"), seq: null, progress }) as UpdateMessage;
    store.takeUpdates([node("fetch", 4, "running"), hint("fetch"), hint("absent")]);
    frame();
    expect(store.activation("fetch", "")).toMatchObject({ seq: 4, progress });
    expect(store.node("absent").total).toBe(0);
    store.takeUpdates([node("fetch", 5, "success", { handles: ["default"] }), hint("fetch")]);
    frame();
    expect(store.node("fetch").status).toBe("success");
  });

  it("says that a node is queued until one of its activations is known to have begun, and how many iterations there will be", () => {
    const store = new RunStore((flush) => flush());
    const running = (nodeID: string, scope: string, seq: number | null, more = {}) => ({ event: "workflow_node_update" as const, instanceID: "r", nodeID, scope, status: "running" as const, attempt: 1, seq, ...more });
    store.takeUpdates([running("each", "", 1, { iterations: 40 }), running("a", "each[0]", 2, { queued: true }), running("a", "each[1]", 3, { queued: true })]);
    expect([store.node("a").status, store.node("a").counts]).toEqual(["queued", { running: 2 }]);
    expect([store.iterations("each", ""), store.iterationsInAll("each", ""), store.node("each").iterationsInAll]).toEqual([2, 40, 40]);
    store.takeUpdates([running("a", "each[1]", null, { beganAt: "2026-01-01T00:00:00.000Z" })]);
    expect([store.node("a").status, store.activation("a", "each[1]")!.beganAt]).toEqual(["running", "2026-01-01T00:00:00.000Z"]);
    store.takeUpdates([{ ...running("a", "each[1]", 4), status: "success" }]);
    expect([store.node("a").status, store.activation("a", "each[1]")!.beganAt]).toEqual(["queued", "2026-01-01T00:00:00.000Z"]);
  });

  it("forgets the oldest iterations beyond its limit, and neither failures nor counts", () => {
    const { store, frame } = storeWithFrames();
    const batch: UpdateMessage[] = [node("body", 1, "error", { scope: "each[0]", handles: [] }), node("start", 2, "success", { handles: ["default"] })];
    for (let index = 1; index <= ACTIVATIONS_KEPT_MAX; index += 1) batch.push(node("body", index + 2, "success", { scope: `each[${index}]`, handles: ["default"] }));
    store.takeUpdates(batch);
    frame();
    expect(store.activation("body", "each[0]")?.status).toBe("error");
    expect(store.activation("start", "")?.status).toBe("success");
    expect(store.activation("body", "each[1]")).toBeUndefined();
    expect(store.activation("body", `each[${ACTIVATIONS_KEPT_MAX}]`)?.status).toBe("success");
    expect(store.node("body").counts).toEqual({ success: ACTIVATIONS_KEPT_MAX, error: 1 });
  });

  it("ends with what the run came to", () => {
    const { store, frame } = storeWithFrames();
    store.takeUpdates([
      { event: "workflow_status_update", instanceID: "i", status: "RUNNING", seq: 2, recoveries: 1 },
      { event: "workflow_status_update", instanceID: "i", status: "COMPLETED", seq: 9, output: { n: 1 }, contextData: { input: null } },
      { event: "workflow_status_update", instanceID: "i", status: "RUNNING", seq: 3 },
    ]);
    frame();
    expect(store.head).toEqual({ status: "COMPLETED", seq: 9, output: { n: 1 }, error: null, context: { input: null }, recoveries: 1, nodesOmitted: 0 });
    expect(spokenSummary(store, [], String)).toBe("Run completed");
  });
});

describe("edges", () => {
  const activation = (status: NodeStatus, handles: string[] | null) => ({ nodeID: "a", scope: "", status, attempt: 1, seq: 1, startedAt: null, endedAt: null, at: null, handles, waitsFor: null, error: null, output: null, progress: null, isQueued: false, beganAt: null });

  it("are live if their handle is among the exits, dead if their source ended otherwise, else open", () => {
    expect(edgeVerdict(undefined, "default")).toBe("open");
    expect(edgeVerdict(activation("running", null), "default")).toBe("open");
    expect(edgeVerdict(activation("success", ["yes"]), "yes")).toBe("live");
    expect(edgeVerdict(activation("success", ["yes"]), "else")).toBe("dead");
    expect(edgeVerdict(activation("skipped", []), "default")).toBe("dead");
    expect(edgeVerdict(activation("error", ["error"]), "error")).toBe("live");
    expect(edgeVerdict(activation("cancelled", []), "default")).toBe("open");
  });

  it("over all iterations count both ways", () => {
    const { store, frame } = storeWithFrames();
    store.takeUpdates([
      node("test", 1, "success", { scope: "each[0]", handles: ["yes"] }),
      node("test", 2, "success", { scope: "each[1]", handles: ["else"] }),
      node("test", 3, "skipped", { scope: "each[2]", handles: [] }),
      node("test", 4, "running", { scope: "each[3]" }),
      node("each", 5, "running"),
    ]);
    frame();
    expect(edgeSummary(store.node("test"), "yes")).toEqual({ verdict: "live", live: 1, dead: 2 });
    expect(edgeSummary(store.node("test"), "error")).toEqual({ verdict: "open", live: 0, dead: 3 });
    expect(edgeSummary(store.node("each"), "loop").verdict).toBe("live");
    expect(edgeSummary(store.node("never"), "default").verdict).toBe("open");
  });
});

describe("scopes", () => {
  it("share with another what the loops around a node allow", () => {
    expect(sharedScope("each[3]/inner[2]", ["each", "inner", "other"])).toBe("each[3]/inner[2]");
    expect(sharedScope("each[3]/inner[2]", ["each"])).toBe("each[3]");
    expect(sharedScope("each[3]/ask#2", ["each", "inner"])).toBe("each[3]");
    expect(sharedScope("each[3]", [])).toBe("");
    expect([iterationOf("each[3]/ask#2", "ask", "each[3]"), iterationOf("each[3]/ask#2", "each", ""), iterationOf("each[3]", "ask", "each[3]")]).toEqual([2, 3, null]);
  });

  it("are read apart and put together", () => {
    expect(partsOf("each[3]/ask#2/in[0]")).toEqual([
      { nodeID: "each", kind: "iteration", index: 3 },
      { nodeID: "ask", kind: "pass", index: 2 },
      { nodeID: "in", kind: "iteration", index: 0 },
    ]);
    expect(partsOf("")).toEqual([]);
    expect(iterationScope("a[1]", "b", 2)).toBe("a[1]/b[2]");
    expect([isWithin("a[1]/b[2]", "a[1]"), isWithin("a[10]", "a[1]"), isWithin("", "")]).toEqual([true, false, true]);
  });
});

describe("the timeline", () => {
  const log = new RunLog();
  const rows: [string, string, string, number?][] = [["start", "", "NODE_DISPATCHED"], ["start", "", "NODE_COMPLETED"], ["each", "", "NODE_DISPATCHED"], ["each", "", "LOOP_OPENED"]];
  for (const index of [0, 1, 2]) rows.push(["body", `each[${index}]`, "NODE_DISPATCHED"]);
  rows.push(["body", "each[0]", "NODE_COMPLETED"], ["body", "each[2]", "NODE_ATTEMPT_FAILED"], ["body", "each[2]", "NODE_DISPATCHED", 2], ["body", "each[2]", "NODE_FAILED", 2], ["body", "each[1]", "NODE_WAITING"]);
  log.take(rows.map(([nodeID, scope, type, attempt], index) => logRow(index + 1, nodeID, scope, type, null, attempt)));
  const loop = { kind: "loop" as const, nodeID: "each", scope: "" };

  it("groups iterations under their loop, failed ones first, what is open next, and opens what is asked for", () => {
    expect(timelineOf(log, null, { opened: new Set() }).map((row) => [row.kind, row.nodeID, row.depth])).toEqual([
      ["activation", "each", 0],
      ["loop", "each", 1],
      ["activation", "start", 0],
    ]);
    const opened = new Set([groupKey(loop), groupKey({ kind: "iteration", nodeID: "each", scope: "each[2]" })]);
    const all = timelineOf(log, null, { opened });
    expect(all.slice(1, -1).map((row) => [row.kind, row.scope])).toEqual([
      ["loop", ""],
      ["iteration", "each[2]"],
      ["activation", "each[2]"],
      ["iteration", "each[0]"],
      ["iteration", "each[1]"],
    ]);
    expect(all[1]).toMatchObject({ failed: 1, count: 3 });
    expect(all[3]).toMatchObject({ status: "error", segments: [{ kind: "running", attempt: 1 }, { kind: "retrying" }, { kind: "running", attempt: 2 }] });
  });

  it("tells running, waiting and retries apart in time, to the end of the run", () => {
    const end = Date.parse("2026-01-01T00:00:30.000Z");
    const opened = new Set([groupKey(loop), groupKey({ kind: "iteration", nodeID: "each", scope: "each[1]" })]);
    const waiting = timelineOf(log, end, { opened }).find((row) => row.kind === "activation" && row.scope === "each[1]");
    expect(waiting).toMatchObject({ status: "cancelled", segments: [{ kind: "running", from: end - 24_000, to: end - 18_000 }, { kind: "waiting", to: end }] });
  });

  it("shows when the handler of an attempt began, and that it was queued until then", () => {
    const end = Date.parse("2026-01-01T00:00:30.000Z");
    const bar = { kind: "activation" as const, nodeID: "a", scope: "", depth: 0, status: "success" as const, segments: [{ kind: "running" as const, attempt: 1, from: end - 9_000, to: end }] };
    const began = new Date(end - 2_000).toISOString();
    expect(withBeginning(bar, { isQueued: false, beganAt: began }).segments).toEqual([
      { kind: "queued", attempt: 1, from: end - 9_000, to: end - 2_000 },
      { kind: "running", attempt: 1, from: end - 2_000, to: end },
    ]);
    expect(withBeginning(bar, { isQueued: false, beganAt: null })).toBe(bar);
    const open = { ...bar, segments: [{ ...bar.segments[0]!, to: null }] };
    expect(withBeginning(open, { isQueued: true, beganAt: null }).segments).toEqual([{ kind: "queued", attempt: 1, from: end - 9_000, to: null }]);
  });

  it("shows only what failed, or waits, or is searched for", () => {
    const opened = new Set([groupKey(loop)]);
    const kinds = (only: "failed" | "waiting" | null, text = "") => timelineOf(log, null, { opened, only, text }).map((row) => `${row.kind} ${row.nodeID}${row.scope}`);
    expect(kinds("failed")).toEqual(["loop each", "iteration eacheach[2]"]);
    expect(kinds("waiting")).toEqual(["loop each", "iteration eacheach[1]"]);
    expect(kinds(null, "STAR")).toEqual(["activation start"]);
  });
});
