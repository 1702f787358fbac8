/** Runs: found by filters that the address keeps, live, with bulk cancelling. */

import { Filter, ListChecks, X } from "lucide-react";
import { useCallback, useEffect, useMemo, useState, type ReactElement } from "react";
import { Link, useSearchParams } from "react-router";

import { call, type Schemas } from "../../api/client";
import { Button } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Empty, Problem, Skeleton } from "../../ui/Notice";
import { Status } from "../../ui/Status";
import { Ago, Took } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh, useAsk, useRuns } from "../data";
import { useMay, useSession } from "../session";
import { SUSPENSIONS } from "../suspension";
import { useTitle } from "../title";
import "./runs.css";

type Summary = Schemas["ListedRun"];

const STATUSES = ["PENDING", "RUNNING", "WAITING", "SUSPENDED", "COMPLETED", "FAILED", "CANCELLED"] as const;
const ENDED: ReadonlySet<string> = new Set(["COMPLETED", "FAILED", "CANCELLED"]);

/** New runs of others appear within this time; what happens in the runs shown is told at once. */
const EVERY_MS = 2_000;

const PAGE = 50;

export default function RunsPage(): ReactElement {
  useTitle("Runs");
  const [params, setParams] = useSearchParams();
  const [limit, setLimit] = useState(PAGE);
  const query = useMemo(() => queryOf(params), [params]);
  const workflow = params.get("workflow");
  const ofAll = useAsk("list_runs", { query: { ...query, limit } as never }, { everyMs: EVERY_MS, enabled: workflow === null });
  const ofOne = useAsk("list_runs_of_workflow", { path: { workflow: workflow ?? "" }, query: { ...query, limit } as never }, { everyMs: EVERY_MS, enabled: workflow !== null });
  const asked = workflow === null ? ofAll : ofOne;
  const told = useToldStatuses(asked.data?.items ?? []);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [verb, setVerb] = useState<Verb | null>(null);
  const mayOperate = useMay("operator");

  const set = useCallback(
    (name: string, value: string | null) => {
      setLimit(PAGE);
      setParams(
        (before) => {
          const next = new URLSearchParams(before);
          if (value === null || value === "") next.delete(name);
          else next.set(name, value);
          return next;
        },
        { replace: true },
      );
    },
    [setParams],
  );

  const items = (asked.data?.items ?? []).map((run) => (ENDED.has(run.status) ? run : { ...run, status: told.get(run.instanceID) ?? run.status }));
  const cancellable = items.filter((run) => selected.has(run.instanceID) && !ENDED.has(run.status));
  const retryable = items.filter((run) => selected.has(run.instanceID) && (run.status === "FAILED" || run.status === "CANCELLED"));
  const isFiltered = [...params].length > 0;
  const toggle = (instanceID: string) =>
    setSelected((before) => {
      const next = new Set(before);
      if (!next.delete(instanceID)) next.add(instanceID);
      return next;
    });

  return (
    <div className="content">
      <div className="content-head">
        <h1>Runs</h1>
        {selected.size > 0 && (
          <div className="row" role="status">
            {selected.size} selected
            {mayOperate && (
              <>
                <Button look="danger" disabled={cancellable.length === 0} onClick={() => setVerb(CANCEL)}>
                  Cancel {cancellable.length > 0 && cancellable.length}…
                </Button>
                <Button disabled={retryable.length === 0} onClick={() => setVerb(RETRY)}>
                  Retry {retryable.length > 0 && retryable.length}…
                </Button>
              </>
            )}
            <Button look="quiet" onClick={() => setSelected(new Set())}>
              Clear
            </Button>
          </div>
        )}
      </div>
      <Filters params={params} set={set} onClear={() => setParams({}, { replace: true })} />
      {asked.error && <Problem error={asked.error} onRetry={() => void asked.refetch()} />}
      {asked.isPending ? (
        <Skeleton lines={8} />
      ) : items.length === 0 ? (
        <div className="card">
          {isFiltered ? (
            <Empty icon={<Filter size={28} />} title="No run fits the filter" action={<Button onClick={() => setParams({})}>Clear the filter</Button>} />
          ) : (
            <Empty icon={<ListChecks size={32} />} title="No run yet" action={<Link to="/">To the workflows</Link>}>
              A run is one execution of a workflow. Start one from the list of workflows, by a schedule, or over the API.
            </Empty>
          )}
        </div>
      ) : (
        <div className="card scroll-x">
          <table className="table collapses runs">
            <thead>
              <tr>
                {mayOperate && (
                  <th scope="col" className="tight">
                    <input
                      type="checkbox"
                      aria-label="Select all runs shown"
                      checked={items.every((run) => selected.has(run.instanceID))}
                      onChange={(event) => setSelected(new Set(event.target.checked ? items.map((run) => run.instanceID) : []))}
                    />
                  </th>
                )}
                <th scope="col">Status</th>
                <th scope="col">Workflow</th>
                <th scope="col">Run</th>
                <th scope="col">Started</th>
                <th scope="col">Took</th>
              </tr>
            </thead>
            <tbody>
              {items.map((run) => (
                <Row key={run.instanceID} run={run} isSelected={selected.has(run.instanceID)} onToggle={mayOperate ? () => toggle(run.instanceID) : null} />
              ))}
            </tbody>
          </table>
          {asked.data?.nextCursor && (
            <p style={{ padding: 12 }}>
              {limit < 100 ? <Button onClick={() => setLimit(100)}>Show more</Button> : <span className="faint">The newest 100 are shown. A filter finds older ones.</span>}
            </p>
          )}
        </div>
      )}
      {verb && (
        <BulkDialog
          verb={verb}
          runs={verb === CANCEL ? cancellable : retryable}
          onClose={() => {
            setVerb(null);
            setSelected(new Set());
          }}
        />
      )}
    </div>
  );
}

