/**
 * The nodes of a run with what they did when: failures first, then what goes on, then all else, iterations under their
 * loop. Only what is seen is drawn.
 */

import { ChevronDown, ChevronRight } from "lucide-react";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState, type KeyboardEvent, type ReactElement } from "react";

import { barOf, groupKey, timelineOf, withBeginning, type Bar, type Group, type TimelineRow } from "../../run";
import { Status } from "../../ui/Status";
import { duration, useNow } from "../../ui/time";
import type { RunLists } from "./earlier";
import { activationKey, ENDED, type Activation, type RunState } from "./useRun";
import type { ReadLog } from "./useRunLog";

interface TimelineProps extends RunLists {
  selected: { nodeID: string; scope: string } | null;
  onSelect: (chosen: { nodeID: string; scope: string } | null) => void;
}

const ROW_HEIGHT = 34;
const INDENT = 14;
const FILTERS = ["all", "failed", "waiting", "queued", "running"] as const;
type FilterName = (typeof FILTERS)[number];

const STATUSES: Record<FilterName, readonly string[] | null> = { all: null, failed: ["error"], waiting: ["waiting", "retrying"], queued: ["queued"], running: ["running"] };

/** A row of the list: an activation, as it was read or told, or a loop with its iterations. */
type Row = { readonly kind: "activation"; readonly key: string; readonly bar: Bar; readonly known: Activation | undefined; readonly isFlat: boolean } | { readonly kind: "group"; readonly key: string; readonly group: Group };

export function Timeline({ state, read: { log, rows: logRows }, until, selected, onSelect }: TimelineProps): ReactElement {
  const [filter, setFilter] = useState<FilterName>("all");
  const [text, setText] = useState("");
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [lead, setLead] = useState<string | null>(null);
  const clock = useNow();
  const now = until ?? clock;
  const list = useRef<HTMLDivElement>(null);
  const isOver = ENDED.has(state.status);
  const known = useMemo(() => new Map(state.activations.map((each) => [activationKey(each), each])), [state.activations]);
  const counts = useMemo(() => {
    const found = { all: state.activations.length, failed: 0, waiting: 0, queued: 0, running: 0 };
    for (const { status } of state.activations) for (const name of FILTERS) if (STATUSES[name]?.includes(status)) found[name] += 1;
    return found;
  }, [state.activations]);
  const [from, to] = useMemo(() => span(state, now), [state, now]);
  const endedAt = isOver ? to : null;
  const rows = useMemo((): Row[] => {
    const wanted = text.trim().toLowerCase();
    const flat = (each: Activation): Row => ({ kind: "activation", key: activationKey(each), bar: barFor(each, log, endedAt), known: each, isFlat: true });
    const isFiltered = filter !== "all" || wanted !== "" || logRows === 0;
    const fitting = state.activations.filter(({ status, nodeID, scope, error }) => {
      if (filter === "all" && !isFiltered) return status === "error" && scope !== "";
      if (STATUSES[filter] && !STATUSES[filter].includes(status)) return false;
      return wanted === "" || `${scope} ${nodeID} ${error?.message ?? ""}`.toLowerCase().includes(wanted);
    });
    const first = fitting.toSorted((left, right) => rank(left) - rank(right) || left.seq - right.seq).map(flat);
    if (isFiltered) return first;
    // Failures inside of loops stand at the top; in their iteration they are found again.
    return [...first, ...timelineOf(log, endedAt, { opened }).map((row): Row => grouped(row, known))].map((row, index) => (row.kind === "activation" && index >= first.length ? { ...row, key: `in ${row.key}` } : row));
  }, [state.activations, filter, text, log, logRows, opened, endedAt, known]);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => list.current, estimateSize: () => ROW_HEIGHT, overscan: 12 });
  const selectedKey = selected === null ? null : activationKey(selected);
  const isSelected = (row: Row) => row.kind === "activation" && activationKey(row.bar) === selectedKey;
  const at = Math.max(
    0,
    rows.findIndex((row) => (lead === null ? isSelected(row) : row.key === lead)),
  );
  const toggle = (key: string) =>
    setOpened((before) => {
      const next = new Set(before);
      if (!next.delete(key)) next.add(key);
      return next;
    });

  const go = (row: Row | undefined) => {
    if (row === undefined) return;
    setLead(row.key);
    if (row.kind === "activation") onSelect(row.bar);
    virtual.scrollToIndex(rows.indexOf(row));
  };
  const walk = (event: KeyboardEvent) => {
    const row = rows[at];
    const isAtStart = lead === null && selectedKey === null;
    if (event.key === "ArrowDown") go(rows[isAtStart ? 0 : Math.min(rows.length - 1, at + 1)]);
    else if (event.key === "ArrowUp") go(rows[Math.max(0, at - 1)]);
    else if (event.key === "Home") go(rows[0]);
    else if (event.key === "End") go(rows.at(-1));
    else if (row?.kind === "group" && (event.key === "Enter" || event.key === " " || opened.has(row.key) === (event.key === "ArrowLeft"))) toggle(row.key);
    else return;
    event.preventDefault();
  };

  return (
    <div className="timeline">
      <div className="filters">
        {FILTERS.filter((name) => name !== "queued" || name === filter || counts.queued > 0).map((name) => (
          <button key={name} type="button" className="button small" aria-pressed={filter === name} onClick={() => setFilter(name)}>
            {name} <span className="numbers faint">{counts[name].toLocaleString("en")}</span>
          </button>
        ))}
        <input className="input" type="search" aria-label="Search nodes" placeholder="Search" value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      {!state.isComplete && state.activations.length >= 1_000 && (
        <p className="faint small" style={{ padding: "0 12px 6px" }}>
          The first {state.activations.length.toLocaleString("en")} activations are searched.
        </p>
      )}
      <div ref={list} className="timeline-list" role={rows.length === 0 ? "group" : "tree"} aria-label="Nodes of the run" tabIndex={0} aria-activedescendant={rows.length === 0 || (lead === null && selectedKey === null) ? undefined : `row-${at}`} onKeyDown={walk}>
        <div style={{ height: virtual.getTotalSize(), position: "relative" }} role="presentation">
          {virtual.getVirtualItems().map(({ index, start }) => {
            const row = rows[index]!;
            const shared = { id: `row-${index}`, role: "treeitem", style: { transform: `translateY(${start}px)`, height: ROW_HEIGHT } } as const;
            if (row.kind === "group") {
              const isOpen = opened.has(row.key);
              return (
                <div
                  key={row.key}
                  {...shared}
                  aria-expanded={isOpen}
                  aria-selected={row.key === lead}
                  aria-level={row.group.depth + 1}
                  className="timeline-row timeline-group"
                  data-status={row.group.failed > 0 ? "error" : undefined}
                  onClick={() => {
                    setLead(row.key);
                    toggle(row.key);
                  }}
                >
                  <span style={{ paddingLeft: row.group.depth * INDENT }}>{isOpen ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />}</span>
                  <GroupText group={row.group} />
                </div>
              );
            }
            const { bar } = row;
            const status = row.known?.status ?? bar.status;
            return (
              <div
                key={row.key}
                {...shared}
                aria-selected={isSelected(row)}
                aria-level={row.isFlat ? 1 : bar.depth + 1}
                className="timeline-row"
                data-status={status}
                onClick={() => {
                  setLead(row.key);
                  onSelect(isSelected(row) ? null : bar);
                }}
              >
                <Status status={status} />
                <span className="timeline-name clip" style={row.isFlat ? undefined : { paddingLeft: bar.depth * INDENT }}>
                  {row.isFlat && bar.scope !== "" && <span className="faint">{bar.scope} › </span>}
                  {bar.nodeID}
                  {row.known !== undefined && row.known.attempt > 1 && <span className="badge">try {row.known.attempt}</span>}
                </span>
                <Track bar={row.known === undefined ? bar : withBeginning(bar, { isQueued: status === "queued", beganAt: row.known.beganAt })} status={status} from={from} to={to} now={isOver ? to : now} />
                <span className="numbers faint timeline-took">{tookOf(bar, status, isOver ? to : now)}</span>
              </div>
            );
          })}
        </div>
        {rows.length === 0 && <p className="faint" style={{ padding: 16 }}>{state.activations.length === 0 ? "No node has begun yet." : "No node fits."}</p>}
      </div>
    </div>
  );
}

