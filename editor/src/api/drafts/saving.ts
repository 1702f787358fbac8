/**
 * When a draft is kept and saved, and what becomes of it: a state machine without clock, network or storage.
 *
 * `advance` takes what has happened and answers with the next state and what is to be done now. The rules:
 *
 * - The outbox of this browser comes first. 800 ms after the last edit, and at the latest 5 s after the first, the
 *   document is kept there; what is sent is what was kept.
 * - One request is in flight, and the next one begins 5 s after the last one began at the earliest. "Save now" waits
 *   for neither.
 * - A server that does not answer is asked again after 1, 2, 4… 30 s, and at once when the browser is online again.
 * - A draft that somebody else saved meanwhile (412) is fetched and not saved over. The user chooses; until then
 *   edits go on and are kept in the outbox.
 * - Where nothing may be saved any more, edits are kept in the outbox all the same.
 * - Dirty is a text that is not the server's. There is no flag to forget.
 * - A draft that does not exist yet is made by its first save.
 */

// 800 ms: who pauses so long has finished a word. 5 s: what the death of a browser may cost.
export const KEEP_AFTER_MS = 800;
export const KEEP_AT_LATEST_MS = 5_000;
export const SAVE_EVERY_MS = 5_000;
export const RETRY_FIRST_MS = 1_000;
export const RETRY_MS_MAX = 30_000;
// 5: a server that dies again and again with each save in its hands.
const UNANSWERED_MAX = 5;

/** A draft without its document, as the server answers. */
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

/** Why the server will not take any save: the key may not, there is no key any more, or no such draft. */
export type ReadOnlyReason = "role" | "signedOut" | "gone";

/** `E`: why the server has refused something. */
export interface SavingState<E> {
  /** Null: it does not exist yet. */
  readonly draft: DraftVersion | null;
  /** What the server has. */
  readonly base: string;
  readonly current: string;
  /** The first and the latest edit that the outbox does not have. */
  readonly editedFirst: number | null;
  readonly editedLast: number | null;
  /** What is in the outbox and may be sent; null: nothing. */
  readonly kept: string | null;
  /** Is there an entry in the outbox, of whatever text? */
  readonly hasEntry: boolean;
  readonly keeping: string | null;
  /** False: the outbox could not be written. Saving goes on without it. */
  readonly canKeep: boolean;
  readonly sending: string | null;
  readonly sentAt: number | null;
  /** What was sent without an answer: the server may have it. */
  readonly unanswered: readonly string[];
  readonly failures: number;
  readonly retryAt: number | null;
  /** Somebody else's save of this draft, which must be merged before anything is sent; null until it was fetched. */
  readonly conflict: { readonly draftID: string; readonly theirs: OpenedDraft | null; readonly isFetching: boolean } | null;
  /** Why the server did not take what was sent; it is sent again after the next edit. */
  readonly refusal: { readonly text: string; readonly error: E } | null;
  readonly readOnly: ReadOnlyReason | null;
  readonly isUrgent: boolean;
}

export type SavingEvent<E> =
  | { readonly type: "edited"; readonly text: string }
  | { readonly type: "saveNow" }
  | { readonly type: "online" }
  | { readonly type: "time" }
  | { readonly type: "kept"; readonly text: string; readonly isKept: boolean }
  | { readonly type: "saved"; readonly draft: DraftVersion }
  /** Another revision is there than the one that was read, or a draft where there was none. */
  | { readonly type: "overtaken"; readonly draftID: string }
  | { readonly type: "unreachable" }
  | { readonly type: "refused"; readonly error: E }
  | { readonly type: "readOnly"; readonly reason: ReadOnlyReason }
  | { readonly type: "fetched"; readonly theirs: OpenedDraft }
  /** The conflict is over: edits go on from what they have, with this text. */
  | { readonly type: "resolved"; readonly theirs: OpenedDraft; readonly text: string }
  /** It was published or put on another base version, and its document is the same. */
  | { readonly type: "rebased"; readonly draft: DraftVersion };

export type SavingEffect =
  | { readonly type: "keep"; readonly text: string; readonly base: string; readonly revision: number }
  /** The outbox need not hold anything: the server has it. */
  | { readonly type: "forget" }
  | { readonly type: "send"; readonly draft: DraftVersion | null; readonly text: string }
  | { readonly type: "fetch"; readonly draftID: string }
  /** Call again at this time. */
  | { readonly type: "wake"; readonly at: number };

