/** Drafts: saved as they are edited, kept in this browser first, and never over somebody else's save. */

export * from "./draftSaver";
export * from "./outbox";
export * from "./rest";
export * from "./saving";
export * from "./tabs";
