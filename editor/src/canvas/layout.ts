/** Layout in a worker, so that a graph of 2,000 nodes does not stop the page. */

import { LayoutClient, layoutGraphOf, type LayoutWorker, type Places } from "../layout";
import { NO_STRUCTURE, type NodeKey } from "../model";
import type { CanvasModel } from "./CanvasModel";

const client = new LayoutClient(() => new Worker(new URL("../layout/worker.ts", import.meta.url), { type: "module" }) as unknown as LayoutWorker);

/** Where the nodes of a canvas belong, all of them or these only. A newer request ends the one before. */
export async function layOutCanvas(model: CanvasModel, only?: ReadonlySet<NodeKey>): Promise<Places> {
  const { document, containers, verdict } = model.view.getState();
  const start = performance.now();
  const places = await client.layout(layoutGraphOf(document, containers, verdict?.structure ?? NO_STRUCTURE, model.types.exitsOf, only));
  performance.measure("anabranch:layout", { start });
  return places;
}
