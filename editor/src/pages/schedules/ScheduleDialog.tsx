/** The form of a schedule: its workflow, when it is due, and the input of its runs. */

import { useMemo, useState, type ReactElement } from "react";

import { call, type Schemas } from "../../api/client";
import { memberText, prettyText, removeMember, setMember, shownScalar } from "../../json";
import { FormContext, NO_SERVICES } from "../../ui/forms/context";
import { jsonProblem } from "../../ui/forms/SchemaForm";
import type { JsonSchema } from "../../ui/forms/schema";
import { toast } from "../../ui/toasts";
import { refresh, useAsk } from "../data";
import { FormDialog } from "../lists/FormDialog";
import type { Listed } from "../lists/useList";
import { InputFields } from "../start/InputFields";
import { sketchInput, type InputSchema } from "../start/inputSketch";

const SCHEMA: JsonSchema = {
  type: "object",
  required: ["name", "workflow", "kind", "cron", "every", "missed", "timezone"],
  properties: {
    name: { type: "string", description: "Up to 64 letters, digits, `-` and `_`." },
    workflow: { type: "string", "x-ui": { widget: "workflow" } },
    version: { type: "integer", minimum: 1, "x-ui": { placeholder: "the newest at that time" } },
    kind: { title: "Starts", enum: ["cron", "interval"], description: "`cron`: at times of the calendar. `interval`: again and again after the same time." },
    cron: {
      title: "Cron expression",
      type: "string",
      description: "Minute, hour, day of month, month, day of week; with seconds in front, if there are six. `0 9 * * MON-FRI` is nine o'clock on weekdays.",
      "x-ui": { placeholder: "0 9 * * MON-FRI", showIf: { "/kind": "cron" } },
    },
    timezone: { title: "Time zone", type: "string", description: "Such as `Europe/Zurich`.", "x-ui": { placeholder: "UTC", showIf: { "/kind": "cron" } } },
    every: { type: "string", description: "A duration of at least one second.", "x-ui": { placeholder: "15m", showIf: { "/kind": "interval" } } },
    missed: {
      title: "Missed occurrences",
      enum: ["skip", "one", "all"],
      default: "one",
      description: "Those at whose time no process ran. `skip`: no run. `one`: one run for all of them together. `all`: one run for each.",
    },
    enabled: { type: "boolean", default: true, description: "While it is not, it starts nothing." },
  },
};

/** What an answer has and a form does not. */
const KEPT_BY_SERVER = ["scheduleID", "nextAt", "lastAt", "lastInstanceID", "lastError", "createdAt", "updatedAt"];

const NEW = '{"name": "", "workflow": "", "kind": "cron", "missed": "one"}';

export function ScheduleDialog({ schedule, onClose }: { schedule: Listed<Schemas["ScheduleSummary"]> | null; onClose: () => void }): ReactElement {
  const workflows = useAsk("list_workflows", { query: { limit: 100 } }, { staleMs: 30_000 });
  const services = useMemo(() => ({ ...NO_SERVICES, workflows: workflows.data?.items.map(({ name }) => name) ?? [] }), [workflows.data]);
  const [text, setText] = useState(() => (schedule === null ? NEW : shownText(schedule.text)));
  const [typed, setTyped] = useState(() => (schedule === null ? null : prettyText(memberText(schedule.text, "input") ?? "null")));
  const workflow = shownScalar(memberText(text, "workflow") ?? '""');
  const isKnown = services.workflows.includes(workflow) || schedule !== null;
  const full = useAsk("get_workflow", { path: { workflow } }, { enabled: workflow !== "" && isKnown, staleMs: 30_000 });
  const schema = isKnown ? ((full.data?.workflowOptions as { inputSchema?: InputSchema } | null | undefined)?.inputSchema ?? null) : null;
  const input = typed ?? prettyText(sketchInput(schema));
  const save = async () => {
    if (jsonProblem(input) !== null) throw new Error("The input is not JSON. Texts need double quotes; nothing at all is {}.");
    const bodyText = setMember(withoutOtherTiming(text), "input", input);
    const { name } = schedule === null ? await call("create_schedule", { bodyText }) : await call("update_schedule", { path: { schedule: schedule.value.scheduleID }, bodyText });
    refresh("list_schedules");
    toast(`${name} is saved.`);
  };
  return (
    <FormContext.Provider value={services}>
      <FormDialog
        title={schedule === null ? "New schedule" : `Edit ${schedule.value.name}`}
        schema={SCHEMA}
        text={text}
        onChange={setText}
        verb={schedule === null ? "Create the schedule" : "Save"}
        onSave={save}
        onClose={onClose}
      >
        <h3>Input of each run</h3>
        <InputFields schema={schema} text={input} onChange={setTyped} onSubmit={() => undefined} />
      </FormDialog>
    </FormContext.Provider>
  );
}

function shownText(text: string): string {
  return [...KEPT_BY_SERVER, "input"].reduce((shown, name) => removeMember(shown, name), text);
}

/** A schedule has a cron expression or an interval, never both. */
function withoutOtherTiming(text: string): string {
  return removeMember(text, memberText(text, "kind") === '"cron"' ? "every" : "cron");
}
