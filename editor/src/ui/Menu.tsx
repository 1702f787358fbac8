/** Menus that open from a button. */

import { DropdownMenu } from "radix-ui";
import type { ReactElement, ReactNode } from "react";

import { keysText } from "./keys";

export interface MenuEntry {
  label: string;
  icon?: ReactNode;
  keys?: string | undefined;
  danger?: boolean;
  disabled?: boolean;
  onSelect: () => void;
}

/** Entries, or null for a line between them. */
export type MenuEntries = readonly (MenuEntry | null)[];

export function Menu({ trigger, entries, align = "end" }: { trigger: ReactElement; entries: MenuEntries; align?: "start" | "end" }): ReactElement {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align={align} sideOffset={4} collisionPadding={8}>
          {entries.map((entry, index) =>
            entry === null ? (
              <DropdownMenu.Separator key={index} className="menu-line" />
            ) : (
              <DropdownMenu.Item
                key={entry.label}
                className={`menu-item ${entry.danger ? "danger" : ""}`}
                disabled={entry.disabled ?? false}
                onSelect={entry.onSelect}
              >
                {entry.icon}
                <span>{entry.label}</span>
                {entry.keys && <span className="keys">{keysText(entry.keys)}</span>}
              </DropdownMenu.Item>
            ),
          )}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
