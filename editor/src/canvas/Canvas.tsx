/**
 * The canvas: React Flow with our nodes, edges and frames, our keys, and one tab stop.
 *
 * It draws what the model says and turns what people do into commands; it keeps nothing of the document itself.
 */

import { Background, BackgroundVariant, MiniMap, ReactFlow, ReactFlowProvider, useReactFlow, useStore, type Connection, type FinalConnectionState, type NodeChange } from "@xyflow/react";
import { Maximize, Minus, Plus } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, type ClipboardEvent, type DragEvent, type KeyboardEvent, type MouseEvent, type ReactElement, type ReactNode } from "react";

import "@xyflow/react/dist/base.css";
import { addNode, chordOf, commandOf, connect, moveTo, reconnect, remove, type Movable } from "../edit";
import { allMembers, frameAt, isNodeKey, NODE_HEADER_HEIGHT, NODE_WIDTH, NOTHING_SELECTED, selected, toggled, type Point, type SelectableKey } from "../model";
import { IconButton } from "../ui/Button";
import { CanvasContext, useCanvas, type CanvasModel } from "./CanvasModel";
import { copySelection, pasteText, runCommand, type CanvasActions } from "./commands";
import { FlowMaker, isSelectableKey, type CanvasNode, type FrameNode, type WireEdge } from "./flow";
import { CONDENSED_ABOVE, FAR_ZOOM, FarContext, OVERVIEW_ABOVE, OVERVIEW_ZOOM } from "./far";
import { focusNode, showEverything, ZOOM_MIN } from "./focus";
import { FrameBox } from "./FrameBox";
import { canvasLead } from "./lead";
import { NodeCard } from "./NodeCard";
import { newNode } from "./insert";
import { hasEntry } from "./nodeTypes";
import { NoteBox } from "./NoteBox";
import { nodesAt, Overview } from "./Overview";
import { Wire } from "./Wire";
import "./canvas.css";

const NODE_TYPES = { card: NodeCard, frame: FrameBox, note: NoteBox };
const EDGE_TYPES = { wire: Wire };

/** Above this many nodes only those that are seen are mounted; below the other, a small map is shown. */
const VISIBLE_ONLY_ABOVE = 100;
const MINIMAP_FROM = 30;
const MINIMAP_BELOW = 1_000;

/** What a node type is called while it is dragged from the palette. */
export const DRAGGED_TYPE = "application/x-anabranch-node-type";

export interface CanvasProps {
  model: CanvasModel;
  actions?: CanvasActions;
  label: string;
  /** What lies over the canvas: panels, palettes, messages. */
  children?: ReactNode;
  /** The menu of a node, at a place of the screen. */
  onMenu?: (key: SelectableKey, at: Point) => void;
}

export function Canvas(props: CanvasProps): ReactElement {
  return (
    <CanvasContext.Provider value={props.model}>
      <ReactFlowProvider>
        <Board {...props} />
      </ReactFlowProvider>
    </CanvasContext.Provider>
  );
}

const NO_ACTIONS: CanvasActions = {};
const NO_EDGES: WireEdge[] = [];

