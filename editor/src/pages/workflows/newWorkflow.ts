/** New workflows begin as drafts: blank, from the sample, or from a file. */

import { call } from "../../api/client";
import { readDocument } from "../../model";
import { refresh } from "../data";

/** A workflow with a branch, a loop and a join: what they look like, and something to try. */
export const SAMPLE = `{
  "title": "Order triage",
  "nodes": [
    {"id": "start", "type": "start", "position": {"x": 80, "y": 240}},
    {"id": "large", "type": "condition", "name": "Large order?", "config": {"branches": [{"id": "yes", "expression": "{{ ctx.input.total > 100 }}"}]}, "position": {"x": 376, "y": 240}},
    {"id": "approval", "type": "waitForEvent", "name": "Wait for approval", "config": {"event": "approve"}, "outputVariable": "approval", "position": {"x": 680, "y": 80}},
    {"id": "each", "type": "loop", "name": "Each item", "config": {"source": "{{ ctx.input.items }}", "concurrency": 4}, "outputVariable": "priced", "position": {"x": 1000, "y": 240}},
    {"id": "price", "type": "set", "name": "Price it", "config": {"values": {"line": "{{ ctx.item.name }}", "sum": "{{ ctx.item.count * ctx.item.each }}"}}, "position": {"x": 1312, "y": 256}},
    {"id": "end", "type": "end", "config": {"outputParameters": {"lines": "{{ ctx.priced }}"}}, "position": {"x": 1680, "y": 240}}
  ],
  "edges": [
    {"upstreamNodeID": "start", "downstreamNodeID": "large"},
    {"upstreamNodeID": "large", "downstreamNodeID": "approval", "sourceHandle": "yes"},
    {"upstreamNodeID": "large", "downstreamNodeID": "each", "sourceHandle": "else"},
    {"upstreamNodeID": "approval", "downstreamNodeID": "each"},
    {"upstreamNodeID": "each", "downstreamNodeID": "price", "sourceHandle": "loop"},
    {"upstreamNodeID": "each", "downstreamNodeID": "end", "sourceHandle": "done"}
  ],
  "workflowOptions": {
    "inputSchema": {
      "type": "object",
      "required": ["total", "items"],
      "properties": {
        "total": {"type": "number", "default": 120},
        "items": {"type": "array", "default": [{"name": "tea", "count": 2, "each": 4}, {"name": "cups", "count": 6, "each": 3}]}
      }
    }
  }
}
`;

/** Keep a document as a new draft; its id. Throws where the text is no workflow, with words for the person. */
export async function createDraft(document: string): Promise<string> {
  readDocument(document);
  const draft = await call("create_draft", { bodyText: `{"document": ${document}}` });
  refresh("list_drafts");
  return draft.draftID;
}
