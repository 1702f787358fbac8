/** A node on the canvas. It reads one slice of the run and one of the problems, and has no focusable child. */

import { Handle, Position, type NodeProps } from "@xyflow/react";
import { AlertTriangle, Ban, CircleAlert, Layers, Link2Off, Pin, RotateCcw } from "lucide-react";
import { memo, type ReactElement } from "react";

import { ERROR_HANDLE, EXIT_ROW_HEIGHT, HANDLE_SIZE, NODE_HEADER_HEIGHT, nodeGeometry, type NodeKey } from "../model";
import type { NodeSummary, Progress } from "../run";
import { StatusIcon } from "../ui/Status";
import { duration } from "../ui/time";
import { useCanvas, useCanvasModel } from "./CanvasModel";
import { useIsFar } from "./far";
import { titleOf, type CardData, type CardNode } from "./flow";
import { TypeIcon } from "./icons";
import { hasEntry, summaryOf } from "./nodeTypes";
import { useNodeRun } from "./run";
import { usePins } from "./pins";
import { canvasLead } from "./lead";

const NO_PROBLEMS = { errors: 0, warnings: 0 };

export const NodeCard = memo(function NodeCard(props: NodeProps<CardNode>): ReactElement {
  return useIsFar() ? <FarCard {...props} /> : <NearCard {...props} />;
});

/** What is seen from far: an icon and colours. Handles are where `flow.ts` says, drawn or not. */
function FarCard({ id, data, selected }: NodeProps<CardNode>): ReactElement {
  const key = id as NodeKey;
  const { node, type } = data;
  const run = useNodeRun(node.id);
  const hasErrors = useCanvas((view) => countOf(view.verdict?.byKey.get(key), "error") > 0);
  const isTabStop = useCanvas((view) => canvasLead(view) === key);
  const classes = ["node-card", selected && "selected", node.disabled && "disabled", (hasErrors || type === undefined) && "unknown"];
  return (
    <div
      className={classes.filter(Boolean).join(" ")}
      data-status={run?.status ?? undefined}
      data-category={type?.category ?? "unknown"}
      data-node={key}
      data-node-id={node.id}
      role="group"
      tabIndex={isTabStop ? 0 : -1}
      aria-current={selected || undefined}
      aria-roledescription="node"
      aria-label={nameFor(data, NO_PROBLEMS, run, false, false)}
    >
      <span className="node-icon">
        <TypeIcon icon={type?.icon} title={type?.title ?? node.type} />
      </span>
    </div>
  );
}

function NearCard({ id, data, selected }: NodeProps<CardNode>): ReactElement {
  const key = id as NodeKey;
  const model = useCanvasModel();
  const { node, type, exits } = data;
  const run = useNodeRun(node.id);
  const isPinned = usePins((pins) => node.id in pins);
  const errors = useCanvas((view) => countOf(view.verdict?.byKey.get(key), "error"));
  const warnings = useCanvas((view) => countOf(view.verdict?.byKey.get(key), "warning"));
  const isUnreachable = useCanvas((view) => view.verdict?.structure.unreachable.has(key) ?? false);
  const isUnbounded = useCanvas((view) => view.verdict?.answer.unbounded.includes(node.id) ?? false);
  const isTabStop = useCanvas((view) => canvasLead(view) === key);
  const isMoving = useCanvas((view) => view.isMoving && view.selection.keys.has(key));
  const geometry = nodeGeometry({ handles: exits.map((exit) => exit.id), hasEntry: hasEntry(node.type) });
  const rows = exits.filter((exit) => exit.id !== ERROR_HANDLE);
  const hasRows = rows.length > 1;
  const status = run?.status ?? null;
  const classes = ["node-card", selected && "selected", node.disabled && "disabled", isUnreachable && "unreachable", type === undefined && "unknown", isPinned && "pinned", isMoving && "moving", node.mapped && "mapped"];
  return (
    <div
      className={classes.filter(Boolean).join(" ")}
      data-status={status ?? undefined}
      data-category={type?.category ?? "unknown"}
      data-node={key}
      data-node-id={node.id}
      role="group"
      tabIndex={isTabStop ? 0 : -1}
      aria-current={selected || undefined}
      aria-roledescription="node"
      aria-label={nameFor(data, { ...NO_PROBLEMS, errors, warnings }, run, isUnreachable, isPinned)}
      onFocus={() => {
        if (!model.selection.keys.has(key)) model.select({ keys: new Set([key]), lead: key });
      }}
    >
      <div className="node-head" style={{ height: NODE_HEADER_HEIGHT }}>
        <span className="node-icon">
          <TypeIcon icon={type?.icon} title={type?.title ?? node.type} />
        </span>
        <span className="node-words">
          <span className="node-title">{titleOf(node)}</span>
          <span className="node-summary">{type === undefined ? `${node.type}: not installed here` : summaryOf(node, type)}</span>
        </span>
      </div>
      {hasRows &&
        rows.map((exit) => (
          <div key={exit.id} className={`node-exit ${exit.isKnown ? "" : "unknown"}`} style={{ height: EXIT_ROW_HEIGHT }}>
            {exit.detail && <span className="node-exit-detail">{exit.detail}</span>}
            <span className="node-exit-title">{exit.id === "default" ? "then" : exit.title}</span>
          </div>
        ))}
      <span className="node-marks">
        {data.isEntry && (
          <span className="mark" title="Each pass begins here">
            <RotateCcw size={12} aria-hidden />
          </span>
        )}
        {errors > 0 && (
          <span className="mark error" title={`${errors} ${errors === 1 ? "problem" : "problems"}`}>
            <CircleAlert size={12} /> {errors}
          </span>
        )}
        {errors === 0 && warnings > 0 && (
          <span className="mark warning" title={`${warnings} ${warnings === 1 ? "warning" : "warnings"}`}>
            <AlertTriangle size={12} /> {warnings}
          </span>
        )}
        {isUnreachable && (
          <span className="mark" title="Nothing leads here">
            <Link2Off size={12} />
          </span>
        )}
        {isUnbounded && (
          <span className="mark waiting" title="May wait for ever">
            ∞
          </span>
        )}
        {node.disabled && (
          <span className="mark">
            <Ban size={12} /> off
          </span>
        )}
        {isPinned && (
          <span className="mark pin">
            <Pin size={12} /> pinned
          </span>
        )}
        {node.mapped && (
          <span className="mark" title="Once per item">
            <Layers size={12} />
          </span>
        )}
      </span>
      {data.incoming > 1 && <span className="join-mode">{node.joinMode}</span>}
      {run !== null && <RunMark run={run} isMapped={node.mapped} />}
      {geometry.handles.map((handle) => (
        <Handle
          key={`${handle.type} ${handle.id}`}
          id={handle.id}
          type={handle.type}
          position={handle.position === "left" ? Position.Left : handle.position === "right" ? Position.Right : Position.Bottom}
          className={handle.id === ERROR_HANDLE ? "exit-error" : ""}
          style={{ left: handle.x, top: handle.y, width: HANDLE_SIZE, height: HANDLE_SIZE }}
          isConnectable={!model.isReadOnly}
          aria-hidden
        />
      ))}
    </div>
  );
}

