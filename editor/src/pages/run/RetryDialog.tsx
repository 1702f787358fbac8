/** Letting a run that has failed or was cancelled go on: what would be done is said first. */

import { RotateCcw } from "lucide-react";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { call, type Answer } from "../../api/client";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Notice, Problem, Skeleton } from "../../ui/Notice";
import { toast } from "../../ui/toasts";
import { refresh } from "../data";
import { useSession } from "../session";

type Plan = Answer<"retry_run">;

interface RetryDialogProps {
  instanceID: string;
  isCoded: boolean;
  onDone: () => void;
  onClose: () => void;
}

export function RetryDialog({ instanceID, isCoded, onDone, onClose }: RetryDialogProps): ReactElement {
  const live = useSession((session) => session.live);
  const [newKeys, setNewKeys] = useState(false);
  const [allFailed, setAllFailed] = useState(false);
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const options = { newKeys, detach: false, steps: allFailed ? ("failed" as const) : ("cause" as const) };
  const plan = useQuery({
    queryKey: ["retry-plan", instanceID, newKeys, allFailed],
    queryFn: ({ signal }) => call("retry_run", { path: { instanceID }, body: { ...options, dryRun: true }, signal }),
    staleTime: 0,
    gcTime: 0,
  });
  const retry = () => {
    setBusy(true);
    call("retry_run", { path: { instanceID }, body: { ...options, ...(reason.trim() === "" ? {} : { reason: reason.trim() }), dryRun: false } })
      .then(() => {
        // The server has left the room of the ended run.
        live?.joinAgain(instanceID);
        refresh("list_runs", "get_steps", "get_why", "get_why_node");
        toast("The run goes on.");
        onDone();
        onClose();
      }, setProblem)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title="Let the run go on"
      about="What failed is tried again, and what waits behind it then runs. What has completed stays as it is."
      onSubmit={retry}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="primary" disabled={isBusy || plan.data === undefined}>
            <RotateCcw size={14} /> Retry
          </Button>
        </>
      }
    >
      {plan.error ? <Problem error={plan.error} /> : plan.data === undefined ? <Skeleton lines={2} /> : <PlanText plan={plan.data} />}
      {isCoded && (
        <label className="check">
          <input type="checkbox" checked={allFailed} onChange={(event) => setAllFailed(event.target.checked)} />
          Try all failed steps again, not only those it failed with
        </label>
      )}
      <label className="check">
        <input type="checkbox" checked={newKeys} onChange={(event) => setNewKeys(event.target.checked)} />
        Use new idempotency keys: other systems take what is tried again for something new
      </label>
      <div className="field">
        <label htmlFor="retry-reason">Reason, kept in the log</label>
        <input id="retry-reason" className="input" value={reason} autoComplete="off" onChange={(event) => setReason(event.target.value)} />
      </div>
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}

/** More are counted, not listed. */
const LISTED_MAX = 20;

function PlanText({ plan: { redo, children, warnings, deadlineAt } }: { plan: Plan }): ReactElement {
  const all = [...redo.map((each) => ({ ...each, run: null as string | null })), ...children.flatMap((child) => child.redo.map((each) => ({ ...each, run: child.instanceID as string | null })))];
  return (
    <div className="stack" role="region" aria-label="Plan">
      {all.length === 0 ? (
        <p>Nothing is tried again: the run goes on with what was open.</p>
      ) : (
        <>
          <p>Tried again:</p>
          <ul className="why">
            {all.slice(0, LISTED_MAX).map(({ nodeID, scope, attempt, run }) => (
              <li key={`${run ?? ""} ${scope} ${nodeID}`}>
                <code>{nodeID || "the workflow function"}</code> {scope !== "" && <code className="faint">{scope}</code>} <span className="faint">try {attempt}</span>
                {run !== null && <span className="faint"> in the run {run} that it has started</span>}
              </li>
            ))}
          </ul>
          {all.length > LISTED_MAX && <p className="faint">and {(all.length - LISTED_MAX).toLocaleString("en")} more</p>}
        </>
      )}
      {deadlineAt != null && <p className="faint">The new deadline is {new Date(deadlineAt).toLocaleString("en-GB")}.</p>}
      {warnings.map((warning) => (
        <Notice key={warning} kind="warning">
          {warning}
        </Notice>
      ))}
    </div>
  );
}
