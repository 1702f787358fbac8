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
 * - A draft that somebody else saved meanwhile (412) is fetched and not saved over. Whoever edits chooses; until then
 *   edits go on and are kept in the outbox.
 * - Dirty is a document with another hash than the server's. There is no flag to forget.
 */

import { hashOf, type WorkflowDocument } from "../../model";

// 800 ms: who pauses so long has finished a word. 5 s: what the death of a browser may cost.
export const KEEP_AFTER_MS = 800;
export const KEEP_AT_LATEST_MS = 5_000;
export const SAVE_EVERY_MS = 5_000;
export const RETRY_FIRST_MS = 1_000;
export const RETRY_MS_MAX = 30_000;
// 5: a server that dies again and again with each save in its hands.
const UNANSWERED_MAX = 5;

/** Who saved a draft when, as a conflict's details say. */
export interface Saved {
  readonly revision: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly by: string | null;
}

export interface Theirs extends Saved {
  readonly document: WorkflowDocument;
}

export interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

/** Why nothing may be saved at all. */
export type ReadOnlyReason = "role" | "signedOut" | "gone" | "coded" | "version";

export interface SavingState {
  readonly base: WorkflowDocument;
  /** The revision of `base`. */
  readonly revision: number;
  readonly current: WorkflowDocument;
  readonly savedAt: number;
  /** The first and the latest edit that the outbox does not have. */
  readonly editedFirst: number | null;
  readonly editedLast: number | null;
  /** What is in the outbox; null: nothing. */
  readonly kept: WorkflowDocument | null;
  readonly keeping: WorkflowDocument | null;
  /** False: the outbox could not be written. Saving goes on without it. */
  readonly canKeep: boolean;
  readonly sending: WorkflowDocument | null;
  readonly sentAt: number | null;
  /** What was sent without an answer: the server may have it. */
  readonly unanswered: readonly WorkflowDocument[];
  readonly failures: number;
  readonly retryAt: number | null;
  /** Somebody else's save, which must be merged before anything is sent; its document once it was fetched. */
  readonly conflict: { readonly saved: Saved; readonly theirs: Theirs | null; readonly isFetching: boolean } | null;
  /** Why the server did not take what was sent; it is sent again after the next edit. */
  readonly refusal: { readonly document: WorkflowDocument; readonly error: Refusal } | null;
  readonly readOnly: ReadOnlyReason | null;
  readonly isUrgent: boolean;
}

export type SavingEvent =
  | { readonly type: "edited"; readonly document: WorkflowDocument }
  | { readonly type: "saveNow" }
  | { readonly type: "online" }
  | { readonly type: "time" }
  | { readonly type: "kept"; readonly isKept: boolean }
  | { readonly type: "saved"; readonly saved: Saved }
  | { readonly type: "overtaken"; readonly saved: Saved }
  | { readonly type: "unreachable" }
  | { readonly type: "refused"; readonly error: Refusal }
  | { readonly type: "readOnly"; readonly reason: ReadOnlyReason }
  | { readonly type: "fetched"; readonly theirs: Theirs }
  | { readonly type: "merged"; readonly document: WorkflowDocument; readonly theirs: Theirs };

export type SavingEffect =
  | { readonly type: "keep"; readonly document: WorkflowDocument; readonly base: WorkflowDocument; readonly revision: number }
  /** The outbox need not hold anything: the server has it. */
  | { readonly type: "forget" }
  | { readonly type: "send"; readonly document: WorkflowDocument; readonly revision: number }
  | { readonly type: "fetch" }
  /** Call again at this time. */
  | { readonly type: "wake"; readonly at: number };

/** What is shown beside the title. */
export type SavingStatus =
  | { readonly kind: "saved"; readonly at: number }
  | { readonly kind: "saving" }
  /** `isKept`: is all of it in the outbox? */
  | { readonly kind: "offline"; readonly isKept: boolean; readonly error: Refusal | null }
  | { readonly kind: "conflict"; readonly saved: Saved; readonly theirs: Theirs | null }
  | { readonly kind: "readOnly"; readonly reason: ReadOnlyReason };

export interface Opening {
  readonly document: WorkflowDocument;
  readonly revision: number;
  readonly savedAt: number;
  readonly readOnly?: ReadOnlyReason | null;
}

export function opened({ document, revision, savedAt, readOnly = null }: Opening): SavingState {
  return {
    base: document,
    revision,
    current: document,
    savedAt,
    editedFirst: null,
    editedLast: null,
    kept: null,
    keeping: null,
    canKeep: true,
    sending: null,
    sentAt: null,
    unanswered: [],
    failures: 0,
    retryAt: null,
    conflict: null,
    refusal: null,
    readOnly,
    isUrgent: false,
  };
}

export function statusOf(state: SavingState): SavingStatus {
  const { readOnly, conflict, refusal, failures } = state;
  if (readOnly !== null) return { kind: "readOnly", reason: readOnly };
  if (conflict !== null) return { kind: "conflict", saved: conflict.saved, theirs: conflict.theirs };
  if (!isDirty(state)) return { kind: "saved", at: state.savedAt };
  const isKept = state.kept !== null && isSame(state.kept, state.current);
  if (refusal !== null) return { kind: "offline", isKept, error: refusal.error };
  return failures > 0 ? { kind: "offline", isKept, error: null } : { kind: "saving" };
}

export function isDirty({ current, base }: SavingState): boolean {
  return !isSame(current, base);
}

export function advance(state: SavingState, event: SavingEvent, now: number): readonly [SavingState, readonly SavingEffect[]] {
  const effects: SavingEffect[] = [];
  const next = decide(taken(state, event, now), now, event.type === "kept", effects);
  return [next, effects];
}

