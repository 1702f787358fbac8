/** One run: how it stands, what it came to, its nodes, and its log; with the verbs that fit its state. */

import { Bell, ChevronLeft, CircleHelp, OctagonX, Pause, Play, RotateCcw, RotateCw, Workflow } from "lucide-react";
import { lazy, Suspense, useEffect, useMemo, useState, type ReactElement } from "react";
import { Link, useParams, useSearchParams } from "react-router";

import { ApiError, call } from "../../api/client";
import type { RunError } from "../../api/live";
import { Button } from "../../ui/Button";
import { withCode } from "../../ui/withCode";
import { Notice, Problem, Skeleton } from "../../ui/Notice";
import { Status } from "../../ui/Status";
import { Ago, Took, absolute } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { ValueViewer } from "../../ui/ValueViewer";
import { useAsk } from "../data";
import { useMay } from "../session";
import { SuspendedNotice } from "../suspension";
import { useTitle } from "../title";
import { useRunLists } from "./earlier";
import { ForkDialog } from "./ForkDialog";
import { NodeDetail } from "./NodeDetail";
import { RerunDialog } from "./RerunDialog";
import { RetryDialog } from "./RetryDialog";
import { RunConsole } from "./RunConsole";
import { RunLog } from "./RunLog";
import { SignalDialog } from "./SignalDialog";
import { AsOfCard, TimeSlider, useAsOf } from "./TimeSlider";
import { Timeline } from "./Timeline";
import { activationKey, ENDED, useRun, type RunPlace, type RunState } from "./useRun";
import { useRunLog } from "./useRunLog";
import { WhyRun } from "./WhyText";
import "./run.css";

/** The canvas is loaded beside the rest: the result is there before it. */
const RunGraph = lazy(() => import("./RunGraph"));

/** How far the time slider reaches while a run is open. */
const TOTALS_EVERY_MS = 2_000;

const TABS = ["timeline", "logs", "log", "input"] as const;
type Tab = (typeof TABS)[number];
const TAB_TITLES: Record<Tab, string> = { timeline: "Nodes", logs: "Logs", log: "Event log", input: "Input" };

export default function RunPage(): ReactElement {
  const { instanceID = "" } = useParams();
  return <OneRun key={instanceID} instanceID={instanceID} />;
}

