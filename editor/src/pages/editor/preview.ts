/** What an expression comes to in the run that is shown, by the server's own templates. */

import { useMemo } from "react";
import { useStore } from "zustand";

import { ApiError, call, type Operation } from "../../api/client";
import { OPERATIONS } from "../../api/schema";
import type { FormServices, Preview } from "../../ui/forms/context";
import type { EditorSession } from "./session";

/** The route, where this server has it. */
const PREVIEW = Object.entries(OPERATIONS).find(([, [method, path]]) => method === "POST" && (path as string) === "/v1/preview")?.[0] as Operation | undefined;

interface PreviewAnswer {
  readonly items: readonly { value?: unknown; bytes?: number; truncated?: boolean; error?: { message: string } | null }[];
}

export function useExpressionPreview(session: EditorSession, nodeID: string): FormServices["preview"] {
  const instanceID = useStore(session.test, (state) => state.run?.instanceID ?? null);
  return useMemo(() => {
    if (PREVIEW === undefined || instanceID === null || session.model.isReadOnly) return null;
    const operation = PREVIEW;
    return async (template: string, signal: AbortSignal): Promise<Preview | null> => {
      try {
        const body = { items: [{ id: "1", template }], at: { instanceID, nodeID, scope: "" } };
        const answer = (await call(operation, { bodyText: JSON.stringify(body), signal })) as unknown as PreviewAnswer;
        const [item] = answer.items;
        if (item === undefined) return null;
        if (item.error) return { error: item.error.message };
        return { value: typeof item.value === "string" ? item.value : JSON.stringify(item.value), truncated: item.truncated ?? false };
      } catch (failure) {
        if (failure instanceof ApiError) return null;
        throw failure;
      }
    };
  }, [instanceID, nodeID, session]);
}
