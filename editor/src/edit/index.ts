/** Editing a document: transactions with undo, and the commands that people give. */

export * from "./commands/addNode";
export * from "./commands/applyFix";
export * from "./commands/clipboard";
export * from "./commands/connect";
export * from "./commands/fields";
export * from "./commands/move";
export * from "./commands/notes";
export * from "./commands/remove";
export * from "./commands/rename";
export * from "./commands/replace";
export * from "./commands/wiring";
export * from "./keymap";
export * from "./store";
