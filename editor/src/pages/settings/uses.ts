/** Which workflows use a secret or a data query: their newest versions are read, a few at a time, when somebody asks. */

import { callText, call, type Schemas } from "../../api/client";
import { entriesOf, kindOf, memberText, shownScalar } from "../../json";
import { queryClient } from "../data";

/** Of more workflows only these are looked at, and it is said. */
export const WORKFLOWS_MAX = 1_000;
const AT_ONCE = 4;

export interface Uses {
  readonly workflows: readonly { name: string; title: string | null }[];
  /** How many workflows were looked at, and were there more? */
  readonly looked: number;
  readonly isCut: boolean;
}

type Summary = Schemas["WorkflowSummary"];

export async function findUses(uses: (documentText: string) => boolean, signal: AbortSignal): Promise<Uses> {
  const all: Summary[] = [];
  let cursor: string | null = null;
  do {
    const page: Schemas["WorkflowList"] = await call("list_workflows", { query: { limit: 100, cursor }, signal });
    all.push(...page.items.filter(({ kind }) => kind === "drawn"));
    cursor = page.nextCursor;
  } while (cursor !== null && all.length < WORKFLOWS_MAX);
  const found: { name: string; title: string | null }[] = [];
  const waiting = [...all];
  const look = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      if (uses(await documentOf(next, signal))) found.push({ name: next.name, title: next.title });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, look));
  return { workflows: found.toSorted((left, right) => left.name.localeCompare(right.name)), looked: all.length, isCut: cursor !== null };
}

/** A version never changes: it is read once. */
function documentOf({ workflowID, version }: Summary, signal: AbortSignal): Promise<string> {
  return queryClient.fetchQuery({
    queryKey: ["get_workflow_document", workflowID, version],
    queryFn: async () => (await callText("get_workflow_document", { path: { workflow: workflowID }, query: { version }, signal })).text,
    staleTime: Infinity,
  });
}

/** Does a text name the secret in an expression? */
export function namesSecret(text: string, name: string): boolean {
  return new RegExp(`\\bsecret(?:\\.${name}\\b|\\[\\\\?["']${name}\\\\?["']\\])`).test(text);
}

/** Has a workflow a node that runs this query, named by its id or its name? */
export function runsQuery(text: string, query: { dataQueryID: string; name: string }): boolean {
  const nodes = memberText(text, "nodes");
  if (nodes === undefined || kindOf(nodes) !== "array") return false;
  return entriesOf(nodes).some(({ text: node }) => {
    const config = memberText(node, "config");
    const named = config === undefined || kindOf(config) !== "object" ? undefined : memberText(config, "dataQueryID");
    if (named === undefined || kindOf(named) !== "string") return false;
    return [query.dataQueryID, query.name].includes(shownScalar(named));
  });
}
