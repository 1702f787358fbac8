/**
 * Which nodes live in which loop or region, as the server's validator says.
 *
 * Dominance is computed by the server alone. What it has not judged yet (a node that was just dropped into a frame) is
 * where the canvas says it was put.
 */

import { grouped } from "./grouped";
import { indexOf } from "./ids";
import type { EdgeKey, NodeKey, WorkflowDocument } from "./document";

/** `structure` of an answer of validate, about the document that was sent. */
export interface StructureAnswer {
  /** The loop node in whose body a node is, by id; nodes outside of all loops are absent. */
  readonly homes: Readonly<Record<string, string>>;
  readonly regions: readonly {
    readonly header: string;
    readonly members: readonly string[];
    readonly again: readonly string[];
    readonly exits: readonly string[];
  }[];
  /** Edges from a body back to its loop node, as pointers. */
  readonly returning: readonly string[];
  readonly unreachable: readonly string[];
  /** Edges that can never be live, as pointers. */
  readonly neverLive: readonly string[];
}

/** The same in keys of records. */
export interface Structure {
  readonly homes: ReadonlyMap<NodeKey, NodeKey>;
  readonly regions: readonly Region[];
  readonly returning: ReadonlySet<EdgeKey>;
  /** Edges that lead to the header of a region again. */
  readonly again: ReadonlySet<EdgeKey>;
  readonly unreachable: ReadonlySet<NodeKey>;
  readonly neverLive: ReadonlySet<EdgeKey>;
  /** The nodes that the server has judged: all that the document had. */
  readonly judged: ReadonlySet<NodeKey>;
}

export interface Region {
  readonly header: NodeKey;
  readonly members: ReadonlySet<NodeKey>;
  readonly exits: ReadonlySet<EdgeKey>;
}

export const NO_STRUCTURE: Structure = {
  homes: new Map(),
  regions: [],
  returning: new Set(),
  again: new Set(),
  unreachable: new Set(),
  neverLive: new Set(),
  judged: new Set(),
};

/** The answer about a document, in that document's keys. They still hold after later edits. */
export function structureOf(sent: WorkflowDocument, answer: StructureAnswer): Structure {
  const byID = indexOf(sent);
  const edgeKeys = [...sent.edges.keys()];
  const edge = (pointer: string) => edgeKeys[Number(/^\/edges\/(\d+)/.exec(pointer)?.[1] ?? Number.NaN)];
  const edges = (pointers: readonly string[]) => new Set(pointers.map(edge).filter((key) => key !== undefined));
  const nodes = (ids: readonly string[]) => new Set(ids.map((id) => byID.get(id)?.key).filter((key) => key !== undefined));
  const homes = new Map<NodeKey, NodeKey>();
  for (const [id, home] of Object.entries(answer.homes)) {
    const [node, loop] = [byID.get(id), byID.get(home)];
    if (node !== undefined && loop !== undefined && node !== loop) homes.set(node.key, loop.key);
  }
  const regions = answer.regions.flatMap((region) => {
    const header = byID.get(region.header)?.key;
    return header === undefined ? [] : [{ header, members: nodes([region.header, ...region.members]), exits: edges(region.exits) }];
  });
  return {
    homes,
    regions,
    returning: edges(answer.returning),
    again: edges(answer.regions.flatMap((region) => region.again)),
    unreachable: nodes(answer.unreachable),
    neverLive: edges(answer.neverLive),
    judged: new Set(sent.nodes.keys()),
  };
}

export type ContainerID = "root" | `loop:${NodeKey}` | `region:${NodeKey}`;

export interface Container {
  readonly id: ContainerID;
  readonly kind: "root" | "loop" | "region";
  /** The loop node, which is drawn in the frame but is no member of it, or the first node of a region; null for the root. */
  readonly header: NodeKey | null;
  readonly parent: ContainerID | null;
  /** The nodes directly in it, in document order. A loop node is a member of the container around its frame. */
  readonly members: readonly NodeKey[];
  /** The containers directly in it. */
  readonly children: readonly ContainerID[];
  /** 0 for the root. */
  readonly depth: number;
}

