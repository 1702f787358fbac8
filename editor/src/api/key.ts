/**
 * The API key of this tab.
 *
 * It lives in the tab's sessionStorage: not in a cookie, so that no other page can act with it, and not in the address
 * bar, where it would be copied along with a link. A new tab has no sessionStorage of its own (links imply
 * `noopener`), so it asks the other tabs of this server, which answer while they are signed in.
 */

const KEY = "anabranch.key";
const CHANNEL = "anabranch.key";

/** A tab that is there answers in a few milliseconds; 300 is for one that is busy. */
const ANSWER_MS_MAX = 300;

type Message = { type: "ask" } | { type: "tell"; key: string } | { type: "signedOut" };

export function currentKey(): string | null {
  return sessionStorage.getItem(KEY);
}

export function keepKey(key: string | null): void {
  if (key === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, key);
}

/** Take the key that came with the address, and remove it from there and from the history at once. */
export function takeKeyFromAddress(): void {
  const address = new URL(location.href);
  const given = address.searchParams.get("key");
  if (given === null) return;
  address.searchParams.delete("key");
  history.replaceState(null, "", address.pathname + address.search + address.hash);
  if (given) keepKey(given);
}

/** Answer tabs that ask for the key; `onSignedOut` is called when another tab signs out on purpose. */
export function answerOtherTabs(onSignedOut: () => void): void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }: MessageEvent<Message>) => {
    const key = currentKey();
    if (data.type === "ask" && key !== null) channel.postMessage({ type: "tell", key } satisfies Message);
    if (data.type === "signedOut") onSignedOut();
  };
}

/** Tell all tabs of this server that the person signs out. */
export function tellSignedOut(): void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.postMessage({ type: "signedOut" } satisfies Message);
  channel.close();
}

/** The key of another tab; null if no tab has one. */
export function askOtherTabs(): Promise<string | null> {
  const channel = new BroadcastChannel(CHANNEL);
  return new Promise((resolve) => {
    const done = (key: string | null) => {
      clearTimeout(timer);
      channel.close();
      resolve(key);
    };
    const timer = setTimeout(() => done(null), ANSWER_MS_MAX);
    channel.onmessage = ({ data }: MessageEvent<Message>) => data.type === "tell" && done(data.key);
    channel.postMessage({ type: "ask" } satisfies Message);
  });
}
