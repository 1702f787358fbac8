/* One run: what it was given, what its nodes do, how it ended, and its log.
 *
 * Called by app.js, which passes on what happens to the run. The first look comes by REST, what
 * happens then live; once the run has ended everything is read again, for then it is final.
 */

import { PAGE_MAX, request, withQuery } from "./api.js";
import { ENDED } from "./board.js";
import { element, readable, setNote, setStatus, setText, statusBadge, syncList } from "./dom.js";
import { RunLog } from "./run_log.js";
import { now, showAgo, showDuration } from "./times.js";

/** Activations that are loaded, and that are shown; a loop may have had a million of them. The log has them all. */
const STEPS_MAX = 3_000;
const SHOWN_MAX = 500;

/** Without a live connection the run is looked at again this often. */
const POLL_MS = 2_000;

const NODES_ENDED = new Set(["success", "error", "skipped", "cancelled"]);

export class RunView {
  #place;
  #follow;
  #isLive;
  #onRefusal;
  #run = null;
  #steps = new Map();
  #more = false;
  #seen = null;
  #log = null;
  #timer = null;
  #loading = null;

  /** `place` is filled; `follow(ids)` joins the run's room; `isLive()` tells whether polling can rest. */
  constructor(place, { follow, isLive, onRefusal }) {
    this.#place = place;
    this.#follow = follow;
    this.#isLive = isLive;
    this.#onRefusal = onRefusal;
  }

