/** The keys of the canvas, as data: the keymap, the help and the menus read this table. It has no collisions; a test says so. */

/** A chord: modifiers in the order `ctrl shift alt`, then the key as `KeyboardEvent.key` names it, letters in lower case. */
export type Chord = string;

export interface KeyBinding {
  readonly command: CommandName;
  readonly title: string;
  readonly chords: readonly Chord[];
  /** `move`: only in move mode, where it comes before the others. */
  readonly mode?: "move";
}

export type CommandName =
  | "palette"
  | "connect"
  | "open"
  | "close"
  | "rename"
  | "disable"
  | "pin"
  | "note"
  | "tidy"
  | "fit"
  | "actualSize"
  | "zoomIn"
  | "zoomOut"
  | "walkLeft"
  | "walkRight"
  | "walkUp"
  | "walkDown"
  | "selectUpstream"
  | "selectDownstream"
  | "moveMode"
  | "moveLeft"
  | "moveRight"
  | "moveUp"
  | "moveDown"
  | "moveFarLeft"
  | "moveFarRight"
  | "moveFarUp"
  | "moveFarDown"
  | "endMove"
  | "outerContainer"
  | "innerContainer"
  | "undo"
  | "redo"
  | "selectAll"
  | "copy"
  | "cut"
  | "paste"
  | "duplicate"
  | "delete"
  | "nextFailure"
  | "iterationBefore"
  | "iterationAfter"
  | "test"
  | "runToHere"
  | "save"
  | "commands"
  | "help"
  | "menu";

export const KEYMAP: readonly KeyBinding[] = [
  { command: "palette", title: "Add a node behind the selection", chords: ["n", "/"] },
  { command: "connect", title: "Connect to another node", chords: ["c"] },
  { command: "open", title: "Open the node", chords: ["enter"] },
  { command: "close", title: "Close, deselect", chords: ["escape"] },
  { command: "rename", title: "Rename", chords: ["f2"] },
  { command: "disable", title: "Disable or enable", chords: ["d"] },
  { command: "pin", title: "Pin the output", chords: ["p"] },
  { command: "note", title: "Add a note", chords: ["shift+s"] },
  { command: "tidy", title: "Tidy up", chords: ["shift+alt+t"] },
  { command: "fit", title: "Show everything", chords: ["1"] },
  { command: "actualSize", title: "Zoom to 100 %", chords: ["0"] },
  { command: "zoomIn", title: "Zoom in", chords: ["+"] },
  { command: "zoomOut", title: "Zoom out", chords: ["-"] },
  { command: "walkLeft", title: "Go to a node before", chords: ["arrowleft"] },
  { command: "walkRight", title: "Go to a node behind", chords: ["arrowright"] },
  { command: "walkUp", title: "Go to the sibling above", chords: ["arrowup"] },
  { command: "walkDown", title: "Go to the sibling below", chords: ["arrowdown"] },
  { command: "selectUpstream", title: "Select all that lead here", chords: ["shift+arrowleft"] },
  { command: "selectDownstream", title: "Select all that it leads to", chords: ["shift+arrowright"] },
  { command: "moveMode", title: "Move by arrows", chords: ["m"] },
  { command: "moveLeft", title: "Move left", chords: ["arrowleft"], mode: "move" },
  { command: "moveRight", title: "Move right", chords: ["arrowright"], mode: "move" },
  { command: "moveUp", title: "Move up", chords: ["arrowup"], mode: "move" },
  { command: "moveDown", title: "Move down", chords: ["arrowdown"], mode: "move" },
  { command: "moveFarLeft", title: "Move far left", chords: ["shift+arrowleft"], mode: "move" },
  { command: "moveFarRight", title: "Move far right", chords: ["shift+arrowright"], mode: "move" },
  { command: "moveFarUp", title: "Move far up", chords: ["shift+arrowup"], mode: "move" },
  { command: "moveFarDown", title: "Move far down", chords: ["shift+arrowdown"], mode: "move" },
  { command: "endMove", title: "End moving", chords: ["enter", "escape"], mode: "move" },
  { command: "outerContainer", title: "Go out to the container", chords: ["["] },
  { command: "innerContainer", title: "Go into the container", chords: ["]"] },
  { command: "undo", title: "Undo", chords: ["ctrl+z"] },
  { command: "redo", title: "Redo", chords: ["ctrl+shift+z", "ctrl+y"] },
  { command: "selectAll", title: "Select everything", chords: ["ctrl+a"] },
  { command: "copy", title: "Copy", chords: ["ctrl+c"] },
  { command: "cut", title: "Cut", chords: ["ctrl+x"] },
  { command: "paste", title: "Paste", chords: ["ctrl+v"] },
  { command: "duplicate", title: "Duplicate", chords: ["ctrl+d"] },
  { command: "delete", title: "Delete", chords: ["delete", "backspace"] },
  { command: "nextFailure", title: "Go to the next failure", chords: ["f"] },
  { command: "iterationBefore", title: "Show the iteration before", chords: [","] },
  { command: "iterationAfter", title: "Show the iteration after", chords: ["."] },
  { command: "test", title: "Test", chords: ["ctrl+enter"] },
  { command: "runToHere", title: "Run to here", chords: ["ctrl+shift+enter"] },
  { command: "save", title: "Save the draft now", chords: ["ctrl+s"] },
  { command: "commands", title: "All commands", chords: ["ctrl+k"] },
  { command: "help", title: "Help", chords: ["?"] },
  { command: "menu", title: "Menu of the node", chords: ["shift+f10", "contextmenu"] },
];

/** What of a keyboard event decides. */
export interface KeyPress {
  readonly key: string;
  /** The key's place: with alt, some keyboards type other letters. */
  readonly code: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly shiftKey: boolean;
  readonly altKey: boolean;
}

/** The chord of a key press; the command key of a Mac counts as ctrl. */
export function chordOf({ key, code, ctrlKey, metaKey, shiftKey, altKey }: KeyPress): Chord {
  const isLetter = /^Key[A-Z]$/.test(code) && (altKey || key.length === 1);
  const letter = altKey && isLetter ? code.slice(3).toLowerCase() : key.toLowerCase();
  // Signs are what is typed, whatever is held for it: "?" and "+" need shift on some keyboards and not on others.
  const isSign = key.length === 1 && !/^\p{L}$/u.test(key) && !(altKey && isLetter);
  const modifiers = [ctrlKey || metaKey ? "ctrl" : "", shiftKey && !isSign ? "shift" : "", altKey && !isSign ? "alt" : ""];
  return [...modifiers.filter((name) => name !== ""), letter].join("+");
}

/** The command of a chord; null if it has none. */
export function commandOf(chord: Chord, isMoving: boolean): CommandName | null {
  const bindings = KEYMAP.filter((binding) => binding.chords.includes(chord));
  const moving = isMoving ? bindings.find((binding) => binding.mode === "move") : undefined;
  return (moving ?? bindings.find((binding) => binding.mode === undefined))?.command ?? null;
}

/** A chord as it is shown: `Ctrl + Shift + Z`. */
export function shownChord(chord: Chord): string {
  const names: Readonly<Record<string, string>> = { arrowleft: "←", arrowright: "→", arrowup: "↑", arrowdown: "↓" };
  const parts = chord === "+" ? ["+"] : chord.split("+");
  return parts.map((part) => names[part] ?? part[0]!.toUpperCase() + part.slice(1)).join(" + ");
}