function Board({ model, actions = NO_ACTIONS, label, children, onMenu }: CanvasProps): ReactElement {
  const flow = useReactFlow<CanvasNode, WireEdge>();
  const maker = useMemo(() => new FlowMaker(model), [model]);
  const view = useCanvas((state) => state);
  const drag = useRef(0);
  const wrapper = useRef<HTMLDivElement>(null);
  const isFar = useStore((state) => state.transform[2] < FAR_ZOOM);
  const count = view.document.nodes.size;
  const isOverview = useStore((state) => state.transform[2] < OVERVIEW_ZOOM) && count > OVERVIEW_ABOVE;
  const { nodes, edges } = maker.make(view, isFar && count > CONDENSED_ABOVE);
  const boxFrom = useRef<Point | null>(null);

  // Nodes that were laid out lie elsewhere than what is seen.
  useEffect(
    () =>
      model.store.subscribe(({ reason, name }) => {
        if (reason === "layout" && name === "layout") requestAnimationFrame(() => showEverything(model, flow));
      }),
    [model, flow],
  );

  // Frames are known once the validator has answered: if the user has not moved the canvas by then, fit them into view.
  const isUntouched = useRef(true);
  const isJudged = view.verdict !== null;
  useEffect(() => {
    const { frames, selection } = model.view.getState();
    if (isJudged && frames.length > 0 && isUntouched.current && selection.lead === null) showEverything(model, flow);
    isUntouched.current &&= !isJudged;
  }, [isJudged, model, flow]);

  const onNodesChange = useCallback(
    (changes: NodeChange<CanvasNode>[]) => {
      const places = new Map<Movable, Point>();
      let selection = model.selection;
      for (const change of changes) {
        if (change.type === "position" && change.position !== undefined) {
          if (change.id.startsWith("frame:")) {
            const frame = (flow.getNode(change.id) as FrameNode | undefined)?.data.frame;
            if (frame === undefined) continue;
            const [byX, byY] = [change.position.x - frame.x, change.position.y - frame.y];
            for (const key of allMembers(model.view.getState().containers, frame.id)) {
              const at = model.document.nodes.get(key)?.position;
              if (at != null) places.set(key, { x: at.x + byX, y: at.y + byY });
            }
          } else if (isSelectableKey(change.id)) places.set(change.id as Movable, change.position);
        } else if (change.type === "select" && isSelectableKey(change.id)) {
          if (selection.keys.has(change.id) !== change.selected) selection = toggled(selection, change.id);
        }
      }
      if (places.size > 0) model.try(() => moveTo(model.store, places, String(drag.current)));
      if (selection !== model.selection) model.select(selection);
    },
    [model, flow],
  );

  const onDragStop = useCallback(
    (_: unknown, __: unknown, dragged: CanvasNode[]) => {
      drag.current += 1;
      const { frames, containers, document } = model.view.getState();
      for (const { id } of dragged) {
        if (!isNodeKey(id)) continue;
        const node = document.nodes.get(id);
        if (node?.position == null) continue;
        const frame = frameAt(frames.filter(({ header }) => header !== id), node.position.x + NODE_WIDTH / 2, node.position.y + NODE_HEADER_HEIGHT / 2);
        if (frame !== null && containers.of.get(id) !== frame.id && !hasWires(model, node.id)) model.drop(id, frame.id);
      }
    },
    [model],
  );

  const onConnect = useCallback(
    ({ source, sourceHandle, target }: Connection) => {
      if (isNodeKey(source) && isNodeKey(target)) model.try(() => connect(model.store, source, sourceHandle ?? "default", target));
    },
    [model],
  );

  const onConnectEnd = useCallback(
    (event: globalThis.MouseEvent | TouchEvent, state: FinalConnectionState) => {
      const from = state.fromNode?.id;
      if (state.toNode !== null || from === undefined || !isNodeKey(from) || state.fromHandle?.type !== "source" || model.isReadOnly) return;
      const touch = "changedTouches" in event ? event.changedTouches[0] : event;
      const at = touch === undefined ? null : flow.screenToFlowPosition({ x: touch.clientX, y: touch.clientY });
      model.set({ palette: { kind: "handle", node: from, handle: state.fromHandle.id ?? "default", at: at && { x: at.x, y: at.y - NODE_HEADER_HEIGHT / 2 } } });
    },
    [model, flow],
  );

  const onKeyDown = (event: KeyboardEvent) => {
    if (isTyping(event.target) || event.defaultPrevented) return;
    const command = commandOf(chordOf(event), view.isMoving);
    if (command === null) return;
    if (command === "menu") {
      const lead = canvasLead(view);
      const box = document.querySelector(`[data-node="${lead}"]`)?.getBoundingClientRect();
      if (lead !== null && box !== undefined) {
        event.preventDefault();
        onMenu?.(lead, { x: box.left + 12, y: box.bottom });
      }
      return;
    }
    if (runCommand(command, model, flow, actions)) {
      event.preventDefault();
      event.stopPropagation();
    }
  };

  const onCopy = (event: ClipboardEvent, isCut: boolean) => {
    if (isTyping(event.target)) return;
    const text = copySelection(model);
    if (text === null) return;
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
    if (isCut) model.try(() => remove(model.store, model.selection.keys));
  };

  const onDrop = (event: DragEvent) => {
    const [file] = event.dataTransfer.files;
    if (file !== undefined && actions.dropFile !== undefined) {
      event.preventDefault();
      actions.dropFile(file);
      return;
    }
    const name = event.dataTransfer.getData(DRAGGED_TYPE);
    if (name === "" || model.isReadOnly) return;
    event.preventDefault();
    const at = flow.screenToFlowPosition({ x: event.clientX - NODE_WIDTH / 2, y: event.clientY - NODE_HEADER_HEIGHT / 2 });
    const key = model.try(() => addNode(model.store, newNode(model, name), { at }));
    if (key === null) return;
    const frame = frameAt(model.view.getState().frames, at.x + NODE_WIDTH / 2, at.y + NODE_HEADER_HEIGHT / 2);
    if (frame !== null) model.drop(key, frame.id);
    focusNode(model, flow, key);
  };

  return (
    <div
      ref={wrapper}
      className={`canvas ${isFar ? "far" : ""} ${view.isMoving ? "is-moving" : ""}`}
      role="application"
      aria-label={label}
      aria-describedby="canvas-help"
      tabIndex={count === 0 || count > VISIBLE_ONLY_ABOVE ? 0 : -1}
      onFocus={(event) => {
        const lead = canvasLead(view);
        if (event.target === wrapper.current && lead !== null && document.activeElement === wrapper.current) {
          document.querySelector<HTMLElement>(`[data-node="${lead}"]`)?.focus({ preventScroll: true });
        }
      }}
      onKeyDown={onKeyDown}
      onCopy={(event) => onCopy(event, false)}
      onCut={(event) => onCopy(event, true)}
      onPaste={(event) => {
        if (isTyping(event.target)) return;
        event.preventDefault();
        pasteText(model, flow, event.clipboardData.getData("text/plain"));
      }}
      onDragOver={(event) => {
        const isFile = actions.dropFile !== undefined && event.dataTransfer.types.includes("Files");
        if (!isFile && !event.dataTransfer.types.includes(DRAGGED_TYPE)) return;
        event.preventDefault();
        event.dataTransfer.dropEffect = "copy";
      }}
      onDrop={onDrop}
    >
      <p id="canvas-help" className="visually-hidden">
        Arrow keys walk from node to node, Enter opens one, n adds one, c connects, question mark lists all keys.
      </p>
      <WireEnds />
      <FarContext.Provider value={isFar}>
        <ReactFlow<CanvasNode, WireEdge>
          nodes={(isOverview ? maker.inOverview() : nodes) as CanvasNode[]}
          edges={isOverview ? NO_EDGES : (edges as WireEdge[])}
          nodeTypes={NODE_TYPES}
          edgeTypes={EDGE_TYPES}
          onNodesChange={onNodesChange}
          onEdgesChange={(changes) => {
            let { selection } = view;
            for (const change of changes) {
              if (change.type === "select" && isSelectableKey(change.id) && selection.keys.has(change.id) !== change.selected) selection = toggled(selection, change.id);
            }
            if (selection !== view.selection) model.select(selection);
          }}
          onPaneClick={(event) => {
            const [key] = isOverview ? nodesAt(view, nodes, flow.screenToFlowPosition({ x: event.clientX, y: event.clientY })) : [];
            if (key !== undefined) focusNode(model, flow, key);
          }}
          onSelectionStart={(event) => (boxFrom.current = flow.screenToFlowPosition({ x: event.clientX, y: event.clientY }))}
          onSelectionEnd={(event) => {
            if (!isOverview || boxFrom.current === null) return;
            const found = nodesAt(view, nodes, boxFrom.current, flow.screenToFlowPosition({ x: event.clientX, y: event.clientY }));
            model.select(found.length === 0 ? NOTHING_SELECTED : { keys: new Set(found), lead: found[0]! });
          }}
          onMoveStart={(event) => {
            if (event !== null) isUntouched.current = false;
          }}
          onNodeDragStop={onDragStop}
          onSelectionDragStop={() => (drag.current += 1)}
          onConnect={onConnect}
          onConnectEnd={onConnectEnd}
          onReconnect={(edge, { source, sourceHandle, target }) => {
            if (!isNodeKey(source) || !isNodeKey(target)) return;
            model.try(() => reconnect(model.store, edge.id as `e${number}`, { source, handle: sourceHandle ?? "default", target }));
          }}
          isValidConnection={({ target }) => isNodeKey(target) && hasEntry(model.document.nodes.get(target)?.type ?? "")}
          onNodeDoubleClick={(_, node) => isNodeKey(node.id) && model.set({ open: node.id, openPlace: null })}
          onNodeContextMenu={(event: MouseEvent, node) => {
            if (!isSelectableKey(node.id)) return;
            event.preventDefault();
            if (!model.selection.keys.has(node.id)) model.select(selected(node.id));
            onMenu?.(node.id, { x: event.clientX, y: event.clientY });
          }}
          onInit={(instance) => {
            showEverything(model, instance);
            // Two frames: the first one draws the nodes, the second begins once that is painted.
            if (count > 0) requestAnimationFrame(() => requestAnimationFrame(() => performance.mark("anabranch:first-nodes")));
          }}
          snapToGrid
          snapGrid={[8, 8]}
          minZoom={ZOOM_MIN}
          maxZoom={2}
          panOnScroll
          zoomOnDoubleClick={false}
          nodesFocusable={false}
          edgesFocusable={false}
          nodesConnectable={!model.isReadOnly}
          disableKeyboardA11y
          deleteKeyCode={null}
          selectionKeyCode="Shift"
          multiSelectionKeyCode={["Meta", "Control"]}
          connectionRadius={28}
          onlyRenderVisibleElements={count > VISIBLE_ONLY_ABOVE}
          elevateNodesOnSelect={false}
          proOptions={{ hideAttribution: true }}
        >
          <Background variant={BackgroundVariant.Dots} gap={24} size={1.2} className="canvas-dots" />
          {isOverview && <Overview nodes={nodes} edges={edges} />}
          {count >= MINIMAP_FROM && count < MINIMAP_BELOW && !isOverview && <MiniMap pannable zoomable ariaLabel="Small map" className="minimap" nodeClassName={(node) => `map-${node.type}`} />}
        </ReactFlow>
      </FarContext.Provider>
      <div className="canvas-zoom" role="group" aria-label="Zoom">
        <IconButton label="Zoom in" icon={<Plus size={16} />} keys="+" small onClick={() => runCommand("zoomIn", model, flow, actions)} />
        <IconButton label="Zoom out" icon={<Minus size={16} />} keys="-" small onClick={() => runCommand("zoomOut", model, flow, actions)} />
        <IconButton label="Show everything" icon={<Maximize size={16} />} keys="1" small onClick={() => runCommand("fit", model, flow, actions)} />
      </div>
      <FlowBridge model={model} />
      {children}
    </div>
  );
}

