import fc from "fast-check";
import { describe, expect, it } from "vitest";

import {
  addNode,
  addNote,
  applyFix,
  chordOf,
  commandOf,
  connect,
  copy,
  duplicate,
  EditRefused,
  EditStore,
  KEYMAP,
  moveBy,
  moveTo,
  paste,
  reconnect,
  remove,
  removeAndBridge,
  renameHandle,
  renameNode,
  renameVariable,
  replaceDocument,
  resizeNote,
  setConfig,
  setField,
  setName,
  setNoteText,
  setTitle,
  shownChord,
  tidy,
  toggleDisabled,
  type Reference,
} from ".";
import {
  diffDocuments,
  hashOf,
  merge3,
  nodeByID,
  nodeSize,
  overlaps,
  readDocument,
  rectOf,
  withLayout,
  writeDocument,
  type EdgeKey,
  type Exits,
  type NodeKey,
  type NodeRecord,
  type NoteKey,
  type SelectableKey,
  type WorkflowDocument,
} from "../model";
import { documents } from "../model/arbitraries";

const exitsOf = (node: NodeRecord): Exits => {
  if (node.type === "condition") return { handles: ["yes", "else", "error"], hasEntry: true };
  if (node.type === "end") return { handles: [], hasEntry: true };
  return { handles: ["default", "error"], hasEntry: node.type !== "start" };
};

const LINE = `{
  "title": "line",
  "nodes": [
    {"id": "start", "type": "start", "position": {"x": 0, "y": 0}},
    {"id": "a", "type": "set", "position": {"x": 296, "y": 0}, "outputVariable": "v"},
    {"id": "b", "type": "condition", "position": {"x": 592, "y": 0}}
  ],
  "edges": [
    {"id": "e1", "upstreamNodeID": "start", "downstreamNodeID": "a"},
    {"upstreamNodeID": "a", "downstreamNodeID": "b", "sourceHandle": null}
  ]
}`;

function opened(text: string): EditStore {
  return new EditStore(readDocument(text), () => 0);
}

function keyOf(store: EditStore, id: string): NodeKey {
  return nodeByID(store.document, id)!.key;
}

function edgesOf(document: WorkflowDocument): string[] {
  return [...document.edges.values()].map((edge) => `${edge.source} ${edge.handle} ${edge.target}`);
}

/** Commands of every kind, on records chosen by number; those that are refused change nothing. */
const commands: readonly ((store: EditStore, which: number, value: number) => unknown)[] = [
  (store, which) => addNode(store, { type: "condition", exitsOf }, { behind: nodeAt(store, which) }),
  (store, which) => addNode(store, { type: "set", name: "S", config: "{}", exitsOf }, { onEdge: edgeAt(store, which) }),
  (store, which, value) => addNode(store, { type: "end", exitsOf }, { at: { x: which % 500, y: value } }),
  (store, which, value) => connect(store, nodeAt(store, which), "default", nodeAt(store, value)),
  (store, which, value) => reconnect(store, edgeAt(store, which), { target: nodeAt(store, value) }),
  (store, which) => remove(store, [nodeAt(store, which)]),
  (store, which, value) => removeAndBridge(store, [nodeAt(store, which), nodeAt(store, value)]),
  (store, which, value) => moveBy(store, [nodeAt(store, which)], (value % 7) - 3, 1),
  (store, which, value) => moveTo(store, new Map([[nodeAt(store, which), { x: value, y: value }]]), "drag"),
  (store, which, value) => setConfig(store, nodeAt(store, which), "/values/text", value % 3 === 0 ? undefined : String(value)),
  (store, which, value) => setName(store, nodeAt(store, which), value % 3 === 0 ? "" : `name ${value}`),
  (store, which) => toggleDisabled(store, [nodeAt(store, which)]),
  (store, which) => duplicate(store, new Set<SelectableKey>([nodeAt(store, which), ...store.document.notes.keys()])),
  (store, which, value) => paste(store, LINE, { x: which % 99, y: value }),
  (store, _, value) => addNote(store, { x: value, y: 0 }, "n"),
  (store, which, value) => setNoteText(store, noteAt(store, which), `text ${value}`),
  (store, which, value) => resizeNote(store, noteAt(store, which), { width: 80 + value, height: 80 }, "resize"),
  (store, which, value) => renameNode(store, nodeAt(store, which), `renamed ${value}`, {}),
  (store, which, value) => tidy(store, new Map([[nodeAt(store, which), { x: value * 8, y: 0 }]])),
  (store, _, value) => setTitle(store, `title ${value}`),
  (store) => replaceDocument(store, "Restore", readDocument(LINE)),
  (store, which, value) => setField(store, nodeAt(store, which), "joinMode", value % 2 === 0 ? undefined : '"any"'),
];

