/** Where runs may begin: start nodes and triggers. */

import type { WorkflowDocument } from "./document";

const BEGINNINGS: ReadonlySet<string> = new Set(["start", "webhook", "schedule", "topic", "workflowCall", "failure"]);

/** The types of which a workflow has one node at most. */
const SINGLE: ReadonlySet<string> = new Set(["start", "workflowCall"]);

export interface Beginning {
  readonly id: string;
  readonly type: string;
  /** Its config as text. */
  readonly config: string | null;
}

export function isBeginning(type: string): boolean {
  return BEGINNINGS.has(type);
}

/** Whether a node of the type may be added to what the document has. */
export function mayAdd(document: WorkflowDocument, type: string): boolean {
  return !SINGLE.has(type) || ![...document.nodes.values()].some((node) => node.type === type);
}

/** The nodes that a run may begin at: the start first. Disabled triggers begin nothing. */
export function beginningsOf(document: WorkflowDocument): readonly Beginning[] {
  const found = [...document.nodes.values()].filter((node) => isBeginning(node.type) && (node.type === "start" || !node.disabled));
  return found.toSorted((one, other) => Number(other.type === "start") - Number(one.type === "start"));
}
