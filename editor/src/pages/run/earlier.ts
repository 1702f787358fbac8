/** What the lists of a run's page show of the run after any row of its log. */

import { useMemo } from "react";

import type { RunError } from "../../api/live";
import type { Activation, RunState } from "./useRun";
import type { ReadLog } from "./useRunLog";

export interface RunLists {
  readonly state: RunState;
  readonly read: ReadLog;
  /** When the run was as it is shown, in milliseconds since the epoch; null: it is as it is now. */
  readonly until: number | null;
}

/** The lists as they are; with `seq` as they were after that row. */
export function useRunLists(state: RunState, read: ReadLog, seq: number | null): RunLists {
  const { log, rows } = read;
  const earlier = useMemo(() => {
    if (seq === null) return null;
    const before = log.to(Math.min(seq, rows));
    const view = before.asOf(before.lastSeq);
    const activations = [...before.places()].flatMap(({ nodeID, scope }): Activation[] => {
      const found = view.activation(nodeID, scope);
      if (found === undefined) return [];
      const { status, attempt, startedAt, endedAt, error, seq: at } = found;
      return [{ nodeID, scope, status, attempt, startedAt, endedAt, error: errorOf(error), seq: at, progress: null, beganAt: null }];
    });
    const last = before.rows.at(-1);
    return { activations, status: view.status, read: { log: before, rows: before.lastSeq }, until: last === undefined ? null : Date.parse(last.createdAt) };
  }, [log, rows, seq]);
  return useMemo(() => {
    if (earlier === null) return { state, read, until: null };
    const { activations, status } = earlier;
    return { state: { ...state, activations, status, isComplete: true }, read: earlier.read, until: earlier.until };
  }, [earlier, state, read]);
}

/** The log has the message alone. */
function errorOf(message: unknown): RunError | null {
  return typeof message === "string" ? { code: "", message } : null;
}
