/** An edge. What a run has done shows as a thick, a thin or a dashed line. */

import { EdgeLabelRenderer, type EdgeProps } from "@xyflow/react";
import { Plus, X } from "lucide-react";
import { memo, type ReactElement } from "react";

import { remove } from "../edit";
import type { EdgeKey } from "../model";
import { useCanvasModel } from "./CanvasModel";
import { useIsFar } from "./far";
import type { WireEdge } from "./flow";
import { lineOf } from "./paths";
import { useEdgeRun } from "./run";

export const Wire = memo(function Wire({ id, sourceX, sourceY, targetX, targetY, selected, data }: EdgeProps<WireEdge>): ReactElement {
  const isFar = useIsFar();
  const { edge, route, isError, isNeverLive } = data!;
  const run = useEdgeRun(edge.source, edge.handle);
  const { path, middle } = lineOf(route, { x: sourceX, y: sourceY }, { x: targetX, y: targetY }, isFar);
  const classes = ["wire", selected && "selected", isError && "error", isNeverLive && "never"].filter(Boolean).join(" ");
  return (
    <g className={classes} data-edge={id} data-verdict={run?.verdict}>
      {!isFar && <path d={path} className="react-flow__edge-interaction" fill="none" strokeOpacity={0} strokeWidth={20} />}
      <path d={path} className="react-flow__edge-path" {...(isFar ? {} : { markerEnd: "url(#wire-end)" })} />
      {isError && !isFar && <text x={middle.x} y={middle.y} className="wire-sign">✕</text>}
      {run !== null && run.live > 1 && !isFar && (
        <text x={middle.x} y={middle.y - 6} className="wire-count">
          {run.live.toLocaleString("en")}
        </text>
      )}
      {selected && <EdgeTools id={id as EdgeKey} x={middle.x} y={middle.y} />}
    </g>
  );
});

function EdgeTools({ id, x, y }: { id: EdgeKey; x: number; y: number }): ReactElement | null {
  const model = useCanvasModel();
  if (model.isReadOnly) return null;
  return (
    <EdgeLabelRenderer>
      <div className="edge-tools nodrag nopan" style={{ transform: `translate(-50%, -50%) translate(${x}px, ${y}px)` }}>
        <button type="button" aria-label="Insert a node on this edge" onClick={() => model.set({ palette: { kind: "edge", edge: id } })}>
          <Plus size={14} />
        </button>
        <button type="button" aria-label="Delete this edge" onClick={() => model.try(() => remove(model.store, [id]))}>
          <X size={14} />
        </button>
      </div>
    </EdgeLabelRenderer>
  );
}
