/** What an expression comes to in the run that is shown, by the server's own templates. */

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";

import { ApiError, callText } from "../../api/client";
import { scopeOfNode } from "../../canvas/run";
import { entriesOf, entryCountOf, kindOf, memberText, shownScalar } from "../../json";
import type { FormServices, Preview, Variable } from "../../ui/forms/context";
import type { EditorSession } from "./session";

export function useExpressionPreview(session: EditorSession, nodeID: string): FormServices["preview"] {
  const run = useStore(session.test, (state) => state.run);
  return useMemo(() => {
    if (run === null || session.model.isReadOnly) return null;
    return async (template: string, signal: AbortSignal): Promise<Preview | null> => {
      const { instanceID } = run;
      const scope = scopeOfNode(session.model.view.getState(), nodeID, run.focus.getState().scope) || null;
      try {
        const { text } = await callText("preview_templates", { body: { items: [{ id: "1", template }], at: { instanceID, nodeID, scope } }, signal });
        const [item] = entriesOf(memberText(text, "items") ?? "[]");
        if (item === undefined) return null;
        const error = memberText(item.text, "error");
        if (error !== undefined && error !== "null") return { error: shownScalar(memberText(error, "message") ?? '""') };
        const value = memberText(item.text, "value") ?? "null";
        const isCut = kindOf(value) === "object" && memberText(value, "truncated") === "true";
        return { value: entryCountOf(value) === null ? shownScalar(value) : value, truncated: isCut };
      } catch (failure) {
        if (failure instanceof ApiError) return null;
        throw failure;
      }
    };
  }, [run, nodeID, session]);
}

/** Of so many variables the members are read: each is a small request, once per node and iteration. */
const SAMPLED_MAX = 8;
const SAMPLE_CHARACTERS_MAX = 40;
const NO_FOCUS = createStore(() => ({ scope: "" }));

/** The variables with what their members were in the run that is shown, where this node could read them. */
export function useSamples(session: EditorSession, nodeID: string, variables: readonly Variable[], preview: FormServices["preview"]): readonly Variable[] {
  const run = useStore(session.test, (state) => state.run);
  const scope = useStore(run?.focus ?? NO_FOCUS, (focus) => focus.scope);
  const names = variables.map(({ name }) => name).filter((name) => /^\w+$/.test(name)).slice(0, SAMPLED_MAX);
  const read = useQuery({
    queryKey: ["samples", run?.instanceID ?? null, nodeID, scope, ...names],
    queryFn: async ({ signal }) => {
      const found = await Promise.all(names.map(async (name) => [name, samplesOf(await preview!(`{{ ctx.${name} }}`, signal))] as const));
      return new Map(found);
    },
    enabled: preview !== null,
    staleTime: 5_000,
  });
  return useMemo(
    () => variables.map((variable) => {
      const samples = read.data?.get(variable.name) ?? null;
      return samples === null ? variable : { ...variable, samples };
    }),
    [variables, read.data],
  );
}

/** The members of an object in short; null of anything else. */
function samplesOf(preview: Preview | null): Readonly<Record<string, string>> | null {
  if (preview === null || "error" in preview || preview.truncated || !preview.value.startsWith("{")) return null;
  try {
    return Object.fromEntries(entriesOf(preview.value).map(({ key, text }) => [String(key), text.length > SAMPLE_CHARACTERS_MAX ? `${text.slice(0, SAMPLE_CHARACTERS_MAX - 1)}…` : text]));
  } catch {
    return null; // a text that begins like an object
  }
}
