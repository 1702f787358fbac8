/** The other tabs in which a draft is open: they warn one another, and say that they are alive. */

import type { DraftVersion } from "./saving";

type Message =
  | { readonly type: "opened" | "here" | "closed"; readonly room: string; readonly tabID: string }
  | { readonly type: "saved"; readonly room: string; readonly tabID: string; readonly draftID: string; readonly revision: number };

/** The part of a BroadcastChannel that is used here. */
export interface TabChannel {
  onmessage: ((event: { readonly data: Message }) => void) | null;
  postMessage(message: Message): void;
  close(): void;
}

export interface DraftTabsOptions {
  /** What is open: the workflow's id, whose draft may not exist yet, or the id of a draft that has no workflow yet. */
  readonly room: string;
  readonly tabID: string;
  readonly channel: TabChannel;
  /** Another tab opened or closed the draft. */
  readonly onChange: () => void;
  /** Another tab saved the draft as this revision. */
  readonly onSaved: (draftID: string, revision: number) => void;
}

export class DraftTabs {
  readonly #options: DraftTabsOptions;
  readonly #others = new Set<string>();

  constructor(options: DraftTabsOptions) {
    this.#options = options;
    options.channel.onmessage = ({ data }) => this.#take(data);
    this.#say("opened");
  }

  get room(): string {
    return this.#options.room;
  }

  /** In how many other tabs the draft is open. */
  get others(): number {
    return this.#others.size;
  }

  /** Does this tab still have the draft open? Known once it had the time to answer. */
  has(tabID: string): boolean {
    return tabID === this.#options.tabID || this.#others.has(tabID);
  }

  saved({ draftID, revision }: DraftVersion): void {
    const { channel, room, tabID } = this.#options;
    channel.postMessage({ type: "saved", room, tabID, draftID, revision });
  }

  close(): void {
    this.#say("closed");
    this.#options.channel.close();
  }

  #say(type: "opened" | "here" | "closed"): void {
    const { channel, room, tabID } = this.#options;
    channel.postMessage({ type, room, tabID });
  }

  #take(message: Message): void {
    const { room, tabID, onChange, onSaved } = this.#options;
    if (message.room !== room || message.tabID === tabID) return;
    if (message.type === "opened") this.#say("here");
    if (message.type === "saved") onSaved(message.draftID, message.revision);
    const before = this.#others.size;
    if (message.type === "closed") this.#others.delete(message.tabID);
    else this.#others.add(message.tabID);
    if (this.#others.size !== before) onChange();
  }
}
