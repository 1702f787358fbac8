/** New workflows begin as drafts: blank, from a template, or from a file. */

import { call } from "../../api/client";
import { readDocument } from "../../model";
import { refresh } from "../data";

/** A workflow with nothing but its start. */
export const BLANK = '{\n  "title": "",\n  "nodes": [\n    {"id": "start", "type": "start", "position": {"x": 80, "y": 160}}\n  ],\n  "edges": [\n  ]\n}\n';

/** Keep a document as a new draft; its id. Throws where the text is not a workflow, with words for the person. */
export async function createDraft(document: string): Promise<string> {
  readDocument(document);
  const draft = await call("create_draft", { bodyText: `{"document": ${document}}` });
  refresh("list_drafts");
  return draft.draftID;
}
