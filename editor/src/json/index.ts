/** JSON that is read and written without loss. */

export * from "./edit";
export * from "./large";
export * from "./pointer";
export * from "./scan";
export * from "./value";
