/* The log of a run: one line per event, read when somebody opens it and kept up to date while it is open.
 *
 * Called by run.js. The log only grows, so what was read stays; only the last page is read again.
 */

import { PAGE_MAX, request, withQuery } from "./api.js";
import { element, readable, setText } from "./dom.js";

/** Events that are shown; who needs more of a long log has the API and the command line. */
const EVENTS_MAX = 1_000;

/** Updates come in flocks: one look serves all that came within this time. */
const LOOK_MS = 500;

export class RunLog {
  #path;
  #frame;
  #rows;
  #onRefusal;
  #cursor = null;
  #last = 0;
  #timer = null;
  #looking = false;

  /** `frame` is a `details` element: the log is read only while it is open; `rows` is the list in it. */
  constructor(instanceID, frame, rows, onRefusal) {
    this.#path = `/runs/${encodeURIComponent(instanceID)}/log`;
    this.#frame = frame;
    this.#rows = rows;
    this.#onRefusal = onRefusal;
    frame.addEventListener("toggle", () => this.refreshSoon());
  }

  /** Something happened: read on, soon. */
  refreshSoon() {
    if (this.#timer !== null) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#refresh();
    }, this.#last === 0 ? 0 : LOOK_MS);
  }

  async #refresh() {
    if (!this.#frame.open || !this.#frame.isConnected || this.#rows.childElementCount > EVENTS_MAX) return;
    if (this.#looking) return this.refreshSoon();
    this.#looking = true;
    try {
      let next = this.#cursor;
      do {
        this.#cursor = next;
        const page = await request(withQuery(this.#path, { limit: PAGE_MAX, cursor: next }));
        this.#add(page.items);
        next = page.nextCursor;
      } while (next !== null && this.#rows.childElementCount < EVENTS_MAX);
      if (next !== null) this.#rows.append(element("li", { class: "faint" }, "The log goes on: see the API."));
    } catch (refusal) {
      this.#onRefusal(refusal);
    } finally {
      this.#looking = false;
    }
  }

  #add(events) {
    const fresh = events.filter((event) => event.seq > this.#last);
    this.#rows.append(...fresh.map(makeLine));
    this.#last = fresh.at(-1)?.seq ?? this.#last;
  }
}

function makeLine(event) {
  const when = new Date(event.createdAt);
  const line = element(
    "summary",
    {},
    element("span", { class: "seq" }, String(event.seq)),
    element("time", { datetime: event.createdAt, title: when.toLocaleString() }, clock(when)),
    element("b", {}, event.eventType),
    element("span", { class: "what" }, [event.scope, event.nodeID].filter(Boolean).join(" › ")),
    element("span", { class: "problem-text" }, event.errorMessage ?? ""),
  );
  const details = element("details", {}, line);
  // Payloads are written out only for who looks: a thousand of them are megabytes of text.
  details.addEventListener("toggle", () => {
    if (details.childElementCount > 1) return;
    const content = element("pre");
    setText(content, readable(event.payload));
    details.append(content);
  });
  return element("li", {}, details);
}

function clock(when) {
  const parts = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 };
  return when.toLocaleTimeString([], { ...parts, hourCycle: "h23" });
}
