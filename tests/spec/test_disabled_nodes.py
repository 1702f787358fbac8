"""Disabled nodes complete at once, unexecuted, with null, by the handle of an ignored failure; pinned ones do alike."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.validate import Report, validate
from anabranch.engine.rules.test_runs import Pin, TestRunPlan
from tests.spec.drawings import TYPES, condition, drawn
from tests.spec.scenario import Happened, Scenario, begun, completed, given

OFF = {"disabled": True}
LOOP = {"type": "loop", "config": {"source": "{{ctx.input}}"}}
WAIT = {"type": "waitForEvent", "config": {"event": "go"}}


def report(document: dict[str, Any]) -> Report:
    return validate(document, TYPES)


def executed(happened: Happened) -> list[str]:
    """The nodes that somebody is told to execute."""
    return [command.node_id for command in happened.decision.commands if isinstance(command, Dispatch)]


def trial(document: dict[str, Any], input_: Any = None, **differs: Any) -> Scenario:
    """A test run, begun."""
    run = given(compile_plan(document, TYPES, TestRunPlan(**differs), evaluates=False), input_)
    run.completed("start")
    return run


def test_a_disabled_node_completes_with_null_in_the_decision_that_reaches_it():
    run = begun(drawn("start>a, a>b, b>c", b={**OFF, "outputVariable": "x"}))
    happened = run.when(completed("a", 1))
    assert [(event.type, event.node_id) for event in happened.decision.events] == [
        (EventType.NODE_COMPLETED, "a"),
        (EventType.NODE_DISPATCHED, "b"),
        (EventType.NODE_COMPLETED, "b"),
        (EventType.NODE_DISPATCHED, "c"),
    ]
    assert executed(happened) == ["c"]
    assert happened.event("NODE_COMPLETED", "b").next_handle == "default"
    assert run.row("NODE_DISPATCHED", "b") == {"disabled": True}
    assert run.sees("c")["x"] is None


def test_a_chain_of_disabled_nodes_is_walked_in_one_decision():
    run = begun(drawn("start>a, a>b, b>c", a=OFF, b=OFF, c=OFF))
    assert (run.status, run.outcome) == (Status.COMPLETED, None)


@pytest.mark.parametrize(
    ("node", "edges", "reached"),
    [
        (condition("yes"), "start>off, off.yes>a, off.else>b", "b"),
        (LOOP, "start>off, off.loop>a, a>off, off.done>b", "b"),
        (WAIT, "start>off, off.timeout>a, off>b", "b"),
        ({"type": "set", "config": {"values": {"v": "{{ctx.nowhere}}"}}}, "start>off, off.error>a, off>b", "b"),
    ],
)
def test_it_leaves_by_the_handle_of_an_ignored_failure(node: dict[str, Any], edges: str, reached: str):
    run = begun(drawn(edges, off={**node, **OFF}), [1, 2])
    assert run.owed == {reached}
    assert "LOOP_OPENED" not in {str(event.type) for event in run.log}


def test_a_disabled_end_collects_nothing_and_ends_nothing():
    end = {"type": "end", "config": {"outputParameters": {"a": 1}, "terminate": True, "name": "x"}, **OFF}
    other = {"type": "end", "config": {"outputParameters": {"b": 2}}}
    run = begun(drawn("start>off, start>a, a>end", off=end, end=other)).completed("a")
    assert run.status is Status.RUNNING
    run.completed("end", output={"b": 2})
    assert run.outcome == {"b": 2}


def test_in_a_body_it_is_passed_in_every_iteration():
    run = begun(drawn("start>each, each.loop>off, off>each, each.done>after", each=LOOP, off=OFF), [1, 2, 3])
    run.completed("each", output=[1, 2, 3])
    assert run.owed == {"after"}
    assert run.row("NODE_COMPLETED", "each") == [None, None, None]


def test_a_join_after_it_waits_for_its_other_edges():
    run = begun(drawn("start>off, start>a, off>join, a>join", off=OFF))
    assert run.owed == {"a"}
    assert run.when(completed("a")).dispatches == ["join"]


def test_the_state_after_a_crash_is_the_one_before():
    run = begun(drawn("start>each, each.loop>off, off>work, work>each", each=LOOP, off=OFF), [1, 2])
    run.completed("each", output=[1, 2]).crashed().check()
    assert run.owed == {"each[0]/work"}


def test_start_cannot_be_disabled_and_nothing_but_a_boolean_says_so():
    errors = report(drawn("start>a", start={"type": "start", **OFF}, a={"disabled": "yes"})).errors
    assert [(error.code, error.pointer) for error in errors] == [
        ("START_DISABLED", "/nodes/0/disabled"),
        ("WRONG_TYPE", "/nodes/1/disabled"),
    ]
    run = given(drawn("start>a", start={"type": "start", **OFF}, a={"disabled": "yes"}))
    assert run.completed("start").owed == {"a"}, "what was saved before is executed"


def test_it_is_known_and_counted_as_what_it_does():
    checked = report(drawn("start>off, off>each, each.loop>a, a>each", off={**WAIT, **OFF}, each={**LOOP, **OFF}))
    assert (checked.terminates, checked.unbounded, checked.activations_max) == (True, (), 3)
    assert [(warning.code, warning.pointer) for warning in checked.warnings] == [
        ("EDGE_NEVER_LIVE", "/edges/2"),
        ("EDGE_NEVER_LIVE", "/edges/3"),
    ]
    reads = {"type": "set", "config": {"values": {"v": "{{ctx.nowhere}}"}}}
    assert report(drawn("start>a", a={**reads, **OFF})).warnings == ()


# -- test runs ----------------------------------------------------------------------------
def test_a_pinned_node_completes_with_what_it_is_pinned_to():
    pins = {"a": Pin({"x": 1}), "if": Pin({"branch": "yes"}, "yes")}
    run = trial(
        drawn("start>a, a>if, if.yes>b, if.else>c", a={"outputVariable": "a"}, **{"if": condition("yes")}), pins=pins
    )
    assert run.owed == {"b"}
    assert run.sees("b")["a"] == {"x": 1}
    assert run.row("NODE_DISPATCHED", "a") == {"pinned": True}
    assert run.rows("NODE_SKIPPED") == ["c"]


def test_a_pin_in_a_body_holds_for_every_iteration_and_a_pinned_loop_is_not_entered():
    drawing = drawn("start>each, each.loop>a, a>b, b>each, each.done>after", each=LOOP)
    run = trial(drawing, [1, 2], pins={"a": Pin("p")}).completed("each", output=[1, 2])
    assert run.owed == {"each[0]/b"}
    run.completed("each[0]/b")
    assert run.owed == {"each[1]/b"}
    run = trial(drawing, [1, 2], pins={"each": Pin(["x"])})
    assert run.owed == {"after"}


def test_a_run_up_to_a_node_knows_those_before_it_alone():
    run = trial(drawn("start>a, a>b, b>c, start>other"), until="b")
    assert run.owed == {"a"}
    run.completed("a", "b")
    assert (run.status, run.outcome) == (Status.COMPLETED, None)
    assert {event.node_id for event in run.log} == {"", "start", "a", "b"}


def test_a_run_up_to_a_node_of_a_body_goes_there_in_every_iteration():
    drawing = drawn("start>each, each.loop>a, a>b, b>c, c>each, each.done>after", each=LOOP)
    run = trial(drawing, [1, 2], until="b").completed("each", output=[1, 2])
    for index in range(2):
        run.completed(f"each[{index}]/a").completed(f"each[{index}]/b", output=index)
    assert run.status is Status.COMPLETED
    assert run.row("NODE_COMPLETED", "each") == [0, 1]


def test_a_failure_that_is_handled_behind_the_last_node_stays_handled():
    run = trial(drawn("start>a, a>b, a.error>c, c>d, start>b"), until="b")
    assert run.plan.nodes["a"].has_error_edge
    assert "c" not in run.plan.nodes


def test_one_node_alone_is_run_with_what_is_pinned_before_it():
    run = trial(drawn("start>a, a>b, b>c"), pins={"a": Pin(1)}, until="b")
    assert run.owed == {"b"}
    assert run.completed("b").status is Status.COMPLETED