function at<T>(items: Iterable<T>, which: number): T {
  const all = [...items];
  if (all.length === 0) throw new EditRefused("nothing is there");
  return all[which % all.length]!;
}
const nodeAt = (store: EditStore, which: number): NodeKey => at(store.document.nodes.keys(), which);
const edgeAt = (store: EditStore, which: number): EdgeKey => at(store.document.edges.keys(), which);
const noteAt = (store: EditStore, which: number): NoteKey => at(store.document.notes.keys(), which);

const command = fc.tuple(fc.nat({ max: commands.length - 1 }), fc.nat(), fc.nat({ max: 200 }), fc.nat({ max: 2_000 }));

function run(store: EditStore, [which, first, second]: readonly [number, number, number, number]): void {
  try {
    commands[which]!(store, first, second);
  } catch (error) {
    if (!(error instanceof EditRefused)) throw error;
  }
}

describe("history", () => {
  it("undoes any commands to the text before, and does them again to the text after", () => {
    fc.assert(
      fc.property(documents, fc.array(command, { maxLength: 12 }), (document, script) => {
        let now = 0;
        const store = new EditStore(document, () => now);
        const before = writeDocument(document);
        const texts = [before];
        for (const each of script) {
          now += each[3];
          const count = store.undoable.length;
          run(store, each);
          if (store.undoable.length > count) texts.push(writeDocument(store.document));
          else texts[store.undoable.length] = writeDocument(store.document);
          texts.length = store.undoable.length + 1;
        }
        for (let step = texts.length - 1; step > 0; step -= 1) {
          expect(writeDocument(store.document)).toBe(texts[step]);
          store.undo();
        }
        expect(writeDocument(store.document)).toBe(before);
        expect(store.isDirty).toBe(false);
        expect(store.undo()).toBeNull();
        for (const text of texts.slice(1)) {
          store.redo();
          expect(writeDocument(store.document)).toBe(text);
        }
        expect(store.redo()).toBeNull();
      }),
      { numRuns: 200 },
    );
  });

  it("keeps what a record was made of: what is shown equals what is read from the text", () => {
    fc.assert(
      fc.property(documents, fc.array(command, { maxLength: 8 }), (document, script) => {
        const store = new EditStore(document, () => 0);
        for (const each of script) run(store, each);
        const reread = readDocument(writeDocument(store.document));
        const facts = (read: WorkflowDocument) => [...read.nodes.values(), ...read.edges.values(), ...read.notes.values()].map((record) => ({ ...record, key: "", rank: 0, trail: "" }));
        expect(facts(reread)).toEqual(facts(store.document));
      }),
      { numRuns: 200 },
    );
  });

  it("makes one step of a drag, and none of a drag that ends where it began", () => {
    const store = opened(LINE);
    const [a] = [keyOf(store, "a")];
    for (const x of [304, 312, 400]) moveTo(store, new Map([[a, { x, y: 0 }]]), "1");
    expect(store.undoable).toEqual(["Move 1 node"]);
    moveTo(store, new Map([[a, { x: 296, y: 0 }]]), "1");
    expect(store.undoable).toEqual([]);
    moveTo(store, new Map([[a, { x: 304, y: 0 }]]), "2");
    moveTo(store, new Map([[a, { x: 312, y: 0 }]]), "3");
    expect(store.undoable).toHaveLength(2);
  });

  it("makes one step of typing in one field without a pause, and of arrows", () => {
    let now = 0;
    const store = new EditStore(readDocument(LINE), () => now);
    const [a, b] = [keyOf(store, "a"), keyOf(store, "b")];
    for (const text of ["1", "12", "123"]) {
      now += 900;
      setConfig(store, a, "/values/n", text);
    }
    expect(store.undoable).toEqual(["Change n"]);
    now += 1_001;
    setConfig(store, a, "/values/n", "1234");
    expect(store.undoable).toHaveLength(2);
    setConfig(store, b, "/values/n", "1");
    store.endBurst();
    setConfig(store, b, "/values/n", "2");
    expect(store.undoable).toHaveLength(4);
    moveBy(store, [a], 1, 0);
    moveBy(store, [a], 1, 0);
    expect(store.undoable).toHaveLength(5);
    store.undo();
    moveBy(store, [a], 1, 0);
    moveBy(store, [a], 1, 0);
    expect(store.undoable).toHaveLength(5);
  });

  it("goes on across publish and merge, and what is dirty follows the text alone", () => {
    const store = opened(LINE);
    setTitle(store, "mine");
    expect(store.isDirty).toBe(true);
    const base = store.document;
    store.saved(base);
    expect(store.isDirty).toBe(false);
    store.undo();
    expect(store.isDirty).toBe(true);
    store.redo();
    expect(store.isDirty).toBe(false);
    setName(store, keyOf(store, "a"), "A");
    const theirs = readDocument(writeDocument(base).replace('"type": "condition"', '"type": "end"'));
    replaceDocument(store, "Merge", merge3(base, store.document, theirs).document);
    expect(nodeByID(store.document, "b")?.type).toBe("end");
    expect(nodeByID(store.document, "a")?.name).toBe("A");
    expect(store.undoable).toEqual(["Change title", "Rename", "Merge"]);
    for (let count = 0; count < 3; count += 1) store.undo();
    expect(writeDocument(store.document)).toBe(LINE);
  });

  it("gives what is added after a merge keys of its own", () => {
    const store = opened(LINE);
    const base = store.document;
    const theirs = readDocument(writeDocument(base).replace('"nodes": [', '"nodes": [{"id": "theirs", "type": "end"}, '));
    replaceDocument(store, "Merge", merge3(base, store.document, theirs).document);
    store.transact("Add", (transaction) => transaction.addNode('{"id": "mine", "type": "end"}'));
    expect([nodeByID(store.document, "theirs"), nodeByID(store.document, "mine")].map((node) => node?.id)).toEqual(["theirs", "mine"]);
    store.undo();
    expect(nodeByID(store.document, "theirs")?.id).toBe("theirs");
  });

  it("takes back what a command had done when it fails, and forgets what can be redone once something else is done", () => {
    const store = opened(LINE);
    expect(() =>
      store.transact("bad", (transaction) => {
        transaction.remove(keyOf(store, "a"));
        throw new EditRefused("no");
      }),
    ).toThrow(EditRefused);
    expect(writeDocument(store.document)).toBe(LINE);
    setTitle(store, "x");
    store.undo();
    expect(store.redoable).toEqual(["Change title"]);
    store.transact("nothing", () => undefined);
    expect(store.redoable).toEqual(["Change title"]);
    setTitle(store, "y");
    expect(store.redoable).toEqual([]);
  });

  it("tells listeners which records a change touched", () => {
    const store = opened(LINE);
    const told: unknown[] = [];
    const stop = store.subscribe(({ reason, name, keys }) => told.push([reason, name, [...keys]]));
    remove(store, [keyOf(store, "b")]);
    store.undo();
    stop();
    store.redo();
    expect(told).toEqual([
      ["edit", "Delete 1 node", ["n2", "e1"]],
      ["undo", "Delete 1 node", ["n2", "e1"]],
    ]);
  });
});

