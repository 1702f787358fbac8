"""Imported nodes that are told to go on after a failure do so as n8n's do: beside the other items, or by a way of
their own.

What n8n does is told by https://docs.n8n.io/workflows/components/nodes/#node-settings.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from anabranch.testing import Answer, run_workflow
from tests.n8n.drawn import Drawn, node, set_to
from tests.n8n.drawn import test_of as conditions_of

TYPES = builtin_types()
BESIDE, APART = "continueRegularOutput", "continueErrorOutput"
REFUSED = {"message": '404 - "none"', "name": "AxiosError", "code": "ERR_BAD_REQUEST", "status": 404}


def result(failing: Any, way: str, items: list[Any]) -> Any:
    """What comes out of `failing` for these items: by its first way, or marked by its way for errors."""
    links = [("Begin", 0, failing["name"], 0), (failing["name"], 0, "All", 0)]
    marked = set_to("Marked", keeps=True, failed=True)
    nodes = [{**failing, "onError": way}, node("All", "merge", 3, mode="append")]
    if way == APART:
        nodes.append(marked)
        links += [(failing["name"], 1, "Marked", 0), ("Marked", 0, "All", 1)]
    [workflow] = read_exports(Drawn("Failing", "", nodes, [], [], links=links).export())
    made = import_workflow(workflow, TYPES)
    assert made.report.status == "exact", [(each.name, each.why) for each in made.report.nodes]
    answers = {"/1": Answer({"row": 1}), "/2": Answer("none", status=404)}
    run = asyncio.run(run_workflow(made.document, {"n8nItems": items}, http=lambda request: answers[request.path]))
    assert (run.status, run.error) == ("COMPLETED", None)
    return (run.output or {})["n8nItems"]


ASK = node("Ask", "httpRequest", 4.2, url="=https://a.example/{{ $json.id }}", options={})
EACH = node("Each", "code", 2, mode="runOnceForEachItem",
            jsCode="if ($json.id === 2) throw new Error('two'); return {json: {n: $json.id}};")  # fmt: skip
ALL = node("All of them", "code", 2, jsCode="for (const each of items) if (each.json.id === 2) throw new Error('two');"
                                            " return items;")  # fmt: skip
FIELDS = node("Fields", "set", 3.4, options={}, assignments={"assignments": [
    {"name": "n", "type": "array", "value": "={{ $json.id === 2 ? 'no list' : [$json.id] }}"}]})  # fmt: skip


@pytest.mark.parametrize(("items", "beside", "apart"), [
    ([{"id": 1}, {"id": 2}],
     [{"row": 1}, {"error": REFUSED}], [{"row": 1}, {"id": 2, "error": REFUSED, "failed": True}]),
    ([{"id": 2}], [{"error": REFUSED}], [{"id": 2, "error": REFUSED, "failed": True}]),
    ([{"id": 1}], [{"row": 1}], [{"row": 1}]),
])  # fmt: skip
def test_a_request_that_fails_becomes_an_item_with_the_error(items: Any, beside: Any, apart: Any) -> None:
    assert result(ASK, BESIDE, items) == beside
    assert result(ASK, APART, items) == apart


def test_code_that_fails_for_an_item_becomes_an_item_with_the_error() -> None:
    fine, failed = result(EACH, BESIDE, [{"id": 1}, {"id": 2}])
    assert (fine, list(failed), "two" in failed["error"]) == ({"n": 1}, ["error"], True)
    fine, failed = result(EACH, APART, [{"id": 1}, {"id": 2}])
    assert (fine, failed["id"], failed["failed"], "two" in failed["error"]) == ({"n": 1}, 2, True, True)


def test_items_that_code_leaves_out_are_neither_results_nor_failures() -> None:
    code = "if ($json.id === 2) throw Error('two'); const made = $json.id === 3 ? null : {n: $json.id}; return made;"
    some = node("Some", "code", 2, mode="runOnceForEachItem", jsCode=code)
    items = [{"id": 3}, {"id": 1}, {"id": 2}]

    fine, failed = result(some, BESIDE, items)
    assert (fine, list(failed)) == ({"n": 1}, ["error"])
    fine, failed = result(some, APART, items)
    assert (fine, failed["id"], failed["failed"]) == ({"n": 1}, 2, True)
    assert result(some, BESIDE, [{"id": 3}]) == result(some, APART, [{"id": 3}]) == []


def test_code_for_each_item_leaves_an_item_out_for_null_of_its_data() -> None:
    some = node("Some", "code", 2, mode="runOnceForEachItem", jsCode="return $json.inner")

    assert result(some, BESIDE, [{"inner": None}, {"inner": {"n": 1}}]) == [{"n": 1}]


def test_code_for_all_items_that_fails_becomes_one_item_with_the_error() -> None:
    assert result(ALL, BESIDE, [{"id": 1}, {"id": 2}]) == [{"error": "two"}]
    assert result(ALL, APART, [{"id": 1}, {"id": 2}]) == [{"error": "two", "failed": True}]
    assert result(ALL, APART, [{"id": 1}]) == [{"id": 1}]


def test_a_field_that_cannot_be_converted_becomes_an_item_with_the_error() -> None:
    fine, failed = result(FIELDS, BESIDE, [{"id": 1}, {"id": 2}])
    assert (fine, list(failed)) == ({"n": [1]}, ["error"])


CHOICE = node("Choice", "switch", 3.2, options={}, rules={"values": [
    {"conditions": conditions_of("={{ $json.id }}", "number", way, 2)} for way in ("gt", "lt")]})  # fmt: skip


@pytest.mark.parametrize(
    ("items", "first"),
    [([{"id": "x"}, {"id": 3}, {"id": 1}], ["error", "id"]), ([{"id": "x"}], ["error"]), ([{"id": 3}], ["id"]),
     ([{"id": 1}], [])],
)  # fmt: skip
def test_an_item_whose_conditions_fail_takes_the_first_way_as_an_error(items: Any, first: list[str]) -> None:
    assert [field for item in result(CHOICE, BESIDE, items) for field in item] == first


def test_one_item_whose_conditions_fail_is_replaced_by_the_error_too() -> None:
    one = node("One", "aggregate", 1, aggregate="aggregateAllItemData", options={})
    taken = node("Taken", "set", 3.4, options={}, assignments={"assignments": [
        {"name": "id", "type": "string", "value": "={{ $json.data[0].id }}"}]})  # fmt: skip
    nodes = [one, taken, {**CHOICE, "onError": BESIDE}, set_to("Last", keeps=True, way=1)]

    [workflow] = read_exports(Drawn("Failing", "", nodes, [], []).export())
    made = import_workflow(workflow, TYPES)
    run = asyncio.run(run_workflow(made.document, {"n8nItems": [{"id": "x"}]}))

    assert made.report.status == "exact"
    said = "Wrong type: 'x' is a string but was expecting a number [condition 0, item 0]"
    assert run.output == {"n8nItems": [{"error": said, "way": 1}]}


def test_conditions_of_the_first_version_that_fail_for_no_value_need_not_go_on() -> None:
    old = {"conditions": {"number": [{"value1": "={{ $json.id.no.such }}", "operation": "isNotEmpty"}]}}
    choice = {**node("Choice", "if", 1, **old), "continueOnFail": True}
    [workflow] = read_exports(Drawn("Failing", "", [choice], [], []).export())

    assert import_workflow(workflow, TYPES).report.status == "exact"


@pytest.mark.parametrize("value", [5, None, "twelve", [], {}, "2024-01-02T03:04:05.006Z"])
def test_what_is_no_text_of_a_number_fails_where_it_is_made_a_number(value: Any) -> None:
    [workflow] = read_exports(Drawn("Failing", "", [set_to("Set", n="={{ $json.v.toNumber() }}")], [], []).export())
    made = import_workflow(workflow, TYPES)
    run = asyncio.run(run_workflow(made.document, {"n8nItems": [{"v": value}]}))

    assert (made.report.status, run.status) == ("exact", "FAILED")
