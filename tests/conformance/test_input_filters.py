"""Runs found by what their input holds: the same runs on every store, and as the rules read the filter."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.ports import Store
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.run_filter import InputValue, RunFilter, matches, read_filters
from tests.conformance.building import TENANT, created, ending, input_set, new_head, new_run, row_of

LARGE = 2**63 - 1

# An input, a path into it, a text or other value, and whether they fit.
CASES: dict[str, tuple[Any, tuple[str, ...], InputValue, bool]] = {
    "a text": ({"a": "x"}, ("a",), "x", True),
    "a text as JSON": ({"a": "x"}, ("a",), '"x"', True),
    "a text with quotes of its own": ({"a": '"x"'}, ("a",), '"x"', True),
    "another text": ({"a": "x"}, ("a",), "y", False),
    "the empty text": ({"a": ""}, ("a",), "", True),
    "a number": ({"a": 1}, ("a",), "1", True),
    "a number that is a text": ({"a": "1"}, ("a",), "1", True),
    "a number with a fraction of nothing": ({"a": 1}, ("a",), "1.0", True),
    "the other way round": ({"a": 1.0}, ("a",), "1", True),
    "a fraction": ({"a": 0.1}, ("a",), "1e-1", True),
    "another number": ({"a": 1}, ("a",), "2", False),
    "a large number": ({"a": LARGE}, ("a",), str(LARGE), True),
    "its neighbour": ({"a": LARGE}, ("a",), str(LARGE - 1), False),
    "the largest number": ({"a": 2**64 - 1}, ("a",), str(2**64 - 1), True),
    "a number that overflows": ({"a": 1}, ("a",), "1e999", False),
    "true": ({"a": True}, ("a",), "true", True),
    "true is not 1": ({"a": True}, ("a",), "1", False),
    "1 is not true": ({"a": 1}, ("a",), "true", False),
    "false": ({"a": False}, ("a",), "false", True),
    "null": ({"a": None}, ("a",), "null", True),
    "absent is not null": ({}, ("a",), "null", False),
    "a nested key": ({"a": {"b": {"c": 7}}}, ("a", "b", "c"), "7", True),
    "nothing below a text": ({"a": "b"}, ("a", "b"), "7", False),
    "nothing below a text that looks like JSON": ({"a": '{"b": 7}'}, ("a", "b"), "7", False),
    "nothing below null": ({"a": None}, ("a", "b"), "7", False),
    "an element": ({"a": [5, 6]}, ("a", "1"), "6", True),
    "an element of an element": ([[1, 2], [3, 4]], ("1", "0"), "3", True),
    "an index that is a key": ({"a": {"1": 6}}, ("a", "1"), "6", True),
    "no element": ({"a": [5, 6]}, ("a", "2"), "6", False),
    "not from the end": ({"a": [5, 6]}, ("a", "-1"), "6", False),
    "not with zeros": ({"a": [5, 6]}, ("a", "01"), "6", False),
    "not with a sign": ({"a": [5, 6]}, ("a", "+1"), "6", False),
    "a sign that is in a key": ({"a": {"-1": 6}}, ("a", "-1"), "6", True),
    "an index beyond all bounds": ({"a": [5, 6]}, ("a", "9" * 30), "6", False),
    "the whole input": (7, (), "7", True),
    "the whole input, empty": (None, (), "null", True),
    "an object": ({"a": {"x": 1, "y": [1, "2"]}}, ("a",), '{"y": [1.0, "2"], "x": 1}', True),
    "a smaller object": ({"a": {"x": 1, "y": 2}}, ("a",), '{"x": 1}', False),
    "a larger object": ({"a": {"x": 1}}, ("a",), '{"x": 1, "y": 2}', False),
    "an object with another value": ({"a": {"x": 1}}, ("a",), '{"x": "1"}', False),
    "an object with true for 1": ({"a": {"x": 1}}, ("a",), '{"x": true}', False),
    "a list": ({"a": [1, 2]}, ("a",), "[1, 2]", True),
    "a list in another order": ({"a": [1, 2]}, ("a",), "[2, 1]", False),
    "the empty list": ({"a": []}, ("a",), "[]", True),
    "an empty list is no empty object": ({"a": []}, ("a",), "{}", False),
    "an object that is a text": ({"a": "{}"}, ("a",), "{}", True),
    "a key with everything": ({'a"b.c$[0]\\ \né': 1}, ('a"b.c$[0]\\ \né',), "1", True),
    "an empty key": ({"": {"": 1}}, ("", ""), "1", True),
    "SQL for a key": ({"a": 1}, ("a'] OR 1=1 --",), "1", False),
    "SQL for a value": ({"a": 1}, ("a",), "1' OR '1'='1", False),
    "a value that is a parameter": ({"a": ":path_0 %s $1"}, ("a",), ":path_0 %s $1", True),
    "text that no log holds": ({"a": 1}, ("a",), "\ud800", False),
    "JSON that no log holds": ({"a": 1}, ("a",), '"\\u0000"', False),
    "a key that no log holds": ({"a": 1}, ("\x00",), "1", False),
    "a number for a number": ({"a": 1.0}, ("a",), 1, True),
    "a number is not a text": ({"a": "1"}, ("a",), 1, False),
    "a number is not true": ({"a": True}, ("a",), 1, False),
    "a boolean": ({"a": True}, ("a",), True, True),
    "a boolean is not a number": ({"a": 1}, ("a",), True, False),
    "null itself": ({"a": None}, ("a",), None, True),
    "null is not a text": ({"a": "null"}, ("a",), None, False),
    "a number that no log holds": ({"a": 1}, ("a",), 2**70, False),
}


@pytest.mark.parametrize(("input_", "path", "text", "fits"), CASES.values(), ids=CASES)
def test_a_filter_reads_its_text_as_json_or_as_text(
    input_: Any, path: tuple[str, ...], text: InputValue, *, fits: bool
):
    assert matches(input_, read_filters([(path, text)])) is fits


async def test_every_store_finds_what_the_rules_find(store: Store) -> None:
    inputs = [input_ for input_, *_ in CASES.values()]
    runs = [(await created(store, input_set(input_))).head.instance_id for input_ in inputs]
    for name, (_, path, text, _) in CASES.items():
        found = await store.list_instances(RunFilter(input_filters=[(path, text)]), tenant_id=TENANT, limit=1_000)
        wanted = read_filters([(path, text)])
        expected = {run for run, input_ in zip(runs, inputs, strict=True) if matches(input_, wanted)}
        assert {row.head.instance_id for row in found} == expected, name


async def test_all_filters_must_be_met(store: Store) -> None:
    both = await created(store, input_set({"a": 1, "b": "x"}))
    await created(store, input_set({"a": 1, "b": "y"}))
    await created(store, input_set({"a": 2, "b": "x"}))
    filters = [(("a",), "1"), (("b",), "x")]
    assert await store.list_instances(RunFilter(input_filters=filters), tenant_id=TENANT, limit=10) == [both]
    ended = await store.list_instances(
        RunFilter(statuses=[Status.COMPLETED, Status.FAILED], input_filters=filters), tenant_id=TENANT, limit=10
    )
    assert ended == []


async def test_paging_with_a_filter_is_exact_while_runs_are_born_and_end(store: Store) -> None:
    now = await store.now()
    heads = [new_head(now=now + number // 3) for number in range(20)]
    await store.commit([new_run(head, input_set({"n": number % 2})) for number, head in enumerate(heads)])
    seen: list[str] = []
    before: tuple[int, str] | None = None
    odd = RunFilter(input_filters=[(("n",), "1")])
    while page := await store.list_instances(odd, tenant_id=TENANT, limit=3, before=before):
        seen += [row.head.instance_id for row in page]
        before = (page[-1].head.created_at, page[-1].head.instance_id)
        newcomer = new_run(new_head(now=now + 1_000), input_set({"n": 1}))
        await store.commit([ending(await row_of(store, seen[0])), newcomer] if len(seen) == 3 else [newcomer])
    assert sorted(seen) == sorted(head.instance_id for head in heads[1::2])