function Row({ run, isSelected, onToggle }: { run: Summary; isSelected: boolean; onToggle: (() => void) | null }): ReactElement {
  const error = (run as { error?: { code?: string; message?: string } | null }).error;
  return (
    <tr data-run={run.instanceID}>
      {onToggle && (
        <td className="tight">
          <input type="checkbox" aria-label={`Select run ${run.instanceID}`} checked={isSelected} onChange={onToggle} />
        </td>
      )}
      <td className="tight">
        <Status status={run.status} />
        {run.status === "SUSPENDED" && run.suspendedFor != null && <div className="small faint">{SUSPENSIONS[run.suspendedFor].short}</div>}
        {run.pausedBy != null && !ENDED.has(run.status) && <div className="small faint">{run.pausedBy.kind === "tenant" ? "all runs are paused" : "its workflow is paused"}</div>}
      </td>
      <td>
        <Link to={`/runs/${run.instanceID}`} className="title">
          {run.name}
        </Link>{" "}
        <span className="faint numbers">v{run.version}</span> {run.test && <span className="badge">test</span>}
        {error && <div className="small run-error clip">{error.message || error.code}</div>}
      </td>
      <td className="wide">
        <code className="faint">{run.instanceID}</code>
      </td>
      <td className="tight">
        <Ago time={run.startedAt ?? run.createdAt} />
      </td>
      <td className="tight">
        <Took from={run.startedAt} to={ENDED.has(run.status) ? (run.completedAt ?? run.startedAt) : null} />
      </td>
    </tr>
  );
}

function Filters({ params, set, onClear }: { params: URLSearchParams; set: (name: string, value: string | null) => void; onClear: () => void }): ReactElement {
  const workflows = useAsk("list_workflows", { query: { limit: 100 } }, { staleMs: 30_000 });
  const input = params.get("input") ?? "";
  return (
    <form className="filters" role="search" aria-label="Filter runs" onSubmit={(event) => event.preventDefault()}>
      <select className="input" aria-label="Status" value={params.get("status") ?? ""} onChange={(event) => set("status", event.target.value)}>
        <option value="">any status</option>
        <option value="open">open</option>
        {STATUSES.map((status) => (
          <option key={status} value={status}>
            {status.toLowerCase()}
          </option>
        ))}
      </select>
      <select className="input" aria-label="Workflow" value={params.get("workflow") ?? ""} onChange={(event) => set("workflow", event.target.value)}>
        <option value="">any workflow</option>
        {workflows.data?.items.map(({ name, title }) => (
          <option key={name} value={name}>
            {title ?? name}
          </option>
        ))}
      </select>
      <LazyInput label="Version" placeholder="version" value={params.get("version") ?? ""} onCommit={(value) => set("version", value)} width={104} />
      <LazyInput label="Input contains" placeholder="customer.id=17" value={input} onCommit={(value) => set("input", value)} width={180} />
      <LazyInput label="Error contains" placeholder="error text" value={params.get("error") ?? ""} onCommit={(value) => set("error", value)} width={150} />
      <select className="input" aria-label="Created" value={params.get("since") ?? ""} onChange={(event) => set("since", event.target.value)}>
        <option value="">at any time</option>
        <option value="1h">in the last hour</option>
        <option value="24h">in the last 24 hours</option>
        <option value="7d">in the last 7 days</option>
      </select>
      <label className="check small">
        <input type="checkbox" checked={params.get("test") === "true"} onChange={(event) => set("test", event.target.checked ? "true" : null)} />
        test runs
      </label>
      {[...params].length > 0 && (
        <Button look="quiet" small onClick={onClear}>
          <X size={14} /> Clear
        </Button>
      )}
    </form>
  );
}

