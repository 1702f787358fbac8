/** All workflows: what they are, how their runs went, what comes next; and new ones. */

import { ChevronDown, Download, MoreHorizontal, Pause, Play, Plus, Search, Trash2, Workflow as WorkflowIcon } from "lucide-react";
import { useDeferredValue, useMemo, useRef, useState, type ReactElement } from "react";
import { Link, useNavigate } from "react-router";

import { ApiError, call, callText, type Schemas } from "../../api/client";
import { Button, IconButton } from "../../ui/Button";
import { Dialog } from "../../ui/Dialog";
import { Menu, type MenuEntry } from "../../ui/Menu";
import { Empty, Problem, Skeleton } from "../../ui/Notice";
import { Status, StatusIcon } from "../../ui/Status";
import { absolute, Ago } from "../../ui/time";
import { toast } from "../../ui/toasts";
import { refresh, useAsk } from "../data";
import { useMay } from "../session";
import { StartDialog } from "../start/StartDialog";
import { useTitle } from "../title";
import { saveFile } from "./files";
import { Gallery, GalleryDialog } from "./Gallery";
import { ImportReportDialog, importN8n, isN8n, type ImportedWorkflow } from "./ImportReport";
import { BLANK, createDraft } from "./newWorkflow";
import { TenantPause } from "./TenantPause";
import "./workflows.css";

type Summary = Schemas["WorkflowSummary"];

/** Counts of runs lag that much on the server; asking more often shows nothing newer. */
const EVERY_MS = 5_000;

/** With so few workflows the page has room for the templates: the sample of `anabranch dev` is one. */
const FEW = 1;

export function WorkflowsPage(): ReactElement {
  useTitle("Workflows");
  const [limit, setLimit] = useState(100);
  const workflows = useAsk("list_workflows", { query: { limit: 100, counts: "24h" } }, { everyMs: EVERY_MS });
  const drafts = useAsk("list_drafts", { query: { limit: 100 } }, { everyMs: EVERY_MS });
  const schedules = useAsk("list_schedules", { query: { limit: 100 } }, { everyMs: 30_000 });
  const [search, setSearch] = useState("");
  const wanted = useDeferredValue(search.trim().toLowerCase());
  const [started, setStarted] = useState<Summary | null>(null);
  const [deleted, setDeleted] = useState<Summary | null>(null);
  const mayEdit = useMay("editor");

  const draftOf = useMemo(() => new Map(drafts.data?.items.map((draft) => [draft.workflow, draft]) ?? []), [drafts.data]);
  const nextOf = useMemo(() => {
    const next = new Map<string, string>();
    for (const { workflow, nextAt, enabled } of schedules.data?.items ?? []) {
      const known = next.get(workflow);
      if (enabled && nextAt !== null && (known === undefined || nextAt < known)) next.set(workflow, nextAt);
    }
    return next;
  }, [schedules.data]);
  const items = workflows.data?.items ?? [];
  const shown = items.filter(({ name, title }) => `${name} ${title ?? ""}`.toLowerCase().includes(wanted));
  const fresh = (drafts.data?.items ?? []).filter((draft) => draft.workflow === null);

  return (
    <div className="content">
      <div className="content-head">
        <h1>Workflows</h1>
        <div className="search-field">
          <Search size={15} aria-hidden />
          <input className="input" type="search" aria-label="Search workflows" placeholder="Search" value={search} onChange={(event) => setSearch(event.target.value)} />
        </div>
        {mayEdit && <NewWorkflow />}
      </div>
      <TenantPause />
      {workflows.error && <Problem error={workflows.error} onRetry={() => void workflows.refetch()} />}
      {fresh.length > 0 && <NewDrafts drafts={fresh} />}
      {workflows.isPending ? (
        <Skeleton />
      ) : items.length === 0 ? (
        <div className="card">
          <Empty icon={<WorkflowIcon size={32} />} title="No workflow yet" action={mayEdit && <NewWorkflow />}>
            A workflow is a graph of nodes: what happens, in which order, and what is waited for. Draw one, or begin with a template.
          </Empty>
        </div>
      ) : shown.length === 0 ? (
        <div className="card">
          <Empty title={`No workflow is called “${search}”`} action={<Button onClick={() => setSearch("")}>Clear the search</Button>} />
        </div>
      ) : (
        <div className="card scroll-x">
          <table className="table collapses workflows">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Version</th>
                <th scope="col">Last 24 h</th>
                <th scope="col">Next</th>
                <th scope="col">Changed</th>
                <th scope="col">
                  <span className="visually-hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.slice(0, limit).map((workflow) => (
                <Row
                  key={workflow.workflowID}
                  workflow={workflow}
                  hasDraft={draftOf.has(workflow.workflowID)}
                  next={nextOf.get(workflow.name) ?? nextOf.get(workflow.workflowID) ?? null}
                  onStart={() => setStarted(workflow)}
                  onDelete={() => setDeleted(workflow)}
                />
              ))}
            </tbody>
          </table>
          {shown.length > limit && (
            <p style={{ padding: 12 }}>
              <Button onClick={() => setLimit(limit + 100)}>Show {shown.length - limit} more</Button>
            </p>
          )}
        </div>
      )}
      {mayEdit && workflows.data !== undefined && items.length <= FEW && (
        <section aria-labelledby="gallery" className="begin">
          <h2 id="gallery">Begin with a template</h2>
          <Gallery />
        </section>
      )}
      {started && <StartDialog workflow={started} onClose={() => setStarted(null)} />}
      {deleted && <DeleteDialog workflow={deleted} onClose={() => setDeleted(null)} />}
    </div>
  );
}

