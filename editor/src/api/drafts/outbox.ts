/** What was edited and is not on the server yet: kept in this browser, so that neither its death nor the server's loses it. */

/** One tab's unsaved document of a draft. Tabs do not overwrite one another. */
export interface OutboxEntry {
  readonly draftID: string;
  readonly tabID: string;
  /** The revision that it was edited from, and that revision's text: what a merge needs. */
  readonly revision: number;
  readonly baseText: string;
  readonly text: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export interface Outbox {
  put(entry: OutboxEntry): Promise<void>;
  remove(draftID: string, tabID: string): Promise<void>;
  /** All entries of a draft, the newest first. */
  entries(draftID: string): Promise<readonly OutboxEntry[]>;
}

const DATABASE = "anabranch.outbox";
const STORE = "entries";

/** The outbox in IndexedDB. Its promises are rejected where the browser has none, or no room. */
export class IndexedDBOutbox implements Outbox {
  #database: Promise<IDBDatabase> | null = null;

  async put(entry: OutboxEntry): Promise<void> {
    await this.#run("readwrite", (store) => store.put(entry));
  }

  async remove(draftID: string, tabID: string): Promise<void> {
    await this.#run("readwrite", (store) => store.delete([draftID, tabID]));
  }

  async entries(draftID: string): Promise<readonly OutboxEntry[]> {
    // Ids are texts: every entry of the draft lies between its id with no tab and its id with the last one.
    const range = IDBKeyRange.bound([draftID], [draftID, []]);
    const entries = await this.#run<OutboxEntry[]>("readonly", (store) => store.getAll(range) as IDBRequest<OutboxEntry[]>);
    return entries.sort((left, right) => right.at - left.at);
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
    return new Promise((resolve, reject) => {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: ["draftID", "tabID"] });
      request.onerror = () => reject(request.error ?? new Error("the outbox cannot be opened"));
      request.onblocked = () => reject(new Error("another tab holds an older outbox"));
      request.onsuccess = () => {
        const database = request.result;
        const forget = () => (this.#database = null);
        database.onversionchange = () => {
          database.close();
          forget();
        };
        database.onclose = forget;
        resolve(database);
      };
    }).catch((failure: unknown) => {
      this.#database = null;
      throw failure;
    }) as Promise<IDBDatabase>;
  }
}
