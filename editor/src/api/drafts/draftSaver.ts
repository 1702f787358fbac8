/**
 * Saves one draft: the shell around `saving.ts`, which decides. It has the clock, the outbox and the server.
 *
 * A saver per draft: it knows its own draft's id, so no navigation can make it save one document over another. It knows
 * texts only; conflicts are merged by the caller.
 */

import type { Outbox } from "./outbox";
import {
  advance,
  opened,
  stateOf,
  type DraftVersion,
  type OpenedDraft,
  type Opening,
  type ReadOnlyReason,
  type SaveState,
  type SavingEvent,
  type SavingState,
} from "./saving";

export type Refused<E> =
  | { readonly kind: "unreachable" }
  | { readonly kind: "refused"; readonly error: E }
  | { readonly kind: "readOnly"; readonly reason: ReadOnlyReason };

export type SaveAnswer<E> =
  | { readonly kind: "saved"; readonly draft: DraftVersion }
  /** 412, or 409 `DRAFT_EXISTS`: somebody saved this draft meanwhile. */
  | { readonly kind: "overtaken"; readonly draftID: string }
  | Refused<E>;

export type FetchAnswer<E> = { readonly kind: "draft"; readonly draft: OpenedDraft } | Refused<E>;

/** The server's drafts. No call throws. */
export interface DraftServer<E> {
  /** Make the draft: of the workflow that was opened, or of a new one. */
  create(text: string): Promise<SaveAnswer<E>>;
  save(draft: DraftVersion, text: string): Promise<SaveAnswer<E>>;
  fetch(draftID: string): Promise<FetchAnswer<E>>;
}

export interface Clock {
  now(): number;
  /** Call back after so many milliseconds; returns how to give that up. */
  after(milliseconds: number, callback: () => void): () => void;
}

export interface DraftSaverOptions<E> extends Opening {
  /** The workflow's id; null: it is a new one. */
  readonly workflow: string | null;
  readonly tabID: string;
  readonly server: DraftServer<E>;
  readonly outbox: Outbox;
  readonly clock: Clock;
}

/** Raised by `flush` where something has to be done before the draft can be saved: see `state`. */
export class NotSaved extends Error {
  override readonly name = "NotSaved";
}

export class DraftSaver<E> {
  readonly #options: DraftSaverOptions<E>;
  readonly #listeners = new Set<() => void>();
  #saving: SavingState<E>;
  #state: SaveState<E>;
  #wakes: (() => void)[] = [];
  /** Where the entry of the outbox is, which may be from before the draft existed. */
  #keptAs: string | null = null;
  #isClosed = false;

  constructor(options: DraftSaverOptions<E>) {
    this.#options = options;
    this.#saving = opened(options);
    this.#state = stateOf(this.#saving);
  }

  /** The same object until it changes. */
  get state(): SaveState<E> {
    return this.#state;
  }

  /** Null until the draft exists. */
  get draft(): DraftVersion | null {
    return this.#saving.draft;
  }

  /** The text that the edits were made from: what the server has, as far as is known here. */
  get base(): string {
    return this.#saving.base;
  }