function OneRun({ instanceID }: { instanceID: string }): ReactElement {
  const state = useRun(instanceID);
  const read = useRunLog(instanceID, ENDED.has(state.status));
  const [params, setParams] = useSearchParams();
  const [isWhyShown, setWhyShown] = useState(false);
  const [isForking, setForking] = useState(false);
  const mayEdit = useMay("editor");
  const name = state.data?.run.name;
  useTitle(name === undefined ? "Run" : `${name} ${state.status.toLowerCase()}`);

  const [nodeID, scope] = [params.get("node"), params.get("scope") ?? ""];
  const selected = useMemo(() => (nodeID === null ? null : { nodeID, scope }), [nodeID, scope]);
  const iteration = params.get("iteration") ?? scope;
  const go = ({ selected: chosen, iteration: wanted }: RunPlace) =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        for (const name of ["node", "scope", "iteration"]) next.delete(name);
        if (chosen !== null) next.set("node", chosen.nodeID);
        if (chosen?.scope) next.set("scope", chosen.scope);
        if (wanted !== (chosen?.scope ?? "")) next.set("iteration", wanted);
        return next;
      },
      { replace: true },
    );
  const select = (chosen: { nodeID: string; scope: string } | null) => go({ selected: chosen, iteration: chosen?.scope ?? iteration });
  const tab = TABS.find((each) => each === params.get("tab")) ?? "timeline";
  const choose = (wanted: Tab) =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        next.set("tab", wanted);
        return next;
      },
      { replace: true },
    );
  const chosen = useMemo(() => {
    if (selected === null) return null;
    const key = activationKey(selected);
    return state.activations.find((each) => activationKey(each) === key) ?? null;
  }, [selected, state.activations]);

  const at = params.get("at") === null ? null : Math.max(1, Math.trunc(Number(params.get("at"))) || 1);
  const lists = useRunLists(state, read, at);
  const asOf = useAsOf(instanceID, at, iteration);
  const totals = useAsk("get_totals", { path: { instanceID } }, { everyMs: ENDED.has(state.status) ? false : TOTALS_EVERY_MS });
  const { refetch: countAgain } = totals;
  useEffect(() => void countAgain(), [state.status, countAgain]);
  const last = totals.data?.seq ?? 0;
  const slide = (seq: number | null) =>
    setParams(
      (before) => {
        const next = new URLSearchParams(before);
        if (seq === null) next.delete("at");
        else next.set("at", String(seq));
        return next;
      },
      { replace: true },
    );

  if (state.data === null) return state.failure ? <Lost failure={state.failure} onRetry={state.refetch} /> : <Skeleton lines={8} />;
  const { run } = state.data;
  return (
    <div className="run-page">
      <Head state={state} isWhyShown={isWhyShown} onWhy={() => setWhyShown(!isWhyShown)} />
      {isWhyShown && <WhyRun instanceID={run.instanceID} status={state.status} onSelect={select} />}
      {run.error != null && <Failure error={run.error as RunError} onSelect={select} />}
      {run.suspended != null && state.status === "SUSPENDED" ? (
        <SuspendedNotice suspended={run.suspended} triedAt={(run.note as Note | null)?.dueAt ?? null} />
      ) : (
        run.note != null && <NoteText note={run.note as Note | string} />
      )}
      <Suspense fallback={<div className="run-graph card" />}>
        <RunGraph run={run} asOf={at === null ? null : (asOf.data?.run ?? null)} selected={selected} iteration={iteration} onGo={go} />
      </Suspense>
      {isForking && selected !== null && <ForkDialog run={run} from={selected} onClose={() => setForking(false)} />}
      {last > 0 && <TimeSlider last={last} seq={at} onChange={slide} />}
      <div className="run-columns">
        <section className="card run-tabs" aria-label="Details of the run">
          <div className="tabs-list" role="tablist" aria-label="Views of the run">
            {TABS.map((each) => (
              <button key={each} type="button" role="tab" id={`tab-${each}`} aria-controls="tab-panel" className="tab" aria-selected={tab === each} onClick={() => choose(each)}>
                {TAB_TITLES[each]}
              </button>
            ))}
          </div>
          <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`} tabIndex={-1}>
            {tab === "timeline" && <Timeline {...lists} selected={selected} onSelect={select} />}
            {tab === "logs" && <RunConsole instanceID={run.instanceID} isOver={ENDED.has(state.status)} selected={selected} until={lists.until} />}
            {tab === "log" && <RunLog instanceID={run.instanceID} isOver={ENDED.has(state.status)} selected={selected} seq={at} />}
            {tab === "input" && (
              <div style={{ padding: 12 }}>
                <ValueViewer text={state.data.inputText} label="Input" root="ctx.input" />
              </div>
            )}
          </div>
        </section>
        <section className="run-side" aria-label="Result and selection">
          {at !== null ? (
            <AsOfCard asked={asOf} seq={at} selected={selected} activation={lists.state.activations.find((each) => selected !== null && activationKey(each) === activationKey(selected)) ?? null} />
          ) : selected ? (
            <NodeDetail instanceID={run.instanceID} place={selected} activation={chosen} onSelect={select} onClose={() => select(null)} onFork={mayEdit && selected.nodeID !== "" ? () => setForking(true) : null} />
          ) : (
            <div className="card run-result">
              <h2>Output</h2>
              {ENDED.has(state.status) ? (
                <ValueViewer text={state.data.outputText} label="Output" />
              ) : (
                <p className="faint">The run has not ended yet.</p>
              )}
              <Facts state={state} />
            </div>
          )}
        </section>
      </div>
    </div>
  );
}

function Head({ state, isWhyShown, onWhy }: { state: RunState; isWhyShown: boolean; onWhy: () => void }): ReactElement {
  const { run } = state.data!;
  const mayOperate = useMay("operator");
  const isOpen = !ENDED.has(state.status);
  const [isSignalling, setSignalling] = useState(false);
  const [isRerunning, setRerunning] = useState(false);
  const [isRetrying, setRetrying] = useState(false);
  return (
    <div className="run-head">
      <Link to={`/runs?workflow=${encodeURIComponent(run.name)}`} className="button quiet icon" aria-label={`Runs of ${run.name}`}>
        <ChevronLeft size={18} />
      </Link>
      <h1 className="clip">
        {run.name} <span className="faint numbers">v{run.version}</span>
      </h1>
      <span className="run-status">
        <Status status={state.status} />
      </span>
      <span className="faint">
        <Took from={run.startedAt} to={isOpen ? null : (run.completedAt ?? run.startedAt)} />
      </span>
      {run.test && <span className="badge">test run</span>}
      {run.pausedBy != null && (
        <span className="badge" title={`Since ${absolute(run.pausedBy.since)}, by ${run.pausedBy.by}`}>
          {run.pausedBy.kind === "tenant" ? "all runs are paused" : "its workflow is paused"}
        </span>
      )}
      <span className="grow" />
      {run.workflowID !== null && (
        <Link to={`/workflows/${encodeURIComponent(run.name)}`} className="button">
          <Workflow size={14} aria-hidden /> Workflow
        </Link>
      )}
      <Button aria-pressed={isWhyShown} onClick={onWhy}>
        <CircleHelp size={14} aria-hidden /> Why?
      </Button>
      {mayOperate && isOpen && (
        <>
          <PauseButton instanceID={run.instanceID} isSuspended={state.status === "SUSPENDED"} onDone={state.refetch} />
          <Button onClick={() => setSignalling(true)}>
            <Bell size={14} /> Send a signal
          </Button>
          <CancelButton instanceID={run.instanceID} onCancelled={state.refetch} />
        </>
      )}
      {mayOperate && (state.status === "FAILED" || state.status === "CANCELLED") && (
        <Button onClick={() => setRetrying(true)}>
          <RotateCcw size={14} /> Retry…
        </Button>
      )}
      {mayOperate && !isOpen && !run.test && (
        <Button onClick={() => setRerunning(true)}>
          <RotateCw size={14} /> Run again…
        </Button>
      )}
      {isRetrying && <RetryDialog instanceID={run.instanceID} isCoded={run.kind === "coded"} onDone={state.refetch} onClose={() => setRetrying(false)} />}
      {isRerunning && <RerunDialog instanceID={run.instanceID} input={state.data!.inputText} onClose={() => setRerunning(false)} />}
      {isSignalling && <SignalDialog instanceID={run.instanceID} isWaiting={state.activations.some(({ status }) => status === "waiting")} onClose={() => setSignalling(false)} />}
    </div>
  );
}

/** While a run is paused nothing of it begins or fires; what goes on ends. */
function PauseButton({ instanceID, isSuspended, onDone }: { instanceID: string; isSuspended: boolean; onDone: () => void }): ReactElement {
  const [isBusy, setBusy] = useState(false);
  const press = () => {
    setBusy(true);
    call(isSuspended ? "resume_run" : "pause_run", { path: { instanceID } })
      .then(onDone, (failure: unknown) => toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" }))
      .finally(() => setBusy(false));
  };
  return (
    <Button disabled={isBusy} onClick={press}>
      {isSuspended ? <Play size={14} /> : <Pause size={14} />} {isSuspended ? "Resume" : "Pause"}
    </Button>
  );
}

/** Cancelling asks once more, in the same place. */
function CancelButton({ instanceID, onCancelled }: { instanceID: string; onCancelled: () => void }): ReactElement {
  const [isSure, setSure] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const press = () => {
    if (!isSure) {
      setSure(true);
      return;
    }
    setBusy(true);
    call("cancel_run", { path: { instanceID } })
      .then(onCancelled, (failure: unknown) => toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" }))
      .finally(() => {
        setBusy(false);
        setSure(false);
      });
  };
  return (
    <Button look="danger" disabled={isBusy} onClick={press} onBlur={() => setSure(false)}>
      <OctagonX size={14} /> {isSure ? "Really cancel?" : "Cancel run"}
    </Button>
  );
}

function Failure({ error, onSelect }: { error: RunError; onSelect: (node: { nodeID: string; scope: string }) => void }): ReactElement {
  const place = error.nodeID ? { nodeID: error.nodeID, scope: error.scope ?? "" } : null;
  return (
    <Notice
      kind="error"
      action={
        place && (
          <Button small onClick={() => onSelect(place)}>
            Show the node
          </Button>
        )
      }
    >
      {error.nodeID && <strong>{error.nodeID}: </strong>}
      {withCode(error.message || "it failed without a message")} {error.code && <code className="faint">{error.code}</code>}
    </Notice>
  );
}

/** What a run of an older version says of itself; one that was cancelled has a reason. */
interface Note {
  readonly message?: string;
  readonly dueAt?: string | null;
}

function NoteText({ note }: { note: Note | string }): ReactElement {
  const { message, dueAt = null } = typeof note === "string" ? { message: note } : note;
  return (
    <Notice kind="info">
      {withCode(message ?? JSON.stringify(note))}
      {dueAt !== null && (
        <>
          {" "}
          Next try <Ago time={dueAt} />.
        </>
      )}
    </Notice>
  );
}

function Facts({ state }: { state: RunState }): ReactElement {
  const { run } = state.data!;
  const facts: [string, ReactElement | string | null | undefined][] = [
    ["Run", <code key="id">{run.instanceID}</code>],
    ["Created", absolute(run.createdAt)],
    ["Started", run.startedAt && absolute(run.startedAt)],
    ["Ended", run.completedAt && absolute(run.completedAt)],
    ["Due", run.availableAt > run.createdAt ? <Ago key="due" time={run.availableAt} /> : null],
    ["Deadline", run.deadlineAt && <Ago key="deadline" time={run.deadlineAt} />],
    ["Parent", run.parentID && <Link key="parent" to={`/runs/${run.parentID}`}>{run.parentID}</Link>],
    ["Worker", run.worker],
    ["Kept for", `${run.retentionDays} days`],
  ];
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value)
        .map(([term, value]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function Lost({ failure, onRetry }: { failure: unknown; onRetry: () => void }): ReactElement {
  return (
    <div className="content">
      <Problem error={failure} onRetry={onRetry} />
      <Link to="/runs">To the runs</Link>
    </div>
  );
}