/** Gives the flow to what is outside of React Flow, while the canvas is shown. */
function FlowBridge({ model }: { model: CanvasModel }): null {
  const flow = useReactFlow<CanvasNode, WireEdge>();
  useEffect(() => {
    flows.set(model, flow);
    return () => void flows.delete(model);
  }, [model, flow]);
  return null;
}

const flows = new WeakMap<CanvasModel, ReturnType<typeof useReactFlow<CanvasNode, WireEdge>>>();

/** React Flow of a canvas that is shown; null if it is not. */
export function flowOf(model: CanvasModel) {
  return flows.get(model) ?? null;
}

/** The arrow at the end of each edge; its colour is that of the edge. */
function WireEnds(): ReactElement {
  return (
    <svg className="visually-hidden" aria-hidden width="0" height="0">
      <defs>
        <marker id="wire-end" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="11" markerHeight="11" markerUnits="userSpaceOnUse" orient="auto-start-reverse">
          <path d="M1,1.5L8,5L1,8.5" fill="none" stroke="context-stroke" strokeWidth="1.8" strokeLinecap="round" strokeLinejoin="round" />
        </marker>
      </defs>
    </svg>
  );
}

function hasWires(model: CanvasModel, nodeID: string): boolean {
  return [...model.document.edges.values()].some((edge) => edge.source === nodeID || edge.target === nodeID);
}

function isTyping(target: EventTarget): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest("[role=dialog], [role=menu]") !== null);
}
