"""Small workflows of n8n with its nodes for lists of items, with odd values, and what n8n gives for them.

`benchmarks/ask_n8n.py` asks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.n8n.drawn import DOCS, Drawn, node

MIXED: list[dict[str, Any]] = [
    {"n": 3, "k": "a"},
    {"k": "b"},
    {"n": "10", "k": "c"},
    {"n": None, "k": "d"},
    {"n": "x", "k": "e"},
    {"n": 1, "k": "f"},
    {"n": [2], "k": "g"},
    {"n": True, "k": "h"},
]
LONG: list[dict[str, Any]] = [{"n": [i * 37 % 101, f"t{i % 7}", None][i % 3], "i": i} for i in range(90)]
GROUPS: list[dict[str, Any]] = [
    {"g": "x", "h": 1, "s": 5},
    {"g": "y", "h": 2},
    {"g": "x", "h": 1, "s": "7"},
    {"g": None, "h": {"k": 1}, "s": ""},
    {"h": {"k": 1}, "s": 2.5},
    {"g": "x", "h": 2, "s": None},
]


def sort(f: str, order: str = "ascending", **o: Any) -> dict[str, Any]:
    """A sort by one field."""
    return node("N", "sort", 1, sortFieldsUi={"sortField": [{"fieldName": f, "order": order}]}, options=o)


FIGURES = ("sum", "average", "count", "countUnique", "append", "concatenate", "max")


def summ(
    v: float, by: str, o: Mapping[str, Any] | None = None, aggs: Sequence[str] = FIGURES, f: str = "s"
) -> dict[str, Any]:
    """Figures of one field."""
    return node(
        "N",
        "summarize",
        v,
        fieldsToSummarize={"values": [{"aggregation": a, "field": f} for a in aggs]},
        fieldsToSplitBy=by,
        options=o or {},
    )


def uniq(v: float = 2, **p: Any) -> dict[str, Any]:
    """Items without duplicates."""
    return node("N", "removeDuplicates", v, **p)


def agg(*fs: tuple[str, str], **o: Any) -> dict[str, Any]:
    """Lists of fields, each with its name, or an empty text."""
    return node(
        "N",
        "aggregate",
        1,
        fieldsToAggregate={
            "fieldToAggregate": [
                {"fieldToAggregate": f, **({"renameField": True, "outputFieldName": n} if n else {})} for f, n in fs
            ]
        },
        options=o,
    )


def split(f: str, include: str = "noOtherFields", **p: Any) -> dict[str, Any]:
    """An item for each item of a list."""
    return node("N", "splitOut", 1, fieldToSplitOut=f, include=include, **{"options": {}, **p})


def ren(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Fields with other names."""
    return node(
        "N", "renameKeys", 1, keys={"key": [{"currentKey": a, "newKey": b} for a, b in pairs]}, additionalOptions={}
    )