function RunMark({ run, isMapped }: { run: NodeSummary; isMapped: boolean }): ReactElement {
  const failed = run.counts.error ?? 0;
  const isOpen = run.ended < run.total;
  const took = run.total === 1 && run.latest?.startedAt && run.latest.endedAt ? Date.parse(run.latest.endedAt) - Date.parse(run.latest.startedAt) : null;
  return (
    <span className="run-mark" data-status={run.status ?? undefined}>
      <StatusIcon status={run.status ?? "pending"} size={12} />
      {isMapped && run.iterationsInAll !== null ? (
        <span>
          × {Math.min(run.ended, run.iterationsInAll).toLocaleString("en")} of {run.iterationsInAll.toLocaleString("en")}
        </span>
      ) : (
        run.total > 1 && <span>× {run.total.toLocaleString("en")}</span>
      )}
      {run.total > 1 && failed > 0 && <span className="failed">{failed.toLocaleString("en")} failed</span>}
      {run.total === 1 && isOpen && run.latest?.progress && <span>{progressText(run.latest.progress)}</span>}
      {took !== null && run.status !== "skipped" && <span>{duration(took)}</span>}
    </span>
  );
}

/** "12 of 40", "12". */
function progressText({ done, total }: Progress): string {
  return total === null ? done.toLocaleString("en") : `${done.toLocaleString("en")} of ${total.toLocaleString("en")}`;
}

function countOf(problems: readonly { severity: string }[] | undefined, severity: string): number {
  return problems?.filter((problem) => problem.severity === severity).length ?? 0;
}

/** "Fetch orders, HTTP request, failed, 1 problem, in loop Each; 1 in, 2 out". */
function nameFor(data: CardData, found: { errors: number; warnings: number }, run: NodeSummary | null, isUnreachable: boolean, isPinned: boolean): string {
  const { node, type } = data;
  const parts = [
    titleOf(node),
    type?.title ?? `type ${node.type}, not installed here`,
    run?.status ?? null,
    run !== null && run.total > 1 ? `${run.total} times` : null,
    found.errors > 0 ? `${found.errors} ${found.errors === 1 ? "problem" : "problems"}` : null,
    found.warnings > 0 ? `${found.warnings} ${found.warnings === 1 ? "warning" : "warnings"}` : null,
    node.disabled ? "disabled" : null,
    isPinned ? "pinned" : null,
    isUnreachable ? "unreachable" : null,
    data.home === null ? null : `in loop ${data.home}`,
  ];
  return `${parts.filter(Boolean).join(", ")}; ${data.incoming} in, ${data.outgoing} out`;
}
