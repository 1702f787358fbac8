/** What the code of a run has logged and printed, newest pages on demand; only what is seen is drawn. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, type ReactElement } from "react";

import { call } from "../../api/client";
import { Button } from "../../ui/Button";
import { Problem, Skeleton } from "../../ui/Notice";
import { absolute } from "../../ui/time";

const PAGE = 500;
const EVERY_MS = 1_500;
const LATE_MS = [0, 1_500, 4_000];
const LEVELS = ["debug", "info", "warning", "error"] as const;

interface RunConsoleProps {
  instanceID: string;
  isOver: boolean;
  selected: { nodeID: string; scope: string } | null;
  /** Only what was said by then, in milliseconds since the epoch; null: all. */
  until: number | null;
}

export function RunConsole({ instanceID, isOver, selected, until }: RunConsoleProps): ReactElement {
  const [level, setLevel] = useState<(typeof LEVELS)[number]>("debug");
  const [onlySelected, setOnlySelected] = useState(true);
  const only = onlySelected ? selected : null;
  const asked = useInfiniteQuery({
    queryKey: ["get_console", instanceID, level, only?.nodeID ?? null, only?.scope ?? null],
    queryFn: ({ pageParam, signal }) =>
      call("get_console", { path: { instanceID }, query: { limit: PAGE, cursor: pageParam, level, ...(only === null ? {} : { nodeID: only.nodeID, scope: only.scope }) }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.nextCursor,
    refetchInterval: isOver ? false : EVERY_MS,
  });
  const { refetch } = asked;
  useEffect(() => {
    if (!isOver) return undefined;
    // The last lines may come after the end of the run.
    const timers = LATE_MS.map((ms) => setTimeout(() => void refetch(), ms));
    return () => timers.forEach(clearTimeout);
  }, [isOver, refetch]);
  const lines = useMemo(() => (asked.data?.pages.flatMap((page) => page.items) ?? []).filter(({ at }) => until === null || Date.parse(at) <= until), [asked.data, until]);
  const list = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: lines.length, getScrollElement: () => list.current, estimateSize: () => 26, getItemKey: (index) => lines[index]!.number, overscan: 20 });
  return (
    <div className="log">
      <div className="filters">
        <select className="input" aria-label="Level" value={level} onChange={(event) => setLevel(event.target.value as typeof level)}>
          {LEVELS.map((each) => (
            <option key={each} value={each}>
              {each === "debug" ? "all levels" : each === "error" ? "errors" : `${each} and above`}
            </option>
          ))}
        </select>
        {selected !== null && (
          <label className="check small">
            <input type="checkbox" checked={onlySelected} onChange={(event) => setOnlySelected(event.target.checked)} />
            only {selected.nodeID} {selected.scope}
          </label>
        )}
      </div>
      {asked.error ? (
        <Problem error={asked.error} onRetry={() => void asked.refetch()} />
      ) : asked.isPending ? (
        <Skeleton />
      ) : lines.length === 0 ? (
        <p className="faint" style={{ padding: 16 }}>
          {only === null ? "The code of this run" : only.nodeID} {until === null ? "has logged and printed nothing." : "had logged and printed nothing by then."}
        </p>
      ) : (
        <div ref={list} className="log-list" tabIndex={0} role="region" aria-label="Logs">
          <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
            {virtual.getVirtualItems().map(({ index, start, key }) => {
              const line = lines[index]!;
              return (
                <div key={key} ref={virtual.measureElement} data-index={index} className="console-line" data-level={line.level} style={{ transform: `translateY(${start}px)` }}>
                  <time className="faint numbers" dateTime={line.at} title={absolute(line.at)}>
                    {line.at.slice(11, 23)}
                  </time>
                  <span className="console-level">{line.level}</span>
                  <span className="faint clip" title={`${line.scope === "" ? "" : `${line.scope} › `}${line.nodeID}, try ${line.attempt}`}>
                    {line.nodeID || "workflow"} {line.scope}
                  </span>
                  <code>{line.text}</code>
                </div>
              );
            })}
          </div>
        </div>
      )}
      {asked.hasNextPage && (
        <p style={{ padding: 10 }}>
          <Button small disabled={asked.isFetchingNextPage} onClick={() => void asked.fetchNextPage()}>
            Show later lines
          </Button>
        </p>
      )}
    </div>
  );
}
