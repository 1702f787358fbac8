/** Two versions in one picture: what one has and the other has not, in its place on the canvas. */

import { useMemo, type ReactElement } from "react";

import { titleOf } from "../../canvas/flow";
import {
  around,
  GAP_ACROSS,
  GAP_DOWN,
  identitiesOf,
  indexOf,
  nodeSize,
  NODE_HEADER_HEIGHT,
  overlaps,
  type ExitsOf,
  type NodeRecord,
  type Point,
  type RecordChange,
  type Rect,
  type WorkflowDocument,
} from "../../model";

interface DiffPictureProps {
  before: WorkflowDocument;
  after: WorkflowDocument;
  changes: readonly RecordChange[];
  exitsOf: ExitsOf;
}

type Kind = RecordChange["change"] | "same";

/** A change is told by its sign and its line, not by its colour alone. */
const SIGNS: Record<Kind, string> = { added: "+ ", removed: "− ", changed: "≠ ", moved: "↔ ", same: "" };
/** Nodes of larger workflows would be a few pixels wide. */
const NODES_SHOWN_MAX = 500;
const MARGIN = 24;
/** As many characters of a name fit into a node. */
const NAME_SHOWN_MAX = 22;

export function DiffPicture({ before, after, changes, exitsOf }: DiffPictureProps): ReactElement | null {
  const picture = useMemo(
    () => (Math.max(before.nodes.size, after.nodes.size) > NODES_SHOWN_MAX ? null : drawn(before, after, changes, exitsOf)),
    [before, after, changes, exitsOf],
  );
  if (picture === null) return null;
  const { box, nodes, wires } = picture;
  return (
    <svg
      className="diff-picture"
      role="img"
      aria-label={saidOf(changes)}
      viewBox={`${box.x - MARGIN} ${box.y - MARGIN} ${box.width + 2 * MARGIN} ${box.height + 2 * MARGIN}`}
    >
      {wires.map(({ identity, kind, from, to }) => (
        <path key={identity} data-diff={kind} d={`M${from.x},${from.y}C${from.x + 40},${from.y} ${to.x - 40},${to.y} ${to.x},${to.y}`} />
      ))}
      {nodes.map(({ id, kind, title, rect }) => (
        <g key={id} data-diff={kind} data-diff-node={id} transform={`translate(${rect.x},${rect.y})`}>
          <rect width={rect.width} height={rect.height} rx="8" />
          <text x="14" y="34">
            {SIGNS[kind]}
            {title.length > NAME_SHOWN_MAX ? `${title.slice(0, NAME_SHOWN_MAX - 1)}…` : title}
          </text>
        </g>
      ))}
    </svg>
  );
}

interface DrawnNode {
  readonly id: string;
  readonly kind: Kind;
  readonly title: string;
  readonly rect: Rect;
}

/** Nodes and edges of both versions; where the canvas has a node, it has its place from there. */
function drawn(before: WorkflowDocument, after: WorkflowDocument, changes: readonly RecordChange[], exitsOf: ExitsOf) {
  const kinds = new Map(changes.map(({ identity, change }) => [identity, change]));
  const nodes = new Map<string, DrawnNode>();
  const add = (identity: string, node: NodeRecord, place: Point) => {
    nodes.set(node.id, { id: node.id, kind: kinds.get(identity) ?? "same", title: titleOf(node) || node.id, rect: { ...place, ...nodeSize(exitsOf(node)) } });
  };
  const [old, now] = [identitiesOf(before), identitiesOf(after)];
  for (const [identity, record] of now) if (record.kind === "node") add(identity, record, record.position ?? { x: 0, y: 0 });
  for (const [identity, record] of old) {
    if (record.kind === "node" && !now.has(identity)) add(identity, record, freeOf(nodes, record.position ?? behindItsSource(before, record, nodes)));
  }
  const wires = [...new Map([...old, ...now])].flatMap(([identity, record]) => {
    if (record.kind !== "edge") return [];
    const [source, target] = [nodes.get(record.source), nodes.get(record.target)];
    if (source === undefined || target === undefined) return [];
    const from = { x: source.rect.x + source.rect.width, y: source.rect.y + NODE_HEADER_HEIGHT / 2 };
    return [{ identity, kind: kinds.get(identity) ?? ("same" as Kind), from, to: { x: target.rect.x, y: target.rect.y + NODE_HEADER_HEIGHT / 2 } }];
  });
  const box = around([...nodes.values()].map(({ rect }) => rect));
  return box === null ? null : { box, nodes: [...nodes.values()], wires };
}

/** A node that has no place of its own lies behind one that leads to it. */
function behindItsSource(document: WorkflowDocument, { id }: NodeRecord, nodes: ReadonlyMap<string, DrawnNode>): Point {
  const byID = indexOf(document);
  for (const { source, target } of document.edges.values()) {
    const rect = target === id && byID.has(source) ? nodes.get(source)?.rect : undefined;
    if (rect !== undefined) return { x: rect.x + rect.width + GAP_ACROSS, y: rect.y };
  }
  return { x: 0, y: 0 };
}

/** The place, or the next one below it that nothing covers. */
function freeOf(nodes: ReadonlyMap<string, DrawnNode>, place: Point): Point {
  const size = { width: 1, height: NODE_HEADER_HEIGHT };
  let free = place;
  for (;;) {
    const inTheWay = [...nodes.values()].find(({ rect }) => overlaps(rect, { ...free, ...size }));
    if (inTheWay === undefined) return free;
    free = { x: free.x, y: inTheWay.rect.y + inTheWay.rect.height + GAP_DOWN };
  }
}

function saidOf(changes: readonly RecordChange[]): string {
  const nodes = changes.filter(({ kind }) => kind === "node");
  const count = (wanted: Kind) => nodes.filter(({ change }) => change === wanted).length;
  return `Nodes: ${count("added")} added, ${count("removed")} removed, ${count("changed")} changed, ${count("moved")} moved`;
}
