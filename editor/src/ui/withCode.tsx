/** Sentences with code in them. */

import type { ReactNode } from "react";

/** Words in backquotes are code. */
export function withCode(text: string): ReactNode[] {
  return text.split(/`([^`]*)`/).map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part));
}