describe("adding a node", () => {
  it("behind a node leads on from its free exit, and lies on nobody", () => {
    const store = opened(LINE);
    const first = addNode(store, { type: "set", name: "Set", config: '{"values": {}}', exitsOf }, { behind: keyOf(store, "b") });
    const second = addNode(store, { type: "set", exitsOf }, { behind: keyOf(store, "b") });
    expect(edgesOf(store.document)).toEqual(["start default a", "a default b", "b yes set", "b else set2"]);
    expect(store.document.nodes.get(first)).toMatchObject({ id: "set", name: "Set", config: '{"values": {}}' });
    expect(store.document.nodes.get(second)!.position!.y).toBeGreaterThan(store.document.nodes.get(first)!.position!.y);
    const rects = [...store.document.nodes.values()].map((node) => rectOf(node, exitsOf)!);
    for (const [index, rect] of rects.entries()) for (const other of rects.slice(index + 1)) expect(overlaps(rect, other)).toBe(false);
  });

  it("behind a node whose exits all lead somewhere goes in between", () => {
    const store = opened(LINE);
    addNode(store, { type: "set", exitsOf }, { behind: keyOf(store, "start") });
    expect(edgesOf(store.document)).toEqual(["start default set", "set default a", "a default b"]);
  });

  it("on an edge keeps that edge's record, makes room behind, and is one step", () => {
    const store = opened(LINE);
    const added = addNode(store, { type: "condition", exitsOf }, { onEdge: "e1" });
    expect(edgesOf(store.document)).toEqual(["start default a", "a default condition", "condition yes b"]);
    const [place, b] = [store.document.nodes.get(added)!.position!, nodeByID(store.document, "b")!.position!];
    expect(b.x).toBeGreaterThanOrEqual(place.x + nodeSize(exitsOf(store.document.nodes.get(added)!)).width);
    expect(nodeByID(store.document, "a")!.position).toEqual({ x: 296, y: 0 });
    store.undo();
    expect(writeDocument(store.document)).toBe(LINE);
    expect(() => addNode(store, { type: "start", exitsOf }, { onEdge: "e1" })).toThrow(EditRefused);
    expect(writeDocument(store.document)).toBe(LINE);
  });

  it("from a handle into the void lies where it was dropped", () => {
    const store = opened(LINE);
    const added = addNode(store, { type: "end", exitsOf }, { behind: keyOf(store, "a"), handle: "error", at: { x: 401, y: 301 } });
    expect(store.document.nodes.get(added)!.position).toEqual({ x: 400, y: 304 });
    expect(edgesOf(store.document)).toContain("a error end");
    expect(writeDocument(store.document)).toContain('"upstreamNodeID": "a", "downstreamNodeID": "end", "sourceHandle": "error"}');
  });
});