interface RowProps {
  workflow: Summary;
  hasDraft: boolean;
  next: string | null;
  onStart: () => void;
  onDelete: () => void;
}

function Row({ workflow, hasDraft, next, onStart, onDelete }: RowProps): ReactElement {
  const mayStart = useMay("operator");
  const mayEdit = useMay("editor");
  const navigate = useNavigate();
  const { name, title, kind, version, activeVersion, paused, runCounts, updatedAt, workflowID } = workflow;
  const path = `/workflows/${encodeURIComponent(name)}`;
  return (
    <tr>
      <td className="wide">
        <Link to={path} className="title">
          {title ?? name}
        </Link>
        <span className="row small faint">
          <code>{name}</code>
          {kind === "coded" && <span className="badge">coded</span>}
          {hasDraft && <span className="badge accent">draft</span>}
          {paused && (
            <span className="badge" title={`Since ${absolute(paused.since)}, by ${paused.by}`}>
              paused
            </span>
          )}
        </span>
      </td>
      <td className="numbers tight">
        v{version} {activeVersion !== version && <span className="badge">v{activeVersion} active</span>}
      </td>
      <td>
        <Counts counts={runCounts} name={name} />
      </td>
      <td className="tight">{next === null ? <span className="faint">–</span> : <Ago time={next} />}</td>
      <td className="tight faint">
        <Ago time={updatedAt} />
      </td>
      <td className="tight">
        <div className="row" style={{ justifyContent: "flex-end" }}>
          {mayStart && (
            <Button small onClick={onStart} aria-label={`Start ${title ?? name}`}>
              <Play size={13} aria-hidden /> Start
            </Button>
          )}
          <Menu
            trigger={<IconButton label={`More about ${title ?? name}`} icon={<MoreHorizontal size={16} />} small />}
            entries={[
              { label: mayEdit && kind === "drawn" ? "Edit" : "Open", icon: <WorkflowIcon size={15} />, onSelect: () => void navigate(path) },
              { label: "Runs", icon: <Play size={15} />, onSelect: () => void navigate(`/runs?workflow=${encodeURIComponent(name)}`) },
              ...(kind === "drawn" ? [{ label: "Export", icon: <Download size={15} />, onSelect: () => void exportWorkflow(workflowID, name) }] : []),
              ...(mayEdit ? [pauseEntry(name, paused !== null)] : []),
              ...(mayEdit && kind === "drawn" ? [null, { label: "Delete…", icon: <Trash2 size={15} />, danger: true, onSelect: onDelete }] : []),
            ]}
          />
        </div>
      </td>
    </tr>
  );
}

/** While a workflow is paused none of its runs goes on. */
function pauseEntry(name: string, isPaused: boolean): MenuEntry {
  const press = () => {
    call(isPaused ? "resume_workflow" : "pause_workflow", { path: { workflow: name } }).then(
      () => refresh("list_workflows", "list_runs"),
      (failure: unknown) => toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" }),
    );
  };
  return { label: isPaused ? "Resume" : "Pause", icon: isPaused ? <Play size={15} /> : <Pause size={15} />, onSelect: press };
}

/** What is open now, and what ended in the last 24 hours. */
const COUNTED = { COMPLETED: "in the last 24 hours", FAILED: "in the last 24 hours", RUNNING: "now", WAITING: "now", SUSPENDED: "now", PENDING: "now", CANCELLED: "in the last 24 hours" } as const;

