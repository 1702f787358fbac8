/** What fields need besides their value: what a template may read, previews, and names to choose from. */

import { createContext, useContext } from "react";

export interface Variable {
  /** The name in `ctx`. */
  readonly name: string;
  /** Is it certainly there at this node, or only on some ways to it? */
  readonly certain: boolean;
  /** The nodes that write it. */
  readonly writers: readonly string[];
  /** Names of its members, where they are known. */
  readonly members: readonly string[];
  /** What its members were in the run that is shown, in short. */
  readonly samples?: Readonly<Record<string, string>>;
}

export interface FieldProblem {
  readonly pointer: string;
  readonly message: string;
  readonly severity: "error" | "warning" | "info";
}

export type Preview = { value: string; truncated: boolean } | { error: string };

export interface FormServices {
  readonly variables: readonly Variable[];
  /** What a template is worth in the data at hand; null if there is none to try it with. */
  readonly preview: ((template: string, signal: AbortSignal) => Promise<Preview | null>) | null;
  readonly workflows: readonly string[];
  readonly queries: readonly { id: string; name: string }[];
  readonly secrets: readonly string[];
  /** Where the settings name exits of the node, and how one is renamed together with the edges that leave by it; null where there are no edges. */
  readonly exits: NamedExits | null;
  readonly filters: readonly TemplateFilter[];
  readonly readOnly: boolean;
}

export interface NamedExits {
  /** Pointer to the list, and the field of an item that is the name. */
  readonly items: string;
  readonly id: string;
  rename(from: string, to: string): void;
}

/** A filter of templates: what may stand behind `|`. */
export interface TemplateFilter {
  readonly name: string;
  readonly parameters: readonly string[];
}

export const NO_SERVICES: FormServices = { variables: [], preview: null, workflows: [], queries: [], secrets: [], exits: null, filters: [], readOnly: false };

export const FormContext = createContext<FormServices>(NO_SERVICES);

export function useFormServices(): FormServices {
  return useContext(FormContext);
}