/** What is shown beside the title. */
export type SaveState<E> =
  /** When; null: nothing was saved yet, and nothing has been changed. */
  | { readonly kind: "saved"; readonly at: string | null }
  | { readonly kind: "saving" }
  /** `isKept`: is all of it in the outbox? */
  | { readonly kind: "offline"; readonly isKept: boolean }
  | { readonly kind: "refused"; readonly isKept: boolean; readonly error: E }
  | { readonly kind: "conflict"; readonly theirs: OpenedDraft }
  | { readonly kind: "readOnly"; readonly isKept: boolean; readonly reason: ReadOnlyReason };

export interface Opening {
  readonly draft: DraftVersion | null;
  readonly text: string;
}

export function opened<E>({ draft, text }: Opening): SavingState<E> {
  return {
    draft,
    base: text,
    current: text,
    editedFirst: null,
    editedLast: null,
    kept: null,
    hasEntry: false,
    keeping: null,
    canKeep: true,
    sending: null,
    sentAt: null,
    unanswered: [],
    failures: 0,
    retryAt: null,
    conflict: null,
    refusal: null,
    readOnly: null,
    isUrgent: false,
  };
}

export function stateOf<E>(state: SavingState<E>): SaveState<E> {
  const { readOnly, conflict, refusal, failures, kept, current } = state;
  if (readOnly !== null) return { kind: "readOnly", isKept: kept === current, reason: readOnly };
  if (conflict?.theirs != null) return { kind: "conflict", theirs: conflict.theirs };
  if (refusal !== null) return { kind: "refused", isKept: kept === current, error: refusal.error };
  if (failures > 0) return { kind: "offline", isKept: kept === current };
  return isSaved(state) ? { kind: "saved", at: state.draft?.updatedAt ?? null } : { kind: "saving" };
}

export function isSaved<E>({ current, base, draft, isUrgent, sending, conflict }: SavingState<E>): boolean {
  const isBeingMade = draft === null && (isUrgent || sending !== null);
  return current === base && conflict === null && !isBeingMade;
}

export function advance<E>(state: SavingState<E>, event: SavingEvent<E>, now: number): readonly [SavingState<E>, readonly SavingEffect[]] {
  const effects: SavingEffect[] = [];
  const next = decide(taken(state, event, now), now, event.type === "kept", effects);
  return [next, effects];
}

/** The state with what has happened in it; nothing is begun. */
function taken<E>(state: SavingState<E>, event: SavingEvent<E>, now: number): SavingState<E> {
  switch (event.type) {
    case "edited":
      if (event.text === state.current) return state;
      return { ...state, current: event.text, refusal: null, editedFirst: state.editedFirst ?? now, editedLast: now };
    case "saveNow":
      return { ...state, isUrgent: true, refusal: null, retryAt: null };
    case "online":
      return { ...state, retryAt: null };
    case "time":
      return state;
    case "kept":
      if (event.text !== state.keeping) return state;
      return { ...state, kept: event.isKept ? event.text : state.kept, keeping: null, canKeep: event.isKept };
    case "saved":
      return { ...answered(state), base: state.sending ?? state.base, draft: event.draft, unanswered: [] };
    case "rebased": {
      // A save may have been answered before: its revision is the newer one.
      const revision = Math.max(event.draft.revision, state.draft?.revision ?? 0);
      return { ...state, draft: { ...event.draft, revision } };
    }
    case "overtaken":
      return { ...answered(state), conflict: { draftID: event.draftID, theirs: null, isFetching: false } };
    case "unreachable": {
      const failures = state.failures + 1;
      const retryAt = now + Math.min(RETRY_FIRST_MS * 2 ** (failures - 1), RETRY_MS_MAX);
      const unanswered = state.sending === null ? state.unanswered : [...state.unanswered, state.sending].slice(-UNANSWERED_MAX);
      return { ...state, sending: null, unanswered, conflict: notFetching(state), failures, retryAt, isUrgent: false };
    }
    case "refused":
      return { ...answered(state), conflict: notFetching(state), refusal: { text: state.sending ?? state.current, error: event.error }, isUrgent: false };
    case "readOnly":
      return { ...answered(state), readOnly: event.reason };
    case "fetched": {
      const { theirs } = event;
      if (state.conflict === null) return state;
      // It says what is here already, or what was here before, or it was our own save, whose answer was lost.
      if ([state.current, state.base, ...state.unanswered].includes(theirs.text)) {
        return { ...answered(state), conflict: null, base: theirs.text, draft: theirs, unanswered: [] };
      }
      return { ...answered(state), conflict: { draftID: theirs.draftID, theirs, isFetching: false } };
    }
    case "resolved": {
      const { theirs, text } = event;
      const resolved = { ...answered(state), unanswered: [], conflict: null, base: theirs.text, draft: theirs, current: text };
      // What was kept, or is being kept, is from before the merge: it must not be sent on their revision.
      return { ...resolved, editedFirst: now, editedLast: now, kept: null, keeping: null };
    }
  }
}

