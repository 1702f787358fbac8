/** Put a node of a chosen type where the palette was opened for. */

import { addNode, type NewNode } from "../edit";
import { textOf } from "../json";
import { isNodeKey, type ContainerID, type NodeKey } from "../model";
import { fieldOf } from "../ui/forms/schema";
import { isBeginning, mayAdd } from "../model/beginnings";
import type { CanvasModel, PaletteRequest } from "./CanvasModel";
import { placeForNew } from "./commands";
import { focusNode, type Flow } from "./focus";

export function insertNode(model: CanvasModel, flow: Flow | null, type: string, request: PaletteRequest): NodeKey | null {
  const { document, containers } = model.view.getState();
  const node = newNode(model, type);
  let home: ContainerID | undefined;
  const key = model.try(() => {
    if (request.kind === "edge") {
      const edge = document.edges.get(request.edge);
      const target = [...document.nodes.values()].find(({ id }) => id === edge?.target);
      home = target === undefined ? undefined : containers.of.get(target.key);
      return addNode(model.store, node, { onEdge: request.edge });
    }
    const behind = request.node;
    if (behind === null) return addNode(model.store, node, { at: placeForNew(flow) });
    const source = document.nodes.get(behind);
    const handle = request.kind === "handle" ? request.handle : nextOf(model, behind);
    home = source !== undefined && model.types.isLoop(source) && handle === "loop" ? `loop:${behind}` : containers.of.get(behind);
    const at = request.kind === "handle" && request.at !== null ? { at: request.at } : {};
    return addNode(model.store, node, request.kind === "handle" ? { behind, handle: request.handle, ...at } : { behind });
  });
  if (key === null) return null;
  if (home !== undefined && home !== "root") model.drop(key, home);
  if (model.document.nodes.has(key)) focusNode(model, flow, key);
  return key;
}

/** A node of a type as it begins: what is required and may be empty is there, so that only what somebody must fill in is a problem. */
export function newNode(model: CanvasModel, type: string): NewNode {
  const schema = model.types.get(type)?.configSchema ?? {};
  const empty = (schema.required ?? []).flatMap((name): [string, unknown][] => {
    const field = fieldOf(schema.properties?.[name], schema, true);
    if (field.types.has("object") || field.ui.widget === "keyValue") return [[name, {}]];
    return field.types.has("array") ? [[name, []]] : [];
  });
  return { type, exitsOf: model.types.exitsOf, ...(empty.length > 0 ? { config: textOf(Object.fromEntries(empty)) } : {}) };
}

/** The exit that a node is added behind: the first that leads nowhere yet. */
function nextOf(model: CanvasModel, key: NodeKey): string | undefined {
  const { document } = model;
  const node = document.nodes.get(key);
  if (node === undefined) return undefined;
  const taken = new Set([...document.edges.values()].filter((edge) => edge.source === node.id).map((edge) => edge.handle));
  return model.types.exitsOf(node).handles.find((handle) => handle !== "error" && !taken.has(handle));
}

/** What may be chosen for a request: nothing leads to a start or a trigger, and one start is enough. */
export function mayInsert(model: CanvasModel, type: string, request: PaletteRequest): boolean {
  if (!isBeginning(type)) return true;
  return mayAdd(model.document, type) && request.kind === "behind" && (request.node === null || !isNodeKey(request.node));
}
