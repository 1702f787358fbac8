/** The server's data as pages use it: cached, asked again when it may have changed, failures reported. */

import { QueryClient, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";

import { ApiError, call, type Answer, type Operation, type Request } from "../api/client";
import type { LinkState, RunListener } from "../api/live";
import { useSession } from "./session";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // What the server refuses it would refuse again; silence is asked again until it ends.
      retry: (count, failure) => failure instanceof ApiError && failure.isOffline && count < 100,
      retryDelay: (count) => Math.min(5_000, 500 * 2 ** count),
      networkMode: "always",
      staleTime: 2_000,
    },
    mutations: { networkMode: "always" },
  },
});

export interface AskOptions {
  /** Ask again after this time, while the page is seen. */
  everyMs?: number | false;
  enabled?: boolean;
  staleMs?: number;
}

/** The answer to a question, kept as long as somebody shows it. */
export function useAsk<O extends Operation>(operation: O, request: Request<O> = {}, options: AskOptions = {}): UseQueryResult<Answer<O>> {
  return useQuery({
    queryKey: [operation, request.path ?? null, request.query ?? null],
    queryFn: ({ signal }) => call(operation, { ...request, signal }),
    refetchInterval: options.everyMs ?? false,
    enabled: options.enabled ?? true,
    ...(options.staleMs === undefined ? {} : { staleTime: options.staleMs }),
    placeholderData: (previous) => previous,
  });
}

/** Ask again whatever was asked with these operations. */
export function refresh(...operations: Operation[]): void {
  for (const operation of operations) void queryClient.invalidateQueries({ queryKey: [operation] });
}

const NO_WATCH = () => () => undefined;

/** The state of the live connection. */
export function useLink(): LinkState {
  const live = useSession((session) => session.live);
  return useSyncExternalStore(live === null ? NO_WATCH : (changed) => live.watchLink(changed), () => live?.link ?? "connecting");
}

/** Hear about these runs as long as the page is shown. */
export function useRuns(instanceIDs: readonly string[], makeListener: (instanceID: string) => RunListener): void {
  const live = useSession((session) => session.live);
  const key = instanceIDs.join(" ");
  const [make] = useState(() => makeListener);
  useEffect(() => {
    if (live === null || key === "") return undefined;
    const leave = key.split(" ").map((instanceID) => live.follow(instanceID, make(instanceID)));
    return () => leave.forEach((end) => end());
  }, [live, key, make]);
}
