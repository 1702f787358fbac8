import type { ReactElement } from "react";

import type { Answer } from "../../api/client";
import type { Activation } from "./useRun";

export interface RunGraphProps {
  run: Answer<"get_run">;
  activations: readonly Activation[];
  selected: { nodeID: string; scope: string } | null;
  onSelect: (chosen: { nodeID: string; scope: string } | null) => void;
}

export function RunGraph(_props: RunGraphProps): ReactElement | null {
  return null;
}
