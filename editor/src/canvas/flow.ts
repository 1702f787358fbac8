/**
 * The document as React Flow draws it. What has not changed keeps its object, so that React Flow and React leave it
 * alone; sizes and handles are computed, never measured.
 */

import { Position, type Edge, type Node } from "@xyflow/react";

import {
  allMembers,
  DEFAULT_HANDLE,
  ERROR_HANDLE,
  grouped,
  indexOf,
  NO_STRUCTURE,
  nodeGeometry,
  notchesOf,
  type Container,
  type Containers,
  type EdgeRecord,
  type Frame,
  type NodeKey,
  type NodeRecord,
  type Notch,
  type NoteRecord,
  type SelectableKey,
  type WorkflowDocument,
} from "../model";
import type { CanvasModel, CanvasView } from "./CanvasModel";
import { hasEntry, usedHandles, type ExitView, type NodeType } from "./nodeTypes";
import type { Route } from "./paths";
import type { Verdict } from "./validation";

export interface CardData extends Record<string, unknown> {
  readonly node: NodeRecord;
  readonly type: NodeType | undefined;
  readonly exits: readonly ExitView[];
  /** Edges that come in and go out, those back to a header left out. */
  readonly incoming: number;
  readonly outgoing: number;
  /** The title of the frame that it is in. */
  readonly home: string | null;
  /** Is it the header of a loop's frame? */
  readonly isHeader: boolean;
  /** Is it where each pass of a region begins? */
  readonly isEntry: boolean;
}

export interface FrameData extends Record<string, unknown> {
  readonly frame: Frame;
  readonly title: string;
  /** How many nodes it stands for; null where they are drawn themselves. */
  readonly condensed: number | null;
  /** Of a region, where edges leave it. */
  readonly notches: readonly NotchView[];
  /** What is odd about a region as a whole, in words. */
  readonly oddities: readonly string[];
}

export interface NotchView {
  readonly edge: EdgeRecord["key"];
  /** From the upper border of the frame. */
  readonly top: number;
  readonly label: string;
  /** Why what it leads to does not run in each pass; null: it comes after the loop. */
  readonly warning: string | null;
}

export interface NoteData extends Record<string, unknown> {
  readonly note: NoteRecord;
}

export interface WireData extends Record<string, unknown> {
  readonly edge: EdgeRecord;
  readonly route: Route;
  readonly isError: boolean;
  readonly isNeverLive: boolean;
}

export type CardNode = Node<CardData, "card">;
export type FrameNode = Node<FrameData, "frame">;
export type NoteNode = Node<NoteData, "note">;
export type CanvasNode = CardNode | FrameNode | NoteNode;
export type WireEdge = Edge<WireData, "wire">;

const SIDES = { left: Position.Left, right: Position.Right, bottom: Position.Bottom } as const;

/** Makes React Flow's nodes and edges of a view, and keeps what it made. */
export class FlowMaker {
  readonly #model: CanvasModel;
  #cards = new Map<string, CardNode>();
  #frames = new Map<string, FrameNode>();
  #notes = new Map<string, NoteNode>();
  #wires = new Map<string, WireEdge>();
  #notches: readonly Notch[] = [];
  #nodes: readonly CanvasNode[] = [];
  #edges: readonly WireEdge[] = [];
  #selected: readonly CanvasNode[] = [];
  #made: CanvasView | null = null;
  #isCondensed = false;
  #isSameAround = false;

  constructor(model: CanvasModel) {
    this.#model = model;
  }