  async open(instanceID) {
    this.#run = { instanceID, status: null };
    this.#steps.clear();
    this.#seen = build(() => this.#cancel());
    this.#log = new RunLog(instanceID, this.#seen.log, this.#seen.logRows, this.#onRefusal);
    this.#place.replaceChildren(...this.#seen.all);
    this.#place.hidden = false;
    await this.#load();
    // The room is joined in any case: the end may come between the look and the joining.
    if (this.#run?.instanceID === instanceID && !this.#isOver()) this.#follow([instanceID]);
    if (this.#run?.instanceID === instanceID) this.#pollLater();
  }

  close() {
    clearTimeout(this.#timer);
    this.#place.hidden = true;
    this.#place.replaceChildren();
    this.#run = null;
    this.#loading = null;
    this.#follow([]);
  }

  snapshot(instanceID, { status, nodes }) {
    if (!this.#shows(instanceID)) return;
    nodes.forEach((node) => this.#apply(node));
    this.#showNodes();
    this.status({ instanceID, status });
  }

  node(update) {
    if (!this.#shows(update.instanceID)) return;
    this.#apply(update);
    this.#showNodes();
    this.#log.refreshSoon();
  }

  status({ instanceID, status }) {
    if (!this.#shows(instanceID) || this.#isOver()) return;
    this.#run.status = status;
    if (ENDED.has(status)) this.#load();
    else this.#showHead();
    this.#log.refreshSoon();
  }

  #shows(instanceID) {
    return this.#run?.instanceID === instanceID && this.#run.status !== null;
  }

  #isOver() {
    return this.#run !== null && Boolean(this.#run.completedAt);
  }

  async #load() {
    const { instanceID } = this.#run;
    // Two looks at once could be shown in the wrong order; only the latest one counts.
    const loading = (this.#loading = Symbol(instanceID));
    const path = `/runs/${encodeURIComponent(instanceID)}`;
    try {
      const run = await request(path);
      if (this.#loading !== loading) return;
      this.#run = run;
      this.#showHead(); // what came of it is there at once, before hundreds of nodes are
      let cursor = null;
      let read = 0;
      do {
        const page = await request(withQuery(`${path}/steps`, { limit: PAGE_MAX, cursor }));
        if (this.#loading !== loading) return;
        for (const step of page.items) this.#steps.set(nodeKey(step), { ...step });
        read += page.items.length;
        cursor = page.nextCursor;
        if (read === page.items.length) this.#showNodes();
      } while (cursor !== null && read < STEPS_MAX);
      this.#more = cursor !== null;
      this.#showHead();
      this.#showNodes();
      if (this.#isOver()) this.#log.refreshSoon();
      this.#onRefusal(null);
    } catch (refusal) {
      if (this.#loading !== loading) return;
      if (refusal.status === 404) this.#showAbsence();
      else this.#onRefusal(refusal);
    }
  }

  #pollLater() {
    if (this.#isOver()) return;
    this.#timer = setTimeout(async () => {
      const { instanceID } = this.#run;
      if (!document.hidden && (!this.#isLive() || this.#run.status === null)) {
        await this.#load();
        this.#log.refreshSoon();
      }
      if (this.#run?.instanceID === instanceID) this.#pollLater();
    }, POLL_MS);
  }

  /** Take what is told live into what is known; times are ours until the run is read again. */
  #apply(update) {
    const key = nodeKey(update);
    const known = this.#steps.get(key);
    if (known === undefined && this.#more) return;
    if (known !== undefined && (update.seq ?? Infinity) < (known.seq ?? 0)) return;
    const at = new Date(now()).toISOString();
    const ended = NODES_ENDED.has(update.status);
    this.#steps.set(key, {
      ...known,
      ...update,
      startedAt: update.startedAt ?? known?.startedAt ?? (update.status === "skipped" ? null : at),
      endedAt: update.endedAt ?? (ended ? (known?.endedAt ?? at) : null),
    });
  }

  #showHead() {
    const [run, seen] = [this.#run, this.#seen];
    setText(seen.title, run.name ?? (run.test ? "Test run" : "Run without a workflow"));
    setStatus(seen.badge, run.status);
    setText(seen.facts, run.version == null ? "" : `version ${run.version}`);
    setText(seen.id, run.instanceID);
    setText(seen.begun, run.startedAt ? "started" : "created");
    showAgo(seen.started, run.startedAt ?? run.createdAt);
    setText(seen.lasts, !run.startedAt ? "" : run.completedAt ? "took" : "for");
    showDuration(seen.took, run.startedAt, run.completedAt);
    seen.cancel.hidden = ENDED.has(run.status);
    showBlock(seen.input, run.input);
    showBlock(seen.output, run.status === "COMPLETED" ? run.output : undefined);
    setNote(seen.error, run.error ? this.#blame() + describeError(run.error) : null);
    setNote(seen.note, run.note ? noteText(run.note) : null);
    document.title = `${run.status.toLowerCase()}: ${run.name ?? "run"} – anabranch`;
  }

  /** The node whose failure ended the run: there may be hundreds to look through. */
  #blame() {
    const failed = [...this.#steps.values()].filter(({ status }) => status === "error").at(-1);
    return failed === undefined ? "" : `${nodeName(failed)}: `;
  }

  #showNodes() {
    const known = [...this.#steps.values()];
    // Where not all fit, those come first that somebody looks for.
    const steps =
      known.length > SHOWN_MAX ? known.sort((one, other) => urgency(one) - urgency(other)).slice(0, SHOWN_MAX) : known;
    syncList(this.#seen.nodes, steps, nodeKey, makeNode, updateNode);
    const none = ENDED.has(this.#run.status) ? "No node ran." : "Nothing has begun yet.";
    setNote(this.#seen.nodesEmpty, steps.length > 0 ? null : none);
    const all = `${this.#more ? "more than " : ""}${known.length.toLocaleString()}`;
    const some = `${steps.length} of ${all} are shown, those that failed or were tried again first; the log has all of them.`;
    setNote(this.#seen.nodesMore, known.length > steps.length || this.#more ? some : null);
  }

  #showAbsence() {
    clearTimeout(this.#timer);
    this.#run = null;
    this.#place.replaceChildren(
      element("h1", {}, "No such run"),
      element("p", {}, "It may have been removed when its retention ended, or the address is not complete."),
      element("p", {}, element("a", { href: "#/" }, "Back to all runs")),
    );
  }

  async #cancel() {
    const seen = this.#seen;
    const { instanceID } = this.#run;
    setNote(seen.problem, null);
    seen.cancel.disabled = true;
    try {
      await request(`/runs/${encodeURIComponent(instanceID)}/cancel`, { method: "POST" });
    } catch (refusal) {
      if (refusal.code !== "RUN_IS_TERMINAL") setNote(seen.problem, refusal.advice);
    }
    seen.cancel.disabled = false;
    if (this.#run?.instanceID === instanceID) await this.#load();
  }
}

/** The frame of the page, with names for the places that change. */
function build(cancel) {
  const text = (tag, attributes) => element(tag, attributes);
  const seen = {
    title: text("h1", { id: "run-title" }),
    badge: statusBadge("pending"),
    facts: text("span"),
    id: text("code"),
    begun: text("span"),
    started: text("time"),
    lasts: text("span"),
    took: text("time"),
    problem: text("p", { class: "problem", role: "alert", hidden: true }),
    error: text("p", { class: "problem", hidden: true }),
    note: text("p", { class: "note", hidden: true }),
    nodes: text("ul", { class: "nodes" }),
    nodesEmpty: text("p", { class: "empty", hidden: true }),
    nodesMore: text("p", { class: "faint", hidden: true }),
    input: block("Input"),
    output: block("Output"),
    logRows: text("ol", { class: "log" }),
  };
  seen.cancel = element("button", { type: "button", class: "danger", hidden: true }, "Cancel run");
  askTwice(seen.cancel, "Really cancel?", cancel);
  seen.log = element("details", { class: "block" }, element("summary", {}, "Log"), seen.logRows);
  const began = element("span", {}, seen.begun, " ", seen.started);
  const lasted = element("span", {}, seen.lasts, " ", seen.took);
  const facts = element("p", { class: "facts" }, seen.badge, seen.facts, seen.id, began, lasted);
  seen.all = [
    element("p", { class: "back" }, element("a", { href: "#/" }, "← All runs")),
    element("div", { class: "heading" }, element("div", {}, seen.title, facts), seen.cancel),
    seen.problem,
    seen.error,
    seen.note,
    element(
      "div",
      { class: "columns" },
      element("section", {}, element("h2", {}, "Nodes"), seen.nodesEmpty, seen.nodes, seen.nodesMore),
      element("section", {}, seen.output, seen.input, seen.log),
    ),
  ];
  return seen;
}

/** A click asks, a second one does it; what is not meant is forgotten when the button is left. */
function askTwice(button, question, act) {
  const name = button.textContent;
  let asked = false;
  const forget = () => {
    asked = false;
    setText(button, name);
  };
  button.addEventListener("blur", forget);
  button.addEventListener("keydown", ({ key }) => key === "Escape" && forget());
  button.addEventListener("click", () => {
    if (!asked) {
      asked = true;
      setText(button, question);
      return;
    }
    forget();
    act();
  });
}

function block(name) {
  return element("details", { class: "block", open: true }, element("summary", {}, name), element("pre"));
}

/** A value that is not there hides its block; null is a value. */
function showBlock(place, value) {
  place.hidden = value === undefined;
  if (value !== undefined) setText(place.lastElementChild, readable(value));
}

function nodeKey({ nodeID, scope }) {
  return JSON.stringify([nodeID, scope]);
}

function makeNode() {
  const summary = element(
    "summary",
    {},
    statusBadge("running"),
    element("span", { class: "what" }),
    element("span", { class: "attempt" }),
    element("time", { class: "took" }),
  );
  return element("li", {}, element("details", {}, summary, element("p", { class: "problem" }), element("pre")));
}

function updateNode(item, step) {
  const [summary, problem, output] = item.firstElementChild.children;
  const [badge, what, attempt, took] = summary.children;
  setStatus(badge, step.status);
  setText(what, nodeName(step));
  setText(attempt, step.attempt > 1 ? `attempt ${step.attempt}` : "");
  showDuration(took, step.startedAt, step.endedAt);
  setNote(problem, step.error ? describeError(step.error) : null);
  output.hidden = Boolean(step.error);
  setText(output, outputText(step));
}

/** How soon a node is looked for among many: what failed, what was tried again, what is open, what is in no loop. */
function urgency({ status, attempt, scope }) {
  if (status === "error") return 0;
  if (attempt > 1) return 1;
  if (!NODES_ENDED.has(status)) return 2;
  return scope === "" ? 3 : 4;
}

/** A loop's iteration is named before the node; a step that a program repeats is told by its number. */
function nodeName({ nodeID, scope }) {
  if (!scope) return nodeID;
  return scope.startsWith("#") ? nodeID + scope : `${scope} › ${nodeID}`;
}

function outputText({ status, output }) {
  const without = { skipped: "Skipped: no edge led here.", cancelled: "Cancelled.", success: null };
  if (without[status] !== null) return without[status] ?? "No output yet.";
  if (output?.truncated === true && typeof output.bytes === "number") {
    return `${output.bytes.toLocaleString()} bytes: too long to be sent live. Reload the page to see it.`;
  }
  return output === undefined ? "" : readable(output);
}

function describeError(error) {
  if (typeof error === "string") return error;
  const message = [error.code, error.message].filter(Boolean).join(": ");
  return [message || readable(error), error.hint].filter(Boolean).join("\n");
}

function noteText(note) {
  return typeof note === "string" ? note : (note.reason ?? note.message ?? readable(note));
}
