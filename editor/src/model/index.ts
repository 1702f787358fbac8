/** A workflow document, and what can be said about it without changing it. */

export * from "./containers";
export * from "./diff";
export * from "./document";
export * from "./frames";
export * from "./geometry";
export * from "./grouped";
export * from "./hash";
export * from "./identity";
export * from "./ids";
export * from "./merge3";
export * from "./selection";
