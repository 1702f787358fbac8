/** Texts of edges, and the handle that a new edge leaves by. Used by the commands that connect nodes. */

import { DEFAULT_HANDLE, ERROR_HANDLE, type Exits, type NodeRecord, type WorkflowDocument } from "../../model";

export function edgeText(source: string, handle: string, target: string): string {
  const ends = `"upstreamNodeID": ${JSON.stringify(source)}, "downstreamNodeID": ${JSON.stringify(target)}`;
  return handle === DEFAULT_HANDLE ? `{${ends}}` : `{${ends}, "sourceHandle": ${JSON.stringify(handle)}}`;
}

/** The source text of `sourceHandle`; undefined where the field is not needed. */
export function handleText(handle: string): string | undefined {
  return handle === DEFAULT_HANDLE ? undefined : JSON.stringify(handle);
}

/** The exit to go on from: the first that leads nowhere yet, else the first; null for a node without exits. */
export function nextExit(document: WorkflowDocument, node: NodeRecord, exits: Exits): string | null {
  const handles = exits.handles.filter((handle) => handle !== ERROR_HANDLE);
  const taken = new Set([...document.edges.values()].filter((edge) => edge.source === node.id).map((edge) => edge.handle));
  return handles.find((handle) => !taken.has(handle)) ?? handles[0] ?? null;
}
