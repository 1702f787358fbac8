"""Nodes of n8n for lists of items: the order of fields, and what fails there."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from anabranch.n8n.javascript import prelude
from anabranch.testing import WorkflowRun, run_workflow
from tests.n8n.drawn import Drawn, node
from tests.n8n.drawn_lists import DRAWN_CLASH, DRAWN_DATES, DRAWN_LIMITS, DRAWN_LISTS, DRAWN_ODD, DRAWN_SETS, FAILING

TYPES = builtin_types()


def run_of(drawn: Drawn) -> WorkflowRun:
    """A run of a workflow whose import is exact."""
    [workflow] = read_exports(drawn.export())
    made = import_workflow(workflow, TYPES)
    assert made.report.status == "exact", [(node.name, node.why) for node in made.report.nodes]
    return asyncio.run(run_workflow(made.document, {"n8nItems": list(drawn.items)}))


@pytest.mark.parametrize(
    "drawn",
    [*DRAWN_LISTS, *DRAWN_SETS, *DRAWN_LIMITS, *DRAWN_ODD, *DRAWN_DATES, DRAWN_CLASH],
    ids=lambda drawn: drawn.name,
)
def test_fields_have_the_order_of_n8n(drawn: Drawn) -> None:
    run = run_of(drawn)

    assert json.dumps((run.output or {})["n8nItems"]) == json.dumps(drawn.gives)


def test_a_sort_moves_no_whole_list_for_each_of_its_items() -> None:
    code = (
        f"{prelude('order')}\nlet moved = 0;\nconst splice = Array.prototype.splice;\n"
        "Array.prototype.splice = function (...given) { moved += this.length; return splice.apply(this, given); };\n"
        "const list = Array.from({length: 2000}, (_, n) => n < 100 ? 5000 - n : n * 7919 % 2000);\n"
        "const made = $order.ordered(list, (one, other) => one - other);\n"
        "Array.prototype.splice = splice;\n"
        "return [moved < 2000, made.every((each, at) => at === 0 || made[at - 1] <= each), made.length];"
    )
    [workflow] = read_exports(Drawn("sort", "", [node("N", "code", 2, jsCode="return []")], [], []).export())
    document = import_workflow(workflow, TYPES).document
    [sorts] = [each for each in document["nodes"] if each["type"] == "javascript"]
    sorts["config"]["code"] = f"const told = (() => {{ {code} }})();\nreturn [{{told}}];"

    run = asyncio.run(run_workflow(document, {"n8nItems": [{}]}))

    assert (run.output or {})["n8nItems"] == [{"told": [True, True, 2000]}], run.error


def test_values_that_an_export_leaves_out_are_those_that_the_editor_begins_with() -> None:
    kinds = ("stringValue", "numberValue", "booleanValue", "objectValue")
    fields = [{"name": kind, "type": kind} for kind in kinds]
    left_out = node("N", "set", 3.2, fields={"values": fields}, include="none", options={})

    run = run_of(Drawn("left out", "", [left_out], [{}], []))

    assert (run.output or {})["n8nItems"] == [dict(zip(kinds, ("", 0, True, {}), strict=True))]


@pytest.mark.parametrize(
    ("written", "gives"),
    [('={ "{{ $json["k"] }}": 5 }', {"p": {"q": 5}}), ('={ "{{ $json.k }}": 5, "a": "b" }', {"p": {"q": 5}, "a": "b"})],
)
def test_dots_in_a_computed_name_of_json_mean_fields_within_fields(written: str, gives: Any) -> None:
    named = node("N", "set", 3.4, mode="raw", jsonOutput=written, options={})

    run = run_of(Drawn("named", "", [named], [{"k": "p.q"}], []))

    assert (run.output or {})["n8nItems"] == [gives]


def test_an_object_in_an_expression_is_json_also_with_a_line_break_behind_it() -> None:
    merged = node("N", "set", 3.4, mode="raw", jsonOutput="={{ {...$json, a: 1} }}\n", options={})

    run = run_of(Drawn("merged", "", [merged], [{"k": "p.q"}], []))

    assert (run.output or {})["n8nItems"] == [{"k": "p.q", "a": 1}]


def test_an_assignment_without_a_value_is_not_exact() -> None:
    bare = node("N", "set", 3.4, assignments={"assignments": [{"name": "a", "type": "number"}]}, options={})
    [workflow] = read_exports(Drawn("bare", "", [bare], [{}], []).export())

    made = import_workflow(workflow, TYPES)

    assert "no value" in made.report.nodes[-1].why


@pytest.mark.parametrize(("name", "nodes", "items"), FAILING, ids=[name for name, _, _ in FAILING])
def test_what_fails_in_n8n_fails(name: str, nodes: Any, items: Any) -> None:
    run = run_of(Drawn(name, "", nodes, items, []))

    assert run.status == "FAILED"


@pytest.mark.parametrize(
    ("zone", "parameters", "why"),
    [
        ("Europe/Berlin", {"operation": "formatDate", "date": "={{ $json.d }}"}, "time zone of the workflow"),
        ("UTC", {"operation": "getTimeBetweenDates", "units": ["month"]}, "a whole number of units"),
        ("UTC", {"operation": "addToDate", "magnitude": "={{ $json.d }}", "duration": 1.5}, "only whole numbers"),
    ],
)
def test_dates_that_are_not_those_of_n8n_are_named(zone: str, parameters: dict[str, Any], why: str) -> None:
    drawn = Drawn("dates", "", [node("N", "dateTime", 2, **parameters, options={})], [], [])
    [workflow] = read_exports(drawn.export() | {"settings": {"timezone": zone}})

    made = import_workflow(workflow, TYPES)

    assert made.report.status == "equal"
    assert any(why in each.why for each in made.report.nodes)
