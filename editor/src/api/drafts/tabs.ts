/** The other tabs in which a draft is open: they warn one another, and say that they are alive. */

type Message =
  | { readonly type: "opened" | "here" | "closed"; readonly draftID: string; readonly tabID: string }
  | { readonly type: "saved"; readonly draftID: string; readonly tabID: string; readonly revision: number };

/** The part of a BroadcastChannel that is used here. */
export interface TabChannel {
  onmessage: ((event: { readonly data: Message }) => void) | null;
  postMessage(message: Message): void;
  close(): void;
}

export interface DraftTabsOptions {
  readonly draftID: string;
  readonly tabID: string;
  readonly channel: TabChannel;
  /** Another tab opened or closed the draft. */
  readonly onChange: () => void;
  /** Another tab saved the draft as this revision. */
  readonly onSaved: (revision: number) => void;
}

export class DraftTabs {
  readonly #options: DraftTabsOptions;
  readonly #others = new Set<string>();

  constructor(options: DraftTabsOptions) {
    this.#options = options;
    options.channel.onmessage = ({ data }) => this.#take(data);
    this.#say("opened");
  }

  /** In how many other tabs the draft is open. */
  get others(): number {
    return this.#others.size;
  }

  /** Does this tab still have the draft open? Known once it had the time to answer. */
  has(tabID: string): boolean {
    return tabID === this.#options.tabID || this.#others.has(tabID);
  }

  saved(revision: number): void {
    const { channel, draftID, tabID } = this.#options;
    channel.postMessage({ type: "saved", draftID, tabID, revision });
  }

  close(): void {
    this.#say("closed");
    this.#options.channel.close();
  }

  #say(type: "opened" | "here" | "closed"): void {
    const { channel, draftID, tabID } = this.#options;
    channel.postMessage({ type, draftID, tabID });
  }

  #take(message: Message): void {
    const { draftID, tabID, onChange, onSaved } = this.#options;
    if (message.draftID !== draftID || message.tabID === tabID) return;
    if (message.type === "opened") this.#say("here");
    if (message.type === "saved") onSaved(message.revision);
    const before = this.#others.size;
    if (message.type === "closed") this.#others.delete(message.tabID);
    else this.#others.add(message.tabID);
    if (this.#others.size !== before) onChange();
  }
}
