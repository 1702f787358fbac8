/** What a page says instead of, or above, its content: problems, nothing here yet, still loading. */

import { CircleAlert, Info, TriangleAlert } from "lucide-react";
import type { ReactElement, ReactNode } from "react";

import { ApiError } from "../api/client";
import { Button } from "./Button";

type Kind = "error" | "warning" | "info";

const ICONS = { error: CircleAlert, warning: TriangleAlert, info: Info };

export function Notice({ kind, children, action }: { kind: Kind; children: ReactNode; action?: ReactNode }): ReactElement {
  const Icon = ICONS[kind];
  return (
    <div className={`notice ${kind}`} role={kind === "error" ? "alert" : undefined}>
      <Icon size={16} aria-hidden />
      <div className="grow">{children}</div>
      {action}
    </div>
  );
}

/** A refusal with its code, what to do, and the places that it names. */
export function Problem({ error, onRetry }: { error: unknown; onRetry?: () => void }): ReactElement {
  const retry = onRetry && (
    <Button small onClick={onRetry}>
      Try again
    </Button>
  );
  if (!(error instanceof ApiError)) {
    return (
      <Notice kind="error" action={retry}>
        {error instanceof Error ? error.message : String(error)}
      </Notice>
    );
  }
  return (
    <Notice kind="error" action={retry}>
      {error.advice} {error.code && <code className="faint">{error.code}</code>}
      {error.places.length > 0 && (
        <ul>
          {error.places.slice(0, 8).map(({ pointer, path, message }, index) => (
            <li key={index}>
              {(pointer ?? path) && <code>{pointer ?? path}</code>} {message}
            </li>
          ))}
        </ul>
      )}
    </Notice>
  );
}

export function Empty({ icon, title, children, action }: { icon?: ReactNode; title: string; children?: ReactNode; action?: ReactNode }): ReactElement {
  return (
    <div className="empty">
      {icon}
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {action}
    </div>
  );
}

/** Shown only when loading takes longer than 200 ms. */
export function Skeleton({ lines = 4 }: { lines?: number }): ReactElement {
  return (
    <div className="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} />
      ))}
    </div>
  );
}
