/** Where nodes are put when somebody tidies up, or a document has no places. */

export * from "./client";
export * from "./graph";
