/* The board: workflows on one side, the newest runs on the other.
 *
 * Called by app.js, which says what to show and passes on what happens to followed runs. Lists are
 * polled gently while somebody looks, for only that tells of new runs; what happens to a run that
 * is shown comes live. Knows lists and rows; starting a run is start_form.js, its details are run.js.
 */

import { PAGE_MAX, request, withQuery } from "./api.js";
import { byId, element, setNote, setStatus, setText, statusBadge, syncList } from "./dom.js";
import { startForm } from "./start_form.js";
import { now, showAgo, showDuration } from "./times.js";

/** A new run is to be seen within two seconds. */
const RUNS_POLL_MS = 1_500;

/** The server's counts of runs may lag five seconds: asking more often would bring nothing. */
const WORKFLOWS_POLL_MS = 5_000;

const RUNS_PER_PAGE = 50;

export const ENDED = new Set(["COMPLETED", "FAILED", "CANCELLED"]);

const COUNTS_SHOWN = ["RUNNING", "WAITING", "PENDING", "COMPLETED", "FAILED", "CANCELLED"];

export class Board {
  #follow;
  #onRefusal;
  #workflows = [];
  #workflowsCursor = null;
  #newest = [];
  #older = [];
  #olderCursor = null;
  #live = new Map();
  #filter = { workflowID: null, status: "" };
  #round = 0;
  #timers = [];

