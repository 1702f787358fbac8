/** Lists of the server, page by page; each item with its source text, so that integers of any size can be sent back as they are. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { callText, type Answer, type Operation, type Request } from "../../api/client";
import { entriesOf, memberText } from "../../json";

/** As many as the server gives at once. */
const PAGE = 100;

export type ListOperation = { [O in Operation]: Answer<O> extends { items: unknown[]; nextCursor: string | null } ? O : never }[Operation];
type Item<O extends ListOperation> = Answer<O> extends { items: (infer I)[] } ? I : never;

export interface Listed<T> {
  readonly value: T;
  readonly text: string;
}

export interface List<T> {
  readonly items: readonly Listed<T>[];
  readonly isPending: boolean;
  readonly error: unknown;
  readonly hasMore: boolean;
  readonly isLoadingMore: boolean;
  more: () => void;
  retry: () => void;
}

export function useList<O extends ListOperation>(operation: O, options: { everyMs?: number; enabled?: boolean } = {}): List<Item<O>> {
  const asked = useInfiniteQuery({
    queryKey: [operation, "pages"],
    queryFn: async ({ pageParam, signal }) => {
      const { value, text } = await callText(operation, { query: { limit: PAGE, cursor: pageParam }, signal } as unknown as Request<O>);
      const { items, nextCursor } = value as { items: Item<O>[]; nextCursor: string | null };
      const texts = entriesOf(memberText(text, "items") ?? "[]");
      return { items: items.map((item, index) => ({ value: item, text: texts[index]!.text })), nextCursor };
    },
    initialPageParam: null as string | null,
    getNextPageParam: (last) => last.nextCursor,
    refetchInterval: options.everyMs ?? false,
    enabled: options.enabled ?? true,
  });
  const items = useMemo(() => asked.data?.pages.flatMap((page) => page.items) ?? [], [asked.data]);
  return {
    items,
    isPending: asked.isPending,
    error: asked.error,
    hasMore: asked.hasNextPage,
    isLoadingMore: asked.isFetchingNextPage,
    more: () => void asked.fetchNextPage(),
    retry: () => void asked.refetch(),
  };
}
