"""What the oracle claims, and where it must refuse to claim: a judge that guesses is worse than none."""

from __future__ import annotations

from typing import Any

from tests.oracle.expressions import UNKNOWN
from tests.oracle.graphs import random_case
from tests.oracle.oracle import predict
from tests.oracle.prediction import Ending, Observed, Prediction, disagreements


def test_two_failures_in_a_race_leave_both_endings_open() -> None:
    prediction = judge(
        [node("a", "flaky"), node("b", "flaky")], ["start a", "start b"], {name: always() for name in ("a", "b")}
    )
    assert prediction.statuses == {"FAILED"}
    assert prediction.may == {("a", ""): {"failed", "absent"}, ("b", ""): {"failed", "absent"}}


def test_what_runs_beside_a_failure_may_or_may_not_end() -> None:
    prediction = judge(
        [node("a", "flaky"), node("b", "flaky"), node("after", "flaky")],
        ["start a", "start b", "a after"],
        {"a": always()},
    )
    assert prediction.must[("a", "")].outcome == "failed"
    assert prediction.may[("b", "")] == {"completed", "absent"}
    assert ("after", "") not in {*prediction.must, *prediction.may}


def test_a_variable_written_by_a_racing_branch_is_unknown() -> None:
    prediction = judge(
        [
            node("a", "flaky", outputVariable="x"),
            node("b", "flaky", outputVariable="x"),
            node("late", "set", {"values": {"x": "{{ctx.x | default(0)}}"}}),
        ],
        ["start a", "start b", "a late", "b late"],
    )
    assert prediction.must[("late", "")] == Ending("completed", 1, {"x": UNKNOWN})


def test_a_node_does_not_see_what_a_sibling_dispatched_with_it_writes() -> None:
    reads = {"values": {"x": "{{ctx.x | default(0)}}"}}
    prediction = judge([node("a", "flaky", outputVariable="x"), node("b", "set", reads)], ["start a", "start b"])
    assert prediction.must[("b", "")] == Ending("completed", 1, {"x": 0})


def test_a_variable_of_the_only_branch_is_known() -> None:
    prediction = judge(
        [
            node("a", "flaky", outputVariable="x"),
            node("late", "end", {"outputParameters": {"x": "{{ctx.x | default(0)}}"}}),
        ],
        ["start a", "a late"],
    )
    assert prediction.output == {"x": {"ok": "a"}}


def test_a_terminate_in_a_race_promises_its_own_output() -> None:
    prediction = judge(
        [
            node("stop", "end", {"outputParameters": {"a": 1}, "terminate": True}),
            node("other", "end", {"outputParameters": {"b": 2}}),
        ],
        ["start stop", "start other"],
    )
    assert prediction.statuses == {"COMPLETED"}
    assert prediction.output == {"a": 1}
    assert prediction.may == {("other", ""): {"completed", "skipped", "absent"}}


def test_a_failed_iteration_skips_what_was_undecided_and_stays_in_place_when_collected() -> None:
    loop = node("each", "loop", {"source": "{{ctx.input.list}}", "onItemError": "collect"})
    prediction = judge(
        [loop, node("a", "flaky"), node("b", "flaky")],
        ["start each", "each:loop a", "a b"],
        {"a": {"where": "[1]", "fails": 3}},
        {"list": [0, 1, 2]},
    )
    assert prediction.statuses == {"COMPLETED"}
    assert prediction.must[("a", "each[1]")] == Ending("failed", 3, {"error": {"code": "HANDLER_ERROR", "attempt": 3}})
    assert prediction.must[("b", "each[1]")] == Ending("skipped")
    assert prediction.must[("each", "")].value == [
        {"ok": "b"},
        {"error": {"code": "HANDLER_ERROR", "attempt": 3}},
        {"ok": "b"},
    ]


def test_a_disagreement_names_the_place() -> None:
    prediction = judge([node("a", "flaky")], ["start a"])
    observed = Observed("COMPLETED", endings={("start", ""): prediction.must[("start", "")]})
    assert list(disagreements(prediction, observed)) == ["a: expected completed, got absent"]


def test_random_cases_are_the_same_for_the_same_seed() -> None:
    assert random_case(11) == random_case(11) != random_case(12)


def node(name: str, kind: str, config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": kind, "config": config or {}, **more}


def always() -> dict[str, Any]:
    return {"where": "", "fails": 3}


def judge(nodes: list[Any], edges: list[str], script: dict[str, Any] | None = None, given: Any = None) -> Prediction:
    """Edges are written `source target` or `source:handle target`."""
    drawn = []
    for text in edges:
        source, target = text.split()
        name, _, handle = source.partition(":")
        drawn.append({"upstreamNodeID": name, "downstreamNodeID": target, "sourceHandle": handle or None})
    document = {"title": "t", "nodes": [{"id": "start", "type": "start"}, *nodes], "edges": drawn}
    return predict(document, given, script or {})
