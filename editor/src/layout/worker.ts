/** The entry of the layout worker; opened by `new Worker(new URL("../layout/worker.ts", import.meta.url), { type: "module" })`. */

import type { LayoutAnswer, LayoutRequest } from "./client";
import { layout } from "./layout";

/** The part of a worker's global object that is used here. */
declare const self: {
  onmessage: ((event: { readonly data: LayoutRequest }) => void) | null;
  postMessage(answer: LayoutAnswer): void;
};

self.onmessage = ({ data }) => self.postMessage({ id: data.id, places: layout(data.graph) });
