/** How a loop went, on its frame: iterations, failures. */

import type { ReactElement } from "react";

import { useNodeRun, useShownRun } from "./run";

export function LoopStepper({ nodeID }: { nodeID: string }): ReactElement | null {
  const run = useShownRun();
  const summary = useNodeRun(nodeID);
  if (run === null || summary === null) return null;
  const iterations = run.store.iterations(nodeID, "");
  const failed = run.store.failedIterations(nodeID, "");
  if (iterations === 0) return null;
  return (
    <span className="loop-counts">
      × {iterations.toLocaleString("en")}
      {failed > 0 && <span className="failed">{failed.toLocaleString("en")} failed</span>}
    </span>
  );
}
