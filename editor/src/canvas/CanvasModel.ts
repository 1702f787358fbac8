/**
 * What a canvas shows: the document with its history, the selection, what the validator says, and the frames that
 * follow from it. React reads it through `useCanvas`; everything that changes the document is a command of `edit`.
 */

import { createContext, useContext } from "react";
import { useStore } from "zustand";
import { createStore, type StoreApi } from "zustand/vanilla";

import { EditRefused, type EditStore } from "../edit";
import {
  containersOf,
  framesOf,
  isNodeKey,
  NO_STRUCTURE,
  NOTHING_SELECTED,
  stillThere,
  type ContainerID,
  type Containers,
  type Frame,
  type NodeKey,
  type Selection,
  type Structure,
  type WorkflowDocument,
} from "../model";
import { announce, toast } from "../ui/toasts";
import type { NodeTypes } from "./nodeTypes";
import type { Verdict } from "./validation";

/** What the palette is open for. */
export type PaletteRequest =
  | { readonly kind: "behind"; readonly node: NodeKey | null }
  | { readonly kind: "handle"; readonly node: NodeKey; readonly handle: string; readonly at: { x: number; y: number } | null }
  | { readonly kind: "edge"; readonly edge: `e${number}` };

export interface CanvasView {
  readonly document: WorkflowDocument;
  readonly selection: Selection;
  readonly verdict: Verdict | null;
  readonly containers: Containers;
  readonly frames: readonly Frame[];
  /** Do arrows move the selection? */
  readonly isMoving: boolean;
  /** The node whose panel is open. */
  readonly open: NodeKey | null;
  /** The place in the open node that was asked for. */
  readonly openPlace: string | null;
  readonly palette: PaletteRequest | null;
  /** The node that is being connected by keyboard. */
  readonly connecting: NodeKey | null;
  readonly renaming: NodeKey | null;
  readonly help: boolean;
  readonly commands: boolean;
  readonly list: boolean;
}

export class CanvasModel {
  readonly store: EditStore;
  readonly types: NodeTypes;
  readonly isReadOnly: boolean;
  readonly view: StoreApi<CanvasView>;
  /** Nodes that were put into a frame, until the validator has judged them. */
  readonly #dropped = new Map<NodeKey, ContainerID>();

  #contained: { document: WorkflowDocument; structure: Structure; dropped: number; containers: Containers } | null = null;

  constructor(store: EditStore, types: NodeTypes, isReadOnly: boolean) {
    this.store = store;
    this.types = types;
    this.isReadOnly = isReadOnly;
    this.view = createStore<CanvasView>(() => ({
      ...this.#framed(store.document, null),
      document: store.document,
      selection: NOTHING_SELECTED,
      verdict: null,
      isMoving: false,
      open: null,
      openPlace: null,
      palette: null,
      connecting: null,
      renaming: null,
      help: false,
      commands: false,
      list: false,
    }));
    store.subscribe((change) => {
      const { document } = store;
      const { selection, verdict, open } = this.view.getState();
      this.view.setState({
        ...this.#framed(document, verdict),
        document,
        selection: stillThere(selection, document),
        open: open !== null && document.nodes.has(open) ? open : null,
      });
      if (change.reason === "undo") announce(`Undone: ${change.name}`);
      if (change.reason === "redo") announce(`Done again: ${change.name}`);
    });
  }

  get document(): WorkflowDocument {
    return this.store.document;
  }

  get selection(): Selection {
    return this.view.getState().selection;
  }

  /** The node that commands about one node are for. */
  get lead(): NodeKey | null {
    const { lead } = this.selection;
    return lead !== null && isNodeKey(lead) ? lead : null;
  }

  select(selection: Selection): void {
    this.store.endBurst();
    this.view.setState({ selection, isMoving: false });
  }

  set(change: Partial<CanvasView>): void {
    this.view.setState(change);
  }

  /** The validator's answer; answers about older documents are dropped by who asks. */
  judge(verdict: Verdict): void {
    for (const key of verdict.structure.judged) this.#dropped.delete(key);
    this.view.setState({ verdict, ...this.#framed(this.document, verdict) });
  }

  /** A node lies in a frame now, says the person; the validator has not said so yet. */
  drop(node: NodeKey, container: ContainerID): void {
    this.#dropped.set(node, container);
  }

  /** Run a command; what it refuses is said. Null if it was refused. */
  try<T>(command: () => T): T | null {
    if (this.isReadOnly) return null;
    try {
      return command();
    } catch (failure) {
      if (!(failure instanceof EditRefused) && !(failure instanceof Error && failure.name === "JsonError")) throw failure;
      toast(failure.message, { kind: "error" });
      return null;
    }
  }

  #framed(document: WorkflowDocument, verdict: Verdict | null): { containers: Containers; frames: readonly Frame[] } {
    const isLoop = (key: NodeKey) => {
      const node = document.nodes.get(key);
      return node !== undefined && this.types.isLoop(node);
    };
    const structure = verdict?.structure ?? NO_STRUCTURE;
    const known = this.#contained;
    // Most edits move nodes: what is in which loop is then as it was.
    const isKnown = known !== null && known.structure === structure && known.dropped === this.#dropped.size && hasSameNodes(known.document, document);
    const containers = isKnown ? known.containers : containersOf(document, structure, isLoop, this.#dropped);
    this.#contained = { document, structure, dropped: this.#dropped.size, containers };
    return { containers, frames: framesOf(document, containers, this.types.exitsOf) };
  }
}

/** The same nodes, of the same ids and types, wherever they lie? */
function hasSameNodes(before: WorkflowDocument, after: WorkflowDocument): boolean {
  if (before.nodes === after.nodes) return true;
  if (before.nodes.size !== after.nodes.size) return false;
  for (const [key, node] of after.nodes) {
    const other = before.nodes.get(key);
    if (other !== node && (other === undefined || other.id !== node.id || other.type !== node.type)) return false;
  }
  return true;
}

export const CanvasContext = createContext<CanvasModel | null>(null);

export function useCanvasModel(): CanvasModel {
  const model = useContext(CanvasContext);
  if (model === null) throw new Error("there is no canvas around this component");
  return model;
}

export function useCanvas<T>(select: (view: CanvasView) => T): T {
  return useStore(useCanvasModel().view, select);
}
