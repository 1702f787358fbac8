import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  DraftSaver,
  DraftTabs,
  NotSaved,
  recover,
  type DraftVersion,
  type FetchAnswer,
  type OpenedDraft,
  type Outbox,
  type OutboxEntry,
  type SaveAnswer,
  type TabChannel,
} from ".";

/** Time that only moves when it is told to; what is due then is called in order. */
class FakeClock {
  time = 0;
  readonly #due = new Map<object, { at: number; callback: () => void }>();
  now = () => this.time;
  after = (milliseconds: number, callback: () => void) => {
    const entry = { at: this.time + milliseconds, callback };
    this.#due.set(entry, entry);
    return () => void this.#due.delete(entry);
  };

  async pass(milliseconds: number): Promise<void> {
    const until = this.time + milliseconds;
    for (;;) {
      await settled();
      const next = [...this.#due.values()].filter(({ at }) => at <= until).sort((left, right) => left.at - right.at)[0];
      if (next === undefined) break;
      this.#due.delete(next);
      this.time = Math.max(this.time, next.at);
      next.callback();
    }
    this.time = until;
    await settled();
  }
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

class FakeOutbox implements Outbox {
  readonly stored = new Map<string, OutboxEntry>();
  isBroken = false;
  slowly: Promise<void> | null = null;
  put = async (entry: OutboxEntry) => {
    if (this.isBroken) throw new Error("no room");
    await this.slowly;
    this.stored.set(`${entry.id} ${entry.tabID}`, entry);
  };
  remove = async (id: string, tabID: string) => void this.stored.delete(`${id} ${tabID}`);
  entries = async (id: string) => [...this.stored.values()].filter((entry) => entry.id === id).sort((left, right) => right.keptAt - left.keptAt);

  get texts(): string[] {
    return [...this.stored.values()].map((entry) => entry.text);
  }
}

type Answer = SaveAnswer<string>;

/** A server with one draft, as the real one saves it; `fate` says what happens to the next requests. */
class FakeServer {
  readonly clock: FakeClock;
  draft: DraftVersion | null = { draftID: "d", revision: 1, baseVersion: 1, workflow: "w", updatedAt: "0", updatedBy: "key_1" };
  text = "one";
  sent: { at: number; text: string; revision: number }[] = [];
  fate: "answers" | "unreachable" | "dies after saving" | "hangs" | "refuses" | "forbids" = "answers";
  inFlight = 0;
  inFlightMax = 0;
  #release: (() => void)[] = [];

  constructor(clock: FakeClock) {
    this.clock = clock;
  }

  create = (text: string): Promise<Answer> => this.#write(null, text);
  save = (draft: DraftVersion, text: string): Promise<Answer> => this.#write(draft, text);

  async #write(draft: DraftVersion | null, text: string): Promise<Answer> {
    this.sent.push({ at: this.clock.time, text, revision: draft?.revision ?? 0 });
    this.inFlight += 1;
    this.inFlightMax = Math.max(this.inFlightMax, this.inFlight);
    if (this.fate === "hangs") await new Promise<void>((resolve) => this.#release.push(resolve));
    this.inFlight -= 1;
    if (this.fate === "unreachable") return { kind: "unreachable" };
    if (this.fate === "refuses") return { kind: "refused", error: "too large" };
    if (this.fate === "forbids") return { kind: "readOnly", reason: "role" };
    if (draft === null && this.draft !== null) return { kind: "overtaken", draftID: "d" };
    if (draft === null || text !== this.text) {
      if (draft !== null && draft.revision !== this.draft!.revision) return { kind: "overtaken", draftID: "d" };
      this.#store(text, "key_1");
    }
    return this.fate === "dies after saving" ? { kind: "unreachable" } : { kind: "saved", draft: this.draft! };
  }

  fetches = 0;
  fetch = async (): Promise<FetchAnswer<string>> => {
    this.fetches += 1;
    return this.fate === "unreachable" ? { kind: "unreachable" } : { kind: "draft", draft: this.opened() };
  };

  opened = (): OpenedDraft => ({ ...this.draft!, text: this.text });

  /** Somebody else saves. */
  other(text: string): void {
    this.#store(text, "key_2");
  }

  release(): void {
    this.fate = "answers";
    for (const resolve of this.#release.splice(0)) resolve();
  }

  #store(text: string, updatedBy: string): void {
    this.text = text;
    const revision = (this.draft?.revision ?? 0) + 1;
    this.draft = { draftID: "d", revision, baseVersion: 1, workflow: "w", updatedAt: String(this.clock.time), updatedBy };
  }
}

function setUp({ isNew = false, workflow = "w" as string | null } = {}) {
  const clock = new FakeClock();
  const outbox = new FakeOutbox();
  const server = new FakeServer(clock);
  if (isNew) server.draft = null;
  const open = (tabID = "tab") => new DraftSaver<string>({ tabID, server, outbox, clock, workflow, draft: server.draft, text: server.text });
  return { clock, outbox, server, open, saver: open() };
}

/** Takes theirs and adds a word of ours: a merge, as far as a saver knows. */
function mergeInto(saver: DraftSaver<string>): string | null {
  const { state } = saver;
  if (state.kind !== "conflict") return null;
  const merged = `${state.theirs.text}+merged`;
  saver.resolved(state.theirs, merged);
  return merged;
}

describe("saving a draft", () => {
  it("waits 800 ms for a pause, keeps first, and says what it does", async () => {
    const { clock, outbox, server, saver } = setUp();
    const said: string[] = [];
    saver.subscribe(() => said.push(saver.state.kind));
    saver.edited("two");
    await clock.pass(500);
    saver.edited("three");
    await clock.pass(799);
    expect([server.sent, outbox.stored.size]).toEqual([[], 0]);
    await clock.pass(1);
    expect(server.sent).toEqual([{ at: 1_300, text: "three", revision: 1 }]);
    expect(saver.state).toEqual({ kind: "saved", at: "1300" });
    expect([saver.draft?.revision, saver.base, outbox.stored.size]).toEqual([2, "three", 0]);
    expect(said).toEqual(["saving", "saved"]);
  });

  it("keeps in the outbox before it sends, with what a merge needs", async () => {
    const { clock, outbox, server, saver } = setUp();
    server.fate = "hangs";
    saver.edited("two");
    await clock.pass(800);
    expect(server.sent).toHaveLength(1);
    expect([...outbox.stored.values()]).toEqual([{ id: "d", tabID: "tab", revision: 1, base: "one", text: "two", keptAt: 800 }]);
    server.release();
    await clock.pass(0);
    expect(outbox.stored.size).toBe(0);
  });

  it("sends nothing that is not kept, also while the outbox is slow", async () => {
    const { clock, outbox, server, saver } = setUp();
    let finish = () => {};
    outbox.slowly = new Promise((resolve) => (finish = resolve));
    saver.edited("two");
    await clock.pass(800);
    saver.edited("three");
    await clock.pass(500);
    expect(server.sent).toEqual([]);
    finish();
    await clock.pass(0);
    expect(server.sent.map(({ text }) => text)).toEqual(["two"]);
    await clock.pass(5_000);
    expect(server.text).toBe("three");
  });

  it("while somebody types without a pause keeps and saves every 5 s", async () => {
    const { clock, server, saver } = setUp();
    for (let count = 0; count < 100; count += 1) {
      saver.edited(`t${count}`);
      await clock.pass(200);
    }
    expect(server.sent.map(({ at }) => at)).toEqual([5_000, 10_000, 15_000, 20_000]);
  });

  it("sends at most every 5 s, and the last edit in the end", async () => {
    const { clock, server, saver } = setUp();
    for (let count = 0; count < 10; count += 1) {
      saver.edited(`t${count}`);
      await clock.pass(1_000);
    }
    await clock.pass(10_000);
    expect(server.sent.map(({ at, text }) => [at, text])).toEqual([[800, "t0"], [5_800, "t5"], [10_800, "t9"]]);
    expect(saver.state.kind).toBe("saved");
  });

  it("saves at once when it is told to, within 5 s of the last request too, and says when it is done", async () => {
    const { clock, server, saver } = setUp();
    saver.edited("two");
    const first = saver.flush();
    await clock.pass(0);
    await first;
    saver.edited("three");
    const second = saver.flush();
    await clock.pass(0);
    await second;
    expect(server.sent.map(({ at, text }) => [at, text])).toEqual([[0, "two"], [0, "three"]]);
    await saver.flush();
    await clock.pass(60_000);
    expect(server.sent).toHaveLength(2);
  });

  it("has one request in flight, and sends what was edited meanwhile after it", async () => {
    const { clock, server, saver } = setUp();
    server.fate = "hangs";
    saver.edited("two");
    await clock.pass(800);
    saver.edited("three");
    const flushed = saver.flush();
    await clock.pass(20_000);
    expect(server.sent).toHaveLength(1);
    expect(saver.state.kind).toBe("saving");
    server.release();
    await clock.pass(0);
    await flushed;
    expect(server.sent.map(({ text, revision }) => [text, revision])).toEqual([["two", 1], ["three", 2]]);
    expect(server.inFlightMax).toBe(1);
  });

  it("sends nothing for edits that are undone before the pause is over", async () => {
    const { clock, outbox, server, saver } = setUp();
    saver.edited("two");
    await clock.pass(400);
    saver.edited("one");
    await clock.pass(60_000);
    expect(server.sent).toEqual([]);
    expect(saver.state).toEqual({ kind: "saved", at: "0" });
    expect(outbox.stored.size).toBe(0);
  });

  it("saves an edit that is undone while the request was in flight", async () => {
    const { clock, server, saver } = setUp();
    server.fate = "hangs";
    saver.edited("two");
    await clock.pass(800);
    saver.edited("one");
    server.release();
    await clock.pass(10_000);
    expect(server.text).toBe("one");
    expect(saver.state.kind).toBe("saved");
  });

  it("goes on from a publish with the draft that it left", async () => {
    const { clock, server, saver } = setUp();
    server.draft = { ...server.draft!, baseVersion: 2 };
    saver.rebased(server.draft);
    expect(saver.draft?.baseVersion).toBe(2);
    await clock.pass(60_000);
    expect(server.sent).toEqual([]);
  });
});

describe("a draft that does not exist yet", () => {
  it("is made by its first edit, of the workflow that was opened", async () => {
    const { clock, outbox, server, saver } = setUp({ isNew: true });
    expect([saver.state, saver.outboxID]).toEqual([{ kind: "saved", at: null }, "workflow:w"]);
    server.fate = "unreachable";
    saver.edited("two");
    await clock.pass(800);
    expect([...outbox.stored.keys()]).toEqual(["workflow:w tab"]);
    server.fate = "answers";
    await clock.pass(5_000);
    expect([saver.draft?.draftID, saver.outboxID, saver.state.kind, outbox.stored.size]).toEqual(["d", "d", "saved", 0]);
    saver.edited("three");
    await clock.pass(5_000);
    expect(server.sent.map(({ revision }) => revision)).toEqual([0, 0, 1]);
  });

  it("leaves nothing under the workflow in the outbox once it is made", async () => {
    const { clock, outbox, server, saver } = setUp({ isNew: true });
    server.fate = "hangs";
    saver.edited("two");
    await clock.pass(800);
    server.release();
    saver.edited("three");
    await clock.pass(1_000);
    expect(saver.draft?.revision).toBe(1);
    expect([...outbox.stored.keys()]).toEqual(["d tab"]);
  });

  it("of a new workflow has no place in the outbox before it is made, and does not claim to be kept", async () => {
    const { clock, outbox, server, saver } = setUp({ isNew: true, workflow: null });
    server.fate = "unreachable";
    saver.edited("two");
    await clock.pass(800);
    expect([saver.outboxID, saver.state, outbox.stored.size]).toEqual([null, { kind: "offline", isKept: false }, 0]);
    server.fate = "answers";
    await clock.pass(5_000);
    expect([saver.state.kind, saver.outboxID]).toEqual(["saved", "d"]);
  });

  it("is made without an edit where somebody asks for it", async () => {
    const { clock, server, saver } = setUp({ isNew: true });
    server.fate = "hangs";
    const flushed = saver.flush().then(() => saver.draft?.revision);
    await clock.pass(0);
    expect(saver.state.kind).toBe("saving");
    server.release();
    expect([await flushed, server.sent.length]).toEqual([1, 1]);
  });

  it("that somebody else has made meanwhile is a conflict", async () => {
    const { clock, server, saver } = setUp({ isNew: true });
    server.other("theirs");
    saver.edited("mine");
    await clock.pass(800);
    expect(saver.state).toMatchObject({ kind: "conflict", theirs: { text: "theirs", revision: 1 } });
  });
});

describe("a server that is gone", () => {
  it("is asked again after 1, 2, 4… 30 s, while edits are kept here", async () => {
    const { clock, outbox, server, saver } = setUp();
    server.fate = "unreachable";
    saver.edited("two");
    await clock.pass(800);
    expect(saver.state).toEqual({ kind: "offline", isKept: true });
    await expect(saver.flush()).rejects.toThrow(NotSaved);
    saver.edited("three");
    expect(saver.state).toMatchObject({ isKept: false });
    await clock.pass(800);
    expect(saver.state).toMatchObject({ isKept: true });
    expect(outbox.texts).toEqual(["three"]);
    await clock.pass(120_000);
    const waits = server.sent.map(({ at }, index) => at - (server.sent[index - 1]?.at ?? 0)).slice(-4);
    expect(waits).toEqual([8_000, 16_000, 30_000, 30_000]);
    server.fate = "answers";
    saver.online();
    await clock.pass(5_000);
    expect(saver.state.kind).toBe("saved");
    expect(server.text).toBe("three");
    expect(outbox.stored.size).toBe(0);
  });

  it("that saved and died before it answered is no conflict with oneself", async () => {
    const { clock, server, saver } = setUp();
    server.fate = "dies after saving";
    saver.edited("two");
    await clock.pass(800);
    expect(saver.state.kind).toBe("offline");
    saver.edited("three");
    server.fate = "answers";
    await clock.pass(30_000);
    expect(saver.state.kind).toBe("saved");
    expect([server.text, saver.draft?.revision]).toEqual(["three", 3]);
  });

  it("and a browser without storage still saves, and does not claim to keep", async () => {
    const { clock, outbox, server, saver } = setUp();
    outbox.isBroken = true;
    server.fate = "unreachable";
    saver.edited("two");
    await clock.pass(800);
    expect(server.sent).toHaveLength(1);
    expect(saver.state).toEqual({ kind: "offline", isKept: false });
    server.fate = "answers";
    await clock.pass(5_000);
    expect(saver.state.kind).toBe("saved");
  });
});

describe("what the server does not take", () => {
  it("is said, kept, and not sent again before it is edited", async () => {
    const { clock, server, saver } = setUp();
    server.fate = "refuses";
    saver.edited("two");
    await clock.pass(60_000);
    expect(server.sent).toHaveLength(1);
    expect(saver.state).toEqual({ kind: "refused", isKept: true, error: "too large" });
    server.fate = "answers";
    saver.edited("three");
    await clock.pass(800);
    expect(saver.state.kind).toBe("saved");
  });

  it("for want of a role makes the draft read-only, and what is edited is kept all the same", async () => {
    const { clock, outbox, server, saver } = setUp();
    server.fate = "forbids";
    saver.edited("two");
    await clock.pass(800);
    expect(saver.state).toEqual({ kind: "readOnly", isKept: true, reason: "role" });
    saver.edited("three");
    await clock.pass(60_000);
    expect(server.sent).toHaveLength(1);
    expect(outbox.texts).toEqual(["three"]);
    saver.edited("four");
    await saver.close();
    expect(outbox.texts).toEqual(["four"]);
  });
});

describe("a draft that somebody else has saved", () => {
  it("is no conflict where the document is the same and only its revision is newer", async () => {
    const { clock, server, saver } = setUp();
    server.other("one");
    saver.edited("mine");
    await clock.pass(800);
    await clock.pass(5_000);
    expect(saver.state.kind).toBe("saved");
    expect(server.text).toBe("mine");
  });

  it("and that did not exist when it was opened here is fetched at once", async () => {
    const { clock, server, saver } = setUp({ isNew: true });
    server.other("theirs");
    expect(saver.isEdited).toBe(false);
    saver.overtaken("d", 1);
    await clock.pass(0);
    expect(saver.state).toMatchObject({ kind: "conflict", theirs: { text: "theirs" } });
    expect(saver.isEdited).toBe(false);
  });

  it("is not saved over; edits meanwhile are kept, and what is merged is saved", async () => {
    const { clock, outbox, server, saver } = setUp();
    server.other("theirs");
    saver.edited("mine");
    await clock.pass(800);
    expect(saver.state).toMatchObject({ kind: "conflict", theirs: { revision: 2, text: "theirs", updatedBy: "key_2" } });
    expect(saver.base).toBe("one");
    await expect(saver.flush()).rejects.toThrow("conflict");
    saver.edited("mine, later");
    await clock.pass(60_000);
    expect([server.sent.length, server.fetches]).toEqual([1, 1]);
    expect(outbox.texts).toEqual(["mine, later"]);
    mergeInto(saver);
    expect(saver.base).toBe("theirs");
    await clock.pass(5_000);
    expect([server.text, saver.state.kind, saver.draft?.revision, outbox.stored.size]).toEqual(["theirs+merged", "saved", 3, 0]);
  });

  it("is not overwritten with what was being kept while the conflict was resolved", async () => {
    const { clock, outbox, server, saver } = setUp();
    server.other("theirs");
    saver.edited("mine");
    await clock.pass(800);
    let finish = () => {};
    outbox.slowly = new Promise((resolve) => (finish = resolve));
    saver.edited("mine, later");
    await clock.pass(10_000);
    mergeInto(saver);
    finish();
    await clock.pass(60_000);
    expect(server.sent.map(({ text }) => text)).toEqual(["mine", "theirs+merged"]);
  });

  it("may be taken as it is", async () => {
    const { clock, outbox, server, saver } = setUp();
    server.other("theirs");
    saver.edited("mine");
    await clock.pass(800);
    saver.resolved(server.opened(), "theirs");
    await clock.pass(60_000);
    expect([server.sent.length, saver.state.kind, outbox.stored.size]).toEqual([1, "saved", 0]);
  });

  it("again during the choice is a conflict again", async () => {
    const { clock, server, saver } = setUp();
    server.other("theirs");
    saver.edited("mine");
    await clock.pass(800);
    server.other("theirs again");
    mergeInto(saver);
    await clock.pass(5_000);
    expect(saver.state).toMatchObject({ kind: "conflict", theirs: { revision: 3, text: "theirs again" } });
  });

  it("in the same words is no conflict", async () => {
    const { clock, server, saver } = setUp();
    server.other("x");
    server.other("two");
    saver.edited("two and more");
    server.other("two and more");
    await clock.pass(800);
    expect([saver.state.kind, saver.draft?.revision]).toEqual(["saved", 4]);
  });

  it("and then is gone is fetched as soon as the server is back", async () => {
    const { clock, server, saver } = setUp();
    server.other("theirs");
    saver.edited("mine");
    const fetch = server.fetch;
    let failures = 2;
    server.fetch = async () => (failures-- > 0 ? { kind: "unreachable" } : fetch());
    await clock.pass(800);
    expect(saver.state.kind).toBe("offline");
    await clock.pass(3_000);
    expect(saver.state).toMatchObject({ kind: "conflict", theirs: { text: "theirs" } });
  });

  it("is fetched when another tab says so, and what is known is not", async () => {
    const { clock, server, saver } = setUp();
    saver.overtaken("d", 1);
    expect(saver.state.kind).toBe("saved");
    server.other("theirs");
    saver.overtaken("d", 2);
    await clock.pass(0);
    expect(saver.state.kind).toBe("conflict");
  });

  it("never is overwritten and never overwrites in silence, whatever happens in whatever order", async () => {
    const events = fc.array(fc.tuple(fc.constantFrom("edit", "other", "gone", "back", "dies", "now", "merge", "pass"), fc.nat({ max: 6_000 })), { maxLength: 25 });
    await fc.assert(
      fc.asyncProperty(events, async (script) => {
        const { clock, outbox, server, saver } = setUp();
        let [current, count] = ["one", 0];
        const theirs: string[] = [];
        const seen = new Set<string>();
        const merge = () => {
          if (saver.state.kind !== "conflict") return;
          seen.add(saver.state.theirs.text);
          current = mergeInto(saver)!;
        };
        for (const [what, milliseconds] of script) {
          count += 1;
          if (what === "edit") saver.edited((current = `mine ${count}`));
          if (what === "other" && server.fate === "answers") theirs.push(`theirs ${count}`);
          if (what === "other" && server.fate === "answers") server.other(`theirs ${count}`);
          if (what === "gone") server.fate = "unreachable";
          if (what === "back") server.fate = "answers";
          if (what === "dies") server.fate = "dies after saving";
          if (what === "now") saver.flush().catch(() => undefined);
          if (what === "merge") merge();
          await clock.pass(what === "pass" ? milliseconds : 0);
          // Saved is what is on the server, unless somebody has saved since and nobody has said so here.
          if (saver.state.kind === "saved" && saver.draft?.revision === server.draft?.revision) expect(server.text).toBe(current);
        }
        server.fate = "answers";
        for (let round = 0; round < 6; round += 1) {
          await clock.pass(40_000);
          saver.overtaken("d", server.draft!.revision);
          await clock.pass(0);
          merge();
        }
        await clock.pass(40_000);
        expect(saver.state.kind).toBe("saved");
        expect(server.text).toBe(current);
        // The last that they saved was shown, or nothing of ours came after it.
        const last = theirs.at(-1);
        expect(last === undefined || seen.has(last) || server.text === last || !server.sent.some(({ text }) => text === server.text)).toBe(true);
        expect(server.inFlightMax).toBeLessThanOrEqual(1);
        expect(outbox.stored.size).toBe(0);
      }),
      { numRuns: 300 },
    );
  });
});

describe("what a browser that died has left", () => {
  const nobody = async () => false;

  it("is given back once to the next tab, and gone once it is saved", async () => {
    const { clock, outbox, server, saver, open } = setUp();
    server.fate = "unreachable";
    saver.edited("lost?");
    await clock.pass(800);
    await saver.close();
    server.fate = "answers";
    const next = open("tab2");
    const entry = await recover(outbox, { ids: ["d"], tabID: "tab2", serverText: server.text }, nobody);
    expect(entry).toMatchObject({ text: "lost?", base: "one", revision: 1 });
    expect([...outbox.stored.keys()]).toEqual(["d tab2"]);
    next.edited(entry!.text);
    await clock.pass(800);
    expect([server.text, outbox.stored.size]).toEqual(["lost?", 0]);
  });

  it("is found where it was kept before the draft existed, and handed over to where edits are kept now", async () => {
    const outbox = new FakeOutbox();
    await outbox.put({ id: "workflow:w", tabID: "gone", revision: 0, base: "one", text: "older", keptAt: 1 });
    await outbox.put({ id: "workflow:w", tabID: "gone2", revision: 0, base: "one", text: "newer", keptAt: 2 });
    const entry = await recover(outbox, { ids: ["d", "workflow:w"], tabID: "me", serverText: "one" }, nobody);
    expect(entry).toMatchObject({ text: "newer" });
    expect([...outbox.stored.keys()].sort()).toEqual(["d me", "workflow:w gone"]);
  });

  it("is left to tabs that are alive, and forgotten where the server has it", async () => {
    const outbox = new FakeOutbox();
    const entry = { id: "d", revision: 1, base: "one", keptAt: 1 };
    await outbox.put({ ...entry, tabID: "alive", text: "x" });
    await outbox.put({ ...entry, tabID: "saved", text: "two" });
    await outbox.put({ ...entry, tabID: "unchanged", text: "one" });
    expect(await recover(outbox, { ids: ["d"], tabID: "me", serverText: "two" }, async (tabID) => tabID === "alive")).toBeNull();
    expect([...outbox.stored.keys()]).toEqual(["d alive"]);
    outbox.entries = async () => Promise.reject(new Error("no storage"));
    expect(await recover(outbox, { ids: ["d"], tabID: "me", serverText: "two" }, nobody)).toBeNull();
  });

  it("is written when the draft is closed before the pause is over", async () => {
    const { outbox, clock, server, saver } = setUp();
    saver.edited("two");
    await saver.close();
    await clock.pass(60_000);
    expect(outbox.texts).toEqual(["two"]);
    expect(server.sent).toEqual([]);
  });
});

describe("tabs with the same draft", () => {
  it("know of one another, and of each other's saves", () => {
    const channels = new Set<TabChannel>();
    const log: string[] = [];
    const open = (tabID: string, room = "w") => {
      const channel: TabChannel = {
        onmessage: null,
        postMessage: (data) => channels.forEach((other) => other !== channel && other.onmessage?.({ data })),
        close: () => channels.delete(channel),
      };
      channels.add(channel);
      return new DraftTabs({ room, tabID, channel, onChange: () => log.push(`${tabID} sees a change`), onSaved: (draftID, revision) => log.push(`${tabID} hears of ${draftID} ${revision}`) });
    };
    const [one, two] = [open("1"), open("2")];
    open("3", "another");
    expect([one.others, two.others, one.has("2"), one.has("3")]).toEqual([1, 1, true, false]);
    two.saved({ draftID: "d", revision: 4, baseVersion: 1, workflow: "w", updatedAt: "0", updatedBy: "key_1" });
    two.close();
    expect(one.others).toBe(0);
    expect(log).toEqual(["2 sees a change", "1 sees a change", "1 hears of d 4", "1 sees a change"]);
  });
});
