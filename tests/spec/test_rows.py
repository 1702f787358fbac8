"""What stands in the columns of each row."""

from __future__ import annotations

import pytest

from anabranch.engine.rules.decide import decide
from anabranch.engine.rules.drawn.drawn_state import InstanceState
from anabranch.engine.rules.event_payloads import read_definition
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.evolve import evolve
from anabranch.engine.rules.stimuli import Started
from anabranch.engine.rules.values import Payload
from tests.spec.drawings import condition, drawn, loop
from tests.spec.scenario import HANDED_OVER, LAPSED, TIMERS, Scenario, begun, cancel, completed, failed, given, signal

DOCUMENT = drawn(
    "start>check, check.yes>each, each.loop>work, each.done>b, check.else>c",
    check=condition("yes"),
    each={**loop(), "outputVariable": "list"},
)


def whole_run() -> Scenario:
    """A run with a row of nearly every type."""
    run = begun(DOCUMENT, {"n": 1}).then(completed("check", {"branch": "yes"}, handle="yes"))
    run.then(completed("each", ["x"]), failed("each[0]/work", "busy", retryable=True))
    run.later(1_000)
    run.crashed().then(LAPSED, signal("news"), completed("each[0]/work#2", "done"))
    return run.then(failed("b", "broken"))


def row(run: Scenario, event_type: str, node: str = "") -> Event:
    """The first row of a type about a node."""
    return next(event for event in run.log if event.type == event_type and event.node_id == node)


def test_the_first_row_is_the_input():
    first = whole_run().log[0]
    assert (first.seq, first.type, first.payload.value) == (1, "INPUT_SET", {"input": {"n": 1}})


def test_rows_about_no_node_have_empty_places_and_no_attempt():
    for event in whole_run().log:
        if event.type.startswith("INSTANCE") or event.type in ("INPUT_SET", "SIGNAL_RECEIVED"):
            assert (event.node_id, event.scope, event.attempt) == ("", "", 0)


def test_a_dispatch_says_which_attempt_it_is_and_nothing_else():
    run = whole_run()
    assert [event.attempt for event in run.log if event.type == "NODE_DISPATCHED" and event.node_id == "work"] == [1, 2]
    assert row(run, "NODE_DISPATCHED", "work").payload.value == {}


def test_an_ending_says_handle_variable_scope_and_attempt():
    run = whole_run()
    ended = row(run, "NODE_COMPLETED", "each")
    assert (ended.next_handle, ended.output_variable, ended.payload.value) == ("done", "list", ["done"])
    ended = row(run, "NODE_COMPLETED", "work")
    assert (ended.scope, ended.attempt, ended.next_handle) == ("each[0]", 2, "default")
    assert row(run, "NODE_COMPLETED", "check").next_handle == "yes"


def test_a_skip_of_what_was_never_tried_has_no_attempt():
    skipped = row(whole_run(), "NODE_SKIPPED", "c")
    assert (skipped.attempt, skipped.payload.value, skipped.next_handle) == (0, {}, None)


def test_a_failure_says_its_message_beside_the_error():
    run = whole_run()
    assert row(run, "NODE_ATTEMPT_FAILED", "work").error_message == "busy"
    assert row(run, "NODE_FAILED", "b").error_message == "broken"
    assert row(run, "INSTANCE_FAILED").error_message == "broken"


@pytest.mark.parametrize(
    ("event_type", "node_status"),
    [
        ("NODE_COMPLETED", "success"),
        ("NODE_FAILED", "error"),
        ("NODE_ATTEMPT_FAILED", "error"),
        ("NODE_SKIPPED", None),
        ("NODE_DISPATCHED", None),
        ("INPUT_SET", None),
    ],
)
def test_the_short_answer_to_how_it_went(event_type, node_status):
    assert {event.node_status for event in whole_run().log if event.type == event_type} == {node_status}


def test_rows_are_stamped_with_the_time_of_their_decision():
    run = whole_run()
    assert row(run, "NODE_ATTEMPT_FAILED", "work").created_at == run.head.created_at
    assert run.log[-1].created_at == run.head.created_at + 1_000


def test_a_note_of_the_system_is_no_part_of_the_context():
    run = begun(drawn("start>a, a>b"))
    note = Event(run.state.last_seq + 1, EventType.SYSTEM_SET, "", "", 0, Payload.of({"note": "hello"}), run.now)
    evolve(run.state, note)
    run.log.append(note)
    run.completed("a")
    assert run.sees("b") == {"input": None}


def test_a_log_with_a_missing_row_is_not_folded():
    run = whole_run()
    del run.log[3]
    with pytest.raises(AssertionError, match="rows are missing or doubled"):
        run.crashed()


def test_a_run_is_pending_running_waiting_and_then_ended():
    run = given(drawn("start>a, a>b"), available_in_ms=10)
    seen = [run.status]
    run.later(10)
    seen.append(run.status)
    run.completed("start").then(completed("a", delay_ms=50))
    seen.append(run.status)
    run.later(50)
    seen.append(run.status)
    seen.append(run.completed("b").status)
    assert seen == ["PENDING", "RUNNING", "WAITING", "RUNNING", "COMPLETED"]
    assert run.then(TIMERS, HANDED_OVER, cancel()).status == "COMPLETED"


def test_a_test_run_begins_with_its_definition_beside_its_input():
    definition = Payload.of({"nodes": []})
    run = begun(drawn("start>a"))
    uncreated = InstanceState(run.state.plan, run.head)
    events = decide(uncreated, Started(Payload.of(1), definition=definition), run.now).events
    assert [event.type for event in events[:2]] == [EventType.INPUT_SET, EventType.SYSTEM_SET]
    assert events[1].payload == Payload.of({"__workflowDefinition": {"nodes": []}})
    assert read_definition(events) == {"nodes": []}
    assert read_definition(events[2:]) is None
