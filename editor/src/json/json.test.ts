import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { jsonTexts, objectTexts, spaces } from "./arbitraries";
import {
  applyPatch,
  compact,
  entriesOf,
  formatPointer,
  insertItem,
  isSameJson,
  JsonError,
  largeOf,
  memberText,
  parsePointer,
  pathExpression,
  PlaceError,
  prettyText,
  RawJson,
  removeAt,
  removeMember,
  replaceInString,
  scanDocument,
  searchValue,
  setAt,
  setMember,
  shownScalar,
  tableOf,
  textAt,
  textOf,
} from ".";

describe("values that are too large to be sent unasked", () => {
  const part = { path: ["rows", 3], sha256: "ab", bytes: 70_000 };

  it("are known by what stands in their place", () => {
    expect(largeOf('{"truncated":true,"bytes":70000}')).toEqual({ bytes: 70_000, parts: [] });
    expect(largeOf(JSON.stringify({ truncated: true, bytes: 80_000, values: [part] }))).toEqual({ bytes: 80_000, parts: [part] });
  });

  it("are not what only looks like it", () => {
    for (const text of ['{"truncated":true,"bytes":12}', '{"truncated":true,"bytes":70000,"more":1}', '{"truncated":false,"bytes":70000}', '[{"truncated":true}]', '"truncated"', "null"]) {
      expect(largeOf(text)).toBeNull();
    }
  });
});

describe("scanning", () => {
  it("finds the whole value between whitespace", () => {
    fc.assert(
      fc.property(spaces, jsonTexts, spaces, (before, text, after) => {
        expect(scanDocument(before + text + after)).toEqual({ start: before.length, end: before.length + text.length });
      }),
    );
  });

  it("takes and refuses what JSON.parse takes and refuses", () => {
    const nearlyJson = fc.tuple(jsonTexts, fc.nat(), fc.constantFrom("", ",", "}", "]", '"', "\\", "0", "-", ".", "e", "\n", "x", "\u0001"));
    fc.assert(
      fc.property(nearlyJson, ([text, place, wrong]) => {
        const at = place % (text.length + 1);
        const spoiled = text.slice(0, at) + wrong + text.slice(wrong === "" ? at + 1 : at);
        expect(refuses(() => scanDocument(spoiled))).toBe(refuses(() => JSON.parse(spoiled)));
      }),
      { numRuns: 1_000 },
    );
  });

  it("says where a text is not JSON", () => {
    expect(() => scanDocument('{"a": 1,\n "b" 2}')).toThrowError("':' expected at line 2, column 6");
    expect(() => scanDocument("[1, 2")).toThrowError(JsonError);
  });

  it("takes nesting of any depth", () => {
    const depth = 200_000;
    expect(scanDocument("[".repeat(depth) + "]".repeat(depth)).end).toBe(2 * depth);
  });
});

