/** What an expression comes to in the run that is shown, by the server's own templates. */

import { useMemo } from "react";
import { useStore } from "zustand";

import { ApiError, callText } from "../../api/client";
import { scopeOfNode } from "../../canvas/run";
import { entriesOf, entryCountOf, kindOf, memberText, shownScalar } from "../../json";
import type { FormServices, Preview } from "../../ui/forms/context";
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
