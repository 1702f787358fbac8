/** One run as its page shows it: read once over REST, then told by the socket; read again after a break. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { call, callText, type Answer } from "../../api/client";
import type { NodeStatus, NodeUpdate, RunError } from "../../api/live";
import { memberText } from "../../json";
import type { Progress } from "../../run";
import { useSession } from "../session";

export interface Activation {
  readonly nodeID: string;
  readonly scope: string;
  readonly status: NodeStatus;
  readonly attempt: number;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly error: RunError | null;
  readonly seq: number;
  readonly progress: Progress | null;
  readonly beganAt: string | null;
}

/** What is selected on a run's page, and the iteration that is looked at: its scope, "" for all of them. */
export interface RunPlace {
  readonly selected: { readonly nodeID: string; readonly scope: string } | null;
  readonly iteration: string;
}

export interface RunData {
  readonly run: Answer<"get_run">;
  /** The source texts of values that may hold integers of any size. */
  readonly inputText: string;
  readonly outputText: string;
}

/** 5,000 activations are kept in the page; of longer runs the first ones, and every failure that is told. */
const ACTIVATIONS_MAX = 5_000;
const STEPS_PAGE = 1_000;

export const ENDED: ReadonlySet<string> = new Set(["COMPLETED", "FAILED", "CANCELLED"]);

export function activationKey({ nodeID, scope }: { nodeID: string; scope: string }): string {
  return `${scope}\n${nodeID}`;
}

export interface RunState {
  readonly data: RunData | null;
  readonly failure: unknown;
  readonly status: string;
  readonly activations: readonly Activation[];
  /** How many there are in all, where not all are kept. */
  readonly isComplete: boolean;
  readonly refetch: () => void;
}

/** The run of a page that shows one run only: another run is another page. */
export function useRun(instanceID: string): RunState {
  const live = useSession((session) => session.live);
  const cache = useQueryClient();
  const [told, setTold] = useState<ReadonlyMap<string, NodeUpdate>>(new Map());
  const [toldStatus, setToldStatus] = useState<string | null>(null);
  const pending = useRef(new Map<string, NodeUpdate>());
  const frame = useRef(0);

  const run = useQuery({
    queryKey: ["get_run", instanceID],
    queryFn: async ({ signal }): Promise<RunData> => {
      const { value, text } = await callText("get_run", { path: { instanceID }, signal });
      return { run: value, inputText: memberText(text, "input") ?? "null", outputText: memberText(text, "output") ?? "null" };
    },
  });
  const steps = useQuery({
    queryKey: ["get_steps", instanceID],
    queryFn: async ({ signal }) => {
      const items: Answer<"get_steps">["items"] = [];
      let cursor: string | null = null;
      do {
        const page: Answer<"get_steps"> = await call("get_steps", { path: { instanceID }, query: { limit: STEPS_PAGE, cursor, outputs: false }, signal });
        items.push(...page.items);
        cursor = page.nextCursor;
      } while (cursor !== null && items.length < ACTIVATIONS_MAX);
      return { items, isComplete: cursor === null };
    },
  });

  const again = useCallback(() => {
    void cache.invalidateQueries({ queryKey: ["get_run", instanceID] });
    void cache.invalidateQueries({ queryKey: ["get_steps", instanceID] });
  }, [cache, instanceID]);

  useEffect(() => {
    if (live === null) return undefined;
    // However many updates come, the page is drawn once per frame.
    const flush = () => {
      frame.current = 0;
      const fresh = pending.current;
      pending.current = new Map();
      setTold((before) => new Map([...before, ...fresh]));
    };
    const hear = (updates: readonly NodeUpdate[]) => {
      for (const update of updates) pending.current.set(activationKey(update), update);
      if (frame.current === 0) frame.current = requestAnimationFrame(flush);
    };
    const leave = live.follow(instanceID, {
      snapshot: (snapshot) => {
        hear(snapshot.nodes);
        setToldStatus(snapshot.status);
        again();
      },
      nodes: hear,
      status: ({ status }) => {
        setToldStatus(status);
        // What it came to, or why it is suspended, is read.
        if (ENDED.has(status) || status === "SUSPENDED") again();
      },
    });
    return () => {
      cancelAnimationFrame(frame.current);
      frame.current = 0;
      leave();
    };
  }, [live, instanceID, again]);

  const activations = useMemo(() => merged(steps.data?.items ?? run.data?.run.nodes ?? [], told), [steps.data, run.data, told]);
  const known = run.data?.run.status ?? "";
  return {
    data: run.data ?? null,
    failure: run.error ?? steps.error,
    status: ENDED.has(known) ? known : (toldStatus ?? known),
    activations,
    isComplete: steps.data?.isComplete ?? false,
    refetch: () => {
      void run.refetch();
      void steps.refetch();
    },
  };
}

type Read = { nodeID: string; scope: string; status: NodeStatus; attempt: number; startedAt: string | null; endedAt: string | null; error: unknown; seq?: number; progress?: unknown; beganAt?: string | null };

function merged(read: readonly Read[], told: ReadonlyMap<string, NodeUpdate>): readonly Activation[] {
  const all = new Map<string, Activation>();
  for (const each of read) all.set(activationKey(each), { ...each, error: each.error as RunError | null, seq: each.seq ?? 0, progress: (each.progress as Progress | undefined) ?? null, beganAt: each.beganAt ?? null });
  for (const [key, update] of told) {
    const known = all.get(key);
    // What was read is newer than what was told before, but for a run that was reopened: its attempts count on.
    if (known !== undefined && isOver(known.status) && !isOver(update.status) && update.attempt <= known.attempt) continue;
    const at = update.at ?? null;
    all.set(key, {
      nodeID: update.nodeID,
      scope: update.scope,
      status: update.queued === true ? "queued" : update.status,
      attempt: update.attempt,
      startedAt: known?.startedAt ?? update.startedAt ?? at,
      endedAt: known?.endedAt ?? update.endedAt ?? (isOver(update.status) ? at : null),
      error: update.error ?? known?.error ?? null,
      seq: known?.seq ?? update.seq ?? Number.MAX_SAFE_INTEGER,
      progress: (update.progress as Progress | undefined) ?? known?.progress ?? null,
      beganAt: update.beganAt ?? (known?.attempt === update.attempt ? known.beganAt : null),
    });
  }
  return [...all.values()];
}

function isOver(status: NodeStatus): boolean {
  return status === "success" || status === "error" || status === "skipped" || status === "cancelled";
}