  /** What of the nodes React Flow draws in an overview: what is selected can be dragged and has the focus; frames. */
  inOverview(): readonly CanvasNode[] {
    this.#selected = kept(
      this.#selected,
      this.#nodes.filter((node) => node.type !== "card" || node.selected),
    );
    return this.#selected;
  }

  /** `isCondensed`: the body of a loop is one box. */
  make(view: CanvasView, isCondensed: boolean): { nodes: readonly CanvasNode[]; edges: readonly WireEdge[] } {
    const made = this.#made;
    const isSame =
      made !== null && made.document === view.document && made.selection === view.selection && made.frames === view.frames && made.verdict === view.verdict && this.#isCondensed === isCondensed;
    if (!isSame) {
      // Moves leave everything about a node or an edge but its place as it was.
      this.#isSameAround =
        made !== null &&
        this.#isCondensed === isCondensed &&
        made.containers === view.containers &&
        made.verdict === view.verdict &&
        made.document.edges === view.document.edges &&
        made.frames.length === view.frames.length &&
        made.frames.every((frame, index) => isShallowlySame(frame, view.frames[index]!) && made.document.nodes.get(frame.header) === view.document.nodes.get(frame.header));
      this.#isCondensed = isCondensed;
      this.#notches = notchesOf(view.document, view.verdict?.structure ?? NO_STRUCTURE, view.frames, this.#model.types.exitsOf);
      this.#nodes = kept(this.#nodes, this.#makeNodes(view));
      this.#edges = kept(this.#edges, this.#makeEdges(view));
      this.#made = view;
    }
    return { nodes: this.#nodes, edges: this.#edges };
  }

  #makeNodes({ document, selection, frames, containers, verdict }: CanvasView): CanvasNode[] {
    const { types, isReadOnly } = this.#model;
    const used = usedHandles(document);
    const back = new Set([...(verdict?.structure.returning ?? []), ...(verdict?.structure.again ?? [])]);
    const incoming = new Map<string, number>();
    for (const edge of document.edges.values()) if (!back.has(edge.key)) incoming.set(edge.target, (incoming.get(edge.target) ?? 0) + 1);
    const outgoing = new Map([...grouped(document.edges.values(), (edge) => edge.source)].map(([id, edges]) => [id, edges.length]));
    const headers = new Set(frames.filter(({ kind }) => kind === "loop").map(({ header }) => header));
    const entries = new Set(frames.filter(({ kind }) => kind === "region").map(({ header }) => header));
    const titles = new Map(frames.map((frame) => [frame.id, titleOf(document.nodes.get(frame.header))]));

    const cards = new Map<string, CardNode>();
    for (const node of document.nodes.values()) {
      if (this.#isHidden(containers, node.key)) continue;
      const before = this.#cards.get(node.key);
      if (this.#isSameAround && before?.data.node === node && before.selected === selection.keys.has(node.key)) {
        cards.set(node.key, before);
        continue;
      }
      const data: CardData = {
        node,
        type: types.get(node.type),
        exits: types.viewOf(node, used.get(node.id)),
        incoming: incoming.get(node.id) ?? 0,
        outgoing: outgoing.get(node.id) ?? 0,
        home: titles.get(containers.of.get(node.key) ?? "root") ?? null,
        isHeader: headers.has(node.key),
        isEntry: entries.has(node.key),
      };
      const isSelected = selection.keys.has(node.key);
      if (before !== undefined && before.selected === isSelected && isShallowlySame(before.data, data)) {
        cards.set(node.key, before);
        continue;
      }
      const shape = nodeGeometry({ handles: data.exits.map(({ id }) => id), hasEntry: hasEntry(node.type) });
      cards.set(node.key, {
        id: node.key,
        type: "card",
        position: node.position ?? { x: 0, y: 0 },
        width: shape.width,
        height: shape.height,
        // Without it, React Flow would wait for nodes out of sight to be measured before it shows everything.
        measured: { width: shape.width, height: shape.height },
        handles: shape.handles.map(({ id, type, position, ...place }) => ({ id, type, position: SIDES[position], ...place })),
        data: before !== undefined && isShallowlySame(before.data, data) ? before.data : data,
        selected: isSelected,
        draggable: !isReadOnly,
        zIndex: 1,
      });
    }
    this.#cards = cards;

    const framed = new Map<string, FrameNode>();
    for (const frame of frames) {
      if (frame.header !== null && this.#isHidden(containers, frame.header)) continue;
      const condensed = this.#isCondensed && frame.kind === "loop" ? allMembers(containers, frame.id).length - 1 : null;
      const id = `frame:${frame.id}`;
      const title = frameTitle(document.nodes.get(frame.header), frame);
      const before = this.#frames.get(id);
      const notches = this.#notchViews(frame, document, verdict);
      const oddities = frame.kind === "region" ? oddOf(verdict, frame.header) : [];
      if (
        before !== undefined &&
        before.data.title === title &&
        before.data.condensed === condensed &&
        isShallowlySame(before.data.frame, frame) &&
        isShallowlySame(before.data.oddities, oddities) &&
        before.data.notches.length === notches.length &&
        before.data.notches.every((notch, index) => isShallowlySame(notch, notches[index]!))
      ) {
        framed.set(id, before);
        continue;
      }
      framed.set(id, {
        id,
        type: "frame",
        position: { x: frame.x, y: frame.y },
        width: frame.width,
        height: frame.height,
        measured: { width: frame.width, height: frame.height },
        handles: [],
        data: { frame, title, condensed, notches, oddities },
        selectable: false,
        connectable: false,
        draggable: !isReadOnly,
        dragHandle: ".frame-title",
        zIndex: -1000 + frame.depth,
        style: { pointerEvents: "none" },
      });
    }
    this.#frames = framed;

    const notes = new Map<string, NoteNode>();
    for (const note of document.notes.values()) {
      const before = this.#notes.get(note.key);
      const isSelected = selection.keys.has(note.key);
      if (before !== undefined && before.data.note === note && before.selected === isSelected) {
        notes.set(note.key, before);
        continue;
      }
      notes.set(note.key, {
        id: note.key,
        type: "note",
        position: note.position,
        width: note.size.width,
        height: note.size.height,
        measured: { width: note.size.width, height: note.size.height },
        handles: [],
        data: { note },
        selected: isSelected,
        connectable: false,
        draggable: !isReadOnly,
        zIndex: -2000,
      });
    }
    this.#notes = notes;
    return [...notes.values(), ...framed.values(), ...cards.values()];
  }

  #notchViews(frame: Frame, document: WorkflowDocument, verdict: Verdict | null): readonly NotchView[] {
    const { types } = this.#model;
    return this.#notches
      .filter((notch) => notch.frame === frame.id)
      .map(({ edge: key, y }) => {
        const edge = document.edges.get(key)!;
        const source = indexOf(document).get(edge.source)!;
        const title = types.viewOf(source, undefined).find(({ id }) => id === edge.handle)?.title ?? edge.handle;
        const warning = verdict?.byKey.get(key)?.find(({ code }) => code === "EXIT_RUNS_ONCE")?.message ?? null;
        return { edge: key, top: y - frame.y, label: edge.handle === DEFAULT_HANDLE ? "then" : title, warning };
      });
  }

  #isHidden(containers: Containers, node: NodeKey): boolean {
    return this.#isCondensed && isInBody(containers, node);
  }

  #makeEdges({ document, selection, frames, containers, verdict }: CanvasView): WireEdge[] {
    const byID = indexOf(document);
    const through = grouped(this.#notches, ({ edge }) => edge);
    const framesByHeader = new Map(frames.map((frame) => [frame.header, frame]));
    const wires = new Map<string, WireEdge>();
    for (const edge of document.edges.values()) {
      const kept = this.#isSameAround ? this.#wires.get(edge.key) : undefined;
      if (kept !== undefined && kept.selected === selection.keys.has(edge.key)) {
        wires.set(edge.key, kept);
        continue;
      }
      const [source, target] = [byID.get(edge.source), byID.get(edge.target)];
      if (source === undefined || target === undefined || this.#isHidden(containers, source.key) || this.#isHidden(containers, target.key)) continue;
      const before = this.#wires.get(edge.key);
      const isSelected = selection.keys.has(edge.key);
      const isBack = verdict !== null && (verdict.structure.returning.has(edge.key) || verdict.structure.again.has(edge.key));
      const route = routeOf(edge, source, isBack, framesByHeader.get(target.key), framesByHeader.get(source.key), bodyOf(containers, source), through.get(edge.key));
      const isNeverLive = verdict?.structure.neverLive.has(edge.key) ?? false;
      const isError = edge.handle === ERROR_HANDLE;
      const data: WireData =
        before !== undefined && before.data!.edge === edge && before.data!.isNeverLive === isNeverLive && isSameRoute(before.data!.route, route)
          ? before.data!
          : { edge, route, isError, isNeverLive };
      if (before !== undefined && before.data === data && before.selected === isSelected && before.source === source.key && before.target === target.key) {
        wires.set(edge.key, before);
        continue;
      }
      wires.set(edge.key, {
        id: edge.key,
        type: "wire",
        source: source.key,
        sourceHandle: edge.handle,
        target: target.key,
        data,
        selected: isSelected,
        zIndex: 0,
        reconnectable: !this.#model.isReadOnly,
      });
    }
    this.#wires = wires;
    return [...wires.values()];
  }
}