describe("edges", () => {
  it("are not doubled", () => {
    const store = opened(LINE);
    expect(connect(store, keyOf(store, "a"), "default", keyOf(store, "b"))).toBe("e1");
    expect(store.undoable).toEqual([]);
    const added = connect(store, keyOf(store, "a"), "error", keyOf(store, "b"));
    reconnect(store, added, { handle: "default" });
    expect(edgesOf(store.document)).toEqual(["start default a", "a default b"]);
  });

  it("keep their other fields when they are led elsewhere", () => {
    const store = opened(LINE);
    reconnect(store, "e0", { target: keyOf(store, "b"), handle: "error" });
    expect(store.document.edges.get("e0")!.text).toBe('{"id": "e1", "upstreamNodeID": "start", "downstreamNodeID": "b", "sourceHandle": "error"}');
  });

  it("go with their node, or close up behind it", () => {
    const store = opened(LINE);
    remove(store, [keyOf(store, "a")]);
    expect(edgesOf(store.document)).toEqual([]);
    store.undo();
    removeAndBridge(store, [keyOf(store, "a")]);
    expect(edgesOf(store.document)).toEqual(["start default b"]);
  });

  it("follow a handle that gets another name", () => {
    const store = opened(LINE);
    connect(store, keyOf(store, "b"), "yes", keyOf(store, "a"));
    renameHandle(store, keyOf(store, "b"), "yes", "sure", '{"branches": [{"id": "sure"}]}');
    expect(edgesOf(store.document)).toContain("b sure a");
  });
});

