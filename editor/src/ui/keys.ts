/** How keys are written for people: ⌘ on a Mac, Ctrl elsewhere. */

export const IS_MAC = /Mac|iPhone|iPad/.test(navigator.platform);

const NAMES: Record<string, string> = {
  mod: IS_MAC ? "⌘" : "Ctrl",
  ctrl: "Ctrl",
  shift: IS_MAC ? "⇧" : "Shift",
  alt: IS_MAC ? "⌥" : "Alt",
  enter: "Enter",
  escape: "Esc",
  delete: "Delete",
  left: "←",
  right: "→",
  up: "↑",
  down: "↓",
};

/** `mod+shift+z` as a person reads it. */
export function keysText(keys: string): string {
  const parts = keys === "+" ? ["+"] : keys.split("+").map((part) => NAMES[part] ?? (part.length === 1 ? part.toUpperCase() : part));
  return parts.join(IS_MAC ? "" : "+");
}
