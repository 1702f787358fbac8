/**
 * JSON Schema as a form needs it: references followed, what only says "or a template" or "or null" taken out.
 *
 * Understands what our own node types and people's input schemas use; what it does not know it leaves to a field that
 * takes any JSON.
 */

export interface UiHints {
  widget?: "code" | "expression" | "duration" | "secret" | "workflow" | "query" | "keyValue" | "branches";
  language?: string;
  group?: string;
  order?: number;
  advanced?: boolean;
  placeholder?: string;
  template?: boolean;
  showIf?: Record<string, unknown>;
}

export interface JsonSchema {
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  definitions?: Record<string, JsonSchema>;
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  examples?: unknown[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  allOf?: JsonSchema[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
  items?: JsonSchema;
  minimum?: number;
  maximum?: number;
  pattern?: string;
  format?: string;
  "x-ui"?: UiHints;
}

export interface Field {
  readonly schema: JsonSchema;
  /** What a value may be; empty: anything. */
  readonly types: ReadonlySet<string>;
  readonly options: readonly unknown[] | null;
  readonly nullable: boolean;
  /** May it be a template, or text with templates in it? */
  readonly template: boolean;
  /** Several forms that a value may have, where they are told apart by more than their type. */
  readonly variants: readonly Field[];
  readonly ui: UiHints;
}

/** Deeper references are left to a field that takes any JSON: a schema may name itself. */
const DEPTH_MAX = 8;

export function fieldOf(schema: JsonSchema | boolean | undefined, root: JsonSchema, templates: boolean, depth = 0): Field {
  const resolved = typeof schema === "object" && depth < DEPTH_MAX ? followed(schema, root) : {};
  const ui = resolved["x-ui"] ?? {};
  const template = templates && ui.template !== false;
  const choices = resolved.anyOf ?? resolved.oneOf;
  const options = resolved.enum ?? (resolved.const === undefined ? null : [resolved.const]);
  const base: Field = {
    schema: resolved,
    types: typesOf(resolved),
    options: options?.filter((option) => option !== null) ?? null,
    nullable: asList(resolved.type).includes("null") || (options?.includes(null) ?? false),
    template,
    variants: [],
    ui,
  };
  if (choices === undefined) return base;
  const inner = choices
    .filter((choice) => !isTemplate(choice))
    .map((choice) => fieldOf(choice, root, templates, depth + 1))
    .filter((choice) => !isOnlyNull(choice));
  const nullable = base.nullable || choices.some((choice) => isOnlyNull(fieldOf(choice, root, templates, depth + 1)));
  const [only] = inner;
  if (inner.length === 1 && only !== undefined) {
    const merged: JsonSchema = { ...only.schema, ...withoutChoices(resolved) };
    return { ...only, schema: merged, nullable: nullable || only.nullable, template, ui: { ...only.ui, ...ui } };
  }
  const types = new Set(inner.flatMap((choice) => [...choice.types]));
  return { ...base, types: inner.some((choice) => choice.types.size === 0) ? new Set() : types, nullable, variants: inner };
}

/** The fields of an object, in the order in which a form shows them. */
export function propertiesOf(field: Field, root: JsonSchema): readonly { name: string; field: Field; required: boolean }[] {
  const required = new Set(field.schema.required ?? []);
  return Object.entries(field.schema.properties ?? {})
    .map(([name, schema], index) => ({ name, field: fieldOf(schema, root, field.template), required: required.has(name), index }))
    .sort((left, right) => (left.field.ui.order ?? left.index) - (right.field.ui.order ?? right.index));
}

/** The title of a field: its own, or made from its name. */
export function titleOf(name: string, field: Field): string {
  if (field.schema.title) return field.schema.title;
  const spaced = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replace(/[_-]+/g, " ");
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}

/** A value of the shape that a schema asks for, to begin with. */
export function sketch(schema: JsonSchema | undefined, root: JsonSchema | undefined = schema, depth = 0): unknown {
  if (typeof schema !== "object" || schema === null || depth > 4) return null;
  const resolved = followed(schema, root ?? schema);
  if (resolved.default !== undefined) return resolved.default;
  if (resolved.const !== undefined) return resolved.const;
  if (resolved.examples?.length) return resolved.examples[0];
  if (resolved.enum?.length) return resolved.enum[0];
  const [choice] = resolved.anyOf ?? resolved.oneOf ?? [];
  if (choice !== undefined) return sketch(choice, root, depth + 1);
  const [type] = asList(resolved.type);
  if (type === "object" || resolved.properties) {
    return Object.fromEntries(Object.entries(resolved.properties ?? {}).map(([name, inner]) => [name, sketch(inner, root, depth + 1)]));
  }
  return { string: "", number: 0, integer: 0, boolean: false, array: [] }[type ?? ""] ?? null;
}

function followed(schema: JsonSchema, root: JsonSchema): JsonSchema {
  let result = schema;
  for (let step = 0; result.$ref !== undefined && step < DEPTH_MAX; step += 1) {
    const name = /^#\/(?:\$defs|definitions)\/(.+)$/.exec(result.$ref)?.[1];
    const found = name === undefined ? undefined : (root.$defs?.[name] ?? root.definitions?.[name]);
    const { $ref: _, ...own } = result;
    result = { ...found, ...own };
  }
  return (result.allOf ?? []).reduce<JsonSchema>((merged, part) => ({ ...followed(part, root), ...merged }), result);
}

function typesOf(schema: JsonSchema): ReadonlySet<string> {
  const types = asList(schema.type).filter((type) => type !== "null");
  if (types.length === 0 && schema.properties) return new Set(["object"]);
  return new Set(types);
}

function isTemplate(schema: JsonSchema): boolean {
  return schema.title === "Template" && schema.pattern === "\\{\\{";
}

function isOnlyNull(field: Field): boolean {
  return field.schema.type === "null" || (field.schema.const === null && field.schema.type === undefined && "const" in field.schema);
}

function withoutChoices(schema: JsonSchema): JsonSchema {
  const { anyOf: _, oneOf: __, ...rest } = schema;
  return rest;
}

function asList(value: string | string[] | undefined): string[] {
  return value === undefined ? [] : Array.isArray(value) ? value : [value];
}
