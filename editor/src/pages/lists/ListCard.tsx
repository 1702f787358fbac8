/** A table of a list in each of its states: loading, refused, empty, and longer than one page. */

import type { ReactElement, ReactNode } from "react";

import { Button } from "../../ui/Button";
import { Problem, Skeleton } from "../../ui/Notice";
import type { List } from "./useList";
import "./lists.css";

interface ListCardProps<T> {
  list: List<T>;
  /** The headings of the columns. */
  columns: readonly string[];
  /** Are there verbs in a column of their own? */
  hasVerbs?: boolean;
  label: string;
  empty: ReactElement;
  children: ReactNode;
}

export function ListCard<T>({ list, columns, hasVerbs = false, label, empty, children }: ListCardProps<T>): ReactElement {
  if (list.isPending && !list.error) return <Skeleton lines={6} />;
  if (list.error && list.items.length === 0) return <Problem error={list.error} onRetry={list.retry} />;
  if (list.items.length === 0) return <div className="card">{empty}</div>;
  return (
    <>
      {list.error != null && <Problem error={list.error} onRetry={list.retry} />}
      <div className="card scroll-x">
        <table className="table collapses listed" aria-label={label}>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col">
                  {column}
                </th>
              ))}
              {hasVerbs && (
                <th scope="col">
                  <span className="visually-hidden">Actions</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>{children}</tbody>
        </table>
        {list.hasMore && (
          <p className="listed-more">
            <Button disabled={list.isLoadingMore} onClick={list.more}>
              {list.isLoadingMore ? "Loading" : "Show more"}
            </Button>
          </p>
        )}
      </div>
    </>
  );
}
