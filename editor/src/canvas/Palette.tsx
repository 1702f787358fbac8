/** Node types to choose from: as a list beside the canvas, and as a dialog for the keyboard and for open ends. */

import { Command, defaultFilter } from "cmdk";
import { Dialog as Radix } from "radix-ui";
import { Search } from "lucide-react";
import { useDeferredValue, useMemo, useState, type ReactElement } from "react";

import { mayAdd } from "../model/beginnings";
import { flowOf, DRAGGED_TYPE } from "./Canvas";
import { useCanvas, useCanvasModel } from "./CanvasModel";
import { canvasLead } from "./lead";
import { insertNode, mayInsert } from "./insert";
import { TypeIcon } from "./icons";
import type { NodeType } from "./nodeTypes";
import { titleOf } from "./flow";

const CATEGORY_TITLES: Record<string, string> = { trigger: "Triggers", flow: "Flow", data: "Data", network: "Network", code: "Code", custom: "Your own" };
const CATEGORY_ORDER = ["trigger", "flow", "data", "code", "network"];

function byCategory(types: readonly NodeType[]): [string, NodeType[]][] {
  const groups = new Map<string, NodeType[]>();
  for (const type of types) groups.set(type.category, [...(groups.get(type.category) ?? []), type]);
  const rank = (name: string) => (CATEGORY_ORDER.includes(name) ? CATEGORY_ORDER.indexOf(name) : CATEGORY_ORDER.length);
  return [...groups].sort(([one], [other]) => rank(one) - rank(other) || one.localeCompare(other));
}

function categoryTitle(name: string): string {
  return CATEGORY_TITLES[name] ?? name.charAt(0).toUpperCase() + name.slice(1);
}

/** The list beside the canvas: a click adds behind the selection, dragging puts anywhere. */
export function PaletteList(): ReactElement {
  const model = useCanvasModel();
  const [search, setSearch] = useState("");
  const wanted = useDeferredValue(search.trim().toLowerCase());
  const groups = useMemo(
    () => byCategory(model.types.all.filter((type) => `${type.title} ${type.name} ${type.description ?? ""}`.toLowerCase().includes(wanted))),
    [model, wanted],
  );
  const document = useCanvas((view) => view.document);
  return (
    <section className="palette" aria-label="Node types">
      <div className="search-field">
        <Search size={15} aria-hidden />
        <input className="input" type="search" aria-label="Search node types" placeholder="Search nodes" value={search} onChange={(event) => setSearch(event.target.value)} />
      </div>
      <div className="palette-groups">
        {groups.map(([category, types]) => (
          <div key={category}>
            <h3>{categoryTitle(category)}</h3>
            <ul>
              {types
                .filter((type) => mayAdd(document, type.name))
                .map((type) => (
                  <li key={type.name}>
                    <button
                      type="button"
                      className="palette-item"
                      data-category={type.category}
                      title={type.description ?? undefined}
                      draggable
                      onDragStart={(event) => {
                        event.dataTransfer.setData(DRAGGED_TYPE, type.name);
                        event.dataTransfer.effectAllowed = "copy";
                      }}
                      onClick={() => {
                        const view = model.view.getState();
                        insertNode(model, flowOf(model), type.name, { kind: "behind", node: view.selection.lead === null ? null : canvasLead(view) });
                      }}
                    >
                      <span className="node-icon">
                        <TypeIcon icon={type.icon} title={type.title} size={16} />
                      </span>
                      {type.title}
                    </button>
                  </li>
                ))}
            </ul>
          </div>
        ))}
        {groups.length === 0 && <p className="faint small">No node type is called so.</p>}
      </div>
    </section>
  );
}

/** What is called exactly so comes first, then what has it in its name, then in its description. */
function rank(name: string, search: string, [title = "", description = ""]: string[] = []): number {
  const wanted = search.trim().toLowerCase();
  if (name.toLowerCase() === wanted || title.toLowerCase() === wanted) return 2;
  return Math.max(defaultFilter(name, search, [title]), defaultFilter(description, search, []) / 2);
}

/** The dialog that `n` opens, an edge's plus, or a line that was drawn into the void. */
export function PaletteDialog(): ReactElement {
  const model = useCanvasModel();
  const request = useCanvas((view) => view.palette);
  const where = useCanvas((view) => {
    if (request === null || request.kind === "edge") return request === null ? "" : "on the edge";
    const node = request.node === null ? undefined : view.document.nodes.get(request.node);
    return node === undefined ? "" : `behind ${titleOf(node)}`;
  });
  const [search, setSearch] = useState("");
  const types = request === null ? [] : model.types.all.filter((type) => mayInsert(model, type.name, request));
  const close = () => {
    setSearch("");
    model.set({ palette: null });
  };
  const insert = (name: string) => {
    if (request === null) return;
    close();
    insertNode(model, flowOf(model), name, request);
  };
  return (
    <Radix.Root open={request !== null} onOpenChange={(open) => !open && close()}>
      <Radix.Portal>
        <Radix.Overlay className="overlay clear" />
        <Radix.Content className="dialog finder" aria-describedby={undefined} onCloseAutoFocus={(event) => event.preventDefault()}>
          <Radix.Title className="visually-hidden">Add a node {where}</Radix.Title>
          <Command label="Node types" loop filter={rank}>
            <Command.Input autoFocus placeholder={`Add a node ${where}`} value={search} onValueChange={setSearch} />
            <Command.List>
              <Command.Empty>No node type is called so.</Command.Empty>
              {/* What is searched for is one list, the best first: groups keep their order. */}
              {search.trim() !== ""
                ? types.map((type) => <PaletteItem key={type.name} type={type} onSelect={insert} />)
                : byCategory(types).map(([category, members]) => (
                    <Command.Group key={category} heading={categoryTitle(category)}>
                      {members.map((type) => (
                        <PaletteItem key={type.name} type={type} onSelect={insert} />
                      ))}
                    </Command.Group>
                  ))}
            </Command.List>
          </Command>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

function PaletteItem({ type, onSelect }: { type: NodeType; onSelect: (name: string) => void }): ReactElement {
  return (
    <Command.Item value={type.name} keywords={[type.title, type.description ?? ""]} onSelect={() => onSelect(type.name)}>
      <span className="node-icon" data-category={type.category}>
        <TypeIcon icon={type.icon} title={type.title} size={16} />
      </span>
      <span className="finder-words">
        <span>{type.title}</span>
        <span className="faint small clip">{type.description}</span>
      </span>
    </Command.Item>
  );
}