function isInBody(containers: Containers, node: NodeKey): boolean {
  for (let at = containers.of.get(node); at !== undefined; at = containers.byID.get(at)?.parent ?? undefined) if (at.startsWith("loop:")) return true;
  return false;
}

function bodyOf(containers: CanvasView["containers"], source: NodeRecord): Container | undefined {
  return containers.byID.get(`loop:${source.key}`);
}

function routeOf(edge: EdgeRecord, source: NodeRecord, isBack: boolean, targetFrame: Frame | undefined, sourceFrame: Frame | undefined, body: Container | undefined, through: readonly Notch[] | undefined): Route {
  if (isBack && targetFrame !== undefined) return { kind: "back", lane: targetFrame.y + targetFrame.height - 14 };
  if (through !== undefined) return { kind: "exit", through: through.map(({ x, y }) => ({ x, y })) };
  if (edge.handle === ERROR_HANDLE) return { kind: "error" };
  if (sourceFrame?.kind === "loop" && sourceFrame.header === source.key && edge.handle === "done" && body !== undefined && body.members.length > 0) {
    return { kind: "leave", lane: sourceFrame.y + sourceFrame.height - 30, right: sourceFrame.x + sourceFrame.width };
  }
  return { kind: "forward" };
}

export function titleOf(node: NodeRecord | undefined): string {
  return node === undefined ? "" : (node.name ?? node.id);
}

