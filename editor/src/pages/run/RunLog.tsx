/** The raw log with its seqs, newest pages on demand; only what is seen is drawn. */

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState, type ReactElement } from "react";

import { call, callText, type Answer } from "../../api/client";
import { entriesOf, memberText } from "../../json";
import { Button } from "../../ui/Button";
import { Problem, Skeleton } from "../../ui/Notice";
import { absolute } from "../../ui/time";
import { LoadedValue } from "../LoadedValue";

const PAGE = 200;
const EVERY_MS = 1_500;

type Entry = Answer<"get_log">["items"][number];

interface RunLogProps {
  instanceID: string;
  isOver: boolean;
  selected: { nodeID: string; scope: string } | null;
  /** Only the rows up to this one; null: all. */
  seq: number | null;
}

export function RunLog({ instanceID, isOver, selected, seq }: RunLogProps): ReactElement {
  const [onlySelected, setOnlySelected] = useState(false);
  const log = useInfiniteQuery({
    queryKey: ["get_log", instanceID],
    queryFn: ({ pageParam, signal }) => call("get_log", { path: { instanceID }, query: { limit: PAGE, cursor: pageParam, payload: false }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.nextCursor,
    refetchInterval: isOver ? false : EVERY_MS,
  });
  const { refetch } = log;
  useEffect(() => {
    if (isOver) void refetch();
  }, [isOver, refetch]);
  const entries = useMemo(() => {
    const all = (log.data?.pages.flatMap((page) => page.items) ?? []).filter((entry) => seq === null || entry.seq <= seq);
    return onlySelected && selected !== null ? all.filter(({ nodeID, scope }) => nodeID === selected.nodeID && scope === selected.scope) : all;
  }, [log.data, onlySelected, selected, seq]);
  const list = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState<number | null>(null);
  const virtual = useVirtualizer({
    count: entries.length,
    getScrollElement: () => list.current,
    estimateSize: () => 30,
    getItemKey: (index) => entries[index]!.seq,
    overscan: 15,
  });
  if (log.error) return <Problem error={log.error} onRetry={() => void log.refetch()} />;
  if (log.isPending) return <Skeleton />;
  return (
    <div className="log">
      {selected !== null && (
        <label className="check small" style={{ padding: "8px 12px" }}>
          <input type="checkbox" checked={onlySelected} onChange={(event) => setOnlySelected(event.target.checked)} />
          only {selected.nodeID}
        </label>
      )}
      <div ref={list} className="log-list" tabIndex={0} role="region" aria-label="Log">
        <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
          {virtual.getVirtualItems().map(({ index, start, key }) => (
            <LogRow
              key={key}
              instanceID={instanceID}
              ref={virtual.measureElement}
              index={index}
              entry={entries[index]!}
              top={start}
              isOpen={open === entries[index]!.seq}
              onToggle={() => setOpen(open === entries[index]!.seq ? null : entries[index]!.seq)}
            />
          ))}
        </div>
      </div>
      {log.hasNextPage && (seq === null || (entries.at(-1)?.seq ?? 0) < seq) && (
        <p style={{ padding: 10 }}>
          <Button small disabled={log.isFetchingNextPage} onClick={() => void log.fetchNextPage()}>
            Show later entries
          </Button>
        </p>
      )}
    </div>
  );
}

interface LogRowProps {
  instanceID: string;
  ref: (element: HTMLElement | null) => void;
  index: number;
  entry: Entry;
  top: number;
  isOpen: boolean;
  onToggle: () => void;
}

function LogRow({ instanceID, ref, index, entry, top, isOpen, onToggle }: LogRowProps): ReactElement {
  const { seq, eventType, nodeID, scope, createdAt, errorMessage } = entry;
  return (
    <div ref={ref} data-index={index} className="log-row" style={{ transform: `translateY(${top}px)` }}>
      <button type="button" aria-expanded={isOpen} onClick={onToggle}>
        <span className="numbers faint">{seq}</span>
        <span className="log-event" data-event={eventType}>
          {eventType}
        </span>
        <span className="clip">
          {scope !== "" && <span className="faint">{scope} › </span>}
          {nodeID}
          {errorMessage && <span className="log-error"> {errorMessage}</span>}
        </span>
        <span className="faint numbers">{absolute(createdAt).split(", ").at(-1)}</span>
      </button>
      {isOpen && <RowPayload instanceID={instanceID} seq={seq} />}
    </div>
  );
}

/** Read when somebody looks, as source text: its integers may be of any size. */
function RowPayload({ instanceID, seq }: { instanceID: string; seq: number }): ReactElement {
  const read = async (inline: boolean, signal: AbortSignal) => {
    const { text } = await callText("get_log", { path: { instanceID }, query: { after: seq - 1, limit: 1, inline }, signal });
    const [entry] = entriesOf(memberText(text, "items") ?? "[]");
    return (entry && memberText(entry.text, "payload")) ?? "null";
  };
  const row = useQuery({ queryKey: ["log-row", instanceID, seq], queryFn: ({ signal }) => read(false, signal), staleTime: Infinity });
  if (row.error) return <Problem error={row.error} onRetry={() => void row.refetch()} />;
  if (row.data === undefined) return <Skeleton lines={1} />;
  return <LoadedValue text={row.data} label={`Payload of row ${seq}`} load={(signal) => read(true, signal)} />;
}
