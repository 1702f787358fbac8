/** What the server's validator says of a document, in the form that the canvas uses. */

import type { PatchOperation } from "../json";
import { nodeByID, NO_STRUCTURE, structureOf, type EdgeKey, type NodeKey, type Structure, type StructureAnswer, type WorkflowDocument } from "../model";
import type { References } from "../edit";

export interface ProblemFix {
  readonly title: string;
  readonly patch: readonly PatchOperation[];
}

export interface FoundProblem {
  readonly level?: "info";
  readonly code: string;
  readonly message: string;
  readonly pointer?: string | null;
  readonly nodeID?: string | null;
  readonly edgeID?: string | null;
  readonly range?: { line: number; column: number } | null;
  readonly fixes?: readonly ProblemFix[];
}

export interface VariableAnswer {
  readonly certain: "always" | "maybe";
  readonly writers: readonly string[];
  readonly schema?: { properties?: Record<string, unknown> } | null;
}

export interface ValidateAnswer {
  readonly valid: boolean;
  readonly errors: readonly FoundProblem[];
  readonly warnings: readonly FoundProblem[];
  readonly terminates: boolean;
  readonly unbounded: readonly string[];
  readonly activationsMax: number | null;
  readonly nodes?: Readonly<Record<string, { handles?: readonly string[]; variables?: Readonly<Record<string, VariableAnswer>>; references?: References[string] }>>;
  readonly structure?: StructureAnswer | null;
}

export interface Problem extends FoundProblem {
  readonly severity: "error" | "warning" | "info";
  /** The node or the edge that it is about; null: the workflow. */
  readonly key: NodeKey | EdgeKey | null;
  /** Its place in the node: `/config/url`. */
  readonly place: string;
}

/** An answer with the document that it is about. */
export interface Verdict {
  readonly document: WorkflowDocument;
  readonly answer: ValidateAnswer;
  readonly problems: readonly Problem[];
  readonly byKey: ReadonlyMap<NodeKey | EdgeKey, readonly Problem[]>;
  readonly structure: Structure;
}

export function verdictOf(document: WorkflowDocument, answer: ValidateAnswer): Verdict {
  const nodes = [...document.nodes.values()];
  const edges = [...document.edges.values()];
  const placed = (found: FoundProblem, severity: Problem["severity"]): Problem => {
    const [, list, index, rest = ""] = /^\/(nodes|edges)\/(\d+)(\/.*)?$/.exec(found.pointer ?? "") ?? [];
    const record = list === "nodes" ? nodes[Number(index)] : list === "edges" ? edges[Number(index)] : undefined;
    const named = found.nodeID ? nodeByID(document, found.nodeID) : undefined;
    return { ...found, severity, key: record?.key ?? named?.key ?? null, place: rest };
  };
  const problems = [...answer.errors.map((found) => placed(found, "error")), ...answer.warnings.map((found) => placed(found, found.level ?? "warning"))];
  const byKey = new Map<NodeKey | EdgeKey, Problem[]>();
  for (const problem of problems) if (problem.key !== null) byKey.set(problem.key, [...(byKey.get(problem.key) ?? []), problem]);
  const structure = answer.structure ? structureOf(document, answer.structure) : NO_STRUCTURE;
  return { document, answer, problems, byKey, structure };
}
