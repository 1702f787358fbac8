/** What was edited and is not on the server yet: kept in this browser, so that neither its death nor the server's loses it. */

/** One tab's unsaved text of a draft. Tabs do not overwrite one another. */
export interface OutboxEntry {
  /** The draft's id, or `workflow:` and the workflow's id where it has no draft yet. */
  readonly id: string;
  readonly tabID: string;
  readonly text: string;
  /** What it was edited from, for a merge, and the revision of that; 0: there was no draft. */
  readonly base: string;
  readonly revision: number;
  /** Milliseconds since the epoch. */
  readonly keptAt: number;
}

export interface Outbox {
  put(entry: OutboxEntry): Promise<void>;
  remove(id: string, tabID: string): Promise<void>;
  /** All entries of a draft, the newest first. */
  entries(id: string): Promise<readonly OutboxEntry[]>;
}

/**
 * What a tab that is gone has left of a draft; null if there is nothing that the server has not. `ids`: where to look,
 * first under what this tab keeps its own edits. There the newest entry is handed over to this tab, so that its saver
 * overwrites it with what comes of it, and removes it once that is saved.
 */
export async function recover(
  outbox: Outbox,
  { ids, tabID, serverText }: { readonly ids: readonly [string, ...string[]]; readonly tabID: string; readonly serverText: string },
  isTabAlive: (tabID: string) => Promise<boolean>,
): Promise<OutboxEntry | null> {
  try {
    const found = await Promise.all(ids.map((id) => outbox.entries(id)));
    for (const entry of found.flat().sort(newestFirst)) {
      if (entry.tabID === tabID || (await isTabAlive(entry.tabID))) continue;
      const isSaved = entry.text === serverText || entry.text === entry.base;
      if (!isSaved) await outbox.put({ ...entry, id: ids[0], tabID });
      await outbox.remove(entry.id, entry.tabID);
      if (!isSaved) return entry;
    }
  } catch {
    // A browser without storage has nothing to recover.
  }
  return null;
}

function newestFirst(left: OutboxEntry, right: OutboxEntry): number {
  return right.keptAt - left.keptAt;
}

const DATABASE = "anabranch.outbox";
const STORE = "entries";

/** The outbox in IndexedDB. Its promises are rejected where the browser has none, or no room. */
export class IndexedDBOutbox implements Outbox {
  #database: Promise<IDBDatabase> | null = null;

  async put(entry: OutboxEntry): Promise<void> {
    await this.#run("readwrite", (store) => store.put(entry));
  }

  async remove(id: string, tabID: string): Promise<void> {
    await this.#run("readwrite", (store) => store.delete([id, tabID]));
  }

  async entries(id: string): Promise<readonly OutboxEntry[]> {
    // Ids are texts: every entry of the draft lies between its id with no tab and its id with what comes after texts.
    const range = IDBKeyRange.bound([id], [id, []]);
    const entries = await this.#run<OutboxEntry[]>("readonly", (store) => store.getAll(range) as IDBRequest<OutboxEntry[]>);
    return entries.sort(newestFirst);
  }

  async #run<T>(mode: IDBTransactionMode, ask: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    const database = await (this.#database ??= this.#open());
    return new Promise((resolve, reject) => {
      // Strict: a kept edit is on disk, not in a buffer of the system.
      const transaction = database.transaction(STORE, mode, { durability: "strict" });
      const request = ask(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(transaction.error ?? new Error("the outbox was not written"));
    });
  }

  #open(): Promise<IDBDatabase> {
    const opening = new Promise<IDBDatabase>((resolve, reject) => {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: ["id", "tabID"] });
      request.onerror = () => reject(request.error ?? new Error("the outbox cannot be opened"));
      request.onblocked = () => reject(new Error("another tab holds an older outbox"));
      request.onsuccess = () => resolve(request.result);
    });
    const forget = () => (this.#database = null);
    opening.then((database) => {
      database.onclose = forget;
      database.onversionchange = () => {
        database.close();
        forget();
      };
    }, forget);
    return opening;
  }
}
