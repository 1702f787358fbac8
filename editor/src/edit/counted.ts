/** "3 nodes and 1 note": what a step is about, for its name. Edges count where nothing else is there. */

import { isEdgeKey, isNodeKey, isNoteKey, type SelectableKey } from "../model";

export function counted(keys: readonly SelectableKey[]): string {
  const counts: [number, string][] = [
    [keys.filter(isNodeKey).length, "node"],
    [keys.filter(isNoteKey).length, "note"],
  ];
  const parts = counts.filter(([count]) => count > 0);
  if (parts.length === 0) parts.push([keys.filter(isEdgeKey).length, "edge"]);
  return parts.map(([count, word]) => `${count} ${word}${count === 1 ? "" : "s"}`).join(" and ");
}
