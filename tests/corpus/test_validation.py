"""What the validator says of workflows that people drew."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.validate import validate
from anabranch.handlers.registry import builtin_types

GRAPHS = [json.loads(line) for line in (Path(__file__).parent / "real_graphs.jsonl").read_text().splitlines()]
TYPES = builtin_types()


def of_category(*categories: str) -> Any:
    return pytest.mark.parametrize(
        "graph",
        [pytest.param(graph, id=graph["id"]) for graph in GRAPHS if graph["category"] in categories],
    )


def test_the_collection_is_complete():
    assert Counter(graph["category"] for graph in GRAPHS) == {"dag": 270, "loop": 44, "goto": 48, "exit": 5}


@of_category("dag", "loop")
def test_what_can_run_is_accepted_and_compiled(graph: dict[str, Any]):
    report = validate(graph["workflow"], TYPES)
    assert report.errors == ()
    assert report.terminates
    plan = compile_plan(graph["workflow"], TYPES)
    unreachable = {problem.node_id for problem in report.warnings if problem.code == "UNREACHABLE_NODE"}
    assert plan.nodes.keys() == {node["id"] for node in graph["workflow"]["nodes"]} - unreachable


@of_category("dag", "loop")
def test_activations_of_every_case_stay_within_the_bound(graph: dict[str, Any]):
    bound = validate(graph["workflow"], TYPES).activations_max
    assert bound is not None
    for case in graph["cases"]:
        assert len(case["expect"]["completed"]) + len(case["expect"]["skipped"]) <= bound


@of_category("goto")
def test_a_way_back_without_a_loop_node_is_legal(graph: dict[str, Any]):
    report = validate(graph["workflow"], TYPES)
    assert report.valid
    assert report.terminates
    assert {problem.code for problem in report.warnings} <= {"LOOP_SPINS", "LOOP_NEVER_LEFT", "EXIT_RUNS_ONCE"}


@of_category("exit")
def test_a_way_out_of_a_loop_is_called_a_crossed_border_and_no_cycle(graph: dict[str, Any]):
    assert {problem.code for problem in validate(graph["workflow"], TYPES).errors} == {"LOOP_BORDER"}


# The loops of these are entered elsewhere than at their cursor as well: by these edges, at these nodes.
ENTERED_TWICE = {
    "5ea6cd9f3cdc3d11": "'n3' → 'n8'",
    "23dd53aeddf65a98": "'n1' → 'n2'",
    "3f2b2d2aa9f784d5": "'n12' → 'n6'",
}


@of_category("exit")
def test_a_loop_that_is_left_is_legal_with_a_cursor(graph: dict[str, Any]):
    nodes = [{**node, "type": "cursor"} if node["type"] == "loop" else node for node in graph["workflow"]["nodes"]]
    report = validate({**graph["workflow"], "nodes": nodes}, TYPES)
    assert report.valid
    assert report.terminates
    entry = ENTERED_TWICE.get(graph["id"])
    expected = (
        []
        if entry is None
        else [("ENTERED_BEFORE_CURSOR", f"edge {entry} leads into a loop elsewhere than at its cursor")]
    )
    assert [(problem.code, problem.message) for problem in report.warnings] == expected
