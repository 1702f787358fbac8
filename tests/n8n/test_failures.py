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


def test_code_for_all_items_that_fails_becomes_one_item_with_the_error() -> None:
    assert result(ALL, BESIDE, [{"id": 1}, {"id": 2}]) == [{"error": "two"}]
    assert result(ALL, APART, [{"id": 1}, {"id": 2}]) == [{"error": "two", "failed": True}]
    assert result(ALL, APART, [{"id": 1}]) == [{"id": 1}]


def test_a_field_that_cannot_be_converted_becomes_an_item_with_the_error() -> None:
    fine, failed = result(FIELDS, BESIDE, [{"id": 1}, {"id": 2}])
    assert (fine, list(failed)) == ({"n": [1]}, ["error"])