function GroupText({ group: { kind, nodeID, scope, failed, count } }: { group: Group }): ReactElement {
  return (
    <span className="timeline-name clip timeline-group-text">
      {kind === "loop" ? `${nodeID} × ${count.toLocaleString("en")}` : scope} {failed > 0 && <span className="failed">{kind === "loop" ? `${failed.toLocaleString("en")} failed` : "failed"}</span>}
    </span>
  );
}

function Track({ bar, status, from, to, now }: { bar: Bar; status: string; from: number; to: number; now: number }): ReactElement {
  const width = Math.max(1, to - from);
  return (
    <span className="timeline-track" aria-hidden>
      {bar.segments.map((segment, index) => (
        <span
          key={index}
          className="timeline-bar"
          data-kind={segment.kind === "running" ? status : segment.kind}
          style={{ left: `${((segment.from - from) / width) * 100}%`, width: `${Math.max(0.4, (((segment.to ?? now) - segment.from) / width) * 100)}%` }}
        />
      ))}
    </span>
  );
}

/** What the log says that an activation did; what was told and is in no row that was read yet, from its times. */
function barFor({ nodeID, scope, status, attempt, startedAt, endedAt: end }: Activation, log: ReadLog["log"], endedAt: number | null): Bar {
  const rows = log.rowsOf(nodeID, scope);
  if (rows.length > 0) return barOf(rows, endedAt);
  const segments = startedAt === null ? [] : [{ kind: "running" as const, attempt, from: Date.parse(startedAt), to: end === null ? endedAt : Date.parse(end) }];
  return { kind: "activation", nodeID, scope, depth: 0, status: status === "queued" ? "running" : status, segments };
}

function grouped(row: TimelineRow, known: ReadonlyMap<string, Activation>): Row {
  if (row.kind !== "activation") return { kind: "group", key: groupKey(row), group: row };
  const key = activationKey(row);
  return { kind: "activation", key, bar: row, known: known.get(key), isFlat: false };
}

function tookOf({ segments }: Bar, status: string, now: number): string {
  const [first, last] = [segments[0], segments.at(-1)];
  if (first === undefined || last === undefined || status === "skipped") return "";
  return duration((last.to ?? now) - first.from);
}

/** Failures stand first, then what goes on, then all else. */
function rank({ status }: Activation): number {
  if (status === "error") return 0;
  return status === "retrying" || status === "waiting" || status === "running" || status === "queued" ? 1 : 2;
}

function span(state: RunState, now: number): [number, number] {
  const run = state.data?.run;
  const from = Date.parse(run?.startedAt ?? run?.createdAt ?? new Date(now).toISOString());
  const to = run?.completedAt && ENDED.has(state.status) ? Math.min(Date.parse(run.completedAt), now) : now;
  return [from, Math.max(to, from + 1)];
}