export interface Containers {
  readonly byID: ReadonlyMap<ContainerID, Container>;
  /** The innermost container of each node. */
  readonly of: ReadonlyMap<NodeKey, ContainerID>;
  /** Inner ones before those around them; the root is last. */
  readonly innermostFirst: readonly Container[];
}

/**
 * The containers of a document. `dropped`: nodes that the server has not judged yet, by the container that they were
 * put into. `isLoop`: is a frame drawn for this node, even while nothing is in it?
 */
export function containersOf(
  document: WorkflowDocument,
  structure: Structure,
  isLoop: (node: NodeKey) => boolean,
  dropped: ReadonlyMap<NodeKey, ContainerID> = new Map(),
): Containers {
  const loops = new Set([...structure.homes.values(), ...[...document.nodes.keys()].filter(isLoop)].filter((key) => document.nodes.has(key)));
  const homeOf = (node: NodeKey) => {
    const home = structure.homes.get(node);
    return home !== undefined && loops.has(home) ? home : null;
  };
  const regions = structure.regions
    .filter((region) => document.nodes.has(region.header))
    .toSorted((left, right) => left.members.size - right.members.size);
  const exists = (id: ContainerID) =>
    id === "root" || (id.startsWith("loop:") ? loops.has(id.slice(5) as NodeKey) : regions.some((region) => `region:${region.header}` === id));

  // Regions and bodies form one tree. A region is as deep in loops as its header; of several the smallest is innermost.
  const around = (node: NodeKey, except: NodeKey | null): ContainerID => {
    const home = homeOf(node);
    const put = structure.judged.has(node) ? undefined : dropped.get(node);
    if (put !== undefined && exists(put)) return put;
    let isPastExcepted = except === null;
    for (const region of regions) {
      if (isPastExcepted && region.members.has(node) && homeOf(region.header) === home) return `region:${region.header}`;
      if (region.header === except) isPastExcepted = true;
    }
    return home === null ? "root" : `loop:${home}`;
  };

  const parents = new Map<ContainerID, ContainerID>();
  for (const loop of loops) parents.set(`loop:${loop}`, around(loop, null));
  for (const { header } of regions) parents.set(`region:${header}`, around(header, header));
  for (const id of parents.keys()) {
    // An invalid answer could contain a cycle: nodes in one are at the root.
    const seen = new Set<ContainerID>();
    for (let at: ContainerID | undefined = id; at !== undefined && at !== "root"; at = parents.get(at)) {
      if (seen.has(at)) {
        parents.set(id, "root");
        break;
      }
      seen.add(at);
    }
  }

  const of = new Map<NodeKey, ContainerID>([...document.nodes.keys()].map((node) => [node, around(node, null)]));
  for (const loop of loops) of.set(loop, parents.get(`loop:${loop}`)!);
  const members = grouped(of.keys(), (node) => of.get(node)!);
  const children = grouped(parents.keys(), (id) => parents.get(id)!);
  const byID = new Map<ContainerID, Container>();
  const add = (id: ContainerID, parent: ContainerID | null, depth: number) => {
    const inner = children.get(id) ?? [];
    const kind = id === "root" ? "root" : id.startsWith("loop:") ? "loop" : "region";
    const header = id === "root" ? null : (id.slice(id.indexOf(":") + 1) as NodeKey);
    byID.set(id, { id, kind, header, parent, members: members.get(id) ?? [], children: inner, depth });
    for (const child of inner) add(child, id, depth + 1);
  };
  add("root", null, 0);
  return { byID, of, innermostFirst: [...byID.values()].reverse() };
}

/** All nodes of a container, those of inner containers and the loop node of its frame included. */
export function allMembers(containers: Containers, id: ContainerID): NodeKey[] {
  const container = containers.byID.get(id);
  if (container === undefined) return [];
  const header = container.kind === "loop" ? [container.header!] : [];
  const members = [...header, ...container.members, ...container.children.flatMap((child) => allMembers(containers, child))];
  return [...new Set(members)];
}
