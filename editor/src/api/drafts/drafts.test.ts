import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { DraftSaver, DraftTabs, recover, type FetchAnswer, type Outbox, type OutboxEntry, type SaveAnswer, type TabChannel } from ".";
import { readDocument, withField, withRecords, writeDocument, type WorkflowDocument } from "../../model";

const START = readDocument('{"title": "one", "nodes": [{"id": "a", "type": "set"}, {"id": "b", "type": "set"}], "edges": []}');

function titled(title: string, document = START): WorkflowDocument {
  return withRecords(document, new Map([["head", withField(document.head, "title", JSON.stringify(title))]]));
}

function named(key: "n0" | "n1", name: string, document = START): WorkflowDocument {
  return withRecords(document, new Map([[key, withField(document.nodes.get(key)!, "name", JSON.stringify(name))]]));
}

const titleIn = (text: string) => (JSON.parse(text) as { title: string }).title;

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
  put = async (entry: OutboxEntry) => {
    if (this.isBroken) throw new Error("no room");
    this.stored.set(`${entry.draftID} ${entry.tabID}`, entry);
  };
  remove = async (draftID: string, tabID: string) => void this.stored.delete(`${draftID} ${tabID}`);
  entries = async (draftID: string) => [...this.stored.values()].filter((entry) => entry.draftID === draftID).sort((left, right) => right.at - left.at);
}

/** A server with one draft, as the real one saves it; `fate` says what happens to the next requests. */
class FakeServer {
  readonly clock: FakeClock;
  revision = 1;
  text = writeDocument(START);
  sent: { at: number; title: string; revision: number }[] = [];
  fate: "answers" | "unreachable" | "dies after saving" | "hangs" | "refuses" | "forbids" = "answers";
  inFlight = 0;
  inFlightMax = 0;
  #release: (() => void)[] = [];

  constructor(clock: FakeClock) {
    this.clock = clock;
  }

