/** The run as of any row of its log: a slider, and what the run knew then. */

import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { callText, type Answer } from "../../api/client";
import { memberText } from "../../json";
import { Button } from "../../ui/Button";
import { Problem, Skeleton } from "../../ui/Notice";
import { Status } from "../../ui/Status";
import { absolute } from "../../ui/time";
import { ValueViewer } from "../../ui/ValueViewer";
import type { Activation, RunPlace } from "./useRun";

export interface AsOf {
  readonly run: Answer<"get_run_at">;
  /** The source text of `ctx`, which may hold integers of any size. */
  readonly ctxText: string;
}

/** The run after the first `seq` rows of its log; nothing is asked while `seq` is null. */
export function useAsOf(instanceID: string, seq: number | null, scope: string): UseQueryResult<AsOf> {
  return useQuery({
    queryKey: ["get_run_at", instanceID, seq, scope],
    queryFn: async ({ signal }): Promise<AsOf> => {
      const { value, text } = await callText("get_run_at", { path: { instanceID, seq: String(seq ?? 1) }, query: { scope }, signal });
      return { run: value, ctxText: memberText(text, "ctx") ?? "null" };
    },
    enabled: seq !== null,
    staleTime: Infinity,
  });
}

interface TimeSliderProps {
  last: number;
  /** Null: the run as it is now. */
  seq: number | null;
  onChange: (seq: number | null) => void;
}

/** Asks once per release of the pointer, and once per key. */
export function TimeSlider({ last, seq, onChange }: TimeSliderProps): ReactElement {
  const [dragged, setDragged] = useState<number | null>(null);
  const [known, setKnown] = useState(seq);
  // What was asked for stays until it is there: the next key goes on from it.
  if (seq !== known) {
    setKnown(seq);
    if (seq === dragged || seq === null) setDragged(null);
  }
  const shown = dragged ?? seq ?? last;
  const release = () => {
    if (dragged === seq) setDragged(null);
    else if (dragged !== null) onChange(dragged);
  };
  return (
    <div className="time-slider card">
      <label htmlFor="time-slider">Time</label>
      <input
        id="time-slider"
        type="range"
        min={1}
        max={last}
        value={shown}
        aria-valuetext={`row ${shown} of ${last}`}
        onChange={(event) => setDragged(Number(event.target.value))}
        onPointerUp={release}
        onKeyUp={release}
        onBlur={release}
      />
      <span className="numbers faint">
        row {shown.toLocaleString("en")} of {last.toLocaleString("en")}
      </span>
      <Button small disabled={seq === null} onClick={() => onChange(null)}>
        Now
      </Button>
    </div>
  );
}

interface AsOfCardProps {
  asked: UseQueryResult<AsOf>;
  seq: number;
  selected: RunPlace["selected"];
  /** What is selected, as it was then; null: it was not reached. */
  activation: Activation | null;
}

export function AsOfCard({ asked, seq, selected, activation }: AsOfCardProps): ReactElement {
  return (
    <div className="card run-result">
      <h2>After row {seq.toLocaleString("en")} of the log</h2>
      {asked.error ? (
        <Problem error={asked.error} onRetry={() => void asked.refetch()} />
      ) : asked.data === undefined ? (
        <Skeleton lines={3} />
      ) : (
        <>
          <div className="row row-wrap">
            <Status status={asked.data.run.status} />
            <span className="faint small">{absolute(asked.data.run.createdAt)}</span>
          </div>
          {selected !== null && (
            <div className="row row-wrap">
              <h3>{selected.nodeID}</h3>
              {selected.scope !== "" && <code className="faint">{selected.scope}</code>}
              {activation === null ? <span className="faint">not reached yet</span> : <Status status={activation.status} />}
              {activation?.error && <span className="faint small">{activation.error.message}</span>}
            </div>
          )}
          <h3>What the run knew</h3>
          <ValueViewer text={asked.data.ctxText} label="ctx" root="ctx" />
        </>
      )}
    </div>
  );
}
