/**
 * Edits that the server has not confirmed, kept in this browser: they survive the death of the tab and of the server.
 *
 * Written before each save and removed after it. A browser without IndexedDB (some private windows) keeps nothing.
 */

export interface OutboxEntry {
  /** The draft's id, or `workflow:` and the workflow's id where it has no draft yet. */
  readonly id: string;
  readonly text: string;
  /** What the edits were made from, and its revision; 0: no draft yet. */
  readonly base: string;
  readonly revision: number;
  readonly savedAt: number;
}

const NAME = "anabranch";
const STORE = "outbox";

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("no IndexedDB"));
  });
}

async function inStore<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T | null> {
  try {
    const database = await open();
    return await new Promise<T>((resolve, reject) => {
      const request = work(database.transaction(STORE, mode).objectStore(STORE));
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error ?? new Error("IndexedDB failed"));
    }).finally(() => database.close());
  } catch {
    return null;
  }
}

export async function keepInOutbox(entry: OutboxEntry): Promise<void> {
  await inStore("readwrite", (store) => store.put(entry));
}

export async function readOutbox(id: string): Promise<OutboxEntry | null> {
  return (await inStore<OutboxEntry | undefined>("readonly", (store) => store.get(id))) ?? null;
}

export async function removeFromOutbox(id: string): Promise<void> {
  await inStore("readwrite", (store) => store.delete(id));
}
