/** What the settings pages list, make and delete: one description each, one page for all. */

import type { Operation, Schemas } from "../../api/client";
import type { JsonSchema } from "../../ui/forms/schema";

export interface Column {
  readonly title: string;
  readonly field: string;
  readonly kind?: "time" | "code" | "yes";
}

export interface Resource {
  readonly path: string;
  readonly title: string;
  /** What one of them is called in sentences. */
  readonly one: string;
  /** What they are for, for who has none yet. */
  readonly about: string;
  readonly list: Operation;
  readonly listPath?: Record<string, string>;
  readonly reads: Role;
  readonly columns: readonly Column[];
  /** The field that is shown as its name, and the one that paths take. */
  readonly name: string;
  readonly id: string;
  readonly create?: { readonly operation: Operation; readonly needs: Role; readonly schema: JsonSchema; readonly path?: string };
  readonly remove?: { readonly operation: Operation; readonly parameter: string; readonly needs: Role; readonly verb: string };
  /** A further verb of one of them. */
  readonly act?: { readonly operation: Operation; readonly parameter: string; readonly needs: Role; readonly verb: string; readonly done: string };
}

type Role = Schemas["Me"]["role"];

const text = (title: string, description: string, more: JsonSchema = {}): JsonSchema => ({ type: "string", title, description, ...more });

export const SCHEDULES: Resource = {
  path: "schedules",
  title: "Schedules",
  one: "schedule",
  about: "A schedule starts a workflow at times of a clock, or in intervals; each time once, whatever crashes.",
  list: "list_schedules",
  reads: "viewer",
  name: "name",
  id: "scheduleID",
  columns: [
    { title: "Name", field: "name" },
    { title: "Workflow", field: "workflow", kind: "code" },
    { title: "When", field: "cron", kind: "code" },
    { title: "Every", field: "every", kind: "code" },
    { title: "On", field: "enabled", kind: "yes" },
    { title: "Next", field: "nextAt", kind: "time" },
    { title: "Last", field: "lastAt", kind: "time" },
  ],
  create: {
    operation: "create_schedule",
    needs: "editor",
    schema: {
      type: "object",
      required: ["name", "workflow"],
      properties: {
        name: text("Name", "What the schedule is called."),
        workflow: text("Workflow", "Which workflow to start.", { "x-ui": { widget: "workflow" } }),
        cron: text("Cron expression", "Minute, hour, day, month, weekday: `0 8 * * 1-5`. Give either this or an interval.", { "x-ui": { placeholder: "0 8 * * 1-5" } }),
        timezone: text("Time zone", "For the cron expression.", { "x-ui": { placeholder: "Europe/Berlin" } }),
        every: text("Interval", "Start again after this time.", { "x-ui": { placeholder: "15m" } }),
        missed: { enum: ["skip", "one", "all"], title: "What was missed", description: "While no server ran: skip it, make up for one, or for all.", default: "skip" },
        input: { title: "Input", description: "The input of each run." },
      },
    },
  },
  remove: { operation: "delete_schedule", parameter: "schedule", needs: "editor", verb: "Delete" },
  act: { operation: "trigger_schedule", parameter: "schedule", needs: "operator", verb: "Start now", done: "Started." },
};

export const SETTINGS: readonly Resource[] = [
  {
    path: "secrets",
    title: "Secrets",
    one: "secret",
    about: "A secret is stored encrypted and never shown again. Nodes write it as {{secret.NAME}}; outputs and logs have it masked.",
    list: "list_secrets",
    reads: "admin",
    name: "name",
    id: "name",
    columns: [
      { title: "Name", field: "name", kind: "code" },
      { title: "Version", field: "version" },
      { title: "Changed", field: "updatedAt", kind: "time" },
    ],
    create: {
      operation: "set_secret",
      needs: "admin",
      schema: {
        type: "object",
        required: ["name", "value"],
        properties: { name: text("Name", "Letters, digits and _. A name that is there gets the new value."), value: text("Value", "It cannot be read again.", { format: "textarea" }) },
      },
    },
    remove: { operation: "delete_secret", parameter: "secret", needs: "admin", verb: "Delete" },
  },
  {
    path: "data-sources",
    title: "Data sources",
    one: "data source",
    about: "A data source is a database that saved queries may ask: SQLite, PostgreSQL or MySQL.",
    list: "list_sources",
    reads: "viewer",
    name: "name",
    id: "dataSourceID",
    columns: [
      { title: "Name", field: "name" },
      { title: "Kind", field: "kind" },
      { title: "Address", field: "address", kind: "code" },
      { title: "Changed", field: "updatedAt", kind: "time" },
    ],
    create: {
      operation: "create_source",
      needs: "admin",
      schema: {
        type: "object",
        required: ["name", "url"],
        properties: { name: text("Name", "What queries call it."), url: text("URL", "With a user who may read only. It never comes back.", { "x-ui": { placeholder: "postgresql://reader:…@host/database" } }) },
      },
    },
    remove: { operation: "delete_source", parameter: "source", needs: "admin", verb: "Delete" },
  },
  {
    path: "queries",
    title: "Queries",
    one: "query",
    about: "A saved query is one SQL statement that nodes run by its name; parameters are written :name.",
    list: "list_queries",
    reads: "viewer",
    name: "name",
    id: "dataQueryID",
    columns: [
      { title: "Name", field: "name" },
      { title: "SQL", field: "sql", kind: "code" },
      { title: "Changed", field: "updatedAt", kind: "time" },
    ],
    create: {
      operation: "create_query",
      needs: "editor",
      schema: {
        type: "object",
        required: ["name", "dataSourceID", "sql"],
        properties: {
          name: text("Name", "What nodes call it."),
          dataSourceID: text("Data source", "Its id or name."),
          sql: { type: "string", title: "SQL", description: "One statement; parameters are written `:name`.", "x-ui": { widget: "code", language: "sql" } },
        },
      },
    },
    remove: { operation: "delete_query", parameter: "query", needs: "editor", verb: "Delete" },
  },
  {
    path: "keys",
    title: "Keys",
    one: "key",
    about: "A key lets a person or a program in, with a role: viewer, operator, editor or admin.",
    list: "list_keys",
    reads: "admin",
    name: "keyID",
    id: "keyID",
    columns: [
      { title: "Key", field: "keyID", kind: "code" },
      { title: "Role", field: "role" },
      { title: "Made", field: "createdAt", kind: "time" },
    ],
    create: {
      operation: "create_key",
      needs: "admin",
      schema: {
        type: "object",
        required: ["role"],
        properties: { role: { enum: ["viewer", "operator", "editor", "admin"], title: "Role", description: "A viewer reads; an operator also starts, signals and cancels; an editor also changes workflows; an admin everything." } },
      },
    },
    remove: { operation: "revoke_key", parameter: "keyID", needs: "admin", verb: "Revoke" },
  },
  {
    path: "audit",
    title: "Audit trail",
    one: "entry",
    about: "Who made and revoked keys, saved and deleted things.",
    list: "list_audit",
    reads: "admin",
    name: "action",
    id: "position",
    columns: [
      { title: "When", field: "at", kind: "time" },
      { title: "Who", field: "actor", kind: "code" },
      { title: "What", field: "action" },
      { title: "Which", field: "target", kind: "code" },
    ],
  },
];
