/**
 * Saves a draft while it is edited: 800 ms after the last edit, at most every 5 s, one request at a time.
 *
 * Knows texts only. Every save carries the revision that was read, so that two tabs or two people never overwrite each
 * other in silence; on a conflict saving stops until it is resolved. What is not saved yet is in the outbox.
 */

import { memberText } from "../json";
import { ApiError, call, callText, type Schemas } from "./client";
import { keepInOutbox, removeFromOutbox } from "./outbox";

export const SAVE_AFTER_MS = 800;
export const SAVE_EVERY_MS = 5_000;
const RETRY_MS_MAX = 10_000;

export interface DraftVersion {
  readonly draftID: string;
  readonly revision: number;
  readonly baseVersion: number | null;
  /** The workflow's id; null while it has not been published. */
  readonly workflow: string | null;
  readonly updatedAt: string;
  readonly updatedBy: string;
}

export interface OpenedDraft extends DraftVersion {
  readonly text: string;
}

export type SaveState =
  | { readonly kind: "saved"; readonly at: number | null }
  | { readonly kind: "unsaved" }
  | { readonly kind: "saving" }
  | { readonly kind: "offline" }
  | { readonly kind: "refused"; readonly error: ApiError }
  | { readonly kind: "conflict"; readonly theirs: OpenedDraft };

const CHANNEL = "anabranch.drafts";

export class DraftSaver {
  #draft: DraftVersion | null;
  #workflow: string | null;
  #baseVersion: number | null;
  /** What the server has. */
  #saved: string;
  #latest: string;
  #state: SaveState;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #firstEdit: number | null = null;
  #isSending = false;
  #retryMs = 500;
  #isClosed = false;
  readonly #listeners = new Set<() => void>();
  readonly #channel = new BroadcastChannel(CHANNEL);

  /** Of a draft, or of a workflow that gets one with its first edit. */
  constructor(opened: { draft: DraftVersion | null; workflow: string | null; version: number | null; text: string }) {
    this.#draft = opened.draft;
    this.#workflow = opened.workflow;
    this.#baseVersion = opened.version;
    this.#saved = opened.text;
    this.#latest = opened.text;
    this.#state = { kind: "saved", at: opened.draft === null ? null : Date.parse(opened.draft.updatedAt) };
    this.#channel.onmessage = ({ data }: MessageEvent<{ draftID: string; revision: number }>) => {
      if (data.draftID === this.#draft?.draftID && data.revision > this.#draft.revision) void this.#checkTheirs();
    };
  }

  get state(): SaveState {
    return this.#state;
  }

  get draft(): DraftVersion | null {
    return this.#draft;
  }

  /** The text that the edits were made from. */
  get base(): string {
    return this.#saved;
  }

