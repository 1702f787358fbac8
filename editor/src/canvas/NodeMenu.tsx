/** The menu of a node, at the place of a click or of the node. */

import { DropdownMenu } from "radix-ui";
import type { ReactElement } from "react";

import { KEYMAP, removeAndBridge, shownChord, type CommandName } from "../edit";
import { isNodeKey, type Point, type SelectableKey } from "../model";
import { flowOf } from "./Canvas";
import { useCanvasModel } from "./CanvasModel";
import { runCommand, type CanvasActions } from "./commands";
import { focusNode } from "./focus";

export interface MenuRequest {
  readonly key: SelectableKey;
  readonly at: Point;
}

interface NodeMenuProps {
  request: MenuRequest | null;
  onClose: () => void;
  actions: CanvasActions;
}

export function NodeMenu({ request, onClose, actions }: NodeMenuProps): ReactElement | null {
  const model = useCanvasModel();
  if (request === null) return null;
  const { key } = request;
  const isNode = isNodeKey(key);
  const item = (command: CommandName, label: string, run?: () => void) => {
    const chord = KEYMAP.find((binding) => binding.command === command)?.chords[0];
    return (
      <DropdownMenu.Item key={label} className={`menu-item ${command === "delete" ? "danger" : ""}`} onSelect={() => (run ?? (() => runCommand(command, model, flowOf(model), actions)))()}>
        <span>{label}</span>
        {chord && run === undefined && <span className="keys">{shownChord(chord)}</span>}
      </DropdownMenu.Item>
    );
  };
  return (
    <DropdownMenu.Root
      open
      modal={false}
      onOpenChange={(open) => {
        if (open) return;
        onClose();
        if (isNode && model.document.nodes.has(key)) focusNode(model, flowOf(model), key);
      }}
    >
      <DropdownMenu.Trigger asChild>
        <span style={{ position: "fixed", left: request.at.x, top: request.at.y, width: 1, height: 1 }} aria-hidden />
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="start" collisionPadding={8} onCloseAutoFocus={(event) => event.preventDefault()}>
          {isNode && item("open", "Open")}
          {!model.isReadOnly && (
            <>
              {isNode && item("palette", "Add a node behind")}
              {isNode && item("connect", "Connect…")}
              {isNode && item("rename", "Rename…")}
              <DropdownMenu.Separator className="menu-line" />
              {isNode && actions.runAlone && item("test", "Run this node alone", () => actions.runAlone?.(key))}
              {isNode && actions.runToHere && item("runToHere", "Run to here")}
              {isNode && actions.runFromHere && item("test", "Run again from here", () => actions.runFromHere?.(key))}
              {isNode && actions.pin && item("pin", "Pin or unpin the output")}
              {isNode && item("disable", "Disable or enable")}
              <DropdownMenu.Separator className="menu-line" />
              {item("duplicate", "Duplicate")}
              {isNode && item("delete", "Delete, keep the way", () => model.try(() => removeAndBridge(model.store, model.selection.keys)))}
              {item("delete", "Delete")}
            </>
          )}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