function answered<E>(state: SavingState<E>): SavingState<E> {
  return { ...state, sending: null, failures: 0, retryAt: null };
}

function notFetching<E>({ conflict }: SavingState<E>): SavingState<E>["conflict"] {
  return conflict && { ...conflict, isFetching: false };
}

/** What is to be begun now, and when to look again. */
function decide<E>(state: SavingState<E>, now: number, isFreshlyKept: boolean, effects: SavingEffect[]): SavingState<E> {
  let next = state;
  if (isSaved(next) && next.sending === null && next.keeping === null) {
    if (next.hasEntry) effects.push({ type: "forget" });
    return { ...next, kept: null, hasEntry: false, editedFirst: null, editedLast: null, failures: 0, isUrgent: false };
  }
  const keepAt = timeToKeep(next, now);
  if (keepAt !== null && keepAt <= now) {
    effects.push({ type: "keep", text: next.current, base: next.base, revision: next.draft?.revision ?? 0 });
    next = { ...next, keeping: next.current, hasEntry: true, editedFirst: null, editedLast: null };
  } else if (keepAt !== null) {
    effects.push({ type: "wake", at: keepAt });
  }
  if (next.readOnly !== null) return next;
  const sendAt = timeToSend(next, keepAt !== null && keepAt > now && !isFreshlyKept ? keepAt : null, now);
  if (sendAt === null) return next;
  if (sendAt > now) {
    effects.push({ type: "wake", at: sendAt });
    return next;
  }
  if (next.conflict !== null) {
    effects.push({ type: "fetch", draftID: next.conflict.draftID });
    return { ...next, conflict: { ...next.conflict, isFetching: true } };
  }
  const text = textToSend(next)!;
  effects.push({ type: "send", draft: next.draft, text });
  return { ...next, sending: text, sentAt: now, isUrgent: false };
}

function timeToKeep<E>({ editedFirst, editedLast, keeping, isUrgent }: SavingState<E>, now: number): number | null {
  if (editedFirst === null || editedLast === null || keeping !== null) return null;
  return isUrgent ? now : Math.min(editedLast + KEEP_AFTER_MS, editedFirst + KEEP_AT_LATEST_MS);
}

/** `keepAt`: newer edits will be kept then; waiting for them saves a request. */
function timeToSend<E>(state: SavingState<E>, keepAt: number | null, now: number): number | null {
  const { conflict, sending, keeping, sentAt, retryAt, isUrgent } = state;
  if (conflict !== null) return conflict.theirs !== null || conflict.isFetching ? null : Math.max(now, retryAt ?? now);
  if (sending !== null || keeping !== null || textToSend(state) === null) return null;
  if (isUrgent && retryAt === null) return now;
  return Math.max(retryAt ?? now, (sentAt ?? -Infinity) + SAVE_EVERY_MS, keepAt ?? now);
}

/** What was kept, or, where nothing can be kept, what there is; null where the server has it or has refused it. */
function textToSend<E>({ draft, base, kept, current, canKeep, refusal, isUrgent }: SavingState<E>): string | null {
  const mustExist = isUrgent && draft === null;
  const text = canKeep && !(mustExist && kept === null) ? kept : current;
  if (text === null || (text === base && !mustExist)) return null;
  return text === refusal?.text ? null : text;
}
