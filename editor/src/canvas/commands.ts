/** What keys, menus and the command list do to a canvas: one name, one function. */

import {
  addNote,
  copy,
  duplicate,
  EditRefused,
  moveBy,
  paste,
  remove,
  tidy,
  toggleDisabled,
  type CommandName,
  type Movable,
} from "../edit";
import { everything, extended, isEdgeKey, isNodeKey, isNoteKey, NOTHING_SELECTED, selected, selectedNodes, type NodeKey } from "../model";
import { announce, toast } from "../ui/toasts";
import { canvasLead } from "./lead";
import type { CanvasModel } from "./CanvasModel";
import { titleOf } from "./flow";
import { focusNode, motionMs, type Flow, showEverything } from "./focus";
import { loopAtLead, showNextFailure, step } from "./iterations";
import type { ShownRun } from "./run";
import { LayoutCancelled } from "../layout";
import { layOutCanvas } from "./layout";
import { neighbour, type Way } from "./walk";

/** What the page around a canvas does for it; what is missing is not offered. */
export interface CanvasActions {
  readonly test?: () => void;
  readonly runToHere?: (node: NodeKey) => void;
  readonly runAlone?: (node: NodeKey) => void;
  readonly runFromHere?: (node: NodeKey) => void;
  readonly pin?: (node: NodeKey) => void;
  readonly save?: () => void;
  /** A file was dropped on the canvas. */
  readonly dropFile?: (file: File) => void;
  /** The run that is shown. */
  readonly run?: ShownRun | null;
}

/** One step of the grid is 8; with shift it is five of them. */
const FAR_STEP = 5;

