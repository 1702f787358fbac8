/** Who is signed in, and the live connection that goes with it. */

import { create } from "zustand";

import { ApiError, call, watchOutcomes, type Schemas } from "../api/client";
import { askOtherTabs, currentKey, keepKey, tellSignedOut } from "../api/key";
import { Live } from "../api/live";
import { announce } from "../ui/toasts";

type Role = Schemas["CurrentKey"]["role"];

interface Session {
  /** Null until it is known whether there is a key. */
  state: "beginning" | "signedOut" | "signedIn";
  /** Why the person has to sign in again. */
  reason: string | null;
  me: Schemas["CurrentKey"] | null;
  live: Live | null;
  /** Does the server answer? */
  online: boolean;
}

export const useSession = create<Session>(() => ({ state: "beginning", reason: null, me: null, live: null, online: true }));

const RANKS: readonly string[] = ["viewer", "operator", "editor", "admin"];

/** May who is signed in do what needs this role? */
export function useMay(role: "viewer" | "operator" | "editor" | "admin"): boolean {
  const own: Role | undefined = useSession(({ me }) => me?.role);
  return own !== undefined && RANKS.indexOf(own) >= RANKS.indexOf(role);
}

/** Begin with the key of this tab, or with that of another one. */
export async function begin(): Promise<void> {
  watchOutcomes(noteOutcome);
  if (currentKey() === null) {
    const key = await askOtherTabs();
    if (key !== null) keepKey(key);
  }
  if (currentKey() === null) useSession.setState({ state: "signedOut" });
  else await signInWith(currentKey()!);
}

/** Sign in; what the server says against it is thrown. */
export async function signIn(key: string): Promise<void> {
  const before = currentKey();
  keepKey(key);
  try {
    const me = await call("get_me");
    enter(me);
  } catch (failure) {
    keepKey(before);
    throw failure;
  }
}

/** Forget the key; `reason` is shown where it was not the person's own wish. */
export function signOut(reason: string | null): void {
  useSession.getState().live?.close();
  if (reason === null) tellSignedOut();
  keepKey(null);
  useSession.setState({ state: "signedOut", reason, me: null, live: null, online: true });
}

/** Every request reports here how it ended: null if it was answered. */
function noteOutcome(failure: unknown): void {
  const { state, online } = useSession.getState();
  if (failure instanceof ApiError && failure.status === 401 && state === "signedIn") {
    signOut("The server does not know this key (any more).");
    return;
  }
  const isOffline = failure instanceof ApiError && failure.isOffline;
  if (isOffline === online) {
    useSession.setState({ online: !isOffline });
    announce(isOffline ? "The server does not answer." : "The server answers again.", "assertive");
  }
}

async function signInWith(key: string): Promise<void> {
  try {
    await signIn(key);
  } catch (failure) {
    if (failure instanceof ApiError && failure.status === 401) signOut("The server does not know this key (any more).");
    else {
      // The server is away, or too old to say who we are: the pages say so, and go on trying.
      enter(null);
      retryMe();
    }
  }
}

const RETRY_MS = 2_000;

function retryMe(): void {
  setTimeout(() => {
    const { state, me } = useSession.getState();
    if (state !== "signedIn" || me !== null) return;
    call("get_me").then(
      (found) => useSession.setState({ me: found }),
      () => retryMe(),
    );
  }, RETRY_MS);
}

function enter(me: Schemas["CurrentKey"] | null): void {
  useSession.getState().live?.close();
  // The server says no to a key that was revoked, but also while it shuts down: REST tells which.
  const ask = () => void call("get_me").catch(() => undefined);
  const live = new Live(ask);
  live.watchLink(() => {
    if (live.link === "live") ask();
  });
  useSession.setState({ state: "signedIn", reason: null, me, live });
}
