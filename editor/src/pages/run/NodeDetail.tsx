/** What one activation did: its state, its error, its output. */

import { GitFork, X } from "lucide-react";
import type { ReactElement } from "react";

import { Button, IconButton } from "../../ui/Button";
import { withCode } from "../../ui/withCode";
import { Notice, Problem, Skeleton } from "../../ui/Notice";
import { Status } from "../../ui/Status";
import { absolute, Took } from "../../ui/time";
import { LoadedValue } from "../LoadedValue";
import { outputLoader, useOutput } from "../outputs";
import type { Activation } from "./useRun";
import { WhyNode } from "./WhyText";

interface NodeDetailProps {
  instanceID: string;
  place: { nodeID: string; scope: string };
  /** Null: the run did not come to it. */
  activation: Activation | null;
  onSelect: (place: { nodeID: string; scope: string }) => void;
  onClose: () => void;
  /** Null: this run cannot be forked, or the key may not. */
  onFork: (() => void) | null;
}

export function NodeDetail({ instanceID, place: { nodeID, scope }, activation, onSelect, onClose, onFork }: NodeDetailProps): ReactElement {
  const status = activation?.status ?? null;
  const output = useOutput(instanceID, nodeID, scope, status);
  return (
    <div className="card node-detail">
      <div className="row">
        <h2 className="grow clip">{nodeID}</h2>
        {onFork !== null && activation !== null && (
          <Button small onClick={onFork}>
            <GitFork size={13} /> Fork from here…
          </Button>
        )}
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
      {activation?.progress && activation.endedAt === null && (
        <div className="progress">
          <progress aria-label={`Progress of ${nodeID}`} {...(activation.progress.total === null ? {} : { max: activation.progress.total, value: activation.progress.done })} />
          <span>
            {activation.progress.done.toLocaleString("en")}
            {activation.progress.total !== null && ` of ${activation.progress.total.toLocaleString("en")}`} {activation.progress.text}
          </span>
        </div>
      )}
      {activation?.error && (
        <Notice kind="error">
          {withCode(activation.error.message || "it failed without a message")} <code className="faint">{activation.error.code}</code>
        </Notice>
      )}
      {status !== "success" && <WhyNode key={status} instanceID={instanceID} nodeID={nodeID} scope={scope} onSelect={onSelect} />}
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
            <LoadedValue key={`${nodeID} ${scope}`} text={output.data} label={`Output of ${nodeID}`} load={outputLoader(instanceID, nodeID, scope)} />
          )}
        </>
      )}
    </div>
  );
}