function Counts({ counts, name }: { counts: Record<string, number>; name: string }): ReactElement {
  const shown = (Object.keys(COUNTED) as (keyof typeof COUNTED)[]).filter((status) => (counts[status] ?? 0) > 0);
  if (shown.length === 0) return <span className="faint">none</span>;
  return (
    <span className="row row-wrap" style={{ gap: 10 }}>
      {shown.map((status) => (
        <Link
          key={status}
          to={`/runs?workflow=${encodeURIComponent(name)}&status=${status}`}
          className="status numbers count"
          data-status={status.toLowerCase()}
          aria-label={`${counts[status]} ${status.toLowerCase()}`}
          title={`${status.toLowerCase()} ${COUNTED[status]}`}
        >
          <StatusIcon status={status} />
          {counts[status]!.toLocaleString("en")}
        </Link>
      ))}
    </span>
  );
}

function NewDrafts({ drafts }: { drafts: readonly Schemas["DraftSummary"][] }): ReactElement {
  return (
    <section className="card" aria-labelledby="new-drafts">
      <h2 id="new-drafts" style={{ padding: "12px 12px 4px" }}>
        Not published yet
      </h2>
      <ul className="new-drafts">
        {drafts.map(({ draftID, title, updatedAt }) => (
          <li key={draftID}>
            <Link to={`/drafts/${encodeURIComponent(draftID)}`} className="title">
              {title || "Untitled"}
            </Link>
            <span className="faint small">
              changed <Ago time={updatedAt} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function NewWorkflow(): ReactElement {
  const navigate = useNavigate();
  const file = useRef<HTMLInputElement>(null);
  const [isGallery, setGallery] = useState(false);
  const [imported, setImported] = useState<readonly ImportedWorkflow[] | null>(null);
  const tell = (failure: unknown) => toast(failure instanceof ApiError ? failure.advice : (failure as Error).message, { kind: "error" });
  const create = (document: string) => {
    if (isN8n(document)) importN8n(document).then(setImported, tell);
    else createDraft(document).then((draftID) => void navigate(`/drafts/${encodeURIComponent(draftID)}`), tell);
  };
  return (
    <>
      <Menu
        trigger={
          <Button look="primary">
            <Plus size={15} /> New <ChevronDown size={14} />
          </Button>
        }
        entries={[
          { label: "Blank workflow", onSelect: () => create(BLANK) },
          { label: "From a template…", onSelect: () => setGallery(true) },
          { label: "Import a file…", onSelect: () => file.current?.click() },
        ]}
      />
      <input
        ref={file}
        type="file"
        accept="application/json,.json"
        hidden
        aria-label="File to import"
        onChange={(event) => {
          const [chosen] = event.target.files ?? [];
          event.target.value = "";
          if (chosen) void chosen.text().then(create);
        }}
      />
      {imported && <ImportReportDialog imported={imported} onClose={() => setImported(null)} />}
      {isGallery && <GalleryDialog onClose={() => setGallery(false)} />}
    </>
  );
}

async function exportWorkflow(workflowID: string, name: string): Promise<void> {
  try {
    const { text } = await callText("get_workflow_document", { path: { workflow: workflowID } });
    saveFile(`${name}.json`, text);
  } catch (failure) {
    toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" });
  }
}

function DeleteDialog({ workflow, onClose }: { workflow: Summary; onClose: () => void }): ReactElement {
  const [problem, setProblem] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const hasRuns = problem instanceof ApiError && problem.code === "WORKFLOW_HAS_RUNS";
  const remove = () => {
    setBusy(true);
    call("delete_workflow", { path: { workflow: workflow.workflowID }, query: hasRuns ? { force: true } : {} })
      .then(() => {
        refresh("list_workflows");
        toast(`${workflow.title ?? workflow.name} is deleted. Its ended runs stay readable.`);
        onClose();
      }, setProblem)
      .finally(() => setBusy(false));
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Delete ${workflow.title ?? workflow.name}?`}
      about="All its versions go, and its name is free again. Runs that have ended stay readable."
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" disabled={isBusy} onClick={remove}>
            {hasRuns ? "Cancel its runs and delete it" : "Delete"}
          </Button>
        </>
      }
    >
      {problem !== null && <Problem error={problem} />}
      {hasRuns && (
        <p>
          <Status status="RUNNING" /> Some of its runs are still open.
        </p>
      )}
    </Dialog>
  );
}