  /** Under what edits are kept in the outbox; null for a new workflow, which has no id before its first save. */
  get outboxID(): string | null {
    return this.draft?.draftID ?? (this.#options.workflow === null ? null : `workflow:${this.#options.workflow}`);
  }

  /** The document is this text now: call it after every change of the store, undo and redo too. */
  edited(text: string): void {
    this.#take({ type: "edited", text });
  }

  /** The browser says that the network is back. */
  online(): void {
    this.#take({ type: "online" });
  }

  /** Is there anything that the server does not have, as far as is known here? */
  get isEdited(): boolean {
    return this.#saving.current !== this.#saving.base;
  }

  /** Somebody has saved this draft: what is there is fetched, and is a conflict only if it says something else. */
  overtaken(draftID: string, revision: number): void {
    const { draft, sending } = this.#saving;
    const isNews = draft === null || (draft.draftID === draftID && revision > draft.revision);
    if (isNews && sending === null) this.#take({ type: "overtaken", draftID });
  }

  /** The conflict is resolved: edits go on from what they have, and `text` is the merge, which is saved as an edit. */
  resolved(theirs: OpenedDraft, text: string): void {
    this.#take({ type: "resolved", theirs, text });
  }

  /** The draft was published or put on another base version. */
  rebased(draft: DraftVersion): void {
    this.#take({ type: "rebased", draft });
  }

  /**
   * Save at once, and make the draft if it does not exist. Resolves when all that is edited by now is saved; rejected
   * with `NotSaved` where the server is away, refuses it, or somebody else has saved.
   */
  flush(): Promise<void> {
    this.#take({ type: "saveNow" });
    return new Promise((resolve, reject) => {
      const look = (): boolean => {
        const { kind } = this.#state;
        if (kind === "saving" && !this.#isClosed) return false;
        if (kind === "saved") resolve();
        else reject(new NotSaved(kind));
        return true;
      };
      if (look()) return;
      const stop = this.subscribe(() => look() && stop());
    });
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
    const { current, base, draft } = this.#saving;
    if (this.isEdited) await this.#keep(current, base, draft?.revision ?? 0);
  }

  #take(event: SavingEvent<E>): void {
    if (this.#isClosed) return;
    const { clock } = this.#options;
    const [saving, effects] = advance(this.#saving, event, clock.now());
    this.#saving = saving;
    this.#stopWaiting();
    for (const effect of effects) {
      switch (effect.type) {
        case "wake":
          this.#wakes.push(clock.after(Math.max(0, effect.at - clock.now()), () => this.#take({ type: "time" })));
          break;
        case "keep":
          void this.#keep(effect.text, effect.base, effect.revision).then((isKept) => this.#take({ type: "kept", text: effect.text, isKept }));
          break;
        case "forget":
          void this.#forget();
          break;
        case "send":
          void this.#send(effect.draft, effect.text).then((answer) => this.#take(eventOf(answer)));
          break;
        case "fetch":
          void this.#options.server.fetch(effect.draftID).then((answer) => this.#take(answer.kind === "draft" ? { type: "fetched", theirs: answer.draft } : eventOf(answer)));
          break;
      }
    }
    this.#tell();
  }

  #send(draft: DraftVersion | null, text: string): Promise<SaveAnswer<E>> {
    const { server } = this.#options;
    return draft === null ? server.create(text) : server.save(draft, text);
  }

  async #keep(text: string, base: string, revision: number): Promise<boolean> {
    const { outbox, tabID, clock } = this.#options;
    const [id, before] = [this.outboxID, this.#keptAs];
    if (id === null) return false;
    try {
      await outbox.put({ id, tabID, text, base, revision, keptAt: clock.now() });
      this.#keptAs = id;
      if (before !== null && before !== id) await outbox.remove(before, tabID);
      return true;
    } catch {
      return false;
    }
  }

  async #forget(): Promise<void> {
    const { outbox, tabID } = this.#options;
    const ids = new Set([this.#keptAs, this.outboxID].filter((id) => id !== null));
    this.#keptAs = null;
    try {
      for (const id of ids) await outbox.remove(id, tabID);
    } catch {
      // What stays by accident is found to be saved when the draft is opened.
    }
  }

  #stopWaiting(): void {
    for (const giveUp of this.#wakes.splice(0)) giveUp();
  }

  #tell(): void {
    const state = stateOf(this.#saving);
    if (isSameState(state, this.#state)) return;
    this.#state = state;
    for (const listener of [...this.#listeners]) listener();
  }
}

function eventOf<E>(answer: SaveAnswer<E>): SavingEvent<E> {
  switch (answer.kind) {
    case "saved":
      return { type: "saved", draft: answer.draft };
    case "overtaken":
      return { type: "overtaken", draftID: answer.draftID };
    case "refused":
      return { type: "refused", error: answer.error };
    case "readOnly":
      return { type: "readOnly", reason: answer.reason };
    case "unreachable":
      return { type: "unreachable" };
  }
}

function isSameState<E>(left: SaveState<E>, right: SaveState<E>): boolean {
  const [mine, other] = [Object.entries(left), new Map<string, unknown>(Object.entries(right))];
  return mine.length === other.size && mine.every(([name, value]) => other.get(name) === value);
}