describe("changes", () => {
  it("replace a member and leave every other byte", () => {
    fc.assert(
      fc.property(objectTexts(), jsonTexts, (text, value) => {
        const entry = entriesOf(text).at(-1);
        fc.pre(entry !== undefined);
        const changed = setMember(text, String(entry.key), value);
        expect(memberText(changed, String(entry.key))).toBe(value);
        expect(setMember(changed, String(entry.key), entry.text)).toBe(text);
      }),
    );
  });

  it("add a member that was not there, and remove it again without a trace in the others", () => {
    fc.assert(
      fc.property(objectTexts(), jsonTexts, (text, value) => {
        const added = setMember(text, "new name", value);
        expect(memberText(added, "new name")).toBe(value);
        expect(entriesOf(removeMember(added, "new name"))).toEqual(entriesOf(text));
      }),
    );
  });

  it("write an added member as its neighbours are", () => {
    expect(setMember('{"a": 1}', "b", "2")).toBe('{"a": 1, "b": 2}');
    expect(setMember('{"a":1}', "b", "2")).toBe('{"a":1,"b":2}');
    expect(setMember('{"a": 1, "b": 2}', "c", "3")).toBe('{"a": 1, "b": 2, "c": 3}');
    expect(setMember('{\n  "a": 1\n}', "b", "2")).toBe('{\n  "a": 1,\n  "b": 2\n}');
    expect(setMember('{\n  "a": 1 ,\n  "b": 2\n}', "c", "3")).toBe('{\n  "a": 1 ,\n  "b": 2,\n  "c": 3\n}');
    expect(insertItem("[1, 2]", 2, "3")).toBe("[1, 2, 3]");
    expect(insertItem("[1, 2]", 0, "3")).toBe("[3, 1, 2]");
  });

  it("take the last of doubled names for the one that counts, and remove all of them", () => {
    expect(memberText('{"a": 1, "a": 2}', "a")).toBe("2");
    expect(setMember('{"a": 1, "a": 2}', "a", "3")).toBe('{"a": 1, "a": 3}');
    expect(removeMember('{"a": 1, "b": 0, "a": 2}', "a")).toBe('{"b": 0}');
  });

  it("reach any place, and make the objects on the way", () => {
    expect(setAt('{"a": [1.0, {"b": 2}]}', ["a", "1", "b"], "18446744073709551616")).toBe('{"a": [1.0, {"b": 18446744073709551616}]}');
    expect(setAt("{}", ["auth", "token"], '"x"')).toBe('{"auth": {"token": "x"}}');
    expect(removeAt('{"a": [1, 2, 3]}', ["a", "1"])).toBe('{"a": [1, 3]}');
    expect(textAt('{"a/b": {"~": [0]}}', parsePointer("/a~1b/~0/0"))).toBe("0");
    expect(formatPointer(["a/b", "~", 0])).toBe("/a~1b/~0/0");
    expect(() => setAt('{"a": 1}', ["a", "b"], "1")).toThrowError(PlaceError);
  });

  it("patch as RFC 6902 says, wholly or not at all", () => {
    const patched = (text: string, ...patch: Parameters<typeof applyPatch>[1]) => applyPatch(text, patch, textOf, isSameJson);
    expect(patched('{"a": [1, 2]}', { op: "add", path: "/a/1", value: 9 })).toBe('{"a": [1, 9, 2]}');
    expect(patched('{"a": 1}', { op: "move", from: "/a", path: "/b" })).toBe('{"b": 1}');
    expect(patched('{"a": 1}', { op: "test", path: "/a", value: 1 }, { op: "copy", from: "/a", path: "/b" })).toBe('{"a": 1, "b": 1}');
    expect(() => patched('{"a": 1}', { op: "replace", path: "/b", value: 1 })).toThrowError(PlaceError);
    expect(() => patched('{"a": 1}', { op: "test", path: "/a", value: 2 })).toThrowError(PlaceError);
  });

  it("change stretches of a string, counted in characters, and keep the spelling of the rest", () => {
    expect(replaceInString('"\\u0041 😀 \\ud83d\\ude00 {{ctx.old}}"', [{ start: 14, end: 17, value: "new" }])).toBe(
      '"\\u0041 😀 \\ud83d\\ude00 {{ctx.new}}"',
    );
    expect(replaceInString('"ab"', [{ start: 0, end: 1, value: '"' }])).toBe('"\\"b"');
  });
});

describe("values", () => {
  it("are the same in every layout, and numbers only in one spelling", () => {
    fc.assert(
      fc.property(jsonTexts, (text) => {
        expect(compact(prettyText(text))).toBe(compact(text));
        expect(JSON.parse(compact(text))).toEqual(JSON.parse(text));
      }),
    );
    expect(isSameJson('{"a": [1, "\\u0041"]}', '{"a":[1,"A"]}')).toBe(true);
    expect(isSameJson("1.0", "1")).toBe(false);
  });

  it("are shown exactly", () => {
    expect(shownScalar("9007199254740993")).toBe("9007199254740993");
    expect(entriesOf('{"10": 1.0, "9": 2, "10": 3}')).toEqual([
      { key: "10", text: "1.0" },
      { key: "9", text: "2" },
      { key: "10", text: "3" },
    ]);
    expect(prettyText('{"a":[],"b":{"c":[1,2]}}')).toBe('{\n  "a": [],\n  "b": {\n    "c": [\n      1,\n      2\n    ]\n  }\n}');
  });

  it("are written with the integers that a number cannot hold", () => {
    expect(textOf({ id: 9007199254740993n, raw: new RawJson(" 1.0 "), list: [1, "a", null, undefined], gone: undefined })).toBe(
      '{"id": 9007199254740993, "raw": 1.0, "list": [1, "a", null, null]}',
    );
    expect(() => textOf(() => 0)).toThrowError(TypeError);
  });

  it("are tables where they are lists of objects", () => {
    expect(tableOf('[{"a": 1, "b": 2.0}, {"b": 3, "c": []}]')).toEqual({
      columns: ["a", "b", "c"],
      rows: [
        ["1", "2.0", undefined],
        [undefined, "3", "[]"],
      ],
      rowsOmitted: 0,
    });
    expect(tableOf("[1]")).toBeNull();
    expect(tableOf("[]")).toBeNull();
  });

  it("are searched by name and by what is shown, in order", () => {
    const found = searchValue('{"order": {"id": 7001}, "list": ["\\u004frder", 70]}', "order");
    expect(found).toEqual([
      { path: ["order"], where: "name" },
      { path: ["list", 0], where: "value" },
    ]);
    expect(searchValue('{"a": 17, "b": {"c": 171}}', "17", 1)).toHaveLength(1);
  });

  it("have a path that an expression can read", () => {
    expect(pathExpression(["orders", 0, "unit price", "it's"])).toBe("ctx.orders[0]['unit price']['it\\'s']");
  });
});

function refuses(read: () => unknown): boolean {
  try {
    read();
    return false;
  } catch {
    return true;
  }
}
