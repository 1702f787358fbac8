/** The workflow as a list: containers are rows that open, nodes stand in the order in which they run; every command works here, too. */

import { useMemo, useRef, useState, type KeyboardEvent, type ReactElement } from "react";

import { chordOf, commandOf } from "../edit";
import { indexOf, isNodeKey, selected, type ContainerID, type NodeKey, type WorkflowDocument } from "../model";
import { useCanvas, useCanvasModel, type CanvasView } from "./CanvasModel";
import { runCommand, type CanvasActions } from "./commands";
import { titleOf } from "./flow";
import { TypeIcon } from "./icons";
import { summaryOf } from "./nodeTypes";

interface ListRow {
  readonly key: NodeKey;
  readonly level: number;
  /** The container that opens below it. */
  readonly container: ContainerID | null;
}

export function ListView({ actions }: { actions: CanvasActions }): ReactElement {
  const model = useCanvasModel();
  const view = useCanvas((state) => state);
  const [closed, setClosed] = useState<ReadonlySet<ContainerID>>(new Set());
  const rows = useMemo(() => rowsOf(view, closed), [view.document, view.containers, closed]); // eslint-disable-line react-hooks/exhaustive-deps
  const grid = useRef<HTMLDivElement>(null);
  const lead = view.selection.lead !== null && isNodeKey(view.selection.lead) ? view.selection.lead : (rows[0]?.key ?? null);
  const byID = indexOf(view.document);

  const focus = (key: NodeKey) => {
    model.select(selected(key));
    requestAnimationFrame(() => grid.current?.querySelector<HTMLElement>(`[data-row="${key}"]`)?.focus());
  };
  const toggle = (container: ContainerID, isOpen: boolean) =>
    setClosed((before) => {
      const next = new Set(before);
      if (isOpen) next.delete(container);
      else next.add(container);
      return next;
    });
  const onKeyDown = (event: KeyboardEvent) => {
    const index = rows.findIndex((row) => row.key === lead);
    const row = rows[index];
    const to = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (event.shiftKey || event.ctrlKey || event.metaKey || event.altKey || to === undefined) {
      if (row?.container != null && (event.key === "ArrowRight" || event.key === "ArrowLeft") && !event.shiftKey) {
        toggle(row.container, event.key === "ArrowRight");
        event.preventDefault();
        return;
      }
      const command = commandOf(chordOf(event), false);
      if (command === null || command.startsWith("walk")) return;
      if (runCommand(command, model, null, actions)) {
        event.preventDefault();
        event.stopPropagation();
      }
      return;
    }
    event.preventDefault();
    const next = rows[Math.max(0, Math.min(rows.length - 1, to))];
    if (next) focus(next.key);
  };

  return (
    <div ref={grid} className="list-view" role="treegrid" aria-label="Nodes of the workflow" onKeyDown={onKeyDown}>
      <div role="row" className="list-row head">
        {["Node", "What it does", "Leads to", "Problems"].map((title) => (
          <span key={title} role="columnheader">
            {title}
          </span>
        ))}
      </div>
      {rows.map(({ key, level, container }) => {
        const node = view.document.nodes.get(key)!;
        const type = model.types.get(node.type);
        const problems = view.verdict?.byKey.get(key) ?? [];
        const next = [...view.document.edges.values()].filter((edge) => edge.source === node.id);
        return (
          <div
            key={key}
            role="row"
            className="list-row"
            data-row={key}
            aria-level={level}
            aria-selected={view.selection.keys.has(key)}
            aria-expanded={container === null ? undefined : !closed.has(container)}
            tabIndex={key === lead ? 0 : -1}
            onClick={() => focus(key)}
            onDoubleClick={() => model.set({ open: key, openPlace: null })}
          >
            <span role="rowheader" className="row" style={{ paddingLeft: (level - 1) * 20 }}>
              <span className="node-icon" data-category={type?.category}>
                <TypeIcon icon={type?.icon} title={type?.title ?? node.type} size={15} />
              </span>
              <span className="clip">
                {titleOf(node)}
                {node.disabled && <span className="badge">off</span>}
              </span>
            </span>
            <span role="gridcell" className="faint clip">
              {type === undefined ? `${node.type}: not installed here` : summaryOf(node, type)}
            </span>
            <span role="gridcell" className="clip">
              {next.map((edge) => `${edge.handle === "default" ? "" : `${edge.handle}: `}${titleOf(byID.get(edge.target)) || edge.target}`).join(", ")}
            </span>
            <span role="gridcell" className="clip list-problems">
              {problems.map(({ message }) => message).join("; ")}
            </span>
          </div>
        );
      })}
      {rows.length === 0 && <p className="faint" style={{ padding: 16 }}>No node yet. Press n to add one.</p>}
    </div>
  );
}

/** Rows in the order of the edges: a node stands behind those that lead to it, a body right below its loop. */
function rowsOf(view: CanvasView, closed: ReadonlySet<ContainerID>): ListRow[] {
  const order = topological(view.document);
  const rows: ListRow[] = [];
  const add = (id: ContainerID, level: number) => {
    const members = [...(view.containers.byID.get(id)?.members ?? [])].sort((one, other) => (order.get(one) ?? 0) - (order.get(other) ?? 0));
    for (const key of members) {
      const loop: ContainerID = `loop:${key}`;
      const container = view.containers.byID.has(loop) ? loop : null;
      rows.push({ key, level, container });
      if (container !== null && !closed.has(container)) add(container, level + 1);
    }
    for (const child of view.containers.byID.get(id)?.children ?? []) if (child.startsWith("region:")) add(child, level + 1);
  };
  add("root", 1);
  return rows;
}

function topological(document: WorkflowDocument): ReadonlyMap<NodeKey, number> {
  const byID = indexOf(document);
  const order = new Map<NodeKey, number>();
  const waiting = new Map<NodeKey, number>([...document.nodes.keys()].map((key) => [key, 0]));
  for (const edge of document.edges.values()) {
    const target = byID.get(edge.target);
    if (target !== undefined) waiting.set(target.key, (waiting.get(target.key) ?? 0) + 1);
  }
  const ready = [...waiting].filter(([, count]) => count === 0).map(([key]) => key);
  const rest = [...document.nodes.keys()];
  while (order.size < document.nodes.size) {
    // In a circle nobody is first: the first of the document is.
    const key = ready.shift() ?? rest.find((each) => !order.has(each))!;
    if (order.has(key)) continue;
    order.set(key, order.size);
    const id = document.nodes.get(key)!.id;
    for (const edge of document.edges.values()) {
      if (edge.source !== id) continue;
      const target = byID.get(edge.target);
      if (target === undefined || order.has(target.key)) continue;
      const left = (waiting.get(target.key) ?? 1) - 1;
      waiting.set(target.key, left);
      if (left === 0) ready.push(target.key);
    }
  }
  return order;
}
