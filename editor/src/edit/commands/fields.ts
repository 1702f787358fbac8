/** Set a field of a node, an edge, a note or the workflow, or a place in a node's config, as JSON text. */

import { parsePointer, removeAt, setAt, textAt } from "../../json";
import { DEFAULT_HANDLE, type EdgeKey, type NodeKey, type RecordKey } from "../../model";
import { EditRefused, type EditStore } from "../store";
import { handleText } from "./wiring";

/** Set one field; undefined removes it. Typing in one field is one step. Ids have commands of their own (`renameNode`). */
export function setField(store: EditStore, key: RecordKey, name: string, value: string | undefined): void {
  store.transact(`Change ${name}`, (transaction) => transaction.setField(key, name, value), { burst: `field ${key} ${name}` });
}

/** Set what a pointer into the config names; undefined removes it. Objects on the way are made. */
export function setConfig(store: EditStore, key: NodeKey, pointer: string, value: string | undefined): void {
  const path = parsePointer(pointer);
  store.transact(
    `Change ${path.findLast((name) => !/^\d+$/.test(name)) ?? "config"}`,
    (transaction) => {
      const config = transaction.get(key).config ?? "{}";
      if (value === undefined && path.length > 0 && textAt(config, path) === undefined) return;
      const changed = value === undefined ? (path.length === 0 ? undefined : removeAt(config, path)) : setAt(config, path, value);
      transaction.setField(key, "config", changed);
    },
    { burst: `config ${key} ${pointer}` },
  );
}

/** Give a node a name that people read; "" takes it away. */
export function setName(store: EditStore, key: NodeKey, name: string): void {
  store.transact("Rename", (transaction) => transaction.setField(key, "name", name === "" ? undefined : JSON.stringify(name)), {
    burst: `name ${key}`,
  });
}

export function setTitle(store: EditStore, title: string): void {
  setField(store, "head", "title", JSON.stringify(title));
}

/** Disable nodes, or enable them again where all of them are disabled. A start cannot be disabled. */
export function toggleDisabled(store: EditStore, keys: readonly NodeKey[]): void {
  const nodes = keys.map((key) => store.document.nodes.get(key)).filter((node) => node !== undefined && node.type !== "start");
  if (nodes.length === 0) throw new EditRefused("A start cannot be disabled.");
  const disable = nodes.some((node) => !node!.disabled);
  store.transact(disable ? "Disable" : "Enable", (transaction) => {
    for (const node of nodes) if (node!.disabled !== disable) transaction.setField(node!.key, "disabled", disable ? "true" : undefined);
  });
}

/** Give a handle of a node another name: its edges go with it. `config` is the config with the new name in it. */
export function renameHandle(store: EditStore, key: NodeKey, from: string, to: string, config: string): void {
  store.transact("Rename exit", (transaction) => {
    const { id } = transaction.get(key);
    transaction.setField(key, "config", config);
    for (const edge of leaving(store, id, from)) transaction.setField(edge, "sourceHandle", handleText(to));
  });
}

function leaving(store: EditStore, id: string, handle: string = DEFAULT_HANDLE): EdgeKey[] {
  return [...store.document.edges.values()].filter((edge) => edge.source === id && edge.handle === handle).map((edge) => edge.key);
}
