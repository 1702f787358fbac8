/** How runs and nodes stand: a word, an icon and a colour, so that no one of them is needed alone. */

import { Ban, Check, CircleDashed, CirclePause, Clock3, LoaderCircle, RotateCw, Redo2, X, type LucideIcon } from "lucide-react";
import type { ReactElement } from "react";

const ICONS: Record<string, LucideIcon> = {
  running: LoaderCircle,
  queued: CircleDashed,
  pending: CircleDashed,
  success: Check,
  completed: Check,
  error: X,
  failed: X,
  waiting: Clock3,
  suspended: CirclePause,
  retrying: RotateCw,
  skipped: Redo2,
  cancelled: Ban,
};

export function StatusIcon({ status, size = 14 }: { status: string; size?: number }): ReactElement {
  const Icon = ICONS[status.toLowerCase()] ?? CircleDashed;
  return <Icon size={size} strokeWidth={2.4} aria-hidden />;
}

export function Status({ status }: { status: string }): ReactElement {
  const word = status.toLowerCase();
  return (
    <span className="status" data-status={word}>
      <StatusIcon status={word} />
      <span className="word">{word}</span>
    </span>
  );
}
