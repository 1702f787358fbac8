/** How a loop went, on its frame: its iterations one by one, and the next failure. Keys do the same, so no button is a tab stop. */

import { ChevronLeft, ChevronRight, SkipForward } from "lucide-react";
import { useCallback, useSyncExternalStore, type ReactElement, type ReactNode } from "react";
import { useStore } from "zustand";

import type { ContainerID } from "../model";
import { flowOf } from "./Canvas";
import { useCanvas, useCanvasModel } from "./CanvasModel";
import { loopState, showNextFailure, step } from "./iterations";
import { useShownRun, type ShownRun } from "./run";

export function LoopStepper({ id }: { id: ContainerID }): ReactElement | null {
  const run = useShownRun();
  return run === null ? null : <Stepper id={id} run={run} />;
}

function Stepper({ id, run }: { id: ContainerID; run: ShownRun }): ReactElement | null {
  const model = useCanvasModel();
  useStore(run.focus);
  const document = useCanvas((view) => view.document);
  const containers = useCanvas((view) => view.containers);
  const subscribe = useCallback((changed: () => void) => run.store.subscribeRun(changed), [run]);
  // Counts are told as text, so that what did not change is not drawn again.
  const read = () => JSON.stringify(loopState(run, { document, containers }, id));
  const state = JSON.parse(useSyncExternalStore(subscribe, read)) as ReturnType<typeof loopState>;
  if (state === null) return null;
  const word = state.kind === "loop" ? "iteration" : "pass";
  return (
    <span className="loop-counts nodrag nopan" data-loop={state.nodeID}>
      <StepButton label={`The ${word} before`} onPress={() => step(run, state, -1)} icon={<ChevronLeft size={13} />} />
      <span className="loop-at">{shownCount(state)}</span>
      <StepButton label={`The ${word} after`} onPress={() => step(run, state, 1)} icon={<ChevronRight size={13} />} />
      {state.failed > 0 && (
        <>
          <span className="failed">{state.failed.toLocaleString("en")} failed</span>
          <StepButton label="Next failure" onPress={() => void showNextFailure(run, model, flowOf(model), state)} icon={<SkipForward size={13} />} />
        </>
      )}
    </span>
  );
}

/** "3 of 40": the third is looked at; "× 12 of 40": twelve have begun. */
function shownCount({ at, count, inAll }: NonNullable<ReturnType<typeof loopState>>): string {
  const all = inAll === null || inAll <= count ? null : inAll.toLocaleString("en");
  if (at !== null) return `${at.toLocaleString("en")} of ${all ?? count.toLocaleString("en")}`;
  return all === null ? `× ${count.toLocaleString("en")}` : `× ${count.toLocaleString("en")} of ${all}`;
}

function StepButton({ label, icon, onPress }: { label: string; icon: ReactNode; onPress: () => void }): ReactElement {
  return (
    <button type="button" className="loop-step" aria-label={label} title={label} tabIndex={-1} onClick={onPress}>
      {icon}
    </button>
  );
}
