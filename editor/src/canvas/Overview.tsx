/**
 * A large graph from far away: all nodes of one look are one shape, and so are all edges of one verdict. Moving the
 * canvas then moves a few elements; what is clicked is found by its place.
 */

import { ViewportPortal } from "@xyflow/react";
import { memo, useMemo, useSyncExternalStore, type ReactElement } from "react";

import { indexOf, type NodeKey, type Point, type Rect } from "../model";
import { edgeSummary, type Verdict } from "../run";
import { useCanvas, type CanvasView } from "./CanvasModel";
import type { CanvasNode, CardNode, WireEdge } from "./flow";
import { summaryAt, useShownRun, type ShownRun } from "./run";

/** Colours follow a run four times a second: more would be more work than anybody sees from here. */
const EVERY_MS = 250;

interface OverviewProps {
  nodes: readonly CanvasNode[];
  edges: readonly WireEdge[];
}

export const Overview = memo(function Overview({ nodes, edges }: OverviewProps): ReactElement {
  const run = useShownRun();
  const view = useCanvas((each) => each);
  const told = useToldSeq(run);
  const { document, containers, verdict } = view;
  const shapes = useMemo(
    () => shapesOf(nodes, edges, run, { document, containers, verdict }),
    [nodes, edges, run, told, document, containers, verdict], // eslint-disable-line react-hooks/exhaustive-deps
  );
  return (
    <ViewportPortal>
      <svg className="overview" aria-hidden width="1" height="1">
        {[...shapes.wires].map(([wireVerdict, path]) => (
          <path key={wireVerdict} className="overview-wires" data-verdict={wireVerdict} d={path} />
        ))}
        {[...shapes.cards].map(([look, path]) => {
          const [category, status] = look.split(" ");
          return <path key={look} className="overview-cards" data-category={category} data-status={status === "" ? undefined : status} d={path} />;
        })}
      </svg>
    </ViewportPortal>
  );
});

/** Changes when the shapes have to be made anew for what a run has told. */
function useToldSeq(run: ShownRun | null): number {
  const source = useMemo(() => {
    let shown = run?.store.seq ?? 0;
    return {
      subscribe: (changed: () => void) => {
        if (run === null) return () => undefined;
        let timer: ReturnType<typeof setTimeout> | undefined;
        const leave = run.store.subscribeRun(() => {
          timer ??= setTimeout(() => {
            timer = undefined;
            shown = run.store.seq;
            changed();
          }, EVERY_MS);
        });
        return () => {
          clearTimeout(timer);
          leave();
        };
      },
      read: () => shown,
    };
  }, [run]);
  return useSyncExternalStore(source.subscribe, source.read);
}

interface Shapes {
  readonly wires: ReadonlyMap<Verdict, string>;
  readonly cards: ReadonlyMap<string, string>;
}

function shapesOf(nodes: readonly CanvasNode[], edges: readonly WireEdge[], run: ShownRun | null, view: Pick<CanvasView, "document" | "containers" | "verdict">): Shapes {
  const byKey = new Map(nodes.filter(isCard).map((node) => [node.id, node]));
  const wires = new Map<Verdict, string[]>();
  for (const { source, target, data } of edges) {
    const [from, to] = [byKey.get(source), byKey.get(target)];
    if (from === undefined || to === undefined) continue;
    const verdict = run === null ? "open" : edgeSummary(summaryAt(run, view, data!.edge.source), data!.edge.handle).verdict;
    const lines = wires.get(verdict) ?? [];
    wires.set(verdict, lines);
    lines.push(`M${from.position.x + from.width!},${middleOf(from)}L${to.position.x},${middleOf(to)}`);
  }
  const cards = new Map<string, string[]>();
  for (const node of byKey.values()) {
    if (node.selected) continue;
    const status = run === null ? null : summaryAt(run, view, node.data.node.id).status;
    const isFaulty = node.data.type === undefined || (view.verdict?.byKey.get(node.id as NodeKey)?.some(({ severity }) => severity === "error") ?? false);
    const look = `${isFaulty ? "unknown" : (node.data.type?.category ?? "unknown")} ${status ?? ""}`;
    const boxes = cards.get(look) ?? [];
    cards.set(look, boxes);
    boxes.push(`M${node.position.x},${node.position.y}h${node.width!}v${node.height!}h${-node.width!}z`);
  }
  const joined = <K,>(parts: ReadonlyMap<K, string[]>) => new Map([...parts].map(([key, all]) => [key, all.join("")]));
  return { wires: joined(wires), cards: joined(cards) };
}

/** The nodes at a place, or in a box. */
export function nodesAt(view: CanvasView, nodes: readonly CanvasNode[], from: Point, to: Point = from): NodeKey[] {
  const box: Rect = { x: Math.min(from.x, to.x), y: Math.min(from.y, to.y), width: Math.abs(to.x - from.x), height: Math.abs(to.y - from.y) };
  const isHit = ({ position: { x, y }, width, height }: CardNode) => x <= box.x + box.width && box.x <= x + width! && y <= box.y + box.height && box.y <= y + height!;
  const known = indexOf(view.document);
  return nodes
    .filter(isCard)
    .filter((node) => isHit(node) && known.has(node.data.node.id))
    .map((node) => node.id as NodeKey);
}

function middleOf(node: CardNode): number {
  return node.position.y + node.height! / 2;
}

function isCard(node: CanvasNode): node is CardNode {
  return node.type === "card";
}
