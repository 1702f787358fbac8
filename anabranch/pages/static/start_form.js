/* Starting a run: a button beside a workflow, and the small form for its input that the button opens.
 *
 * Called by board.js for each workflow. Where the workflow says by a schema what it takes, the form
 * opens with a value of that shape, so that nobody has to know the names by heart.
 */

import { request } from "./api.js";
import { element, setNote } from "./dom.js";

const EMPTY = "{}";

/** Deeper objects of a schema are left for the person to fill in. */
const SKETCH_DEPTH_MAX = 3;

/** The button, and the panel that it opens and closes; `begun()` is called once a run has started. */
export function startForm(workflowID, begun) {
  const path = `/workflows/${encodeURIComponent(workflowID)}`;
  const inputID = `input-${workflowID}`;
  const input = element("textarea", { id: inputID, rows: 4, spellcheck: "false", autocomplete: "off" });
  const problem = element("p", { class: "problem", role: "alert", hidden: true });
  const started = element("p", { class: "started-note", role: "status", hidden: true });
  const send = element("button", { type: "submit", class: "main" }, "Start the run");
  const form = element(
    "form",
    { class: "start", hidden: true },
    element("label", { for: inputID }, "Input, as JSON"),
    input,
    problem,
    element("div", { class: "actions" }, send, element("span", { class: "faint" }, "or Ctrl + Enter")),
    started,
  );
  const button = element("button", { type: "button", "aria-expanded": "false", onclick: toggle }, "Start");

  async function toggle() {
    form.hidden = !form.hidden;
    button.setAttribute("aria-expanded", String(!form.hidden));
    if (form.hidden) return;
    input.focus();
    if (input.value === "") {
      input.value = EMPTY;
      input.value = await sketchFor(path, input);
    }
  }

  async function start() {
    setNote(problem, null);
    setNote(started, null);
    let value;
    try {
      value = JSON.parse(input.value);
    } catch (fault) {
      setNote(problem, `This is not JSON: ${fault.message}. Texts need double quotes; nothing at all is {}.`);
      input.focus();
      return;
    }
    send.disabled = true;
    try {
      const run = await request(`${path}/runs`, { method: "POST", body: { input: value } });
      started.hidden = false;
      started.replaceChildren(
        "Started. ",
        element("a", { href: `#/runs/${encodeURIComponent(run.instanceID)}` }, "Watch this run"),
      );
      begun();
    } catch (refusal) {
      setNote(problem, explain(refusal));
    } finally {
      send.disabled = false;
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    start();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !send.disabled) start();
    if (event.key === "Escape") {
      toggle();
      button.focus();
    }
  });
  return { button, panel: form };
}

/** A refused input tells where: the schema's words, each with its place in the input. */
function explain(refusal) {
  const places = Array.isArray(refusal.details) ? refusal.details : [];
  const lines = places.map(({ pointer, path, message }) => [pointer ?? path, message].filter(Boolean).join(": "));
  return [refusal.advice, ...lines.filter(Boolean)].join("\n");
}

/** A value of the shape that the workflow's schema asks for; what the person has typed meanwhile stays. */
async function sketchFor(path, input) {
  try {
    const workflow = await request(path);
    const schema = workflow.workflowOptions?.inputSchema;
    if (input.value === EMPTY && schema) return JSON.stringify(sketch(schema, SKETCH_DEPTH_MAX), null, 2);
  } catch {
    // Only a convenience is missing; starting will say what is wrong.
  }
  return input.value;
}

function sketch(schema, depth) {
  if (typeof schema !== "object" || schema === null) return null;
  if ("default" in schema) return schema.default;
  if ("const" in schema) return schema.const;
  if (schema.examples?.length > 0) return schema.examples[0];
  if (schema.enum?.length > 0) return schema.enum[0];
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object" || schema.properties) {
    const properties = depth > 0 ? Object.entries(schema.properties ?? {}) : [];
    return Object.fromEntries(properties.map(([name, inner]) => [name, sketch(inner, depth - 1)]));
  }
  return { string: "", number: 0, integer: 0, boolean: false, array: [] }[type] ?? null;
}
