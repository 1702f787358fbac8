/** What is known of a run: now, and as of any row of its log. */

export * from "./runLog";
export * from "./runStore";
export * from "./scopes";
export * from "./shapes";
export * from "./timeline";
