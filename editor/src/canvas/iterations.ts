/** Stepping through the iterations of a loop, and from one failure to the next. */

import { isNodeKey, nodeByID, type ContainerID } from "../model";
import { iterationScope, nextFailure, partsOf, passScope, sharedScope, type Failure } from "../run";
import { announce } from "../ui/toasts";
import type { CanvasModel, CanvasView } from "./CanvasModel";
import { titleOf } from "./flow";
import { focusNode, type Flow } from "./focus";
import { loopsAround, lookAt, readFailures, scopeOfNode, type ShownRun } from "./run";

/** A loop, or a region, as it stands in the run that is shown. */
export interface LoopState {
  readonly kind: "loop" | "region";
  readonly nodeID: string;
  /** The scope that it is in. */
  readonly outer: string;
  /** How many iterations were begun, and how many of them failed. */
  readonly count: number;
  /** How many there will be in all, where that is known. */
  readonly inAll: number | null;
  readonly failed: number;
  /** Which one is looked at, counted from 1; null: all of them. */
  readonly at: number | null;
}

type View = Pick<CanvasView, "containers" | "document">;

/** Null where there is no such frame, or it was not reached. */
export function loopState(run: ShownRun, view: View, id: ContainerID | undefined): LoopState | null {
  const container = id === undefined ? undefined : view.containers.byID.get(id);
  const nodeID = container?.header && view.document.nodes.get(container.header)?.id;
  if (container === undefined || container.kind === "root" || !nodeID) return null;
  const around = loopsAround(view, container.parent ?? undefined);
  const focus = run.focus.getState().scope;
  const shared = sharedScope(focus, around);
  // Where the loops around it are not stepped into, the latest of its activations is meant.
  const outer = partsOf(shared).length === around.length ? shared : sharedScope(run.store.node(nodeID).latest?.scope ?? "", around);
  const count = run.store.iterations(nodeID, outer);
  if (count === 0) return null;
  const part = partsOf(focus)[around.length];
  const isIn = shared === outer && part?.nodeID === nodeID;
  const at = isIn ? (container.kind === "loop" ? part.index + 1 : part.index) : null;
  return { kind: container.kind, nodeID, outer, count, inAll: run.store.iterationsInAll(nodeID, outer), failed: run.store.failedIterations(nodeID, outer), at };
}

/** Look at the next or the previous iteration; beyond the ends, at all of them again. */
export function step(run: ShownRun, { kind, nodeID, outer, count, at }: LoopState, by: 1 | -1): void {
  const next = at === null ? (by > 0 ? 1 : count) : at + by;
  const isAll = next < 1 || next > count;
  const scope = kind === "loop" ? iterationScope(outer, nodeID, next - 1) : passScope(outer, nodeID, next);
  lookAt(run, isAll ? outer : scope);
  announce(isAll ? `All ${kind === "loop" ? "iterations" : "passes"} of ${nodeID}` : `${kind === "loop" ? "Iteration" : "Pass"} ${next} of ${count}`);
}

/** The loop that a key is for: that of the selected node, or the one around it. */
export function loopAtLead(run: ShownRun, view: CanvasView): LoopState | null {
  const { lead } = view.selection;
  if (lead === null || !isNodeKey(lead)) return null;
  return loopState(run, view, `loop:${lead}`) ?? loopState(run, view, view.containers.of.get(lead));
}

/** Go to the failure after the one that is selected, in its iteration; of a loop where it is given. */
export async function showNextFailure(run: ShownRun, model: CanvasModel, flow: Flow | null, within?: LoopState): Promise<void> {
  // Totals come before what is told live: that something has failed is known before what.
  if (run.store.failures().length === 0) await readFailures(run);
  const view = model.view.getState();
  const nodeID = model.lead === null ? undefined : view.document.nodes.get(model.lead)?.id;
  const after = nodeID === undefined ? null : { nodeID, scope: scopeOfNode(view, nodeID, run.focus.getState().scope) };
  const failure = nextFailure(run.store, after, within);
  if (failure === null) announce("Nothing has failed");
  else showFailure(run, model, flow, failure);
}

function showFailure(run: ShownRun, model: CanvasModel, flow: Flow | null, { nodeID, scope }: Failure): void {
  lookAt(run, scope);
  const node = nodeByID(model.document, nodeID);
  if (node === undefined) return;
  focusNode(model, flow, node.key);
  announce(`${titleOf(node)} failed${scope === "" ? "" : ` in ${scope}`}`);
}