describe("copies", () => {
  it("are the same graph under fresh ids, and nothing else changes", () => {
    fc.assert(
      fc.property(documents, fc.nat(), (document, chosen) => {
        const keys = new Set<SelectableKey>([...document.nodes.keys(), ...document.notes.keys()].filter((_, index) => (chosen >> index) & 1));
        const text = copy(document, keys);
        fc.pre(text !== null);
        const store = new EditStore(document, () => 0);
        const added = paste(store, text!);
        const nodes = [...document.nodes.values()].filter((node) => keys.has(node.key));
        const pasted = added.map((key) => store.document.nodes.get(key as NodeKey)).filter((node) => node !== undefined);
        expect(pasted.length).toBe(nodes.length);
        const ids = new Map(nodes.map((node, index) => [node.id, pasted[index]!.id]));
        const old = new Set([...document.nodes.values()].map((node) => node.id));
        expect([...ids.values()].some((id) => old.has(id))).toBe(false);
        expect(new Set(ids.values()).size).toBe(nodes.length);
        nodes.forEach((node, index) => {
          const [before, after] = [JSON.parse(node.text), JSON.parse(pasted[index]!.text)] as Record<string, unknown>[];
          expect({ ...after, id: 0, position: 0 }).toEqual({ ...before, id: 0, position: 0 });
        });
        const inner = [...document.edges.values()].filter((edge) => ids.has(edge.source) && ids.has(edge.target));
        const expected = inner.map((edge) => `${ids.get(edge.source)} ${edge.handle} ${ids.get(edge.target)}`);
        expect(edgesOf(store.document).slice(document.edges.size)).toEqual(expected);
        const changes = diffDocuments(document, store.document);
        expect(changes.every((change) => change.change === "added")).toBe(true);
      }),
    );
  });

  it("keep every byte of what they copy, and lie where they are put", () => {
    const store = opened('{"nodes": [{"id": "a", "type": "set", "config": {"n": 9007199254740993, "1": 1.0}, "position": {"x": 80, "y": 8}}], "edges": []}');
    paste(store, copy(store.document, new Set(["n0"]))!, { x: 800, y: 0 });
    expect(store.document.nodes.get("n1")!.text).toBe('{"id": "a2", "type": "set", "config": {"n": 9007199254740993, "1": 1.0}, "position": {"x": 800, "y": 0}}');
  });

  it("of a whole workflow on an empty canvas are an import", () => {
    const store = opened('{"title": "", "nodes": [], "edges": []}');
    paste(store, LINE);
    expect(writeDocument(store.document)).toBe(LINE);
    expect(store.undoable).toEqual(["Import"]);
    expect(() => paste(store, "hello")).toThrow();
    expect(copy(store.document, new Set(["e0"]))).toBeNull();
  });
});

