"""Workflows that put the items of several inputs together, and read which item of a node in front belongs to them.

What each gives is what n8n 1.123.81 gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.n8n.drawn import Drawn, node, set_to
from tests.n8n.drawn_pairs import THREE, code

MERGE = "https://docs.n8n.io/integrations/builtin/core-nodes/n8n-nodes-base.merge/"

TWO = "[{json: {y: 9, v: 2, n: {a: 1}}}, {json: {y: 8, v: 7, n: {b: 2}}}]"
BY_V = {"values": [{"field1": "v", "field2": "v"}]}


def merged(
    name: str,
    gives: Sequence[Any],
    *,
    version: float = 3,
    second: str = TWO,
    reads: bool = True,
    items: Sequence[Mapping[str, Any]] = THREE,
    **parameters: Any,
) -> Drawn:
    """The items with a field, merged with those of `second`, which belong to the second item of the beginning.

    `reads`: with a field `of`, of the item of the beginning that each belongs to.
    """
    nodes = [
        code("First", "return items.map(each => ({json: {...each.json, n: {c: each.json.v}}}));"),
        code("Second", f"return {second}.map(each => ({{...each, pairedItem: 1}}));"),
        node("Both", "merge", version, **parameters),
        set_to("Of", keeps=True, of="={{ $('Begin').item.json.v }}") if reads else node("Of", "noOp", 1),
    ]
    links = [("Begin", 0, "First", 0), ("Begin", 0, "Second", 0), ("First", 0, "Both", 0), ("Second", 0, "Both", 1),
             ("Both", 0, "Of", 0)]  # fmt: skip
    return Drawn(name, MERGE, nodes, items, gives, links)


DRAWN_MERGES = (
    merged(
        "merged, one behind the other",
        [
            {"v": 1, "n": {"c": 1}, "of": "1"},
            {"v": 2, "n": {"c": 2}, "of": "2"},
            {"v": 3, "n": {"c": 3}, "of": "3"},
            {"y": 9, "v": 2, "n": {"a": 1}, "of": "2"},
            {"y": 8, "v": 7, "n": {"b": 2}, "of": "2"},
        ],
    ),
    merged(
        "merged, where fields match",
        [{"v": 2, "n": {"c": 2, "a": 1}, "y": 9, "of": "2"}],
        mode="combine",
        advanced=True,
        mergeByFields=BY_V,
        joinMode="keepMatches",
        options={},
    ),
    merged(
        "merged, where no fields match",
        [
            {"v": 1, "n": {"c": 1}, "_source": "input1", "of": "1"},
            {"v": 3, "n": {"c": 3}, "_source": "input1", "of": "3"},
            {"y": 8, "v": 7, "n": {"b": 2}, "_source": "input2", "of": "2"},
        ],
        mode="combine",
        advanced=True,
        mergeByFields=BY_V,
        joinMode="keepNonMatches",
        options={},
    ),
    merged(
        "merged, by fields, with the rest",
        [
            {"v": 2, "n": {"c": 2, "a": 1}, "y": 9, "of": "2"},
            {"v": 1, "n": {"c": 1}, "of": "1"},
            {"v": 3, "n": {"c": 3}, "of": "3"},
            {"y": 8, "v": 7, "n": {"b": 2}, "of": "2"},
        ],
        mode="combine",
        advanced=True,
        mergeByFields=BY_V,
        joinMode="keepEverything",
        options={},
    ),
    merged(
        "merged, into the second",
        [{"y": 9, "v": 2, "n": {"a": 1, "c": 2}, "of": "2"}, {"y": 8, "v": 7, "n": {"b": 2}, "of": "2"}],
        mode="combine",
        advanced=True,
        mergeByFields=BY_V,
        joinMode="enrichInput2",
        options={},
    ),
    merged(
        "merged, by a key, in the first version",
        [
            {"v": 1, "n": {"c": 1}, "of": "1"},
            {"v": 2, "n": {"a": 1}, "y": 9, "of": "2"},
            {"v": 3, "n": {"c": 3}, "of": "3"},
        ],
        version=1,
        mode="mergeByKey",
        propertyName1="v",
        propertyName2="v",
    ),
    merged(
        "merged, without a key of the other, in the first version",
        [{"v": 1, "n": {"c": 1}, "of": "1"}, {"v": 3, "n": {"c": 3}, "of": "3"}],
        version=1,
        mode="removeKeyMatches",
        propertyName1="v",
        propertyName2="v",
    ),
    merged(
        "merged, of which the second goes on",
        [{"y": 9, "v": 2, "n": {"a": 1}, "of": "2"}, {"y": 8, "v": 7, "n": {"b": 2}, "of": "2"}],
        mode="chooseBranch",
        useDataOfInput=2,
    ),
    merged(
        "merged, of which an empty item goes on, in the first version",
        [{"of": "1"}],
        version=1,
        items=THREE[:1],
        mode="wait",
    ),
    merged(
        "merged, by fields, with the rest and with suffixes",
        [
            {"v_1": 2, "n_1": {"c": 2}, "y_2": 9, "v_2": 2, "n_2": {"a": 1}},
            {"v_1": 1, "n_1": {"c": 1}},
            {"v_1": 3, "n_1": {"c": 3}},
            {"y_2": 8, "v_2": 7, "n_2": {"b": 2}},
        ],
        reads=False,
        mode="combine",
        advanced=True,
        mergeByFields=BY_V,
        joinMode="keepEverything",
        options={"clashHandling": {"values": {"resolveClash": "addSuffix"}}},
    ),
    merged(
        "merged, with none in the second",
        [{"v": 1, "n": {"c": 1}}, {"v": 2, "n": {"c": 2}}, {"v": 3, "n": {"c": 3}}],
        second="[]",
        reads=False,
        mode="combine",
        advanced=True,
        mergeByFields=BY_V,
        joinMode="keepNonMatches",
        options={},
    ),
    merged(
        "merged, by position, with suffixes",
        [
            {"v_1": 1, "n_1": {"c": 1}, "y_2": 9, "v_2": 2, "n_2": {"a": 1}, "y": 9, "v": 2, "n": {"a": 1}},
            {"v_1": 2, "n_1": {"c": 2}, "y_2": 8, "v_2": 7, "n_2": {"b": 2}, "y": 8, "v": 7, "n": {"b": 2}},
            {"v_1": 3, "n_1": {"c": 3}},
        ],
        reads=False,
        mode="combine",
        combineBy="combineByPosition",
        options={"clashHandling": {"values": {"resolveClash": "addSuffix"}}, "includeUnpaired": True},
    ),
    merged(
        "merged, by position, the first preferred, in the second version",
        [{"y": 9, "v": 1, "n": {"a": 1, "c": 1}}, {"y": 8, "v": 2, "n": {"b": 2, "c": 2}}, {"v": 3, "n": {"c": 3}}],
        version=2.1,
        reads=False,
        mode="combine",
        combinationMode="mergeByPosition",
        options={"clashHandling": {"values": {"resolveClash": "preferInput1"}}, "includeUnpaired": True},
    ),
    merged(
        "merged, each with each, the first preferred",
        [
            {"y": 9, "v": 1, "n": {"a": 1, "c": 1}},
            {"y": 9, "v": 2, "n": {"a": 1, "c": 2}},
            {"y": 9, "v": 3, "n": {"a": 1, "c": 3}},
            {"y": 8, "v": 1, "n": {"b": 2, "c": 1}},
            {"y": 8, "v": 2, "n": {"b": 2, "c": 2}},
            {"y": 8, "v": 3, "n": {"b": 2, "c": 3}},
        ],
        reads=False,
        mode="combine",
        combineBy="combineAll",
        options={"clashHandling": {"values": {"resolveClash": "preferInput1"}}},
    ),
    merged(
        "merged, by position, in the first version",
        [{"v": 2, "n": {"a": 1}, "y": 9}, {"v": 7, "n": {"b": 2}, "y": 8}, {"v": 3, "n": {"c": 3}}],
        version=1,
        reads=False,
        mode="mergeByIndex",
        join="left",
    ),
    merged("merged, of which an empty item goes on", [{}], reads=False, mode="chooseBranch", output="empty"),
)
