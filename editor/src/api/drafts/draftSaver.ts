/**
 * Saves one draft: the shell around `saving.ts`, which decides. It has the clock, the outbox and the server.
 *
 * A store per draft: a saver knows its own draft's id, so no navigation can make it save one document over another.
 */

import { merge3, readDocument, writeDocument, type Choice, type Merge, type WorkflowDocument } from "../../model";
import type { Outbox, OutboxEntry } from "./outbox";
import { advance, isDirty, opened, statusOf, type Opening, type Refusal, type ReadOnlyReason, type Saved, type SavingEvent, type SavingState, type SavingStatus } from "./saving";

export type SaveAnswer =
  | { readonly kind: "saved"; readonly saved: Saved }
  /** 412: somebody saved it meanwhile. */
  | { readonly kind: "overtaken"; readonly saved: Saved }
  | { readonly kind: "unreachable" }
  | { readonly kind: "refused"; readonly error: Refusal }
  | { readonly kind: "readOnly"; readonly reason: ReadOnlyReason };

export type FetchAnswer =
  | { readonly kind: "draft"; readonly saved: Saved; readonly text: string }
  | { readonly kind: "unreachable" }
  | { readonly kind: "refused"; readonly error: Refusal }
  | { readonly kind: "readOnly"; readonly reason: ReadOnlyReason };

/** The server's drafts. Neither call throws. */
export interface DraftServer {
  save(draftID: string, revision: number, text: string): Promise<SaveAnswer>;
  fetch(draftID: string): Promise<FetchAnswer>;
}

export interface Clock {
  now(): number;
  /** Call back after so many milliseconds; returns how to give that up. */
  after(milliseconds: number, callback: () => void): () => void;
}

export interface DraftSaverOptions extends Opening {
  readonly draftID: string;
  readonly tabID: string;
  readonly server: DraftServer;
  readonly outbox: Outbox;
  readonly clock: Clock;
}

export class DraftSaver {
  readonly draftID: string;
  readonly #options: DraftSaverOptions;
  readonly #listeners = new Set<() => void>();
  #state: SavingState;
  #status: SavingStatus;
  #wakes: (() => void)[] = [];
  #isClosed = false;

  constructor(options: DraftSaverOptions) {
    this.draftID = options.draftID;
    this.#options = options;
    this.#state = opened(options);
    this.#status = statusOf(this.#state);
  }

  /** The same object until it changes. */
  get status(): SavingStatus {
    return this.#status;
  }

  get revision(): number {
    return this.#state.revision;
  }

  /** The document that the server has, as far as is known here. */
  get base(): WorkflowDocument {
    return this.#state.base;
  }

