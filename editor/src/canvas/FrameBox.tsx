/** The frame around a loop or a region: drawn beneath its members; its title moves them. */

import type { NodeProps } from "@xyflow/react";
import { AlertTriangle, Repeat, RotateCcw } from "lucide-react";
import { memo, type ReactElement } from "react";

import { FRAME_TITLE_HEIGHT } from "../model";
import { titleOf, type FrameNode } from "./flow";
import { useCanvas } from "./CanvasModel";
import { LoopStepper } from "./LoopStepper";

export const FrameBox = memo(function FrameBox({ data }: NodeProps<FrameNode>): ReactElement {
  const { frame, title, condensed, notches, oddities } = data;
  const name = useCanvas((view) => titleOf(view.document.nodes.get(frame.header)));
  return (
    <div className={`frame ${frame.kind} ${condensed === null ? "" : "condensed"}`} data-frame={frame.id} style={{ width: frame.width, height: frame.height }}>
      <div className="frame-title" style={{ height: FRAME_TITLE_HEIGHT }}>
        {frame.kind === "loop" ? <Repeat size={13} aria-hidden /> : <RotateCcw size={13} aria-hidden />}
        <span className="frame-name">{name}</span>
        <span className="frame-text">{title}</span>
        {oddities.map((message) => (
          <span key={message} className="mark warning" role="img" aria-label={message} title={message}>
            <AlertTriangle size={12} aria-hidden />
          </span>
        ))}
        <LoopStepper id={frame.id} />
      </div>
      {notches.map(({ edge, top, label, warning }) => (
        <span key={edge} className={`notch ${warning === null ? "" : "warning"}`} data-notch={edge} style={{ top }} {...(warning === null ? {} : { title: warning })}>
          <span className="notch-label">
            {warning !== null && <AlertTriangle size={11} role="img" aria-label={warning} />}
            {label}
          </span>
        </span>
      ))}
      {condensed !== null && <p className="frame-count">{condensed.toLocaleString("en")} {condensed === 1 ? "node" : "nodes"}</p>}
    </div>
  );
});
