/** The nodes of a run with when they ran: failures first, then in the order in which they began; only what is seen is drawn. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState, type KeyboardEvent, type ReactElement } from "react";

import { Status } from "../../ui/Status";
import { duration, useNow } from "../../ui/time";
import { activationKey, ENDED, type Activation, type RunState } from "./useRun";

interface TimelineProps {
  state: RunState;
  selected: { nodeID: string; scope: string } | null;
  onSelect: (chosen: { nodeID: string; scope: string } | null) => void;
}

const ROW_HEIGHT = 34;
const FILTERS = ["all", "failed", "waiting", "running"] as const;
type FilterName = (typeof FILTERS)[number];

const STATUSES: Record<FilterName, readonly string[] | null> = { all: null, failed: ["error"], waiting: ["waiting", "retrying"], running: ["running", "queued"] };

export function Timeline({ state, selected, onSelect }: TimelineProps): ReactElement {
  const [filter, setFilter] = useState<FilterName>("all");
  const [text, setText] = useState("");
  const now = useNow();
  const list = useRef<HTMLDivElement>(null);
  const counts = useMemo(() => {
    const found = { all: state.activations.length, failed: 0, waiting: 0, running: 0 };
    for (const { status } of state.activations) for (const name of FILTERS) if (STATUSES[name]?.includes(status)) found[name] += 1;
    return found;
  }, [state.activations]);
  const rows = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    return state.activations
      .filter(({ status, nodeID, scope, error }) => {
        if (STATUSES[filter] && !STATUSES[filter].includes(status)) return false;
        return wanted === "" || `${scope} ${nodeID} ${error?.message ?? ""}`.toLowerCase().includes(wanted);
      })
      .toSorted((left, right) => rank(left) - rank(right) || left.seq - right.seq);
  }, [state.activations, filter, text]);
  const [from, to] = useMemo(() => span(state, now), [state, now]);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => list.current, estimateSize: () => ROW_HEIGHT, overscan: 12 });
  const selectedKey = selected === null ? null : activationKey(selected);
  const lead = Math.max(0, rows.findIndex((row) => activationKey(row) === selectedKey));

  const walk = (event: KeyboardEvent) => {
    const target = { ArrowDown: lead + 1, ArrowUp: lead - 1, Home: 0, End: rows.length - 1 }[event.key];
    const row = target === undefined ? undefined : rows[Math.min(rows.length - 1, Math.max(0, selectedKey === null ? 0 : target))];
    if (row === undefined) return;
    event.preventDefault();
    onSelect(row);
    virtual.scrollToIndex(rows.indexOf(row));
  };

  return (
    <div className="timeline">
      <div className="filters">
        {FILTERS.map((name) => (
          <button key={name} type="button" className="button small" aria-pressed={filter === name} onClick={() => setFilter(name)}>
            {name} <span className="numbers faint">{counts[name].toLocaleString("en")}</span>
          </button>
        ))}
        <input className="input" type="search" aria-label="Search nodes" placeholder="Search" value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      {!state.isComplete && state.activations.length >= 1_000 && (
        <p className="faint small" style={{ padding: "0 12px 6px" }}>
          The first {state.activations.length.toLocaleString("en")} activations are shown.
        </p>
      )}
      <div ref={list} className="timeline-list" role="listbox" aria-label="Nodes of the run" tabIndex={0} aria-activedescendant={selectedKey === null ? undefined : `row-${lead}`} onKeyDown={walk}>
        <div style={{ height: virtual.getTotalSize(), position: "relative" }} role="presentation">
          {virtual.getVirtualItems().map(({ index, start }) => {
            const row = rows[index]!;
            const key = activationKey(row);
            return (
              <div
                key={key}
                id={`row-${index}`}
                role="option"
                aria-selected={key === selectedKey}
                className="timeline-row"
                data-status={row.status}
                style={{ transform: `translateY(${start}px)`, height: ROW_HEIGHT }}
                onClick={() => onSelect(key === selectedKey ? null : row)}
              >
                <Status status={row.status} />
                <span className="timeline-name clip">
                  {row.scope !== "" && <span className="faint">{row.scope} › </span>}
                  {row.nodeID}
                  {row.attempt > 1 && <span className="badge">try {row.attempt}</span>}
                </span>
                <Bar row={row} from={from} to={to} now={now} isOver={ENDED.has(state.status)} />
                <span className="numbers faint timeline-took">{tookOf(row, now)}</span>
              </div>
            );
          })}
        </div>
        {rows.length === 0 && <p className="faint" style={{ padding: 16 }}>{state.activations.length === 0 ? "No node has begun yet." : "No node fits."}</p>}
      </div>
    </div>
  );
}

function Bar({ row, from, to, now, isOver }: { row: Activation; from: number; to: number; now: number; isOver: boolean }): ReactElement {
  if (row.startedAt === null) return <span className="timeline-track" />;
  const start = Date.parse(row.startedAt);
  const end = row.endedAt === null ? (isOver ? to : now) : Date.parse(row.endedAt);
  const width = Math.max(1, to - from);
  return (
    <span className="timeline-track" aria-hidden>
      <span className="timeline-bar" style={{ left: `${((start - from) / width) * 100}%`, width: `${Math.max(0.4, ((end - start) / width) * 100)}%` }} />
    </span>
  );
}

function tookOf({ startedAt, endedAt, status }: Activation, now: number): string {
  if (startedAt === null || status === "skipped") return "";
  return duration((endedAt === null ? now : Date.parse(endedAt)) - Date.parse(startedAt));
}

/** Failures stand first, then what goes on, then all else. */
function rank({ status }: Activation): number {
  if (status === "error") return 0;
  return status === "retrying" || status === "waiting" || status === "running" || status === "queued" ? 1 : 2;
}

function span(state: RunState, now: number): [number, number] {
  const run = state.data?.run;
  const from = Date.parse(run?.startedAt ?? run?.createdAt ?? new Date(now).toISOString());
  const to = run?.completedAt && ENDED.has(state.status) ? Date.parse(run.completedAt) : now;
  return [from, Math.max(to, from + 1)];
}