/** The state with what has happened in it; nothing is begun. */
function taken(state: SavingState, event: SavingEvent, now: number): SavingState {
  switch (event.type) {
    case "edited": {
      if (state.readOnly !== null || event.document === state.current) return state;
      const edited = { ...state, current: event.document, refusal: null };
      return isSame(event.document, state.current) ? edited : { ...edited, editedFirst: state.editedFirst ?? now, editedLast: now };
    }
    case "saveNow":
      return { ...state, isUrgent: true, refusal: null, retryAt: null };
    case "online":
      return { ...state, retryAt: null };
    case "time":
      return state;
    case "kept":
      return { ...state, kept: event.isKept ? state.keeping : state.kept, keeping: null, canKeep: event.isKept };
    case "saved": {
      const base = state.sending ?? state.base;
      const { revision, at } = event.saved;
      return { ...answered(state), base, revision, savedAt: at, unanswered: [] };
    }
    case "overtaken":
      return { ...answered(state), conflict: { saved: event.saved, theirs: null, isFetching: false } };
    case "unreachable": {
      const failures = state.failures + 1;
      const retryAt = now + Math.min(RETRY_FIRST_MS * 2 ** (failures - 1), RETRY_MS_MAX);
      const conflict = state.conflict && { ...state.conflict, isFetching: false };
      const unanswered = state.sending === null ? state.unanswered : [...state.unanswered, state.sending].slice(-UNANSWERED_MAX);
      return { ...state, sending: null, unanswered, conflict, failures, retryAt, isUrgent: false };
    }
    case "refused": {
      const document = state.sending ?? state.current;
      const conflict = state.conflict && { ...state.conflict, isFetching: false };
      return { ...answered(state), conflict, refusal: { document, error: event.error }, isUrgent: false };
    }
    case "readOnly":
      return { ...answered(state), readOnly: event.reason };
    case "fetched": {
      if (state.conflict === null) return state;
      const { theirs } = event;
      // It says what is here already, or it was our own save, whose answer was lost.
      if ([state.current, ...state.unanswered].some((document) => isSame(document, theirs.document))) {
        return { ...answered(state), conflict: null, base: theirs.document, revision: theirs.revision, savedAt: theirs.at, unanswered: [] };
      }
      return { ...answered(state), conflict: { saved: theirs, theirs, isFetching: false } };
    }
    case "merged": {
      const { document, theirs } = event;
      const merged = { ...answered(state), unanswered: [], conflict: null, base: theirs.document, revision: theirs.revision, savedAt: theirs.at, current: document };
      return { ...merged, editedFirst: now, editedLast: now, kept: null, isUrgent: true };
    }
  }
}

function answered(state: SavingState): SavingState {
  return { ...state, sending: null, failures: 0, retryAt: null };
}

/** What is to be begun now, and when to look again. */
function decide(state: SavingState, now: number, isFreshlyKept: boolean, effects: SavingEffect[]): SavingState {
  if (state.readOnly !== null) return state;
  let next = state;
  if (!isDirty(next) && next.sending === null && next.keeping === null && next.conflict === null) {
    if (next.kept !== null) effects.push({ type: "forget" });
    return { ...next, kept: null, editedFirst: null, editedLast: null, isUrgent: false };
  }
  const keepAt = timeToKeep(next, now);
  if (keepAt !== null && keepAt <= now) {
    effects.push({ type: "keep", document: next.current, base: next.base, revision: next.revision });
    next = { ...next, keeping: next.current, editedFirst: null, editedLast: null };
  } else if (keepAt !== null) {
    effects.push({ type: "wake", at: keepAt });
  }
  const wakeAt = timeToSend(next, keepAt !== null && keepAt > now && !isFreshlyKept ? keepAt : null, now);
  if (wakeAt === null) return next;
  if (wakeAt > now) {
    effects.push({ type: "wake", at: wakeAt });
    return next;
  }
  if (next.conflict !== null) {
    effects.push({ type: "fetch" });
    return { ...next, conflict: { ...next.conflict, isFetching: true } };
  }
  const document = documentToSend(next)!;
  effects.push({ type: "send", document, revision: next.revision });
  return { ...next, sending: document, sentAt: now, isUrgent: false };
}

function timeToKeep({ editedFirst, editedLast, keeping, isUrgent }: SavingState, now: number): number | null {
  if (editedFirst === null || editedLast === null || keeping !== null) return null;
  return isUrgent ? now : Math.min(editedLast + KEEP_AFTER_MS, editedFirst + KEEP_AT_LATEST_MS);
}

/** `keepAt`: newer edits will be kept then; waiting for them saves a request. */
function timeToSend(state: SavingState, keepAt: number | null, now: number): number | null {
  const { conflict, sending, sentAt, retryAt, isUrgent } = state;
  if (conflict !== null) return conflict.theirs !== null || conflict.isFetching ? null : Math.max(now, retryAt ?? now);
  if (sending !== null || state.keeping !== null || documentToSend(state) === null) return null;
  if (isUrgent && retryAt === null) return now;
  return Math.max(retryAt ?? now, (sentAt ?? -Infinity) + SAVE_EVERY_MS, keepAt ?? now);
}

/** What was kept, or, where nothing can be kept, what there is; null where the server has it or has refused it. */
function documentToSend({ base, kept, current, canKeep, refusal }: SavingState): WorkflowDocument | null {
  const document = canKeep ? kept : current;
  if (document === null || isSame(document, base)) return null;
  return refusal !== null && isSame(document, refusal.document) ? null : document;
}

function isSame(left: WorkflowDocument, right: WorkflowDocument): boolean {
  return left === right || hashOf(left) === hashOf(right);
}
