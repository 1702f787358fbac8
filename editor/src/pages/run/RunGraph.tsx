/** The run's own graph, read-only, with how its nodes stand: drawn by the editor's canvas. */

import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, type ReactElement } from "react";
import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";

import { ApiError, call, callText, type Answer } from "../../api/client";
import { Canvas } from "../../canvas/Canvas";
import { CanvasModel } from "../../canvas/CanvasModel";
import type { CanvasActions } from "../../canvas/commands";
import { layOutCanvas } from "../../canvas/layout";
import { exactScope, lookAt, readTotals, RunContext, shownRun, summaryAt, type ShownRun } from "../../canvas/run";
import { verdictOf } from "../../canvas/validation";
import { EditStore } from "../../edit";
import { setMember } from "../../json";
import { LayoutCancelled } from "../../layout";
import { isNodeKey, nodeByID, NOTHING_SELECTED, readDocument, selected as selectedKeys, withLayout, writeDocument } from "../../model";
import { RunStore, type UpdateMessage } from "../../run";
import { readNodeTypes } from "../editor/session";
import { useSession } from "../session";
import type { RunPlace } from "./useRun";

export interface RunGraphProps {
  run: Answer<"get_run">;
  /** Null: the run as it is now. */
  asOf: Answer<"get_run_at"> | null;
  selected: RunPlace["selected"];
  iteration: string;
  onGo: (place: RunPlace) => void;
}

export default function RunGraph({ run, asOf, ...place }: RunGraphProps): ReactElement | null {
  const { instanceID } = run;
  const graph = useQuery({
    queryKey: ["run-graph", instanceID],
    queryFn: async ({ signal }) => {
      const [{ text }, types] = await Promise.all([callText("get_graph", { path: { instanceID }, signal }), readNodeTypes()]);
      return { text, types };
    },
    // The graph of a drawn run never changes; a coded one grows while it runs.
    staleTime: run.kind === "drawn" ? Infinity : 2_000,
    retry: false,
  });
  const model = useMemo(() => {
    if (graph.data === undefined) return null;
    return new CanvasModel(new EditStore(readDocument(graph.data.text), () => 0), graph.data.types, true);
  }, [graph.data]);
  const now = useShownRun(instanceID);
  const earlier = useMemo(() => (asOf === null ? null : runAsOf(asOf)), [asOf]);
  const shown = earlier ?? now;
  const actions = useMemo<CanvasActions>(() => ({ run: shown }), [shown]);
  useJudged(model);
  useSamePlace(model, shown, place);
  if (graph.error instanceof ApiError && graph.error.status === 404) return null;
  if (model === null || shown === null) return <div className="run-graph card" />;
  return (
    <div className="run-graph card">
      <RunContext.Provider value={shown}>
        <Canvas model={model} actions={actions} label={`Graph of the run of ${run.name}`} />
      </RunContext.Provider>
    </div>
  );
}

/** The run as it was: nothing more is told of it. */
function runAsOf({ instanceID, status, seq, nodes }: Answer<"get_run_at">): ShownRun {
  const store = new RunStore((flush) => flush());
  store.takeSnapshot({ instanceID, status: status as never, seq, nodes: nodes as never });
  return shownRun(instanceID, store, { isPast: true });
}

/** The run as it is told, from the totals of all its activations on. */
function useShownRun(instanceID: string): ShownRun | null {
  const live = useSession((session) => session.live);
  const shown = useMemo(() => shownRun(instanceID, new RunStore((flush) => void requestAnimationFrame(flush))), [instanceID]);
  useEffect(() => {
    if (live === null) return undefined;
    const { store } = shown;
    readTotals(shown);
    return live.follow(instanceID, {
      snapshot: (snapshot) => store.takeSnapshot(snapshot as never),
      nodes: (updates) => store.takeUpdates(updates as unknown as UpdateMessage[]),
      status: (update) => {
        store.takeStatus(update as never);
        readTotals(shown);
      },
    });
  }, [live, instanceID, shown]);
  return shown;
}

/** Frames and what has no place: known once the validator has answered. */
function useJudged(model: CanvasModel | null): void {
  useEffect(() => {
    if (model === null) return;
    const { document } = model;
    const text = setMember(writeDocument(document), "with", '["structure"]');
    const layOut = async () => {
      const answer = await call("validate_workflow", { bodyText: text }).catch(() => null);
      if (answer !== null) model.judge(verdictOf(document, { ...(answer as never as Parameters<typeof verdictOf>[1]), errors: [], warnings: [], unbounded: [] }));
      if ([...document.nodes.values()].every((node) => node.position !== null)) return;
      const places = await layOutCanvas(model);
      if (model.document === document) model.store.layOut(withLayout(document, places));
    };
    layOut().catch((failure: unknown) => {
      if (!(failure instanceof LayoutCancelled)) throw failure;
    });
  }, [model]);
}

const NO_VIEW = createStore(() => ({ selection: NOTHING_SELECTED }));

/** What is selected on the canvas, and the iteration that it shows, are those of the page, and the other way round. */
function useSamePlace(model: CanvasModel | null, shown: ShownRun | null, { selected, iteration, onGo }: Pick<RunGraphProps, "selected" | "iteration" | "onGo">): void {
  const lead = useStore((model?.view ?? NO_VIEW) as typeof NO_VIEW, (view) => view.selection.lead);
  const nodeID = selected?.nodeID ?? null;
  useEffect(() => {
    if (model === null) return;
    const key = nodeID === null ? undefined : nodeByID(model.document, nodeID)?.key;
    if (key !== undefined && model.selection.lead !== key) model.select(selectedKeys(key));
    if (key === undefined && nodeID === null && model.selection.lead !== null) model.select(NOTHING_SELECTED);
    // Only what the page says is followed here; the other way is below.
  }, [model, nodeID]);
  useEffect(() => {
    if (model === null || shown === null || lead === null || !isNodeKey(lead)) return;
    const id = model.document.nodes.get(lead)?.id;
    if (id === undefined || id === nodeID) return;
    // Not the page's: the address may still be about to follow.
    const focus = shown.focus.getState().scope;
    const exact = exactScope(model.view.getState(), id, focus);
    const known = [focus, exact ?? ""].find((each) => shown.store.activation(id, each) !== undefined);
    // What is in which loop is known once the validator has answered; until then the run says where the node was.
    const summary = summaryAt(shown, model.view.getState(), id);
    const scope = known ?? summary.firstFailure?.scope ?? summary.latest?.scope ?? exact ?? "";
    onGo({ selected: { nodeID: id, scope }, iteration: focus });
    // Only a selection on the canvas is told here.
  }, [lead]); // eslint-disable-line react-hooks/exhaustive-deps
  useEffect(() => {
    if (shown !== null) lookAt(shown, iteration);
  }, [shown, iteration]);
  useEffect(
    () =>
      shown?.focus.subscribe(({ scope }, before) => {
        if (scope === before.scope || scope === iteration) return;
        const own = model === null || selected === null ? null : exactScope(model.view.getState(), selected.nodeID, scope);
        onGo({ selected: selected && own !== null ? { ...selected, scope: own } : selected, iteration: scope });
      }),
    [model, shown, selected, iteration, onGo],
  );
}