function frameTitle(header: NodeRecord | undefined, frame: Frame): string {
  if (header === undefined) return "";
  if (frame.kind === "region") {
    const passes = readNumber(header.text, "maxPasses") ?? 1_000;
    return `again, up to ${passes.toLocaleString("en")} passes`;
  }
  const config = header.config ?? "{}";
  const read = (name: string) => readText(config, name);
  const isWhile = read("mode") === "while" || read("while") !== null;
  const what = isWhile ? `while ${bare(read("while"))}` : `for each of ${bare(read("source"))}`;
  const atOnce = isWhile ? null : readNumber(config, "concurrency");
  const most = readNumber(config, "maxIterations") ?? (isWhile ? 1_000 : 100_000);
  return [what, atOnce !== null && atOnce > 1 ? `${atOnce} at once` : null, `≤ ${most.toLocaleString("en")}`].filter(Boolean).join(" · ");
}

function bare(expression: string | null): string {
  return expression === null || expression === "" ? "…" : (/^\s*\{\{(.*)\}\}\s*$/s.exec(expression)?.[1]?.trim() ?? expression);
}

function readText(config: string, name: string): string | null {
  const value = readAny(config)[name];
  return typeof value === "string" ? value : null;
}

function readNumber(config: string, name: string): number | null {
  const value = readAny(config)[name];
  return typeof value === "number" ? value : null;
}

/** Small numbers and texts only are read of it. */
function readAny(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export function isSelectableKey(id: string): id is SelectableKey {
  return /^[neo]\d+$/.test(id);
}

function isShallowlySame(left: object, right: object): boolean {
  const keys = Object.keys(right);
  return keys.length === Object.keys(left).length && keys.every((key) => Object.is(left[key as keyof typeof left], right[key as keyof typeof right]));
}

function isSameRoute(left: Route, right: Route): boolean {
  if (left.kind !== "exit" || right.kind !== "exit") return isShallowlySame(left, right);
  return left.through.length === right.through.length && left.through.every((point, index) => isShallowlySame(point, right.through[index]!));
}

/** What the validator finds odd about a region as a whole. */
function oddOf(verdict: Verdict | null, header: NodeKey): readonly string[] {
  const found = (verdict?.byKey.get(header) ?? []).filter(({ code }) => code === "LOOP_SPINS" || code === "LOOP_NEVER_LEFT");
  return found.map(({ message }) => message);
}

function kept<T>(before: readonly T[], after: T[]): readonly T[] {
  return before.length === after.length && before.every((item, index) => item === after[index]) ? before : after;
}
