/** What one activation did: its state, its error, its output. */

import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import type { ReactElement } from "react";

import { callText } from "../../api/client";
import { entriesOf, memberText, shownScalar } from "../../json";
import { IconButton } from "../../ui/Button";
import { Notice, Problem, Skeleton } from "../../ui/Notice";
import { Status } from "../../ui/Status";
import { absolute, Took } from "../../ui/time";
import { ValueViewer } from "../../ui/ValueViewer";
import type { Activation } from "./useRun";

export function NodeDetail({ instanceID, activation, onClose }: { instanceID: string; activation: Activation; onClose: () => void }): ReactElement {
  const { nodeID, scope, status, attempt, startedAt, endedAt, error } = activation;
  const output = useQuery({
    queryKey: ["node-output", instanceID, nodeID, scope, status],
    queryFn: async ({ signal }) => outputOf(instanceID, activation, signal),
    enabled: status === "success" || status === "error",
  });
  return (
    <div className="card node-detail">
      <div className="row">
        <h2 className="grow clip">{nodeID}</h2>
        <IconButton label="Close the node" icon={<X size={16} />} small onClick={onClose} />
      </div>
      <div className="row row-wrap">
        <Status status={status} />
        {scope !== "" && <code className="faint">{scope}</code>}
        {attempt > 1 && <span className="badge">try {attempt}</span>}
        <span className="faint">
          <Took from={startedAt} to={endedAt} />
        </span>
      </div>
      {startedAt && <p className="faint small">Began {absolute(startedAt)}</p>}
      {error && (
        <Notice kind="error">
          <strong>{error.code}</strong> {error.message}
        </Notice>
      )}
      <h3>Output</h3>
      {output.error ? (
        <Problem error={output.error} />
      ) : output.isLoading ? (
        <Skeleton lines={2} />
      ) : output.data == null ? (
        <p className="faint">{status === "success" ? "null" : "There is none."}</p>
      ) : (
        <ValueViewer text={output.data} label={`Output of ${nodeID}`} />
      )}
    </div>
  );
}

/** The output as source text: read from the page of steps that begins right before the activation. */
async function outputOf(instanceID: string, { nodeID, scope, seq }: Activation, signal: AbortSignal): Promise<string | null> {
  const query = { limit: 100, after: Math.max(0, seq - 1) };
  const { text } = await callText("get_steps", { path: { instanceID }, query, signal });
  for (const { text: step } of entriesOf(memberText(text, "items") ?? "[]")) {
    const [id, at] = [memberText(step, "nodeID"), memberText(step, "scope")];
    if (id !== undefined && at !== undefined && shownScalar(id) === nodeID && shownScalar(at) === scope) return memberText(step, "output") ?? null;
  }
  return null;
}
