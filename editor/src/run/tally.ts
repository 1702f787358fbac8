/** Counts of one node's activations, kept up to date by what changes. Used by `RunStore` and `RunLog` alike. */

import { hasEnded, worstOf, type Activation, type Counts, type NodeStatus, type ShownStatus } from "./shapes";

type Moved = Pick<Activation, "status" | "handles"> & { readonly isQueued?: boolean };

export class Tally {
  readonly counts: Partial<Record<NodeStatus, number>>;
  readonly exits: Record<string, number>;
  /** How many of those that run are queued. */
  queued: number;

  constructor(from?: Tally) {
    this.counts = { ...from?.counts };
    this.exits = { ...from?.exits };
    this.queued = from?.queued ?? 0;
  }

  /** An activation has become another; undefined: it is new. */
  move(before: Moved | undefined, after: Moved): void {
    if (before !== undefined) this.#add(before, -1);
    this.#add(after, 1);
  }

  /** The server's counts, which include what was never listed here. */
  setCounts(counts: Counts): void {
    for (const status of Object.keys(this.counts)) delete this.counts[status as NodeStatus];
    Object.assign(this.counts, counts);
  }

  setExits(exits: Readonly<Record<string, number>>): void {
    for (const handle of Object.keys(this.exits)) delete this.exits[handle];
    Object.assign(this.exits, exits);
  }

  exit(handle: string, change: number): void {
    this.exits[handle] = (this.exits[handle] ?? 0) + change;
    if (this.exits[handle] === 0) delete this.exits[handle];
  }

  get total(): number {
    return Object.values(this.counts).reduce((sum, count) => sum + count, 0);
  }

  get ended(): number {
    return (Object.entries(this.counts) as [NodeStatus, number][]).reduce((sum, [status, count]) => sum + (hasEnded(status) ? count : 0), 0);
  }

  /** What the node shows: that it is queued where nothing of it runs yet. */
  get status(): ShownStatus | null {
    const worst = worstOf(this.counts);
    return worst === "running" && this.queued > 0 && this.queued >= (this.counts.running ?? 0) ? "queued" : worst;
  }

  #add({ status, handles, isQueued = false }: Moved, change: number): void {
    if (isQueued) this.queued += change;
    this.counts[status] = (this.counts[status] ?? 0) + change;
    if (this.counts[status] === 0) delete this.counts[status];
    for (const handle of handles ?? []) this.exit(handle, change);
  }
}