function LazyInput({ label, placeholder, value, onCommit, width }: { label: string; placeholder: string; value: string; onCommit: (value: string) => void; width: number }): ReactElement {
  const [typed, setTyped] = useState<string | null>(null);
  const commit = () => {
    if (typed !== null && typed !== value) onCommit(typed.trim());
    setTyped(null);
  };
  return (
    <input
      className="input"
      style={{ width }}
      type="search"
      aria-label={label}
      placeholder={placeholder}
      value={typed ?? value}
      onChange={(event) => setTyped(event.target.value)}
      onBlur={commit}
      onKeyDown={(event) => event.key === "Enter" && commit()}
    />
  );
}

const HOUR_MS = 3_600_000;
const SINCE: Record<string, number> = { "1h": HOUR_MS, "24h": 24 * HOUR_MS, "7d": 7 * 24 * HOUR_MS };

/** The filter of the address as the API takes it. */
function queryOf(params: URLSearchParams): Record<string, unknown> {
  const status = params.get("status");
  const query: Record<string, unknown> = { status: status === "open" ? STATUSES.filter((each) => !ENDED.has(each)) : status };
  for (const name of ["version", "test"]) query[name] = params.get(name);
  query["error~"] = params.get("error");
  const since = SINCE[params.get("since") ?? ""];
  // To the minute, so that one filter is one question.
  if (since !== undefined) query["since"] = new Date(Math.floor((Date.now() - since) / 60_000) * 60_000).toISOString();
  const [path, ...value] = (params.get("input") ?? "").split("=");
  if (path && value.length > 0) query[`input.${path.trim()}`] = value.join("=").trim();
  return query;
}

/** What the socket tells of the runs on the page, newer than the list. */
function useToldStatuses(runs: readonly Summary[]): ReadonlyMap<string, Summary["status"]> {
  const [told, setTold] = useState<ReadonlyMap<string, Summary["status"]>>(new Map());
  const ids = useMemo(() => runs.filter((run) => !ENDED.has(run.status)).map((run) => run.instanceID), [runs]);
  useRuns(ids, (instanceID) => {
    const tell = ({ status }: { status: string }) => setTold((before) => new Map(before).set(instanceID, status as Summary["status"]));
    return { snapshot: tell, status: tell };
  });
  useEffect(() => {
    // What the list knows to have ended is not told any more: the run may be reopened.
    const ended = new Set(runs.filter((run) => ENDED.has(run.status)).map((run) => run.instanceID));
    // eslint-disable-next-line react-hooks/set-state-in-effect
    setTold((before) => ([...before.keys()].some((id) => ended.has(id)) ? new Map([...before].filter(([id]) => !ended.has(id))) : before));
  }, [runs]);
  return told;
}

interface Verb {
  readonly name: "Cancel" | "Retry";
  readonly doing: string;
  readonly done: string;
  readonly refused: string;
  readonly not: string;
  readonly about: string;
  readonly run: (instanceID: string) => Promise<unknown>;
}

const CANCEL: Verb = {
  name: "Cancel",
  doing: "Cancelling",
  done: "cancelled",
  refused: "had ended already",
  not: "Keep running",
  about: "Work under way is stopped; what was done stays done.",
  run: (instanceID) => call("cancel_run", { path: { instanceID } }),
};

const RETRY: Verb = {
  name: "Retry",
  doing: "Retrying",
  done: "go on",
  refused: "cannot be retried",
  not: "Not now",
  about: "Failed nodes are tried again; completed ones stay as they are.",
  // The server has left the room of the ended run.
  run: (instanceID) => call("retry_run", { path: { instanceID } }).then(() => useSession.getState().live?.joinAgain(instanceID)),
};

/** The same for several runs, one after the other, after it was said how many. */
function BulkDialog({ verb, runs, onClose }: { verb: Verb; runs: readonly Summary[]; onClose: () => void }): ReactElement {
  const [reached, setReached] = useState<number | null>(null);
  const act = async () => {
    let refused = 0;
    for (const [index, run] of runs.entries()) {
      setReached(index);
      await verb.run(run.instanceID).catch(() => (refused += 1));
    }
    refresh("list_runs");
    toast(`${runs.length - refused} ${verb.done}${refused > 0 ? `, ${refused} ${verb.refused}` : ""}.`);
    onClose();
  };
  const names = [...new Set(runs.map((run) => run.name))];
  return (
    <Dialog
      open
      onClose={onClose}
      title={`${verb.name} ${runs.length} ${runs.length === 1 ? "run" : "runs"}?`}
      about={`${names.length === 1 ? "Workflow" : "Workflows"}: ${names.slice(0, 4).join(", ")}${names.length > 4 ? ` and ${names.length - 4} more` : ""}. ${verb.about}`}
      footer={
        <>
          <Button onClick={onClose} disabled={reached !== null}>
            {verb.not}
          </Button>
          <Button look={verb === CANCEL ? "danger" : "primary"} disabled={reached !== null} onClick={() => void act()}>
            {reached === null ? `${verb.name} ${runs.length}` : `${verb.doing} ${reached + 1} of ${runs.length}`}
          </Button>
        </>
      }
    />
  );
}