describe("renaming", () => {
  const text = `{"nodes": [
    {"id": "fetch", "type": "set", "outputVariable": "orders", "config": {"a": "orders"}},
    {"id": "other", "type": "set", "outputVariable": "orders2", "config": {"url": "é{{ctx.orders.orders}}/{{ctx.orders2}}\\u0041{{ ctx.orders }}", "n": 1.0}},
    {"id": "code", "type": "python", "config": {"code": "orders = ctx['orders']\\nreturn orders"}}
  ], "edges": [{"upstreamNodeID": "fetch", "downstreamNodeID": "other"}]}`;
  const at = (pointer: string, start: number, name: string): Reference => ({ pointer, start, end: start + name.length, path: [name, "x"] });
  const references = {
    other: [at("/config/url", 7, "orders"), at("/config/url", 29, "orders2"), at("/config/url", 46, "orders")],
    code: [at("/config/code", 14, "orders")],
  };

  it("a variable changes its writers and exactly the references of the server", () => {
    const store = opened(text);
    renameVariable(store, "orders", "bestellung", references);
    expect(writeDocument(store.document)).toBe(
      text
        .replace('"outputVariable": "orders"', '"outputVariable": "bestellung"')
        .replace("é{{ctx.orders.orders}}/{{ctx.orders2}}\\u0041{{ ctx.orders }}", "é{{ctx.bestellung.orders}}/{{ctx.orders2}}\\u0041{{ ctx.bestellung }}")
        .replace("ctx['orders']", "ctx['bestellung']"),
    );
  });

  it("changes nothing but the given spans, wherever they are", () => {
    const spans = fc.array(fc.tuple(fc.string({ unit: "binary", maxLength: 5 }), fc.boolean()), { maxLength: 6 });
    fc.assert(
      fc.property(spans, (parts) => {
        let [value, expected] = ["", ""];
        const found: Reference[] = [];
        for (const [filler, isReference] of parts) {
          if (isReference) found.push(at("/config/t", (value + filler).length, "old"));
          value += filler + (isReference ? "old" : "old ");
          expected += filler + (isReference ? "new" : "old ");
        }
        const store = opened(JSON.stringify({ nodes: [{ id: "n", config: { t: value, u: value } }], edges: [] }));
        renameVariable(store, "old", "new", { n: found });
        const config = JSON.parse(store.document.nodes.get("n0")!.config!) as unknown;
        expect(config).toEqual({ t: expected, u: value });
      }),
    );
  });

  it("an id changes its edges, and nothing that only looks like it", () => {
    const store = opened(text);
    renameNode(store, "n0", "get", {});
    expect(writeDocument(store.document)).toBe(text.replaceAll('"fetch"', '"get"'));
    expect(() => renameNode(store, "n0", "other", {})).toThrow("Another node has this id.");
    expect(() => renameNode(store, "n0", "a/b", {})).toThrow(EditRefused);
    expect(() => renameVariable(store, "orders", "input", references)).toThrow(EditRefused);
  });

  it("by references to an older text changes nothing", () => {
    const store = opened(text);
    setConfig(store, "n1", "/url", '"new text"');
    const before = writeDocument(store.document);
    expect(() => renameVariable(store, "orders", "x", references)).toThrow("was changed meanwhile");
    expect(writeDocument(store.document)).toBe(before);
  });
});

describe("fixes", () => {
  const fix = { title: "use 'else'", patch: [{ op: "add" as const, path: "/edges/1/sourceHandle", value: "else" }] };

  it("change the record that was judged, also after edits of others", () => {
    const store = opened(LINE);
    const judged = store.document;
    remove(store, ["e0"]);
    applyFix(store, fix, judged);
    expect(edgesOf(store.document)).toEqual(["a else b"]);
    expect(store.undoable.at(-1)).toBe("Fix: use 'else'");
  });

  it("are refused once their record was changed or removed", () => {
    const store = opened(LINE);
    const judged = store.document;
    reconnect(store, "e1", { handle: "error" });
    expect(() => applyFix(store, fix, judged)).toThrow(EditRefused);
    remove(store, ["e1"]);
    expect(() => applyFix(store, fix, judged)).toThrow(EditRefused);
  });

  it("of the whole document add and remove records, others keep their keys", () => {
    const store = opened(LINE);
    const patch = [
      { op: "remove" as const, path: "/edges/0" },
      { op: "add" as const, path: "/nodes/-", value: { id: "end", type: "end" } },
    ];
    applyFix(store, { title: "both", patch }, store.document);
    expect(edgesOf(store.document)).toEqual(["a default b"]);
    expect(store.document.edges.has("e1")).toBe(true);
    expect(nodeByID(store.document, "end")?.type).toBe("end");
    expect(() => applyFix(store, { title: "no", patch: [{ op: "remove", path: "/edges/9" }] }, store.document)).toThrow(EditRefused);
  });
});

describe("layout at opening", () => {
  it("shows places without storing them, until somebody moves a node", () => {
    const text = '{"nodes": [{"id": "a", "type": "set"}, {"id": "b", "type": "set"}], "edges": []}';
    const store = opened(text);
    store.layOut(withLayout(store.document, new Map([["n0", { x: 0, y: 0 }], ["n1", { x: 80, y: 0 }]])));
    expect(store.isDirty).toBe(false);
    expect(store.undoable).toEqual([]);
    expect(writeDocument(store.document)).toBe(text);
    setName(store, "n0", "A");
    expect(store.document.nodes.get("n0")!.position).toEqual({ x: 0, y: 0 });
    moveTo(store, new Map([["n0", { x: 8, y: 8 }]]));
    expect([...readDocument(writeDocument(store.document)).nodes.values()].map((node) => node.position)).toEqual([{ x: 8, y: 8 }, { x: 80, y: 0 }]);
    store.undo();
    store.undo();
    expect(hashOf(store.document)).toBe(hashOf(readDocument(text)));
    expect(store.document.nodes.get("n1")!.position).toEqual({ x: 80, y: 0 });
  });
});