  /** `follow(ids)` joins the rooms of these runs; `onRefusal(refusal | null)` hears how each poll ended. */
  constructor(follow, onRefusal) {
    this.#follow = follow;
    this.#onRefusal = onRefusal;
    byId("status").addEventListener("change", ({ target }) => this.#choose({ status: target.value }));
    byId("more-runs").addEventListener("click", () => this.#showOlder());
    byId("more-workflows").addEventListener("click", () => this.#showMoreWorkflows());
  }

  /** Show the runs of one workflow, or of all (null), and keep them up to date until `close`. */
  open(workflowID) {
    byId("board").hidden = false;
    this.#choose({ workflowID });
    this.#poll(WORKFLOWS_POLL_MS, (stillWanted) => this.#loadWorkflows(stillWanted));
  }

  close() {
    byId("board").hidden = true;
    this.#stop();
    this.#follow([]);
  }

  /** A followed run has another status. */
  status({ instanceID, status }) {
    if (byId("board").hidden) return;
    this.#live.set(instanceID, { status, at: now() });
    this.#showRuns();
  }

  #choose(change) {
    this.#filter = { ...this.#filter, ...change };
    this.#newest = [];
    this.#older = [];
    this.#stop();
    this.#poll(RUNS_POLL_MS, (stillWanted) => this.#loadRuns(stillWanted));
    if (!("workflowID" in change)) this.#poll(WORKFLOWS_POLL_MS, (stillWanted) => this.#loadWorkflows(stillWanted));
    this.#showFilter();
  }

  /** Do it now, then again and again; not while the page is hidden. */
  async #poll(pause_ms, load) {
    const round = this.#round;
    const again = async () => {
      try {
        if (!document.hidden) {
          await load(() => round === this.#round);
          if (round === this.#round) this.#onRefusal(null);
        }
      } catch (refusal) {
        if (round === this.#round) this.#onRefusal(refusal);
      }
      if (round === this.#round) this.#timers.push(setTimeout(again, pause_ms));
    };
    await again();
  }

  #stop() {
    this.#round++;
    this.#timers.splice(0).forEach(clearTimeout);
  }

  #runsPath(cursor) {
    const { workflowID, status } = this.#filter;
    const path = workflowID === null ? "/runs" : `/workflows/${encodeURIComponent(workflowID)}/runs`;
    return withQuery(path, { limit: RUNS_PER_PAGE, status, cursor });
  }

  async #loadRuns(stillWanted) {
    const asked = now();
    const page = await request(this.#runsPath(null));
    if (!stillWanted()) return;
    const known = new Set(this.#newest.map((run) => run.instanceID));
    // Where a whole page is new, runs are missing between it and the older ones: these are let go.
    if (this.#older.length === 0 || !page.items.some((run) => known.has(run.instanceID))) {
      this.#older = [];
      this.#olderCursor = page.nextCursor;
    } else {
      const shown = new Set(page.items.map((run) => run.instanceID));
      this.#older = [...this.#newest, ...this.#older].filter((run) => !shown.has(run.instanceID));
    }
    this.#newest = page.items;
    for (const run of page.items) {
      // What came live while the list was on its way is newer than the list.
      if ((this.#live.get(run.instanceID)?.at ?? 0) < asked) this.#live.delete(run.instanceID);
    }
    this.#showRuns();
  }

  async #showOlder() {
    const round = this.#round;
    try {
      const page = await request(this.#runsPath(this.#olderCursor));
      if (round !== this.#round) return;
      this.#older.push(...page.items);
      this.#olderCursor = page.nextCursor;
      this.#showRuns();
    } catch (refusal) {
      this.#onRefusal(refusal);
    }
  }

  #showRuns() {
    const runs = [...new Map([...this.#older, ...this.#newest].map((run) => [run.instanceID, run])).values()]
      .map((run) => this.#asKnownLive(run))
      .filter((run) => !this.#filter.status || run.status === this.#filter.status)
      .sort((one, other) => compare(other.createdAt, one.createdAt) || compare(other.instanceID, one.instanceID));
    syncList(byId("runs"), runs, (run) => run.instanceID, makeRow, updateRow);
    byId("more-runs").hidden = this.#olderCursor === null;
    setNote(byId("runs-empty"), runs.length > 0 ? null : this.#emptiness());
    this.#follow(runs.filter((run) => !ENDED.has(run.status)).map((run) => run.instanceID));
  }

  #asKnownLive(run) {
    const live = this.#live.get(run.instanceID);
    if (live === undefined || ENDED.has(run.status)) return run;
    const at = new Date(live.at).toISOString();
    return {
      ...run,
      status: live.status,
      startedAt: run.startedAt ?? (live.status === "PENDING" ? null : at),
      completedAt: run.completedAt ?? (ENDED.has(live.status) ? at : null),
    };
  }

  #emptiness() {
    if (this.#filter.status) return `No run is ${this.#filter.status} here.`;
    if (this.#workflows.length === 0 && this.#filter.workflowID === null) {
      return "No runs yet. Once there is a workflow, start it here.";
    }
    return "No runs yet. Press Start beside a workflow.";
  }

  async #loadWorkflows(stillWanted) {
    const page = await request(withQuery("/workflows", { limit: PAGE_MAX }));
    if (!stillWanted()) return;
    const first = new Set(page.items.map((workflow) => workflow.workflowID));
    const rest = this.#workflows.filter((workflow) => workflow.beyondFirstPage && !first.has(workflow.workflowID));
    this.#workflows = [...page.items, ...rest];
    if (rest.length === 0) this.#workflowsCursor = page.nextCursor;
    this.#showWorkflows();
  }

  async #showMoreWorkflows() {
    try {
      const page = await request(withQuery("/workflows", { limit: PAGE_MAX, cursor: this.#workflowsCursor }));
      this.#workflows.push(...page.items.map((workflow) => ({ ...workflow, beyondFirstPage: true })));
      this.#workflowsCursor = page.nextCursor;
      this.#showWorkflows();
    } catch (refusal) {
      this.#onRefusal(refusal);
    }
  }

  #showWorkflows() {
    const make = (workflow) => makeCard(workflow, () => this.#loadRuns(() => true).catch(this.#onRefusal));
    syncList(byId("workflows"), this.#workflows, (workflow) => workflow.workflowID, make, updateCard);
    byId("workflows-empty").hidden = this.#workflows.length > 0;
    byId("more-workflows").hidden = this.#workflowsCursor === null;
    this.#showFilter();
  }

  #showFilter() {
    const { workflowID } = this.#filter;
    byId("filter").hidden = workflowID === null;
    const chosen = this.#workflows.find((workflow) => workflow.workflowID === workflowID);
    setText(byId("filter-name"), chosen ? chosen.title || chosen.name : (workflowID ?? ""));
    for (const card of byId("workflows").children) card.classList.toggle("chosen", card.dataset.key === workflowID);
  }
}

function makeRow(run) {
  return element(
    "li",
    {},
    element(
      "a",
      { class: "row", href: `#/runs/${encodeURIComponent(run.instanceID)}` },
      statusBadge(run.status),
      element("span", { class: "what" }),
      element("code", { class: "id", title: run.instanceID }, shortID(run.instanceID)),
      element("time", { class: "started" }),
      element("time", { class: "took" }),
    ),
  );
}

function updateRow(row, run) {
  const [badge, what, , started, took] = row.firstElementChild.children;
  setStatus(badge, run.status);
  setText(what, run.name ?? (run.test ? "test run" : "run without a workflow"));
  showAgo(started, run.startedAt ?? run.createdAt);
  showDuration(took, run.startedAt, run.completedAt);
}

function makeCard(workflow, started) {
  const form = startForm(workflow.workflowID, started);
  const title = element("a", { class: "title", href: `#/workflows/${encodeURIComponent(workflow.workflowID)}` });
  const facts = element("p", { class: "facts" }, element("code"), element("span"));
  const counts = element("ul", { class: "counts", "aria-label": "Runs by status" });
  const head = element("div", { class: "card-head" }, element("div", {}, element("h2", {}, title), facts), form.button);
  return element("li", { class: "card" }, head, counts, form.panel);
}

function updateCard(card, workflow) {
  setText(card.querySelector(".title"), workflow.title || workflow.name);
  const [name, version] = card.querySelector(".facts").children;
  setText(name, workflow.name);
  setText(version, `version ${workflow.version}${workflow.kind === "coded" ? " · coded" : ""}`);
  const counted = COUNTS_SHOWN.filter((status) => workflow.runCounts?.[status] > 0);
  syncList(
    card.querySelector(".counts"),
    counted,
    (status) => status,
    (status) => element("li", {}, statusBadge(status), element("b")),
    (item, status) => setText(item.lastElementChild, workflow.runCounts[status].toLocaleString()),
  );
}

/** The end of an id: ids of one moment begin alike. */
function shortID(instanceID) {
  return instanceID.slice(-8);
}

function compare(one, other) {
  return one < other ? -1 : Number(one > other);
}
