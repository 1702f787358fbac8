/** Node types as the server describes them, and what edges may leave a node from. */

import type { Schemas } from "../api/client";
import { entriesOf, kindOf, memberText, parsePointer, shownScalar, textAt } from "../json";
import { DEFAULT_HANDLE, ERROR_HANDLE, grouped, type Exits, type NodeRecord, type WorkflowDocument } from "../model";
import type { TemplateFilter } from "../ui/forms/context";
import type { JsonSchema } from "../ui/forms/schema";
import { isBeginning } from "../model/beginnings";

export type NodeType = Schemas["NodeTypeSummary"] & { configSchema: JsonSchema };

export interface ExitView {
  readonly id: string;
  readonly title: string;
  /** What decides that it is taken, shortened: the expression of a branch. */
  readonly detail: string | null;
  /** False: edges leave by it, and the type does not have it. */
  readonly isKnown: boolean;
}

const NO_EXITS: readonly ExitView[] = [];

export class NodeTypes {
  readonly all: readonly NodeType[];
  readonly nodeFields: JsonSchema;
  readonly templateFilters: readonly TemplateFilter[];
  readonly #byName: ReadonlyMap<string, NodeType>;
  #views = new WeakMap<NodeRecord, readonly ExitView[]>();
  #exits = new WeakMap<NodeRecord, Exits>();

  constructor(all: readonly NodeType[], nodeFields: JsonSchema, templateFilters: readonly TemplateFilter[]) {
    this.all = all;
    this.nodeFields = nodeFields;
    this.templateFilters = templateFilters;
    this.#byName = new Map(all.map((type) => [type.name, type]));
  }

  get(name: string): NodeType | undefined {
    return this.#byName.get(name);
  }

  isLoop(node: NodeRecord): boolean {
    return this.get(node.type)?.container === "loop";
  }

  /** The exits of a node, `error` last; of a type that is not installed here, those that its edges use. */
  viewOf(node: NodeRecord, used: ReadonlySet<string> | undefined): readonly ExitView[] {
    const own = this.#ownViewOf(node);
    const unknown = [...(used ?? [])].filter((id) => !own.some((exit) => exit.id === id));
    if (unknown.length === 0) return own;
    const added = unknown.map((id): ExitView => ({ id, title: id, detail: null, isKnown: this.get(node.type) === undefined }));
    const error = own.filter(({ id }) => id === ERROR_HANDLE);
    return [...own.filter(({ id }) => id !== ERROR_HANDLE), ...added, ...error];
  }

  readonly exitsOf = (node: NodeRecord): Exits => {
    const known = this.#exits.get(node);
    if (known !== undefined) return known;
    const exits = { handles: this.#ownViewOf(node).map(({ id }) => id), hasEntry: hasEntry(node.type) };
    this.#exits.set(node, exits);
    return exits;
  };

  #ownViewOf(node: NodeRecord): readonly ExitView[] {
    const known = this.#views.get(node);
    if (known !== undefined) return known;
    const views = this.#makeView(node);
    this.#views.set(node, views);
    return views;
  }

  #makeView(node: NodeRecord): readonly ExitView[] {
    const type = this.get(node.type);
    // A mapped node has none of the handles that it leaves by for one item.
    if (type === undefined || node.mapped) {
      return [
        { id: DEFAULT_HANDLE, title: "Default", detail: null, isKnown: true },
        { id: ERROR_HANDLE, title: "Error", detail: null, isKnown: true },
      ];
    }
    const fixed = type.handles.map(({ id, title }): ExitView => ({ id, title, detail: null, isKnown: true }));
    const dynamic = type.dynamicHandles == null ? NO_EXITS : dynamicExits(node, type.dynamicHandles);
    const at = fixed.findIndex(({ id }) => id === type.dynamicHandles?.before);
    return at < 0 ? [...dynamic, ...fixed] : [...fixed.slice(0, at), ...dynamic, ...fixed.slice(at)];
  }
}

export function hasEntry(type: string): boolean {
  return !isBeginning(type);
}

/** The handles that edges leave by, per node id. */
export function usedHandles(document: WorkflowDocument): ReadonlyMap<string, ReadonlySet<string>> {
  let used = usedByEdges.get(document.edges);
  if (used === undefined) {
    used = new Map([...grouped(document.edges.values(), (edge) => edge.source)].map(([id, edges]) => [id, new Set(edges.map((edge) => edge.handle))]));
    usedByEdges.set(document.edges, used);
  }
  return used;
}

const usedByEdges = new WeakMap<object, ReadonlyMap<string, ReadonlySet<string>>>();

function dynamicExits(node: NodeRecord, { items, id }: { items: string; id: string }): readonly ExitView[] {
  const list = node.config === null ? undefined : textAt(node.config, parsePointer(items));
  if (list === undefined || kindOf(list) !== "array") return NO_EXITS;
  return entriesOf(list).flatMap(({ text }) => {
    const name = memberText(text, id);
    if (name === undefined || kindOf(name) !== "string") return [];
    const expression = memberText(text, "expression");
    return [{ id: shownScalar(name), title: shownScalar(name), detail: expression === undefined ? null : shortened(shownScalar(expression)), isKnown: true }];
  });
}

/** `{{ ctx.order.total > 100 }}` → `order.total > 100`. */
function shortened(expression: string): string {
  const inner = /^\s*\{\{(.*)\}\}\s*$/s.exec(expression)?.[1]?.trim() ?? expression;
  return inner.replaceAll("ctx.", "");
}

/** One line that says what a node does, from its config. */
export function summaryOf(node: NodeRecord, type: NodeType | undefined): string {
  if (node.config !== null && kindOf(node.config) === "object") {
    const read = (name: string) => {
      const text = memberText(node.config!, name);
      return text === undefined || kindOf(text) === "object" || kindOf(text) === "array" || text === "null" ? "" : shownScalar(text);
    };
    const said = {
      httpRequest: `${read("method") || "GET"} ${read("url")}`,
      waitForEvent: read("event"),
      delay: read("duration") || read("until"),
      loop: shortened(read("source") || read("while")),
      cursor: shortened(read("source")),
      workflow: read("workflow"),
      dataQuery: read("dataQueryID"),
    }[node.type];
    if (said?.trim()) return said.trim();
  }
  return type?.title ?? node.type;
}
