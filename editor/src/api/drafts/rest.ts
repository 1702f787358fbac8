/** The server's drafts, over REST: documents go there and come back as the texts that they are. */

import { memberText } from "../../json";
import { ApiError, call, callText, type Schemas } from "../client";
import type { DraftServer, FetchAnswer, Refused, SaveAnswer } from "./draftSaver";
import type { DraftVersion, OpenedDraft, ReadOnlyReason } from "./saving";

/** A draft with the text of its document. Throws `ApiError`. */
export async function openDraft(draftID: string): Promise<OpenedDraft> {
  const { value, text } = await callText("get_draft", { path: { draft: draftID } });
  return { ...value, text: memberText(text, "document") ?? "{}" };
}

/** The draft of a workflow; null if it has none. */
export async function openDraftOf(workflow: string): Promise<OpenedDraft | null> {
  const [found] = (await call("list_drafts", { query: { workflow } })).items;
  if (found === undefined) return null;
  try {
    return await openDraft(found.draftID);
  } catch (failure) {
    if (failure instanceof ApiError && failure.status === 404) return null; // deleted meanwhile
    throw failure;
  }
}

/** Save a text as the next revision of a draft, on another base version if one is given. Throws `ApiError`. */
export function saveDraft(draft: DraftVersion, text: string, baseVersion: number | null = null): Promise<Schemas["DraftSummary"]> {
  return call("save_draft", { path: { draft: draft.draftID }, headers: ifMatch(draft), bodyText: `{"baseVersion": ${baseVersion}, "document": ${text}}` });
}

/** Publish a draft as it was saved last. Throws `ApiError`. */
export function publishDraft(draft: DraftVersion, { activate }: { activate: boolean }): Promise<Schemas["PublishedDraft"]> {
  return call("publish_draft", { path: { draft: draft.draftID }, query: { activate }, headers: ifMatch(draft) });
}

/** The server of a saver. `workflow` and `version`: what a draft is of that does not exist yet. */
export class RestDrafts implements DraftServer<ApiError> {
  readonly #workflow: string | null;
  readonly #version: number | null;

  constructor(workflow: string | null, version: number | null) {
    this.#workflow = workflow;
    this.#version = version;
  }

  create(text: string): Promise<SaveAnswer<ApiError>> {
    const bodyText = `{"workflow": ${JSON.stringify(this.#workflow)}, "baseVersion": ${this.#version}, "document": ${text}}`;
    return answered(call("create_draft", { bodyText }), null);
  }

  save(draft: DraftVersion, text: string): Promise<SaveAnswer<ApiError>> {
    return answered(saveDraft(draft, text), draft.draftID);
  }

  async fetch(draftID: string): Promise<FetchAnswer<ApiError>> {
    try {
      return { kind: "draft", draft: await openDraft(draftID) };
    } catch (failure) {
      return refusalOf(failure);
    }
  }
}

async function answered(saving: Promise<DraftVersion>, draftID: string | null): Promise<SaveAnswer<ApiError>> {
  try {
    return { kind: "saved", draft: await saving };
  } catch (failure) {
    if (failure instanceof ApiError && failure.code === "DRAFT_EXISTS") return { kind: "overtaken", draftID: (failure.details as DraftVersion).draftID };
    if (failure instanceof ApiError && failure.status === 412 && draftID !== null) return { kind: "overtaken", draftID };
    return refusalOf(failure);
  }
}

const READ_ONLY: Readonly<Record<number, ReadOnlyReason>> = { 401: "signedOut", 403: "role", 404: "gone" };

/** What a failure means for saving. A server that fails, or has no time, is asked again like one that is away. */
function refusalOf(failure: unknown): Refused<ApiError> {
  if (!(failure instanceof ApiError)) throw failure;
  const reason = READ_ONLY[failure.status];
  if (reason !== undefined) return { kind: "readOnly", reason };
  if (failure.isOffline || failure.status === 429 || failure.status >= 500) return { kind: "unreachable" };
  return { kind: "refused", error: failure };
}

function ifMatch({ revision }: DraftVersion): Record<string, string> {
  return { "If-Match": `"${revision}"` };
}
