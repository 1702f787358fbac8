/**
 * Layout in a worker: one at a time, a newer request ends the one before.
 *
 * The pages import this and not `layout.ts`, so that dagre is in the code of the worker alone.
 */

import type { LayoutGraph, Places } from "./graph";

/** The part of a Worker that is used here. */
export interface LayoutWorker {
  onmessage: ((event: { readonly data: LayoutAnswer }) => void) | null;
  onerror: ((event: { readonly message?: string }) => void) | null;
  postMessage(request: LayoutRequest): void;
  terminate(): void;
}

export interface LayoutRequest {
  readonly id: number;
  readonly graph: LayoutGraph;
}

export interface LayoutAnswer {
  readonly id: number;
  readonly places: Places;
}

/** The request was given up: for a newer one, or because nobody waits for it any more. */
export class LayoutCancelled extends Error {
  override readonly name = "LayoutCancelled";
}

export class LayoutClient {
  readonly #open: () => LayoutWorker;
  #worker: LayoutWorker | null = null;
  #reject: ((reason: Error) => void) | null = null;
  #requests = 0;

  /** `open`: makes a worker of `layout/worker.ts`. */
  constructor(open: () => LayoutWorker) {
    this.#open = open;
  }

  layout(graph: LayoutGraph): Promise<Places> {
    this.cancel();
    const worker = (this.#worker ??= this.#open());
    const id = (this.#requests += 1);
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      worker.onmessage = ({ data }) => {
        if (data.id !== id) return;
        this.#reject = null;
        resolve(data.places);
      };
      worker.onerror = ({ message }) => {
        this.#end();
        reject(new Error(message ?? "the layout failed"));
      };
      worker.postMessage({ id, graph });
    });
  }

  /** Give up what is under way. A worker cannot be interrupted, so it is ended; the next request opens another. */
  cancel(): void {
    const reject = this.#reject;
    if (reject === null) return;
    this.#end();
    reject(new LayoutCancelled("the layout was given up"));
  }

  #end(): void {
    this.#worker?.terminate();
    this.#worker = null;
    this.#reject = null;
  }
}