  get outboxID(): string | null {
    return this.#draft?.draftID ?? (this.#workflow === null ? null : `workflow:${this.#workflow}`);
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The document is this text now. */
  edited(text: string): void {
    this.#latest = text;
    if (this.#state.kind === "conflict") {
      this.#keep();
      return;
    }
    if (text === this.#saved) {
      clearTimeout(this.#timer);
      this.#firstEdit = null;
      if (!this.#isSending) this.#set({ kind: "saved", at: this.#draft === null ? null : Date.parse(this.#draft.updatedAt) });
      return;
    }
    const now = Date.now();
    this.#firstEdit ??= now;
    this.#keep();
    if (this.#state.kind !== "offline" && !this.#isSending) this.#set({ kind: "unsaved" });
    const due = Math.min(now + SAVE_AFTER_MS, this.#firstEdit + SAVE_EVERY_MS);
    this.#schedule(Math.max(0, due - now));
  }

  /** Save at once. Resolves when what is edited by now is saved; rejects where it cannot be. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    while (this.#isSending) await new Promise<void>((resolve) => setTimeout(resolve, 20));
    if (this.#latest !== this.#saved || this.#draft === null) await this.#send();
    if (this.#state.kind === "conflict") throw new Error("The draft was changed elsewhere: resolve that first.");
    if (this.#state.kind === "offline") throw new ApiError(0, { message: "the server does not answer" });
    if (this.#state.kind === "refused") throw this.#state.error;
  }

  /** The conflict is resolved: edits go on from what they have; the merge itself is an edit. */
  resolved(theirs: OpenedDraft): void {
    this.#draft = theirs;
    this.#saved = theirs.text;
    this.#set({ kind: "unsaved" });
    this.edited(this.#latest);
  }

  /** Publish what is saved. Throws `ApiError`. */
  async publish(): Promise<Schemas["PublishedDraft"]> {
    await this.flush();
    const draft = this.#draft!;
    const published = await call("publish_draft", { path: { draft: draft.draftID }, headers: { "If-Match": `"${draft.revision}"` } });
    this.#take(published.draft);
    this.#set({ kind: "saved", at: Date.parse(published.draft.updatedAt) });
    return published;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#channel.close();
    if (this.#latest !== this.#saved && this.#state.kind !== "conflict") void this.#send();
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#send(), ms);
  }

  async #send(): Promise<void> {
    if (this.#isSending || this.#state.kind === "conflict") return;
    this.#isSending = true;
    const text = this.#latest;
    this.#firstEdit = null;
    this.#set({ kind: "saving" });
    try {
      const saved = await this.#write(text);
      this.#take(saved);
      this.#saved = text;
      this.#retryMs = 500;
      this.#channel.postMessage({ draftID: saved.draftID, revision: saved.revision });
      if (this.#latest === text) {
        this.#forget();
        this.#set({ kind: "saved", at: Date.parse(saved.updatedAt) });
      } else {
        this.#set({ kind: "unsaved" });
      }
    } catch (failure) {
      await this.#failed(failure);
    } finally {
      this.#isSending = false;
    }
    if (this.#latest !== this.#saved && this.#state.kind === "unsaved" && !this.#isClosed) this.#schedule(SAVE_AFTER_MS);
  }

  async #write(text: string): Promise<Schemas["DraftSummary"]> {
    if (this.#draft !== null) {
      return call("save_draft", {
        path: { draft: this.#draft.draftID },
        headers: { "If-Match": `"${this.#draft.revision}"` },
        bodyText: `{"document": ${text}}`,
      });
    }
    const workflow = this.#workflow === null ? "null" : JSON.stringify(this.#workflow);
    const version = this.#baseVersion === null ? "null" : String(this.#baseVersion);
    return call("create_draft", { bodyText: `{"workflow": ${workflow}, "baseVersion": ${version}, "document": ${text}}` });
  }

  async #failed(failure: unknown): Promise<void> {
    if (!(failure instanceof ApiError)) throw failure;
    if (failure.status === 412) {
      await this.#meetTheirs(this.#draft!.draftID);
    } else if (failure.code === "DRAFT_EXISTS") {
      await this.#meetTheirs((failure.details as { draftID: string }).draftID);
    } else if (failure.isOffline || failure.status === 503) {
      this.#set({ kind: "offline" });
      this.#retryMs = Math.min(RETRY_MS_MAX, this.#retryMs * 2);
      if (!this.#isClosed) this.#schedule(this.#retryMs);
    } else {
      this.#set({ kind: "refused", error: failure });
    }
  }

  /** Somebody else has saved: what they have is read, and the person decides. What says the same as mine is no conflict. */
  async #meetTheirs(draftID: string): Promise<void> {
    try {
      const theirs = await openDraft(draftID);
      if (theirs.text === this.#latest) {
        this.#take(theirs);
        this.#saved = theirs.text;
        this.#set({ kind: "saved", at: Date.parse(theirs.updatedAt) });
      } else {
        this.#set({ kind: "conflict", theirs });
      }
    } catch (failure) {
      await this.#failed(failure);
    }
  }

  /** Another tab has saved. Without edits of our own that is only news. */
  async #checkTheirs(): Promise<void> {
    if (this.#isSending || this.#draft === null) return;
    await this.#meetTheirs(this.#draft.draftID);
  }

  #take({ draftID, revision, baseVersion, workflow, updatedAt, updatedBy }: DraftVersion): void {
    this.#draft = { draftID, revision, baseVersion, workflow, updatedAt, updatedBy };
    this.#workflow = workflow;
    this.#baseVersion = baseVersion;
  }

  #keep(): void {
    const id = this.outboxID;
    if (id === null) return;
    void keepInOutbox({ id, text: this.#latest, base: this.#saved, revision: this.#draft?.revision ?? 0, savedAt: Date.now() });
  }

  #forget(): void {
    const id = this.outboxID;
    if (id !== null) void removeFromOutbox(id);
    if (this.#workflow !== null) void removeFromOutbox(`workflow:${this.#workflow}`);
  }

  #set(state: SaveState): void {
    this.#state = state;
    for (const listener of [...this.#listeners]) listener();
  }
}

/** A draft with the text of its document as it was sent. Throws `ApiError`. */
export async function openDraft(draftID: string): Promise<OpenedDraft> {
  const { value, text } = await callText("get_draft", { path: { draft: draftID } });
  return { ...value, text: memberText(text, "document") ?? "{}" };
}

/** The draft of a workflow; null if it has none. */
export async function openDraftOf(workflow: string): Promise<OpenedDraft | null> {
  try {
    const { value, text } = await callText("get_draft_of_workflow", { path: { workflow } });
    return { ...value, text: memberText(text, "document") ?? "{}" };
  } catch (failure) {
    if (failure instanceof ApiError && failure.status === 404) return null;
    throw failure;
  }
}