  get isDirty(): boolean {
    return isDirty(this.#state);
  }

  /** The document is another one: call it after every change of the store, undo and redo too. */
  edited(document: WorkflowDocument): void {
    this.#take({ type: "edited", document });
  }

  /** Save without waiting for a pause. */
  saveNow(): void {
    this.#take({ type: "saveNow" });
  }

  /** The browser says that the network is back. */
  online(): void {
    this.#take({ type: "online" });
  }

  /** Of a conflict whose other side was fetched: the merge of it with the document as it is now. */
  merge(): Merge | null {
    const { conflict, base, current } = this.#state;
    return conflict?.theirs == null ? null : merge3(base, current, conflict.theirs.document);
  }

  /**
   * End a conflict by choices, none where nothing conflicts. Returns the merged document, to be put into the store as an
   * undoable step; it is saved at once. Null if there is no conflict any more.
   */
  resolve(choices: ReadonlyMap<string, Choice> = new Map()): WorkflowDocument | null {
    const theirs = this.#state.conflict?.theirs;
    const merge = this.merge();
    if (theirs == null || merge === null) return null;
    const document = merge.resolve(choices);
    this.#take({ type: "merged", document, theirs });
    return document;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stop: nothing is sent any more. What is not saved stays in the outbox. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stopWaiting();
    if (isDirty(this.#state) && this.#state.readOnly === null) await this.#keep(this.#state.current, this.#state.base, this.#state.revision);
  }

  #take(event: SavingEvent): void {
    if (this.#isClosed) return;
    const [state, effects] = advance(this.#state, event, this.#options.clock.now());
    this.#state = state;
    this.#stopWaiting();
    for (const effect of effects) {
      switch (effect.type) {
        case "wake":
          this.#wakes.push(this.#options.clock.after(Math.max(0, effect.at - this.#options.clock.now()), () => this.#take({ type: "time" })));
          break;
        case "keep":
          void this.#keep(effect.document, effect.base, effect.revision).then((isKept) => this.#take({ type: "kept", isKept }));
          break;
        case "forget":
          // What stays by accident is found to be saved when the draft is opened.
          this.#options.outbox.remove(this.draftID, this.#options.tabID).catch(() => undefined);
          break;
        case "send":
          void this.#options.server.save(this.draftID, effect.revision, writeDocument(effect.document)).then((answer) => this.#take(eventOf(answer)));
          break;
        case "fetch":
          void this.#options.server.fetch(this.draftID).then((answer) => this.#take(fetchedEvent(answer)));
          break;
      }
    }
    this.#tell();
  }

  async #keep(document: WorkflowDocument, base: WorkflowDocument, revision: number): Promise<boolean> {
    const { outbox, tabID, clock } = this.#options;
    const entry = { draftID: this.draftID, tabID, revision, baseText: writeDocument(base), text: writeDocument(document), at: clock.now() };
    try {
      await outbox.put(entry);
      return true;
    } catch {
      return false;
    }
  }

  #stopWaiting(): void {
    for (const giveUp of this.#wakes.splice(0)) giveUp();
  }

  #tell(): void {
    const status = statusOf(this.#state);
    if (isSameStatus(status, this.#status)) return;
    this.#status = status;
    for (const listener of [...this.#listeners]) listener();
  }
}

/** What a browser that died has left of a draft. */
export type Recovery =
  | { readonly kind: "nothing" }
  /** Edits of the revision that the server still has: put them into the store as an undoable step. */
  | { readonly kind: "edits"; readonly document: WorkflowDocument; readonly at: number }
  /** Edits of an older revision: merge them. */
  | { readonly kind: "merge"; readonly merge: Merge; readonly at: number };

/**
 * What the outbox has of a draft that is opened, from tabs that are gone. Entries that the server has, or that cannot
 * be read, are removed. The newest of the others is recovered: from then on it is this tab's entry, so that its saver
 * overwrites it with what comes of it, and removes it once that is saved.
 */
export async function recover(
  outbox: Outbox,
  { draftID, tabID }: { readonly draftID: string; readonly tabID: string },
  server: { readonly revision: number; readonly document: WorkflowDocument },
  isTabAlive: (tabID: string) => Promise<boolean>,
): Promise<Recovery> {
  try {
    for (const entry of await outbox.entries(draftID)) {
      if (entry.tabID !== tabID && (await isTabAlive(entry.tabID))) continue;
      const recovery = recoveryOf(entry, server);
      if (recovery.kind !== "nothing") await outbox.put({ ...entry, tabID });
      if (recovery.kind === "nothing" || entry.tabID !== tabID) await outbox.remove(draftID, entry.tabID);
      if (recovery.kind !== "nothing") return recovery;
    }
  } catch {
    // A browser without storage has nothing to recover.
  }
  return { kind: "nothing" };
}

function recoveryOf(entry: OutboxEntry, server: { readonly revision: number; readonly document: WorkflowDocument }): Recovery {
  const [mine, base] = [readOrNull(entry.text), readOrNull(entry.baseText)];
  const isSaved = entry.text === writeDocument(server.document) || entry.text === entry.baseText;
  if (mine === null || base === null || isSaved) return { kind: "nothing" };
  if (entry.revision === server.revision) return { kind: "edits", document: mine, at: entry.at };
  return { kind: "merge", merge: merge3(base, mine, server.document), at: entry.at };
}

function readOrNull(text: string): WorkflowDocument | null {
  try {
    return readDocument(text);
  } catch {
    return null;
  }
}

function eventOf(answer: SaveAnswer): SavingEvent {
  switch (answer.kind) {
    case "saved":
      return { type: "saved", saved: answer.saved };
    case "overtaken":
      return { type: "overtaken", saved: answer.saved };
    case "refused":
      return { type: "refused", error: answer.error };
    case "readOnly":
      return { type: "readOnly", reason: answer.reason };
    case "unreachable":
      return { type: "unreachable" };
  }
}

function fetchedEvent(answer: FetchAnswer): SavingEvent {
  if (answer.kind !== "draft") return eventOf(answer);
  const document = readOrNull(answer.text);
  if (document !== null) return { type: "fetched", theirs: { ...answer.saved, document } };
  return { type: "refused", error: { code: "", message: "the other version cannot be read", hint: "Export yours, and open the draft again." } };
}

function isSameStatus(left: SavingStatus, right: SavingStatus): boolean {
  const [mine, other] = [left, right] as unknown as Record<string, unknown>[];
  const names = Object.keys(mine!);
  return names.length === Object.keys(other!).length && names.every((name) => mine![name] === other![name]);
}
