import { textOf } from "../../json";
import { sketch, type JsonSchema } from "../../ui/forms/schema";

export type InputSchema = JsonSchema | boolean;

/** A value of the shape that the workflow asks for, as JSON. */
export function sketchInput(schema: InputSchema | null): string {
  return typeof schema === "object" && schema !== null ? textOf(sketch(schema) ?? {}) : "{}";
}

/** Has the schema fields that a form can show? */
export function hasFields(schema: InputSchema | null): schema is JsonSchema {
  return typeof schema === "object" && schema !== null && Object.keys(schema.properties ?? {}).length > 0;
}
