/** A new run from a node of this one on: what would be reused and what would run is said first. */

import { GitFork } from "lucide-react";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";
import { useNavigate } from "react-router";

import { call, type Schemas } from "../../api/client";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { jsonProblem } from "../../ui/forms/SchemaForm";
import { Notice, Problem, Skeleton } from "../../ui/Notice";
import { refresh } from "../data";
import type { Place } from "./WhyText";

type Plan = Schemas["ForkPlan"];

interface ForkDialogProps {
  instanceID: string;
  from: Place;
  onClose: () => void;
}

/** More are counted, not listed. */
const LISTED_MAX = 20;

const BECAUSE: Readonly<Record<string, string>> = {
  NOT_ENDED: "it had not ended",
  CHOSEN: "you chose it",
  AFTER_CUT: "it comes after",
  CONFIG_CHANGED: "its settings are others",
  INPUT_CHANGED: "what it reads is different",
  FAILED: "it had failed",
  NEW: "it is new",
};

export function ForkDialog({ instanceID, from, onClose }: ForkDialogProps): ReactElement {
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [planned, setPlanned] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const place = JSON.stringify({ nodeID: from.nodeID, ...(from.scope === "" ? {} : { scope: from.scope }) });
  // The input is sent as it was typed: its integers may be of any size.
  const body = (input: string, more: string) => `{"at": ${place}${input === "" ? "" : `, "input": ${input}`}, ${more}}`;
  const plan = useQuery({
    queryKey: ["fork-plan", instanceID, place, planned],
    queryFn: async ({ signal }) => (await call("fork_run", { path: { instanceID }, bodyText: body(planned, '"dryRun": true'), signal })) as unknown as Plan,
    staleTime: 0,
    gcTime: 0,
  });
  const takeInput = () => {
    const wrong = text.trim() === "" ? null : jsonProblem(text);
    setProblem(wrong === null ? null : new Error(wrong));
    if (wrong === null) setPlanned(text.trim());
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
      {plan.error ? <Problem error={plan.error} /> : plan.data === undefined ? <Skeleton lines={3} /> : <PlanText plan={plan.data} />}
      <div className="field">
        <label htmlFor="fork-input">Another input, as JSON; empty for the same</label>
        <textarea id="fork-input" className="input mono" rows={3} spellCheck={false} value={text} onChange={(event) => setText(event.target.value)} onBlur={takeInput} />
      </div>
      {problem !== null && <Problem error={problem} />}
    </Dialog>
  );
}

function PlanText({ plan: { reuse, run, undecided, drop } }: { plan: Plan }): ReactElement {
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
              {BECAUSE[String(each["because"])] ?? String(each["because"])}
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
      {undecided.length > 0 && <p className="faint">Whether {undecided.length.toLocaleString("en")} behind them run again depends on what these come to.</p>}
      {drop.length > 0 && <p className="faint">{drop.length.toLocaleString("en")} outcomes are not taken along.</p>}
    </div>
  );
}
