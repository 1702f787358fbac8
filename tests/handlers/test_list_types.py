"""The node types for lists and objects: what each makes of its source, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.handler_contract import HandlerResult
from anabranch.errors import NonRetryable
from tests.handlers.running import TYPES, problems, run

ORDERS: list[dict[str, Any]] = [
    {"id": 1, "who": {"name": "bo"}, "sum": 30, "tags": ["a", "b"], "paid": True},
    {"id": 2, "who": {"name": "Al"}, "sum": 12.5, "tags": []},
    {"id": 3, "who": {"name": "bo"}, "sum": None, "tags": ["b"], "paid": False},
]
SOURCE = "{{ctx.orders}}"


async def made(type_name: str, context: dict[str, Any] | None = None, **config: Any) -> Any:
    result = await run(type_name, config, {"orders": ORDERS} if context is None else context)
    assert isinstance(result, HandlerResult)
    return result.output


def ids(items: Any) -> list[int]:
    return [item["id"] for item in items]


@pytest.mark.parametrize(
    ("test", "kept"),
    [
        ({"field": "id", "value": 2}, [2]),
        ({"field": "id", "test": "notEquals", "value": 2}, [1, 3]),
        ({"field": "sum", "test": "greater", "value": 12.5}, [1]),
        ({"field": "sum", "test": "greaterOrEqual", "value": 12.5}, [1, 2]),
        ({"field": "sum", "test": "less", "value": "z"}, []),
        ({"field": "sum", "test": "lessOrEqual", "value": 12.5}, [2]),
        ({"field": "tags", "test": "contains", "value": "b"}, [1, 3]),
        ({"field": "who.name", "test": "notContains", "value": "o"}, [2]),
        ({"field": "who.name", "test": "startsWith", "value": "b"}, [1, 3]),
        ({"field": "who.name", "test": "endsWith", "value": "l"}, [2]),
        ({"field": "who.name", "test": "matches", "value": "^[A-Z]"}, [2]),
        ({"field": "id", "test": "in", "value": [1, 3]}, [1, 3]),
        ({"field": "id", "test": "notIn", "value": [1, 3]}, [2]),
        ({"field": "paid", "test": "exists"}, [1, 3]),
        ({"field": "paid", "test": "notExists"}, [2]),
        ({"field": "tags", "test": "empty"}, [2]),
        ({"field": "sum", "test": "notEmpty"}, [1, 2]),
        ({"field": "paid", "test": "true"}, [1]),
        ({"field": "paid", "test": "false"}, [3]),
        ({"field": "absent.deep", "test": "notEquals", "value": 1}, [1, 2, 3]),
        ({"field": "tags.0", "value": "a"}, [1]),
    ],
)
async def test_filter_keeps_what_passes(test: dict[str, Any], kept: list[int]) -> None:
    assert ids(await made("filter", source=SOURCE, tests=[test])) == kept


async def test_filter_asks_for_all_tests_or_any_and_takes_plain_items() -> None:
    tests = [{"field": "id", "value": 1}, {"field": "id", "value": 2}]
    assert ids(await made("filter", source=SOURCE, tests=tests)) == []
    assert ids(await made("filter", source=SOURCE, tests=tests, match="any")) == [1, 2]
    assert ids(await made("filter", source=SOURCE, tests=[])) == [1, 2, 3]
    assert await made("filter", source=[3, 1, 2], tests=[{"test": "greater", "value": 1}]) == [3, 2]


async def test_sort_is_stable_and_puts_what_is_missing_last() -> None:
    assert ids(await made("sort", source=SOURCE, by=[{"field": "who.name"}])) == [2, 1, 3]
    assert ids(await made("sort", source=SOURCE, by=[{"field": "who.name", "caseSensitive": True}])) == [2, 1, 3]
    assert ids(await made("sort", source=SOURCE, by=[{"field": "sum", "order": "descending"}])) == [1, 2, 3]
    by = [{"field": "who.name", "order": "descending"}, {"field": "id", "order": "descending"}]
    assert ids(await made("sort", source=SOURCE, by=by)) == [3, 1, 2]
    assert await made("sort", source=["b", 2, "A", True, 1]) == [1, 2, "A", "b", True]


async def test_limit_keeps_so_many_from_an_end() -> None:
    assert await made("limit", source=[1, 2, 3, 4], count=2) == [1, 2]
    assert await made("limit", source=[1, 2, 3, 4], count=2, skip=1) == [2, 3]
    assert await made("limit", source=[1, 2, 3, 4], count=2, keep="last") == [3, 4]
    assert await made("limit", source=[1, 2, 3, 4], count=9, keep="last", skip=3) == [1]


async def test_unique_tells_items_apart_by_everything_or_by_some_fields() -> None:
    assert await made("unique", source=[1, "1", 1, {"a": 1}, {"a": 1}, True]) == [1, "1", {"a": 1}, True]
    assert ids(await made("unique", source=SOURCE, by=["who.name"])) == [1, 2]
    assert ids(await made("unique", source=SOURCE, by=["who.name"], keep="last")) == [2, 3]


async def test_aggregate_computes_figures_of_what_is_there() -> None:
    values = {
        "n": {"operation": "count"},
        "sums": {"operation": "count", "field": "sum"},
        "sum": {"operation": "sum", "field": "sum"},
        "average": {"operation": "average", "field": "sum"},
        "min": {"operation": "min", "field": "sum"},
        "max": {"operation": "max", "field": "who.name"},
        "first": {"operation": "first", "field": "id"},
        "last": {"operation": "last", "field": "paid"},
        "list": {"operation": "list", "field": "id"},
        "unique": {"operation": "unique", "field": "who.name"},
        "countUnique": {"operation": "countUnique", "field": "who.name"},
        "join": {"operation": "join", "field": "id", "separator": "-"},
    }
    assert await made("aggregate", source=SOURCE, values=values) == {
        "n": 3,
        "sums": 2,
        "sum": 42.5,
        "average": 21.25,
        "min": 12.5,
        "max": "bo",
        "first": 1,
        "last": False,
        "list": [1, 2, 3],
        "unique": ["bo", "Al"],
        "countUnique": 2,
        "join": "1-2-3",
    }
    empty = await made("aggregate", source=[], values=values)
    assert (empty["n"], empty["sum"], empty["average"], empty["max"], empty["join"]) == (0, 0, None, None, "")


async def test_group_makes_groups_with_items_or_figures() -> None:
    assert await made("group", source=SOURCE, by=["who.name"]) == [
        {"who.name": "bo", "items": [ORDERS[0], ORDERS[2]]},
        {"who.name": "Al", "items": [ORDERS[1]]},
    ]
    counted = await made("group", source=SOURCE, by=["paid"], values={"n": {"operation": "count"}})
    assert counted == [{"paid": True, "n": 1}, {"n": 1}, {"paid": False, "n": 1}]


async def test_split_out_makes_one_list_of_the_inner_ones() -> None:
    assert await made("splitOut", source=SOURCE, field="tags") == ["a", "b", "b"]
    assert await made("splitOut", source=[[1], [], [2, 3]]) == [1, 2, 3]
    told = await made("splitOut", source=SOURCE, field="tags", include=["id"], name="tag")
    assert told == [{"id": 1, "tag": "a"}, {"id": 1, "tag": "b"}, {"id": 3, "tag": "b"}]
    assert await made("splitOut", source=[{"a": None}, {}], field="a") == []


async def test_merge_appends_joins_pairs_or_takes_the_first() -> None:
    left, right = [{"k": 1, "a": 1}, {"k": 2, "a": 2}], [{"k": 2, "b": 2}, {"k": 3, "b": 3}]
    context = {"left": left, "right": right}
    sources = ["{{ctx.left}}", "{{ctx.right}}"]
    assert await made("merge", context, sources=sources) == left + right
    by_key = {"mode": "byKey", "key": ["k"], "sources": sources}
    assert await made("merge", context, **by_key) == [{"k": 1, "a": 1}, {"k": 2, "a": 2, "b": 2}, {"k": 3, "b": 3}]
    assert await made("merge", context, **by_key, keep="matching") == [{"k": 2, "a": 2, "b": 2}]
    assert await made("merge", context, **by_key, keep="first") == [{"k": 1, "a": 1}, {"k": 2, "a": 2, "b": 2}]
    both = [{"k": 2, "a": 1, "b": 2}, {"k": 3, "a": 2, "b": 3}]
    assert await made("merge", context, mode="byPosition", sources=sources) == both
    assert await made("merge", context, mode="byPosition", keep="matching", sources=["{{ctx.left}}", []]) == []
    pairs = await made("merge", context, mode="allPairs", sources=sources)
    assert [(pair["a"], pair["b"]) for pair in pairs] == [(1, 2), (1, 3), (2, 2), (2, 3)]
    missing = ["{{ctx.absent}}", "{{ctx.right}}", "{{ctx.left}}"]
    assert await made("merge", context, mode="first", sources=missing) == right
    assert await made("merge", context, sources=missing[:2]) == right


async def test_fields_keeps_drops_and_renames() -> None:
    assert await made("fields", source=SOURCE, keep=["sum", "id"], rename={"sum": "total"}) == [
        {"total": 30, "id": 1},
        {"total": 12.5, "id": 2},
        {"total": None, "id": 3},
    ]
    assert await made("fields", source={"a": 1, "b": 2}, drop=["a"]) == {"b": 2}


async def test_switch_leaves_by_the_first_equal_case() -> None:
    cases = [{"id": "one", "values": [1, "1"]}, {"id": "none", "values": [None]}]
    for value, handle in [(1, "one"), ("1", "one"), (None, "none"), (2, "else")]:
        result = await run("switch", {"value": "{{ctx.v}}", "cases": cases}, {"v": value})
        assert result == HandlerResult({"case": handle}, handle)
    node_type = TYPES.get("switch")
    assert node_type is not None
    assert list(node_type.handles({"cases": cases})) == ["one", "none", "else"]


async def test_stop_with_error_fails_with_its_words() -> None:
    for config, code in [({}, "STOPPED"), ({"code": "NO_STOCK"}, "NO_STOCK")]:
        with pytest.raises(NonRetryable, match="none of bolts left") as failure:
            await run("stopWithError", {"message": "none of {{ctx.what}} left", **config}, {"what": "bolts"})
        assert failure.value.code == code


LARGE = [{"n": number, "text": "x" * 300} for number in range(1_500)]


@pytest.mark.parametrize(
    ("type_name", "config"),
    [
        ("filter", {"tests": [{"field": "n", "test": "matches", "value": "("}]}),
        ("aggregate", {"values": {"s": {"operation": "sum", "field": "text"}}}),
        ("splitOut", {"field": "n"}),
        ("splitOut", {"field": "list", "include": ["text"], "source": [{"text": "x" * 1000, "list": [1] * 2_000}]}),
        ("splitOut", {"include": ["a"], "source": [[1]]}),
        ("merge", {"mode": "allPairs", "sources": ["{{ctx.large}}", "{{ctx.large}}"]}),
        ("merge", {"sources": ["{{ctx.large[0]}}"]}),
        ("merge", {"mode": "byPosition", "sources": [[1]]}),
        ("fields", {"source": "{{ctx.large[0].n}}"}),
        ("fields", {"source": [1]}),
        ("group", {"by": ["n"], "values": {f"v{i}": {"operation": "list", "field": "text"} for i in range(8)}}),
        ("merge", {"sources": ["{{ctx.large}}"] * 9}),
    ],
)
async def test_data_that_do_not_fit_fail_the_node_for_good(type_name: str, config: dict[str, Any]) -> None:
    given = config if type_name == "merge" else {"source": "{{ctx.large}}", **config}
    if type_name == "filter":
        given["source"] = ["text"]
        given["tests"] = [{"test": "matches", "value": "("}]
    with pytest.raises(NonRetryable) as failure:
        await run(type_name, given, {"large": LARGE})
    assert failure.value.code == "NODE_DATA_INVALID"


async def test_a_source_that_is_no_list_does_not_fit_the_config() -> None:
    for type_name, config in [("filter", {"tests": []}), ("sort", {}), ("limit", {"count": 1}), ("unique", {})]:
        with pytest.raises(NonRetryable) as failure:
            await run(type_name, {"source": "{{ctx.text}}", **config}, {"text": "abc"})
        assert failure.value.code == "NODE_CONFIG_INVALID"


def test_what_is_wrong_is_said_when_a_workflow_is_saved() -> None:
    assert problems("filter", {"source": SOURCE, "tests": [{"test": "resembles"}]})
    assert problems("limit", {"source": SOURCE, "count": -1})
    assert problems("merge", {"mode": "byKey", "sources": [SOURCE]}) == [("NODE_CONFIG_INVALID", "/key")]
    assert problems("merge", {"sources": ["orders"]}) == [("NODE_CONFIG_INVALID", "/sources/0")]
    assert problems("group", {"source": SOURCE, "by": []})
    assert problems("switch", {"value": 1, "cases": "{{ctx.cases}}"})
    assert not problems("merge", {"mode": "byKey", "key": ["id"], "sources": [SOURCE]})
    assert not problems("sort", {"source": SOURCE, "by": [{"field": "a"}]})


async def test_an_evaluation_leaves_its_source_as_it_was() -> None:
    before = [dict(order) for order in ORDERS]
    for type_name, config in [
        ("sort", {"by": [{"field": "sum"}]}),
        ("group", {"by": ["id"]}),
        ("fields", {"rename": {"id": "n"}}),
        ("merge", {"mode": "byKey", "key": ["id"], "sources": [SOURCE, SOURCE]}),
    ]:
        await made(type_name, **({"source": SOURCE} if type_name != "merge" else {}), **config)
    assert before == ORDERS
