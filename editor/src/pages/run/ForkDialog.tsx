/** A new run from a node of this one on: what would be reused and what would run is said first. */

import { GitFork } from "lucide-react";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";
import { useNavigate } from "react-router";

import { call, type Answer, type Schemas } from "../../api/client";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { jsonProblem } from "../../ui/forms/SchemaForm";
import { withCode } from "../../ui/withCode";
import { Notice, Problem, Skeleton } from "../../ui/Notice";
import { refresh, useAsk } from "../data";
import type { Place } from "./WhyText";

type Plan = Schemas["ForkPlan"];

interface ForkDialogProps {
  run: Pick<Answer<"get_run">, "instanceID" | "workflowID" | "version" | "kind">;
  from: Place;
  onClose: () => void;
}

/** More are counted, not listed. */
const LISTED_MAX = 20;

/** The longest wait that one question takes. */
const WAIT = "20s";

const BECAUSE: Readonly<Record<Schemas["ExecutionReason"], string>> = {
  NOT_ENDED: "it had not ended",
  CHOSEN: "you chose it",
  AFTER_CUT: "it comes after",
  CONFIG_CHANGED: "its settings are others",
  INPUT_CHANGED: "what it reads is different",
  QUERY_CHANGED: "its query is another one",
  FAILED: "it had failed",
  NEW: "it is new",
};