DRAWN_LISTS = (
    Drawn(
        "values of several types in order",
        f"{DOCS}/n8n-nodes-base.sort/",
        [sort("n")],
        MIXED,
        [
            {"n": 3, "k": "a"},
            {"k": "b"},
            {"n": None, "k": "d"},
            {"n": True, "k": "h"},
            {"n": [2], "k": "g"},
            {"n": "10", "k": "c"},
            {"n": "x", "k": "e"},
            {"n": 1, "k": "f"},
        ],
    ),
    Drawn(
        "values of several types in order, the other way round",
        f"{DOCS}/n8n-nodes-base.sort/",
        [sort("n", "descending")],
        MIXED,
        [
            {"n": "x", "k": "e"},
            {"n": "10", "k": "c"},
            {"n": [2], "k": "g"},
            {"n": True, "k": "h"},
            {"n": 1, "k": "f"},
            {"n": None, "k": "d"},
            {"k": "b"},
            {"n": 3, "k": "a"},
        ],
    ),
    Drawn(
        "many values of several types in order",
        f"{DOCS}/n8n-nodes-base.sort/",
        [sort("n")],
        LONG,
        [
            LONG[index]
            for index in (
                0,
                1,
                2,
                3,
                4,
                5,
                6,
                7,
                8,
                9,
                10,
                11,
                12,
                13,
                14,
                15,
                16,
                17,
                18,
                19,
                20,
                21,
                22,
                23,
                24,
                25,
                26,
                27,
                28,
                29,
                30,
                31,
                32,
                33,
                34,
                35,
                36,
                37,
                38,
                39,
                40,
                41,
                42,
                43,
                44,
                45,
                46,
                47,
                48,
                49,
                50,
                51,
                52,
                53,
                54,
                55,
                56,
                57,
                58,
                59,
                60,
                61,
                62,
                63,
                64,
                65,
                66,
                67,
                68,
                69,
                70,
                71,
                72,
                73,
                74,
                75,
                76,
                77,
                78,
                79,
                80,
                81,
                82,
                83,
                84,
                85,
                86,
                87,
                88,
                89,
            )
        ],
    ),
    Drawn(
        "items in order by a field with a dot in its name",
        f"{DOCS}/n8n-nodes-base.sort/",
        [sort("a.b")],
        [{"a.b": 2, "a": {"b": 1}}, {"a": {"b": 3}}, {"a.b": 1}],
        [{"a.b": 1}, {"a.b": 2, "a": {"b": 1}}, {"a": {"b": 3}}],
    ),
    Drawn(
        "figures of groups by two fields",
        f"{DOCS}/n8n-nodes-base.summarize/",
        [summ(1.1, "g, h")],
        GROUPS,
        [
            {
                "sum_s": 5,
                "average_s": 5,
                "count_s": 2,
                "unique_count_s": 2,
                "appended_s": [5, "7"],
                "concatenated_s": "5,7",
                "max_s": "7",
                "h": 1,
                "g": "x",
            },
            {
                "sum_s": 0,
                "average_s": None,
                "count_s": 0,
                "unique_count_s": 0,
                "appended_s": [],
                "concatenated_s": "",
                "max_s": None,
                "h": 2,
                "g": "x",
            },
            {
                "sum_s": 0,
                "average_s": None,
                "count_s": 0,
                "unique_count_s": 0,
                "appended_s": [],
                "concatenated_s": "",
                "max_s": None,
                "h": 2,
                "g": "y",
            },
            {
                "sum_s": 0,
                "average_s": None,
                "count_s": 0,
                "unique_count_s": 0,
                "appended_s": [],
                "concatenated_s": "",
                "max_s": None,
                "h": '{"k":1}',
                "g": None,
            },
            {
                "sum_s": 2.5,
                "average_s": 2.5,
                "count_s": 1,
                "unique_count_s": 1,
                "appended_s": [2.5],
                "concatenated_s": "2.5",
                "max_s": 2.5,
                "h": '{"k":1}',
            },
        ],
    ),
    Drawn(
        "figures of groups whose values are texts",
        f"{DOCS}/n8n-nodes-base.summarize/",
        [summ(1, "g, h")],
        GROUPS,
        [
            {
                "sum_s": 5,
                "average_s": 5,
                "count_s": 2,
                "unique_count_s": 2,
                "appended_s": [5, "7"],
                "concatenated_s": "5,7",
                "max_s": "7",
                "h": "1",
                "g": "x",
            },
            {
                "sum_s": 0,
                "average_s": None,
                "count_s": 0,
                "unique_count_s": 0,
                "appended_s": [],
                "concatenated_s": "",
                "max_s": None,
                "h": "2",
                "g": "x",
            },
            {
                "sum_s": 0,
                "average_s": None,
                "count_s": 0,
                "unique_count_s": 0,
                "appended_s": [],
                "concatenated_s": "",
                "max_s": None,
                "h": "2",
                "g": "y",
            },
            {
                "sum_s": 0,
                "average_s": None,
                "count_s": 0,
                "unique_count_s": 0,
                "appended_s": [],
                "concatenated_s": "",
                "max_s": None,
                "h": '{"k":1}',
                "g": "null",
            },
            {
                "sum_s": 2.5,
                "average_s": 2.5,
                "count_s": 1,
                "unique_count_s": 1,
                "appended_s": [2.5],
                "concatenated_s": "2.5",
                "max_s": 2.5,
                "h": '{"k":1}',
                "g": "undefined",
            },
        ],
    ),
    Drawn(
        "figures of groups in one item",
        f"{DOCS}/n8n-nodes-base.summarize/",
        [summ(1.1, "g, h", {"outputFormat": "singleItem"}, ("sum",))],
        GROUPS,
        [
            {
                "x": {"1": {"sum_s": 5}, "2": {"sum_s": 0}},
                "y": {"2": {"sum_s": 0}},
                "null": {'{"k":1}': {"sum_s": 0}},
                "undefined": {'{"k":1}': {"sum_s": 2.5}},
            }
        ],
    ),
    Drawn(
        "figures of groups without empty values",
        f"{DOCS}/n8n-nodes-base.summarize/",
        [summ(1.1, "g", {"skipEmptySplitFields": True}, ("count",))],
        GROUPS,
        [{"count_s": 2, "g": "x"}, {"count_s": 0, "g": "y"}],
    ),
    Drawn(
        "figures with names of brackets and blanks",
        f"{DOCS}/n8n-nodes-base.summarize/",
        [summ(1.1, "", {}, ("sum",), "['a b'].c")],
        [{"a b": {"c": 1}}],
        [{"sum_'a_b'_c": 1}],
    ),
    Drawn(
        "different objects that are alike",
        f"{DOCS}/n8n-nodes-base.summarize/",
        [summ(1.1, "", {}, ("countUnique",))],
        [{"s": {"a": 1}}, {"s": {"a": 1}}, {"s": 1}, {"s": "1"}],
        [{"unique_count_s": 4}],
    ),
    Drawn(
        "duplicates among texts and null",
        f"{DOCS}/n8n-nodes-base.removeduplicates/",
        [uniq(compare="selectedFields", fieldsToCompare="a", options={})],
        [
            {"a": "x", "i": 1},
            {"a": None, "i": 2},
            {"a": "x", "i": 3},
            {"a": "b", "i": 4},
            {"a": None, "i": 5},
            {"a": "x", "i": 6},
        ],
        [
            {"a": "x", "i": 1},
            {"a": None, "i": 2},
            {"a": "x", "i": 3},
            {"a": "b", "i": 4},
            {"a": None, "i": 5},
            {"a": "x", "i": 6},
        ],
    ),
    Drawn(
        "duplicates but for empty objects",
        f"{DOCS}/n8n-nodes-base.removeduplicates/",
        [uniq(options={})],
        [{"a": 1, "b": {}}, {"a": 1, "b": {}}, {"a": 1, "b": []}],
        [{"a": 1, "b": {}}],
    ),
    Drawn(
        "duplicates by fields within fields, of which only these stay",
        f"{DOCS}/n8n-nodes-base.removeduplicates/",
        [uniq(compare="selectedFields", fieldsToCompare="a.b", options={"removeOtherFields": True})],
        [{"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 5}}, {"a": {"b": 2}}],
        [{"a": {"b": 1}}, {"a": {"b": 2}}],
    ),
    Drawn(
        "duplicates but for a field that only later items have",
        f"{DOCS}/n8n-nodes-base.removeduplicates/",
        [uniq(compare="allFieldsExcept", fieldsToExclude="b", options={})],
        [{"a": 1, "b": 1}, {"a": 1, "b": 2, "c": 5}],
        [{"a": 1, "b": 1}],
    ),
    Drawn(
        "lists of fields that another one is within",
        f"{DOCS}/n8n-nodes-base.aggregate/",
        [agg(("g", "l"), ("h.k", "l.m"), ("s", "p[0]"), keepMissing=True)],
        GROUPS,
        [{"l": ["x", "y", "x", None, None, "x"], "p": [[5, None, "7", "", 2.5, None]]}],
    ),
    Drawn(
        "a name for a list that counts for nothing",
        f"{DOCS}/n8n-nodes-base.aggregate/",
        [
            node(
                "N",
                "aggregate",
                1,
                fieldsToAggregate={
                    "fieldToAggregate": [{"fieldToAggregate": "g", "renameField": False, "outputFieldName": "z"}]
                },
                options={},
            )
        ],
        GROUPS,
        [{"g": ["x", "y", "x", "x"]}],
    ),
    Drawn(
        "split lists with fields that are missing",
        f"{DOCS}/n8n-nodes-base.splitout/",
        [split("l", "selectedOtherFields", fieldsToInclude="k, none")],
        [{"l": [1, {"a": 2}], "k": 1}, {"l": [3]}],
        [{"l": 1, "k": 1}, {"l": {"a": 2}, "k": 1}, {"l": 3}],
    ),
    Drawn(
        "names that change places",
        f"{DOCS}/n8n-nodes-base.renamekeys/",
        [ren(("a", "b"), ("b", "a"))],
        [{"a": 1, "b": 2, "c": 3}],
        [{"c": 3, "a": 2}],
    ),
    Drawn(
        "names of fields within fields",
        f"{DOCS}/n8n-nodes-base.renamekeys/",
        [ren(("a.b", "d.e"), ("x.y", "z"), ("l[0]", "first"), ("none", "n"))],
        [{"a": {"b": 1}, "c": 2, "x.y": 3, "l": [4, 5]}, {"a": "text"}],
        [{"a": {}, "c": 2, "l": [None, 5], "d": {"e": 1}, "z": 3, "first": 4}, {"a": "text"}],
    ),
    Drawn(
        "duplicates of several types in version 3.1",
        f"{DOCS}/n8n-nodes-base.itemlists/",
        [node("N", "itemLists", 3.1, operation="removeDuplicates", options={})],
        [{"a": 1}, {"a": "1"}, {"a": 1}],
        [{"a": 1}, {"a": "1"}],
    ),
)

PARTS: list[dict[str, Any]] = [
    {"s": "text", "b": {"c": "x"}, "l": ["p", "q"]},
    {"b": {"c": None}, "l": [], "x": {"y": 5}},
]


def raw(text: str, *, keeps: bool = False) -> dict[str, Any]:
    """Fields that are written as JSON."""
    return node("N", "set", 3.4, mode="raw", jsonOutput=text, includeOtherFields=keeps, options={})


def old_set(version: float, **values: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Fields of the older versions, by their kinds."""
    listed = {kind: [{"name": name, "value": value} for name, value in each] for kind, each in values.items()}
    return node("N", "set", version, values=listed, keepOnlySet=True, options={})


def typed(version: float, kind: str, value: Any) -> dict[str, Any]:
    """A field with a type."""
    fields = {"values": [{"name": "z", "type": f"{kind}Value", f"{kind}Value": value}]}
    return node("N", "set", version, fields=fields, include="none", options={})


DRAWN_SETS = (
    Drawn("JSON with objects and what is missing", f"{DOCS}/n8n-nodes-base.set/",
          [raw('={"b": {{ $json.b }}, "l": {{ $json.l }}, "n": {{ $json.none }}, "s": "{{ $json.s }}"}')], PARTS,
          [{"b": {"c": "x"}, "l": ["p", "q"], "n": None, "s": "text"},
           {"b": {"c": None}, "l": [], "n": None, "s": "undefined"}]),
    Drawn("JSON that names fields within fields", f"{DOCS}/n8n-nodes-base.set/",
          [raw('{"b.c": 1, "l[0]": 2}', keeps=True)], PARTS,
          [{"s": "text", "b": {"c": 1}, "l": [2, "q"]}, {"b": {"c": 1}, "l": [2], "x": {"y": 5}}]),
    Drawn("values of the first version stay what they are", f"{DOCS}/n8n-nodes-base.set/",
          [old_set(1, string=[("o", "={{ $json.b }}"), ("l.1", "x")], number=[("n", "={{ '7' }}")],
                   boolean=[("y", "={{ $json.s }}"), ("z", "false")])], PARTS,
          [{"y": True, "z": True, "n": "7", "o": {"c": "x"}, "l": [None, "x"]},
           {"y": False, "z": True, "n": "7", "o": {"c": None}, "l": [None, "x"]}]),
    Drawn("texts that are numbers in the second version", f"{DOCS}/n8n-nodes-base.set/",
          [old_set(2, number=[("n", "={{ '7' }}"), ("m", "={{ $json.s }}"), ("k", "12"), ("t", "x"), ("e", "")])],
          PARTS[:1], [{"n": 7, "m": "text", "k": 12, "t": "x", "e": 0}]),
    Drawn("null as text in version 3", f"{DOCS}/n8n-nodes-base.set/",
          [typed(3, "string", "={{ $json.b.c }}")], PARTS, [{"z": "x"}, {"z": "null"}]),
    Drawn("an object as text", f"{DOCS}/n8n-nodes-base.set/",
          [node("N", "set", 3.4, options={}, assignments={"assignments": [
              {"name": "z", "type": "string", "value": {"k": [1, "é"]}},
              {"name": "", "type": "boolean", "value": 1}]})],
          PARTS[:1], [{"z": '{"k":[1,"é"]}', "": True}]),
)  # fmt: skip


def at_most(count: Any, *, last: bool = False) -> dict[str, Any]:
    """A limit."""
    return node("N", "limit", 1, maxItems=count, keep="lastItems" if last else "firstItems")


def numbered(*numbers: int) -> list[dict[str, Any]]:
    """Items with these numbers."""
    return [{"i": number} for number in numbers]


# A count, and the items that n8n keeps of five: from the first on, and up to the last.
COUNTS: tuple[tuple[Any, tuple[int, ...], tuple[int, ...]], ...] = (
    (None, (), ()),
    ("={{ '2' }}", (0, 1), (3, 4)),
    ("={{ 1.5 }}", (0,), (3, 4)),
    ("={{ null }}", (), ()),
    ("={{ $json.missing }}", (0, 1, 2, 3, 4), (0, 1, 2, 3, 4)),
    ("={{ true }}", (0,), (4,)),
    ("={{ -1 }}", (0, 1, 2, 3), ()),
    ("={{ 'x' }}", (), (0, 1, 2, 3, 4)),
    ("={{ [] }}", (), ()),
    ("={{ $json.i + 1 }}", (0,), (4,)),
)

DRAWN_LIMITS = tuple(
    Drawn(f"{'last' if last else 'first'} {count} items", f"{DOCS}/n8n-nodes-base.limit/",
          [at_most(count, last=last)], numbered(0, 1, 2, 3, 4), numbered(*kept[last]))
    for count, *kept in COUNTS for last in (False, True)
)  # fmt: skip

LENIENT = {"ignoreConversionErrors": True}


def assigned(kind: str, value: Any, *, name: str = "z", keeps: bool = False, **options: Any) -> dict[str, Any]:
    """A field of the last version."""
    fields = {"assignments": [{"id": "1", "name": name, "type": kind, "value": value}]}
    return node("N", "set", 3.4, assignments=fields, includeOtherFields=keeps, options=options)


# A node, and the field `z` that n8n makes.
ODD_VALUES: tuple[tuple[str, dict[str, Any], Any], ...] = (
    ("NaN as text", assigned("string", "={{ NaN }}"), "NaN"),
    ("NaN as text of the third version", typed(3, "string", "={{ NaN }}"), "NaN"),
    ("NaN where conversion errors are ignored", assigned("array", "={{ NaN }}", **LENIENT), None),
    ("a list of a list as boolean", assigned("boolean", "={{ [[1]] }}", **LENIENT), True),
    ("a list of null as boolean", assigned("boolean", "={{ [null] }}", **LENIENT), False),
    ("the text null as an object", assigned("object", "={{ 'null' }}"), None),
    ("-0 as text", assigned("string", -0.0, **LENIENT), "0"),
    ("a number of JSON that is too large", raw('{"z":1e400}'), None),
    ("braces in a number that is no expression", old_set(2, number=[("z", "x{{ 1 }}")]), "x{{ 1 }}"),
    ("null as text of the first version", old_set(1, string=[("z", None)]), ""),
)

DRAWN_ODD = (
    *(Drawn(name, f"{DOCS}/n8n-nodes-base.set/", [made], [{"l": [1]}], [{"z": value}])
      for name, made, value in ODD_VALUES),
    Drawn("a name in brackets that is no path", f"{DOCS}/n8n-nodes-base.set/",
          [assigned("string", "V", name="['q.r']", keeps=True, dotNotation=False)], [{"a": 1}], [{"a": 1, "q.r": "V"}]),
    Drawn("a name that JavaScript makes no field of", f"{DOCS}/n8n-nodes-base.set/",
          [assigned("string", "V", name="__proto__", keeps=True)], [{"a": 1}], [{"a": 1}]),
)  # fmt: skip


def moved(value: Any, gives: str) -> Drawn:
    """A day later than a value."""
    return Drawn(f"a day later than {value!r}", f"{DOCS}/n8n-nodes-base.datetime/",
                 [node("N", "dateTime", 2, operation="addToDate", magnitude="={{ $json.d }}", timeUnit="days",
                       duration=1, options={})], [{"d": value}], [{"newDate": gives}])  # fmt: skip


DRAWN_DATES = (
    moved(1709978400000, "2024-03-10T10:00:00.000Z"),
    moved(1709978400, "2024-03-10T10:00:00.000Z"),
    moved("1709978400", "2024-03-10T10:00:00.000Z"),
    moved("20240310", "1970-08-24T06:18:30.000Z"),
    moved("", "1970-01-02T00:00:00.000Z"),
    moved(None, "1970-01-02T00:00:00.000Z"),
    moved(True, "1970-01-02T00:00:01.000Z"),
    moved([1], "1970-01-02T00:00:01.000Z"),
    moved("2024-03-10", "2024-03-11T00:00:00.000Z"),
)


DRAWN_CLASH = Drawn(
    "a list that an object is merged into", f"{DOCS}/n8n-nodes-base.merge/",
    [node("First", "noOp", 1),
     node("Second", "code", 2, jsCode='return [{json: {"k": {"z": 1}, "b": {"c": 8}}}];'),
     node("N", "merge", 3.2, mode="combine", combineBy="combineByPosition", options={})],
    [{"k": [1], "a": 3}], [{"k": [1], "a": 3, "b": {"c": 8}}],
    [("Begin", 0, "First", 0), ("Begin", 0, "Second", 0), ("First", 0, "N", 0), ("Second", 0, "N", 1)],
)  # fmt: skip


def old_lists(version: float, operation: str) -> dict[str, Any]:
    """All items in a list, by an operation of `itemLists`."""
    return node("N", "itemLists", version, operation=operation, aggregate="aggregateAllItemData", options={})


FAILING: tuple[tuple[str, list[dict[str, Any]], list[dict[str, Any]]], ...] = (
    ("items in order by a field that none has", [sort("none")], MIXED),
    ("figures of a field that no item has", [summ(1, "g", {}, ("count",), "none")], GROUPS),
    ("duplicates where items lack fields", [uniq(options={})], [{"a": 1}, {"a": 1, "b": 2}]),
    ("duplicates of several types", [uniq(options={})], [{"a": 1}, {"a": "1"}]),
    (
        "duplicates by a field that is missing",
        [uniq(compare="selectedFields", fieldsToCompare="a", options={})],
        [{"a": 1}, {"b": 1}],
    ),
    ("lists of fields with two of one name", [agg(("g", ""), ("g", ""))], GROUPS),
    (
        "split lists with fields that are not named",
        [split("l", "selectedOtherFields", fieldsToInclude="")],
        [{"l": [1]}],
    ),
    (
        "lists of the first version that are missing",
        [node("N", "itemLists", 1, fieldToSplitOut="l", options={})],
        [{"a": 1}],
    ),
    (
        "values of the first version that are no list",
        [node("N", "itemLists", 1, fieldToSplitOut="l", options={})],
        [{"l": {"a": 1}}],
    ),
    (
        "lists of a field that none has, in the first version",
        [
            node(
                "N",
                "itemLists",
                1,
                operation="aggregateItems",
                fieldsToAggregate={"fieldToAggregate": [{"fieldToAggregate": "l"}]},
                options={},
            )
        ],
        [{"a": 1}],
    ),
    ("a list that is written as another value", [typed(3.2, "array", '{"a": 1}')], [{"a": 1}]),
    ("an object that is written as a list", [typed(3.2, "object", "[1]")], [{"a": 1}]),
    ("lists of items by an operation of the third version", [old_lists(2.2, "concatenateItems")], [{"a": 1}]),
    ("lists of items by an operation of the second version", [old_lists(3, "aggregateItems")], [{"a": 1}]),
    ("JSON with a line break within a text", [raw('{"a": "x\ny"}')], [{"a": 1}]),
    ("NaN as a list", [typed(3, "array", "={{ NaN }}")], [{"a": 1}]),
    ("NaN as a boolean", [typed(3, "boolean", "={{ NaN }}")], [{"a": 1}]),
)
"""What n8n fails for: a name, the nodes and the items."""
