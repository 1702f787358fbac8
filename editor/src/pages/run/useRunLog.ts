/** The log of a run without its payloads: read page by page, then as it grows. */

import { useEffect, useMemo, useState } from "react";

import { ApiError, call } from "../../api/client";
import { RunLog, type LogRow } from "../../run";

const PAGE = 1_000;
const EVERY_MS = 1_500;

export interface ReadLog {
  readonly log: RunLog;
  /** How many rows it has: a new number says that there is more. */
  readonly rows: number;
}

export function useRunLog(instanceID: string, isOver: boolean): ReadLog {
  const log = useMemo(() => new RunLog(), [instanceID]); // eslint-disable-line react-hooks/exhaustive-deps
  const [rows, setRows] = useState(0);
  useEffect(() => {
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async (): Promise<void> => {
      let isFull = true;
      try {
        while (isFull && !log.isCut) {
          const page = await call("get_log", { path: { instanceID }, query: { after: log.lastSeq, limit: PAGE, payload: false }, signal: ended.signal });
          log.take(page.items as readonly LogRow[]);
          isFull = page.nextCursor !== null;
          setRows(log.lastSeq);
        }
      } catch (failure) {
        // A server that is away is said by the page, and asked again below.
        if (ended.signal.aborted) return;
        if (!(failure instanceof ApiError)) throw failure;
      }
      if (!isOver) timer = setTimeout(() => void read(), EVERY_MS);
    };
    void read();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [instanceID, isOver, log]);
  return { log, rows };
}