  save = async (_: string, revision: number, text: string): Promise<SaveAnswer> => {
    this.sent.push({ at: this.clock.time, title: titleIn(text), revision });
    this.inFlight += 1;
    this.inFlightMax = Math.max(this.inFlightMax, this.inFlight);
    if (this.fate === "hangs") await new Promise<void>((resolve) => this.#release.push(resolve));
    this.inFlight -= 1;
    if (this.fate === "unreachable") return { kind: "unreachable" };
    if (this.fate === "refuses") return { kind: "refused", error: { code: "TOO_LARGE", message: "too large", hint: "smaller" } };
    if (this.fate === "forbids") return { kind: "readOnly", reason: "role" };
    if (text !== this.text) {
      if (revision !== this.revision) return { kind: "overtaken", saved: this.saved() };
      this.revision += 1;
      this.text = text;
    }
    return this.fate === "dies after saving" ? { kind: "unreachable" } : { kind: "saved", saved: this.saved() };
  };

  fetch = async (): Promise<FetchAnswer> => {
    return this.fate === "unreachable" ? { kind: "unreachable" } : { kind: "draft", saved: this.saved(), text: this.text };
  };

  /** Somebody else saves. */
  other(document: WorkflowDocument): void {
    this.text = writeDocument(document);
    this.revision += 1;
  }

  release(): void {
    this.fate = "answers";
    for (const resolve of this.#release.splice(0)) resolve();
  }

  saved = () => ({ revision: this.revision, at: this.clock.time, by: "key_2" });
}

function setUp() {
  const clock = new FakeClock();
  const outbox = new FakeOutbox();
  const server = new FakeServer(clock);
  const open = (tabID = "tab") => new DraftSaver({ draftID: "d", tabID, server, outbox, clock, document: readDocument(server.text), revision: server.revision, savedAt: 0 });
  return { clock, outbox, server, open, saver: open() };
}

describe("saving a draft", () => {
  it("waits 800 ms for a pause, keeps first, and says what it does", async () => {
    const { clock, outbox, server, saver } = setUp();
    const said: string[] = [];
    saver.subscribe(() => said.push(saver.status.kind));
    saver.edited(titled("two"));
    await clock.pass(500);
    saver.edited(titled("three"));
    await clock.pass(799);
    expect([server.sent, outbox.stored.size]).toEqual([[], 0]);
    await clock.pass(1);
    expect(server.sent).toEqual([{ at: 1_300, title: "three", revision: 1 }]);
    expect(saver.status).toEqual({ kind: "saved", at: 1_300 });
    expect([saver.revision, saver.isDirty, outbox.stored.size]).toEqual([2, false, 0]);
    expect(said).toEqual(["saving", "saved"]);
  });

  it("keeps in the outbox before it sends, and not without what a merge needs", async () => {
    const { clock, outbox, server, saver } = setUp();
    server.fate = "hangs";
    saver.edited(titled("two"));
    await clock.pass(800);
    expect(server.sent).toHaveLength(1);
    expect([...outbox.stored.values()]).toEqual([{ draftID: "d", tabID: "tab", revision: 1, baseText: writeDocument(START), text: writeDocument(titled("two")), at: 800 }]);
    server.release();
    await clock.pass(0);
    expect(outbox.stored.size).toBe(0);
  });

  it("while somebody types without a pause keeps and saves every 5 s", async () => {
    const { clock, server, saver } = setUp();
    for (let count = 0; count < 100; count += 1) {
      saver.edited(titled(`t${count}`));
      await clock.pass(200);
    }
    expect(server.sent.map(({ at }) => at)).toEqual([5_000, 10_000, 15_000, 20_000]);
  });

  it("sends at most every 5 s, and the last edit in the end", async () => {
    const { clock, server, saver } = setUp();
    for (let count = 0; count < 10; count += 1) {
      saver.edited(titled(`t${count}`));
      await clock.pass(1_000);
    }
    await clock.pass(10_000);
    expect(server.sent.map(({ at, title }) => [at, title])).toEqual([[800, "t0"], [5_800, "t5"], [10_800, "t9"]]);
    expect(saver.status.kind).toBe("saved");
  });

  it("saves at once when it is told to, within 5 s of the last request too", async () => {
    const { clock, server, saver } = setUp();
    saver.edited(titled("two"));
    saver.saveNow();
    await clock.pass(0);
    saver.edited(titled("three"));
    saver.saveNow();
    await clock.pass(0);
    expect(server.sent.map(({ at, title }) => [at, title])).toEqual([[0, "two"], [0, "three"]]);
    saver.saveNow();
    await clock.pass(60_000);
    expect(server.sent).toHaveLength(2);
  });

  it("has one request in flight, and sends what was edited meanwhile after it", async () => {
    const { clock, server, saver } = setUp();
    server.fate = "hangs";
    saver.edited(titled("two"));
    await clock.pass(800);
    saver.edited(titled("three"));
    saver.saveNow();
    await clock.pass(20_000);
    expect(server.sent).toHaveLength(1);
    expect(saver.status.kind).toBe("saving");
    server.release();
    await clock.pass(0);
    expect(server.sent.map(({ title, revision }) => [title, revision])).toEqual([["two", 1], ["three", 2]]);
    expect(server.inFlightMax).toBe(1);
  });

  it("sends nothing for edits that are undone before the pause is over, nor for layout", async () => {
    const { clock, outbox, server, saver } = setUp();
    saver.edited(titled("two"));
    await clock.pass(400);
    saver.edited(START);
    await clock.pass(60_000);
    expect(server.sent).toEqual([]);
    expect(saver.status).toEqual({ kind: "saved", at: 0 });
    expect(outbox.stored.size).toBe(0);
  });

  it("saves an edit that is undone while the request was in flight", async () => {
    const { clock, server, saver } = setUp();
    server.fate = "hangs";
    saver.edited(titled("two"));
    await clock.pass(800);
    saver.edited(START);
    server.release();
    await clock.pass(10_000);
    expect(titleIn(server.text)).toBe("one");
    expect(saver.status.kind).toBe("saved");
  });
});

describe("a server that is gone", () => {
  it("is asked again after 1, 2, 4… 30 s, while edits are kept here", async () => {
    const { clock, outbox, server, saver } = setUp();
    server.fate = "unreachable";
    saver.edited(titled("two"));
    await clock.pass(800);
    expect(saver.status).toEqual({ kind: "offline", isKept: true, error: null });
    saver.edited(titled("three"));
    expect(saver.status).toMatchObject({ isKept: false });
    await clock.pass(800);
    expect(saver.status).toMatchObject({ isKept: true });
    expect([...outbox.stored.values()].map(({ text }) => titleIn(text))).toEqual(["three"]);
    await clock.pass(120_000);
    const waits = server.sent.map(({ at }, index) => at - (server.sent[index - 1]?.at ?? 0)).slice(1);
    expect(waits).toEqual([5_000, 5_000, 5_000, 8_000, 16_000, 30_000, 30_000]);
    server.fate = "answers";
    saver.online();
    await clock.pass(5_000);
    expect(saver.status.kind).toBe("saved");
    expect(titleIn(server.text)).toBe("three");
    expect(outbox.stored.size).toBe(0);
  });

  it("that saved and died before it answered is no conflict with oneself", async () => {
    const { clock, server, saver } = setUp();
    server.fate = "dies after saving";
    saver.edited(titled("two"));
    await clock.pass(800);
    expect(saver.status.kind).toBe("offline");
    saver.edited(titled("three"));
    server.fate = "answers";
    await clock.pass(30_000);
    expect(saver.status.kind).toBe("saved");
    expect([titleIn(server.text), saver.revision]).toEqual(["three", 3]);
  });

  it("and a browser without storage still saves, and does not claim to keep", async () => {
    const { clock, outbox, server, saver } = setUp();
    outbox.isBroken = true;
    server.fate = "unreachable";
    saver.edited(titled("two"));
    await clock.pass(800);
    expect(server.sent).toHaveLength(1);
    expect(saver.status).toEqual({ kind: "offline", isKept: false, error: null });
    server.fate = "answers";
    await clock.pass(5_000);
    expect(saver.status.kind).toBe("saved");
  });
});

describe("what the server does not take", () => {
  it("is said, kept, and not sent again before it is edited", async () => {
    const { clock, server, saver } = setUp();
    server.fate = "refuses";
    saver.edited(titled("two"));
    await clock.pass(60_000);
    expect(server.sent).toHaveLength(1);
    expect(saver.status).toEqual({ kind: "offline", isKept: true, error: { code: "TOO_LARGE", message: "too large", hint: "smaller" } });
    server.fate = "answers";
    saver.edited(titled("three"));
    await clock.pass(800);
    expect(saver.status.kind).toBe("saved");
  });

  it("for want of a role makes the draft read-only", async () => {
    const { clock, server, saver } = setUp();
    server.fate = "forbids";
    saver.edited(titled("two"));
    await clock.pass(800);
    expect(saver.status).toEqual({ kind: "readOnly", reason: "role" });
    saver.edited(titled("three"));
    await clock.pass(60_000);
    expect(server.sent).toHaveLength(1);
  });
});

describe("a draft that somebody else has saved", () => {
  it("is not saved over; one click merges what is disjoint, and the merge is saved at once", async () => {
    const { clock, server, saver } = setUp();
    server.other(named("n0", "theirs"));
    saver.edited(named("n1", "mine"));
    await clock.pass(800);
    expect(saver.status).toMatchObject({ kind: "conflict", saved: { revision: 2, by: "key_2" } });
    await clock.pass(60_000);
    expect(server.sent).toHaveLength(1);
    expect(saver.merge()!.conflicts).toEqual([]);
    const merged = saver.resolve()!;
    await clock.pass(0);
    expect(server.text).toBe(writeDocument(merged));
    expect([...readDocument(server.text).nodes.values()].map((node) => node.name)).toEqual(["theirs", "mine"]);
    expect([saver.status.kind, saver.revision]).toEqual(["saved", 3]);
    expect(saver.resolve()).toBeNull();
  });

  it("in the same place waits for a choice, and edits meanwhile are kept and part of it", async () => {
    const { clock, outbox, server, saver } = setUp();
    server.other(titled("theirs"));
    saver.edited(titled("mine"));
    await clock.pass(800);
    saver.edited(named("n0", "later", titled("mine")));
    await clock.pass(800);
    expect(outbox.stored.size).toBe(1);
    const [conflict] = saver.merge()!.conflicts;
    expect(conflict).toMatchObject({ about: "field", mine: '"mine"', theirs: '"theirs"' });
    saver.resolve(new Map([[conflict!.id, "theirs"]]));
    await clock.pass(0);
    expect(titleIn(server.text)).toBe("theirs");
    expect(readDocument(server.text).nodes.get("n0")!.name).toBe("later");
    expect(outbox.stored.size).toBe(0);
  });

  it("again during the choice is a conflict again", async () => {
    const { clock, server, saver } = setUp();
    server.other(titled("theirs"));
    saver.edited(named("n0", "mine"));
    await clock.pass(800);
    server.other(titled("theirs again"));
    saver.resolve();
    await clock.pass(0);
    expect(saver.status).toMatchObject({ kind: "conflict", saved: { revision: 3 } });
    saver.resolve();
    await clock.pass(0);
    expect([titleIn(server.text), readDocument(server.text).nodes.get("n0")!.name]).toEqual(["theirs again", "mine"]);
  });

  it("in the same words is no conflict", async () => {
    const { clock, server, saver } = setUp();
    server.other(titled("same"));
    server.other(titled("two"));
    server.revision = 7;
    saver.edited(titled("two"));
    await clock.pass(800);
    expect(saver.status.kind).toBe("saved");
    expect(saver.revision).toBe(7);
  });

  it("and then is gone is fetched as soon as the server is back", async () => {
    const { clock, server, saver } = setUp();
    server.other(titled("theirs"));
    saver.edited(titled("mine"));
    const fetch = server.fetch;
    let failures = 2;
    server.fetch = async () => (failures-- > 0 ? { kind: "unreachable" } : fetch());
    await clock.pass(800);
    expect(saver.status).toMatchObject({ kind: "conflict", theirs: null });
    expect(saver.merge()).toBeNull();
    await clock.pass(3_000);
    expect(saver.merge()!.conflicts).toHaveLength(1);
  });

  it("never loses in silence, whatever happens in whatever order", async () => {
    const events = fc.array(fc.tuple(fc.constantFrom("edit", "other", "gone", "back", "dies", "now", "merge", "pass"), fc.nat({ max: 6_000 })), { maxLength: 25 });
    await fc.assert(
      fc.asyncProperty(events, async (script) => {
        const { clock, outbox, server, saver } = setUp();
        let current = START;
        let theirs = START;
        let count = 0;
        for (const [what, milliseconds] of script) {
          count += 1;
          if (what === "edit") saver.edited((current = named("n0", `mine ${count}`, current)));
          if (what === "other" && server.fate === "answers") server.other((theirs = named("n1", `theirs ${count}`, readDocument(server.text))));
          if (what === "gone") server.fate = "unreachable";
          if (what === "back") server.fate = "answers";
          if (what === "dies") server.fate = "dies after saving";
          if (what === "now") saver.saveNow();
          if (what === "merge") current = saver.resolve() ?? current;
          await clock.pass(what === "pass" ? milliseconds : 0);
          // What is not on the server is known to be unsaved, and after a pause it is kept.
          if (saver.status.kind === "saved") expect(server.revision === saver.revision ? server.text : writeDocument(current)).toBe(writeDocument(current));
        }
        server.fate = "answers";
        for (let round = 0; round < 5; round += 1) {
          await clock.pass(40_000);
          current = saver.resolve() ?? current;
        }
        await clock.pass(40_000);
        if (saver.isDirty || saver.status.kind !== "saved") throw new Error(`still ${saver.status.kind}`);
        const saved = readDocument(server.text);
        const nameOf = (document: WorkflowDocument, id: string) => [...document.nodes.values()].find((node) => node.id === id)!.name;
        expect(nameOf(saved, "a")).toBe(nameOf(current, "a"));
        expect(nameOf(saved, "b")).toBe(nameOf(theirs, "b"));
        expect(server.inFlightMax).toBeLessThanOrEqual(1);
        expect(outbox.stored.size).toBe(0);
      }),
      { numRuns: 200 },
    );
  });
});

describe("what a browser that died has left", () => {
  const nobody = async () => false;

  it("of the revision that the server has is given back, and gone once it is saved", async () => {
    const { clock, outbox, server, saver, open } = setUp();
    server.fate = "unreachable";
    saver.edited(titled("lost?"));
    await clock.pass(800);
    server.fate = "answers";
    const next = open("tab2");
    const recovered = await recover(outbox, { draftID: "d", tabID: "tab2" }, { revision: 1, document: START }, nobody);
    expect(recovered.kind === "edits" && titleIn(writeDocument(recovered.document))).toBe("lost?");
    expect([...outbox.stored.keys()]).toEqual(["d tab2"]);
    await saver.close();
    outbox.stored.delete("d tab");
    if (recovered.kind === "edits") next.edited(recovered.document);
    await clock.pass(800);
    expect(titleIn(server.text)).toBe("lost?");
    expect(outbox.stored.size).toBe(0);
  });

  it("of an older revision is merged", async () => {
    const { clock, outbox, server, saver } = setUp();
    server.fate = "unreachable";
    saver.edited(named("n0", "mine"));
    await clock.pass(800);
    server.other(titled("theirs"));
    const recovered = await recover(outbox, { draftID: "d", tabID: "tab" }, { revision: 2, document: readDocument(server.text) }, nobody);
    expect(recovered.kind).toBe("merge");
    if (recovered.kind === "merge") expect([recovered.merge.conflicts, titleIn(writeDocument(recovered.merge.document))]).toEqual([[], "theirs"]);
  });

  it("is left to tabs that are alive, and forgotten where the server has it", async () => {
    const outbox = new FakeOutbox();
    const entry = { draftID: "d", revision: 1, baseText: writeDocument(START), at: 1 };
    await outbox.put({ ...entry, tabID: "alive", text: writeDocument(titled("x")) });
    await outbox.put({ ...entry, tabID: "saved", text: writeDocument(titled("two")) });
    await outbox.put({ ...entry, tabID: "broken", text: "{" });
    const server = { revision: 2, document: titled("two") };
    expect(await recover(outbox, { draftID: "d", tabID: "me" }, server, async (tabID) => tabID === "alive")).toEqual({ kind: "nothing" });
    expect([...outbox.stored.keys()]).toEqual(["d alive"]);
    outbox.entries = async () => Promise.reject(new Error("no storage"));
    expect(await recover(outbox, { draftID: "d", tabID: "me" }, server, nobody)).toEqual({ kind: "nothing" });
  });

  it("is written when the draft is closed before the pause is over", async () => {
    const { outbox, clock, server, saver } = setUp();
    saver.edited(titled("two"));
    await saver.close();
    await clock.pass(60_000);
    expect([...outbox.stored.values()].map(({ text }) => titleIn(text))).toEqual(["two"]);
    expect(server.sent).toEqual([]);
  });
});

describe("tabs with the same draft", () => {
  it("know of one another, and of each other's saves", () => {
    const channels = new Set<TabChannel>();
    const log: string[] = [];
    const open = (tabID: string, draftID = "d") => {
      const channel: TabChannel = {
        onmessage: null,
        postMessage: (data) => channels.forEach((other) => other !== channel && other.onmessage?.({ data })),
        close: () => channels.delete(channel),
      };
      channels.add(channel);
      return new DraftTabs({ draftID, tabID, channel, onChange: () => log.push(`${tabID} sees a change`), onSaved: (revision) => log.push(`${tabID} hears of ${revision}`) });
    };
    const [one, two] = [open("1"), open("2")];
    open("3", "another");
    expect([one.others, two.others, one.has("2"), one.has("3")]).toEqual([1, 1, true, false]);
    two.saved(4);
    two.close();
    expect(one.others).toBe(0);
    expect(log).toEqual(["2 sees a change", "1 sees a change", "1 hears of 4", "1 sees a change"]);
  });
});
