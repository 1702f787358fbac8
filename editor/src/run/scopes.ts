/** Scopes: the path of iterations and passes that something happens in, `each[3]/inner[0]` or `each[3]/ask#2`. */

export interface ScopePart {
  /** The loop node, or the header of a region. */
  readonly nodeID: string;
  readonly kind: "iteration" | "pass";
  /** Iterations count from 0, passes from 1. */
  readonly index: number;
}

/** The parts of a scope, the outermost first. Ids have none of `/ [ ] #`. */
export function partsOf(scope: string): readonly ScopePart[] {
  return scope === "" ? [] : scope.split("/").map(partOf);
}

export function partOf(text: string): ScopePart {
  const iteration = /^(.*)\[(\d+)\]$/.exec(text);
  if (iteration !== null) return { nodeID: iteration[1]!, kind: "iteration", index: Number(iteration[2]) };
  const pass = /^(.*)#(\d+)$/.exec(text);
  return { nodeID: pass?.[1] ?? text, kind: "pass", index: Number(pass?.[2] ?? 1) };
}

/** The scope around, and the innermost part; null at the root. */
export function outerOf(scope: string): { readonly scope: string; readonly part: ScopePart } | null {
  if (scope === "") return null;
  const cut = scope.lastIndexOf("/");
  return { scope: cut < 0 ? "" : scope.slice(0, cut), part: partOf(scope.slice(cut + 1)) };
}

/**
 * The beginning of a scope that nodes in these loops share with it: the loops and regions around them by id, the
 * outermost first.
 */
export function sharedScope(scope: string, around: readonly string[]): string {
  const parts = scope === "" ? [] : scope.split("/");
  let shared = 0;
  while (shared < Math.min(parts.length, around.length) && partOf(parts[shared]!).nodeID === around[shared]) shared += 1;
  return parts.slice(0, shared).join("/");
}

/** Which iteration, or pass, of a loop that is in scope `outer` another scope is in; null if in none. */
export function iterationOf(scope: string, loopID: string, outer: string): number | null {
  const part = isWithin(scope, outer) ? partsOf(scope)[partsOf(outer).length] : undefined;
  return part?.nodeID === loopID ? part.index : null;
}

export function passScope(outer: string, headerID: string, index: number): string {
  return `${outer === "" ? "" : `${outer}/`}${headerID}#${index}`;
}

export function iterationScope(outer: string, loopID: string, index: number): string {
  return `${outer === "" ? "" : `${outer}/`}${loopID}[${index}]`;
}

/** Is a scope this one, or inside of it? */
export function isWithin(scope: string, outer: string): boolean {
  return outer === "" || scope === outer || scope.startsWith(`${outer}/`);
}

/** "Each 4 of 1500", counted from 1 as people do, for every part. */
export function shownScope(scope: string, nameOf: (nodeID: string) => string): string {
  return partsOf(scope)
    .map(({ nodeID, kind, index }) => (kind === "iteration" ? `${nameOf(nodeID)} ${index + 1}` : `${nameOf(nodeID)}, pass ${index}`))
    .join(" › ");
}