export function ForkDialog({ run: { instanceID, workflowID, version: ownVersion, kind }, from, onClose }: ForkDialogProps): ReactElement {
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [planned, setPlanned] = useState("");
  /** Null: the run's own. */
  const [version, setVersion] = useState<number | null>(null);
  /** Steps that run again, too. */
  const [redo, setRedo] = useState<Place[]>([]);
  const versions = useAsk("list_versions", { path: { workflow: workflowID ?? "" }, query: { limit: 100 } }, { enabled: workflowID !== null });
  const others = versions.data?.items.filter((each) => each.version !== ownVersion) ?? [];
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const place = JSON.stringify({ nodeID: from.nodeID, ...(from.scope === "" ? {} : { scope: from.scope }) });
  // The input is sent as it was typed: its integers may be of any size.
  const body = (input: string, more: string) => `{"at": ${place}${input === "" ? "" : `, "input": ${input}`}${version === null ? "" : `, "version": ${version}`}${redo.length === 0 ? "" : `, "redo": ${JSON.stringify(redo)}`}, ${more}}`;
  const plan = useQuery({
    queryKey: ["fork-plan", instanceID, place, planned, version, redo],
    queryFn: ({ signal }) => readPlan(instanceID, body(planned, '"dryRun": true'), signal),
    staleTime: 0,
    gcTime: 0,
  });
  const takeInput = () => {
    const wrong = text.trim() === "" ? null : jsonProblem(text);
    setProblem(wrong === null ? null : new Error(wrong));
    if (wrong !== null || text.trim() === planned) return;
    setPlanned(text.trim());
    setRedo([]);
  };
  const takeVersion = (chosen: string) => {
    setVersion(chosen === "" ? null : Number(chosen));
    setRedo([]);
  };
  const fork = () => {
    if (plan.data === undefined || text.trim() !== planned) return;
    setBusy(true);
    call("fork_run", { path: { instanceID }, bodyText: body(planned, `"ifPlan": ${JSON.stringify(plan.data.plan)}`) })
      .then((run) => {
        refresh("list_runs");
        onClose();
        void navigate(`/runs/${(run as unknown as Schemas["Forked"]).instanceID}`);
      }, setProblem)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Fork from ${from.nodeID}`}
      about="A new run: what came before has its outcome already, the node and what depends on it run. This run stays as it is."
      onSubmit={fork}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="primary" disabled={isBusy || plan.data === undefined || text.trim() !== planned}>
            <GitFork size={14} /> Fork
          </Button>
        </>
      }
    >
      {plan.error ? <Problem error={plan.error} /> : plan.data === undefined ? (
        <Waiting isCoded={kind === "coded"} />
      ) : <PlanText plan={plan.data} onRedo={(added) => setRedo([...redo, ...added])} />}
      {others.length > 0 && (
        <div className="field">
          <label htmlFor="fork-version">Version that it follows</label>
          <select id="fork-version" className="input" value={version ?? ""} onChange={(event) => takeVersion(event.target.value)}>
            <option value="">v{ownVersion}, as this run</option>
            {others.map((each) => (
              <option key={each.version} value={each.version}>
                v{each.version}
                {each.active ? ", which starts take" : ""}
              </option>
            ))}
          </select>
        </div>
      )}
      <div className="field">
        <label htmlFor="fork-input">Another input, as JSON; empty for the same</label>
        <textarea id="fork-input" className="input mono" rows={3} spellCheck={false} value={text} onChange={(event) => setText(event.target.value)} onBlur={takeInput} />
      </div>
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}

/** Replaying code may take a while. */
function Waiting({ isCoded }: { isCoded: boolean }): ReactElement {
  return (
    <>
      <Skeleton lines={3} />
      {isCoded && <p className="faint small">A worker that has the code finds out what would be reused.</p>}
    </>
  );
}

/**
 * What a fork would reuse and run. Of a coded run a worker that has its code finds that out, in a run of its own; until
 * that has ended there is no plan.
 */
async function readPlan(instanceID: string, bodyText: string, signal: AbortSignal): Promise<Plan> {
  const answer = (await call("fork_run", { path: { instanceID }, bodyText, signal })) as unknown as Plan | Schemas["Forked"];
  if ("reuse" in answer) return answer as Plan;
  for (;;) {
    const { status, output, error } = await call("get_run", { path: { instanceID: answer.instanceID }, query: { wait: WAIT }, signal });
    if (status === "COMPLETED") return output as Plan;
    if (status === "FAILED" || status === "CANCELLED") throw new Error((error as { message?: string } | null)?.message ?? "The plan was not made.");
  }
}

function PlanText({ plan: { reuse, run, undecided, drop, warnings, redo }, onRedo }: { plan: Plan; onRedo: (added: Place[]) => void }): ReactElement {
  const again = run.filter((each) => each["effect"] === "again").length;
  return (
    <div className="stack" role="region" aria-label="Plan">
      <p>
        {reuse.length.toLocaleString("en")} {reuse.length === 1 ? "outcome is" : "outcomes are"} reused.{run.length > 0 && " These run:"}
      </p>
      <ul className="why">
        {run.slice(0, LISTED_MAX).map((each) => (
          <li key={`${String(each["scope"])} ${String(each["nodeID"])}`}>
            <code>{String(each["nodeID"])}</code> {each["scope"] ? <code className="faint">{String(each["scope"])}</code> : null}{" "}
            <span className="faint">
              {BECAUSE[each.because]}
              {each["effect"] === "again" && ", and does again what it has done outside"}
            </span>
          </li>
        ))}
      </ul>
      {run.length > LISTED_MAX && <p className="faint">and {(run.length - LISTED_MAX).toLocaleString("en")} more</p>}
      {again > 0 && (
        <Notice kind="warning">
          {again.toLocaleString("en")} of them may have had effects on other systems, and {again === 1 ? "has" : "have"} them again.
        </Notice>
      )}
      {warnings.map((warning) => (
        <Notice key={warning} kind="warning">
          {withCode(warning)}
        </Notice>
      ))}
      {redo && (
        <p>
          <Button onClick={() => onRedo(redo)}>
            Run {redo.length === 1 ? "this step" : `these ${redo.length.toLocaleString("en")} steps`} again, too
          </Button>
        </p>
      )}
      {undecided.length > 0 && <p className="faint">Whether {undecided.length.toLocaleString("en")} behind them run again depends on what these come to.</p>}
      {drop.length > 0 && <p className="faint">{drop.length.toLocaleString("en")} outcomes are not taken along.</p>}
    </div>
  );
}
