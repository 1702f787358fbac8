import type { NodeKey } from "../model";
import type { CanvasView } from "./CanvasModel";

/** The node that the tab key comes to: the selected one, else the first. */
export function canvasLead({ selection, document }: CanvasView): NodeKey | null {
  const { lead } = selection;
  if (lead !== null && document.nodes.has(lead as NodeKey)) return lead as NodeKey;
  const [first] = document.nodes.keys();
  return first ?? null;
}