export function runCommand(name: CommandName, model: CanvasModel, flow: Flow | null, actions: CanvasActions): boolean {
  const view = model.view.getState();
  const nodes = selectedNodes(view.selection);
  const lead = canvasLead(view);
  const walk = (way: Way) => {
    const next = lead === null ? null : view.selection.lead === null ? lead : neighbour(view.document, lead, way, model.types);
    if (next !== null) focusNode(model, flow, next);
    else if (lead !== null) announce(`Nothing ${{ left: "before", right: "behind", up: "above", down: "below" }[way]} ${titleOf(view.document.nodes.get(lead))}`);
  };
  const move = (columns: number, rows: number) => {
    const keys = [...view.selection.keys].filter((key): key is Movable => isNodeKey(key) || isNoteKey(key));
    model.try(() => moveBy(model.store, keys, columns, rows));
  };
  const refocus = () => {
    const key = canvasLead(model.view.getState());
    if (key !== null && document.activeElement === document.body) focusNode(model, flow, key);
  };

  switch (name) {
    case "palette":
      if (!model.isReadOnly) model.set({ palette: { kind: "behind", node: view.selection.lead === null ? null : lead } });
      return true;
    case "connect":
      if (!model.isReadOnly && lead !== null) model.set({ connecting: lead });
      return true;
    case "open": {
      const open = lead;
      if (open !== null && view.selection.lead !== null) model.set({ open, openPlace: null });
      return true;
    }
    case "close":
      if (view.open !== null) model.set({ open: null });
      else model.select(NOTHING_SELECTED);
      return true;
    case "rename":
      if (!model.isReadOnly && lead !== null) model.set({ renaming: lead });
      return true;
    case "disable":
      if (nodes.length > 0) model.try(() => toggleDisabled(model.store, nodes));
      return true;
    case "pin":
      if (lead !== null) actions.pin?.(lead);
      return actions.pin !== undefined;
    case "note": {
      const at = placeForNew(flow);
      const key = model.try(() => addNote(model.store, at));
      if (key !== null) model.select(selected(key));
      return true;
    }
    case "tidy":
      void tidyUp(model, nodes);
      return true;
    case "fit":
      if (flow !== null) showEverything(model, flow, motionMs());
      return true;
    case "actualSize":
      void flow?.zoomTo(1, { duration: motionMs() });
      return true;
    case "zoomIn":
      void flow?.zoomIn({ duration: motionMs() });
      return true;
    case "zoomOut":
      void flow?.zoomOut({ duration: motionMs() });
      return true;
    case "walkLeft":
      walk("left");
      return true;
    case "walkRight":
      walk("right");
      return true;
    case "walkUp":
      walk("up");
      return true;
    case "walkDown":
      walk("down");
      return true;
    case "selectUpstream":
      model.select(extended(view.document, view.selection, "upstream"));
      return true;
    case "selectDownstream":
      model.select(extended(view.document, view.selection, "downstream"));
      return true;
    case "moveMode":
      if (!model.isReadOnly && view.selection.keys.size > 0) {
        model.set({ isMoving: true });
        announce("Move by arrows. Enter ends.");
      }
      return true;
    case "moveLeft":
      move(-1, 0);
      return true;
    case "moveRight":
      move(1, 0);
      return true;
    case "moveUp":
      move(0, -1);
      return true;
    case "moveDown":
      move(0, 1);
      return true;
    case "moveFarLeft":
      move(-FAR_STEP, 0);
      return true;
    case "moveFarRight":
      move(FAR_STEP, 0);
      return true;
    case "moveFarUp":
      move(0, -FAR_STEP);
      return true;
    case "moveFarDown":
      move(0, FAR_STEP);
      return true;
    case "endMove":
      model.set({ isMoving: false });
      model.store.endBurst();
      announce("Moved.");
      return true;
    case "outerContainer": {
      const container = lead === null ? undefined : view.containers.byID.get(view.containers.of.get(lead) ?? "root");
      if (container?.header != null) focusNode(model, flow, container.header);
      return true;
    }
    case "innerContainer": {
      const [inner] = lead === null ? [] : (view.containers.byID.get(`loop:${lead}`)?.members ?? []);
      if (inner !== undefined) focusNode(model, flow, inner);
      return true;
    }
    case "undo":
      if (!model.isReadOnly) model.store.undo();
      refocus();
      return true;
    case "redo":
      if (!model.isReadOnly) model.store.redo();
      refocus();
      return true;
    case "selectAll":
      model.select(everything(view.document));
      return true;
    case "duplicate": {
      const keys = model.try(() => duplicate(model.store, view.selection.keys));
      if (keys !== null && keys.length > 0) model.select(selected(...keys));
      return true;
    }
    case "delete": {
      const next = lead === null ? null : (neighbour(view.document, lead, "left", model.types) ?? neighbour(view.document, lead, "right", model.types));
      model.try(() => remove(model.store, view.selection.keys));
      const isEdge = [...view.selection.keys].every(isEdgeKey);
      const focus = isEdge ? lead : next;
      if (focus !== null && model.document.nodes.has(focus)) focusNode(model, flow, focus);
      return true;
    }
    case "nextFailure":
      if (actions.run) void showNextFailure(actions.run, model, flow);
      return actions.run != null;
    case "iterationBefore":
    case "iterationAfter": {
      const loop = actions.run ? loopAtLead(actions.run, view) : null;
      if (actions.run && loop !== null) step(actions.run, loop, name === "iterationAfter" ? 1 : -1);
      return actions.run != null;
    }
    case "test":
      actions.test?.();
      return actions.test !== undefined;
    case "runToHere":
      if (lead !== null) actions.runToHere?.(lead);
      return actions.runToHere !== undefined;
    case "save":
      actions.save?.();
      return true;
    case "commands":
      model.set({ commands: true });
      return true;
    case "help":
      model.set({ help: true });
      return true;
    case "copy":
    case "cut":
    case "paste":
    case "menu":
      return false; // the browser's own events bring the clipboard and the place of the menu
  }
}

/** Tidy the selection, or everything; what is computed meanwhile for another document is dropped. */
export async function tidyUp(model: CanvasModel, nodes: readonly NodeKey[]): Promise<void> {
  if (model.isReadOnly) return;
  const { document } = model;
  try {
    const places = await layOutCanvas(model, nodes.length > 1 ? new Set(nodes) : undefined);
    if (model.document === document) model.try(() => tidy(model.store, places));
  } catch (failure) {
    if (!(failure instanceof LayoutCancelled)) throw failure;
  }
}

export function copySelection(model: CanvasModel): string | null {
  return copy(model.document, model.selection.keys);
}

/** Put the text of the clipboard on the canvas; other text than ours is said to be so. */
export function pasteText(model: CanvasModel, flow: Flow | null, text: string): void {
  if (model.isReadOnly || text.trim() === "") return;
  try {
    const keys = paste(model.store, text, flow === null ? undefined : placeForNew(flow));
    model.select(selected(...keys));
  } catch (failure) {
    const isOurs = failure instanceof EditRefused;
    toast(isOurs ? failure.message : "What is on the clipboard is not a workflow.", { kind: "error" });
  }
}

/** The middle of what is seen. */
export function placeForNew(flow: Flow | null): { x: number; y: number } {
  const box = document.querySelector(".react-flow")?.getBoundingClientRect();
  if (flow === null || box === undefined) return { x: 80, y: 160 };
  return flow.screenToFlowPosition({ x: box.left + box.width / 2 - 80, y: box.top + box.height / 2 - 40 });
}
