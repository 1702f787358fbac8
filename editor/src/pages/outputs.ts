/** Outputs of activations as source text, so that integers of any size are exact: read when somebody looks. */

import { useQuery, type UseQueryResult } from "@tanstack/react-query";

import { callText } from "../api/client";
import { entriesOf, memberText, shownScalar } from "../json";

/** The whole output, whatever its size. Null: there is no such activation, or it has none. */
export async function readOutput(instanceID: string, nodeID: string, scope: string, signal?: AbortSignal): Promise<string | null> {
  return readStep(instanceID, nodeID, scope, true, signal);
}

/** The same to be loaded when somebody asks for all of it. */
export function outputLoader(instanceID: string, nodeID: string, scope: string): (signal: AbortSignal) => Promise<string> {
  return async (signal) => (await readOutput(instanceID, nodeID, scope, signal)) ?? "null";
}

async function readStep(instanceID: string, nodeID: string, scope: string, inline: boolean, signal?: AbortSignal): Promise<string | null> {
  const { text } = await callText("get_steps", { path: { instanceID }, query: { nodeID, scope, limit: 1, inline }, ...(signal === undefined ? {} : { signal }) });
  const [step] = entriesOf(memberText(text, "items") ?? "[]");
  const id = step && memberText(step.text, "nodeID");
  return step !== undefined && id !== undefined && shownScalar(id) === nodeID ? (memberText(step.text, "output") ?? null) : null;
}

/** An output once the activation has ended; in place of one over 64 kB its size (`largeOf`). */
export function useOutput(instanceID: string | null, nodeID: string, scope: string, status: string | null): UseQueryResult<string | null> {
  return useQuery({
    queryKey: ["output", instanceID, nodeID, scope, status],
    queryFn: ({ signal }) => readStep(instanceID!, nodeID, scope, false, signal),
    enabled: instanceID !== null && (status === "success" || status === "error"),
    staleTime: Infinity,
  });
}
