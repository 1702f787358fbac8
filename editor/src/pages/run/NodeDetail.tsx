/** What one activation did: its state, its error, its output. */

import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import type { ReactElement } from "react";

import { callText } from "../../api/client";
import { entriesOf, memberText } from "../../json";
import { IconButton } from "../../ui/Button";
import { Notice, Problem, Skeleton } from "../../ui/Notice";
import { Status } from "../../ui/Status";
import { absolute, Took } from "../../ui/time";
import { ValueViewer } from "../../ui/ValueViewer";
import type { Activation } from "./useRun";
import { WhyNode } from "./WhyText";

interface NodeDetailProps {
  instanceID: string;
  place: { nodeID: string; scope: string };
  /** Null: the run did not come to it. */
  activation: Activation | null;
  onClose: () => void;
}

export function NodeDetail({ instanceID, place: { nodeID, scope }, activation, onClose }: NodeDetailProps): ReactElement {
  const status = activation?.status ?? null;
  const output = useQuery({
    queryKey: ["node-output", instanceID, nodeID, scope, status],
    queryFn: async ({ signal }) => outputOf(instanceID, nodeID, scope, signal),
    enabled: status === "success" || status === "error",
  });
  return (
    <div className="card node-detail">
      <div className="row">
        <h2 className="grow clip">{nodeID}</h2>
        <IconButton label="Close the node" icon={<X size={16} />} small onClick={onClose} />
      </div>
      <div className="row row-wrap">
        {activation === null ? <span className="faint">not reached</span> : <Status status={activation.status} />}
        {scope !== "" && <code className="faint">{scope}</code>}
        {activation !== null && activation.attempt > 1 && <span className="badge">try {activation.attempt}</span>}
        {activation !== null && (
          <span className="faint">
            <Took from={activation.startedAt} to={activation.endedAt} />
          </span>
        )}
      </div>
      {activation?.startedAt && <p className="faint small">Began {absolute(activation.startedAt)}</p>}
      {activation?.error && (
        <Notice kind="error">
          <strong>{activation.error.code}</strong> {activation.error.message}
        </Notice>
      )}
      {status !== "success" && <WhyNode key={status} instanceID={instanceID} nodeID={nodeID} scope={scope} />}
      {status !== null && (
        <>
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
        </>
      )}
    </div>
  );
}

/** The output as source text. */
async function outputOf(instanceID: string, nodeID: string, scope: string, signal: AbortSignal): Promise<string | null> {
  const { text } = await callText("get_steps", { path: { instanceID }, query: { nodeID, scope, limit: 1 }, signal });
  const [step] = entriesOf(memberText(text, "items") ?? "[]");
  return step === undefined ? null : (memberText(step.text, "output") ?? null);
}