describe("other commands", () => {
  it("disable all where one is enabled, and never a start", () => {
    const store = opened(LINE);
    toggleDisabled(store, ["n1"]);
    toggleDisabled(store, ["n0", "n1", "n2"]);
    expect([...store.document.nodes.values()].map((node) => node.disabled)).toEqual([false, true, true]);
    toggleDisabled(store, ["n1", "n2"]);
    expect(writeDocument(store.document)).toBe(LINE);
    expect(() => toggleDisabled(store, ["n0"])).toThrow(EditRefused);
  });

  it("write notes with a list of their own, and leave those of another tool alone", () => {
    const store = opened(LINE);
    const note = addNote(store, { x: 3, y: 5 }, "look");
    addNote(store, { x: 0, y: 0 });
    expect(store.document.notes.get(note)).toMatchObject({ content: "look", position: { x: 0, y: 8 } });
    expect((JSON.parse(writeDocument(store.document)) as { notes: { id: string }[] }).notes.map(({ id }) => id)).toEqual(["note", "note2"]);
    const other = opened('{"nodes": [], "edges": [], "notes": {"a": 1}}');
    expect(() => addNote(other, { x: 0, y: 0 })).toThrow(EditRefused);
  });

  it("write an added node on a line of its own where the document has lines", () => {
    const store = opened(LINE);
    addNode(store, { type: "end", exitsOf }, { at: { x: 0, y: 200 } });
    expect(writeDocument(store.document)).toBe(LINE.replace('{"x": 592, "y": 0}}\n', '{"x": 592, "y": 0}},\n    {"id": "end", "type": "end", "position": {"x": 0, "y": 200}}\n'));
  });
});

describe("the keymap", () => {
  it("has no chord twice in one mode, and no command twice", () => {
    for (const mode of [undefined, "move"]) {
      const chords = KEYMAP.filter((binding) => binding.mode === mode).flatMap((binding) => binding.chords);
      expect(new Set(chords).size).toBe(chords.length);
    }
    expect(new Set(KEYMAP.map((binding) => binding.command)).size).toBe(KEYMAP.length);
    expect(KEYMAP.flatMap((binding) => binding.chords).some((chord) => /(^|\+)tab$/.test(chord))).toBe(false);
  });

  it("knows each chord from what a keyboard sends", () => {
    const press = (key: string, code: string, held = "") => ({
      key,
      code,
      ctrlKey: held.includes("c"),
      metaKey: held.includes("m"),
      shiftKey: held.includes("s"),
      altKey: held.includes("a"),
    });
    const commandsOf = (...presses: Parameters<typeof press>[]) => presses.map((each) => commandOf(chordOf(press(...each)), false));
    expect(commandsOf(["?", "Slash", "s"], ["+", "Equal", "s"], ["+", "NumpadAdd"], ["/", "Digit7", "s"])).toEqual(["help", "zoomIn", "zoomIn", "palette"]);
    expect(commandsOf(["Z", "KeyZ", "cs"], ["z", "KeyZ", "m"], ["ˇ", "KeyT", "sa"], ["N", "KeyN"], ["S", "KeyS", "s"])).toEqual(["redo", "undo", "tidy", "palette", "note"]);
    expect(commandsOf(["s", "KeyS"], ["Tab", "Tab"], ["Dead", "BracketLeft"], ["Enter", "Enter", "cs"])).toEqual([null, null, null, "runToHere"]);
    expect(commandOf("arrowleft", true)).toBe("moveLeft");
    expect(commandOf("arrowleft", false)).toBe("walkLeft");
    expect(commandOf("ctrl+z", true)).toBe("undo");
    expect([shownChord("ctrl+shift+z"), shownChord("+"), shownChord("shift+arrowleft")]).toEqual(["Ctrl + Shift + Z", "+", "Shift + ←"]);
  });
});
