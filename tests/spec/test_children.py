"""Children: an activation waits for the run that it has started, and ends as that does."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from anabranch.engine.rules.events import Status
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.rules.stimuli import ChildEnded, LogReloaded, Stimulus
from anabranch.engine.rules.transitions import LeasedState, Planned, plan_transitions
from anabranch.engine.rules.values import VALUE_BYTES_MAX, Payload
from tests.spec.drawings import drawn
from tests.spec.scenario import (
    HANDED_OVER,
    TAIL,
    Scenario,
    awaits_child,
    begun,
    cancel,
    child_ended,
    child_of,
    completed,
    failed,
)

LEASE_MS = 30_000
RETRIED = {"maxAttempts": 3, "backoff": {"kind": "fixed", "base": "1s"}}


def call(**fields: Any) -> dict[str, Any]:
    """A node that starts a workflow."""
    return {"type": "workflow", "config": {"workflow": "other"}, **fields}


CALL = drawn("start>call, call>after", call=call(outputVariable="got", retry=RETRIED))


def waiting() -> Scenario:
    """A run that waits for its child."""
    return begun(CALL).then(awaits_child("call"))


def looping(**fields: Any) -> Scenario:
    """A loop over three items, two at once, each with a child and a `work` beside it."""
    each = {"type": "loop", "config": {"source": "{{ctx.input}}", "concurrency": 2, **fields}}
    edges = "start>each, each.loop>call, each.loop>work"
    return begun(drawn(edges, each=each, call=call()), [1, 2, 3]).completed("each", output=[1, 2, 3])


# -- ids ----------------------------------------------------------------------------------------
def test_the_id_of_a_child_is_a_uuid_that_only_its_activation_has() -> None:
    activations = [("a", "n", ""), ("b", "n", ""), ("a", "m", ""), ("a", "n", "each[0]"), ("a", "n", "each[1]")]
    ids = [child_id(*activation) for activation in activations]
    assert len(set(ids)) == len(activations)
    assert ids == [child_id(*activation) for activation in activations], "the same, whoever asks"
    for text in ids:
        assert (str(uuid.UUID(text)), uuid.UUID(text).version) == (text, 8)


# -- the wait -----------------------------------------------------------------------------------
def test_a_node_that_has_started_its_child_waits_for_it() -> None:
    then = begun(CALL).when(awaits_child("call"))
    assert then.types == ["NODE_WAITING"]
    assert then.payload("NODE_WAITING", "call") == {"childID": child_of("call")}
    assert (then.awaited, then.wakes) == (["call"], {})


def test_a_run_that_waits_for_a_child_only_is_waiting_and_owes_nothing_but_that() -> None:
    run = waiting()
    assert (run.status, run.owed, run.due) == (Status.WAITING, set(), {})


def test_whoever_takes_the_run_over_waits_on() -> None:
    run = waiting().crashed().then(HANDED_OVER)
    assert run.when(child_ended("call", Status.COMPLETED, 7)).completions == ["call"]


def test_a_good_end_completes_the_node_with_the_childs_output() -> None:
    run = waiting()
    then = run.when(child_ended("call", Status.COMPLETED, {"n": 1}))
    assert (then.completions, then.dispatches) == (["call"], ["after"])
    assert run.sees("after")["got"] == {"n": 1}


@pytest.mark.parametrize(
    ("status", "outcome", "code", "words"),
    [
        (Status.FAILED, {"code": "HTTP_STATUS", "message": "404"}, "CHILD_FAILED", "failed with HTTP_STATUS: 404"),
        (Status.CANCELLED, "not needed", "CHILD_CANCELLED", "was cancelled: not needed"),
        (Status.COMPLETED, "x" * VALUE_BYTES_MAX, "VALUE_TOO_LARGE", f"{VALUE_BYTES_MAX + 2} bytes"),
    ],
)
def test_any_other_end_fails_the_node_without_another_attempt(
    status: Status, outcome: Any, code: str, words: str
) -> None:
    # Trusted: several End nodes may make an output that no single value may be.
    then = waiting().when(ChildEnded(child_of("call"), status, Payload.trusted(outcome)))
    error = then.payload("NODE_FAILED", "call")["error"]
    assert then.failures == ["call"] and then.ending == "INSTANCE_FAILED"
    assert (error["code"], words in error["message"], error["attempt"]) == (code, True, 1)
    assert then.cancels == [], "what has ended needs no end"


def test_a_failed_child_may_be_handled() -> None:
    run = begun(drawn("start>call, call.error>mend", call=call())).then(awaits_child("call"))
    then = run.when(child_ended("call", Status.CANCELLED, "no"))
    assert then.dispatches == ["mend"]


# -- what makes no sense -------------------------------------------------------------------------
def test_an_end_that_comes_twice_changes_nothing() -> None:
    run = waiting().then(child_ended("call", Status.COMPLETED, 1))
    assert run.when(child_ended("call", Status.COMPLETED, 1)).nothing


def test_an_end_that_comes_before_the_wait_changes_nothing() -> None:
    run = begun(CALL)
    assert run.when(child_ended("call", Status.COMPLETED, 1)).nothing
    assert run.when(awaits_child("call")).awaited == ["call"], "it is asked for again then"


def test_the_end_of_somebody_elses_child_changes_nothing() -> None:
    assert waiting().when(child_ended("after", Status.COMPLETED, 1)).nothing


def test_the_end_of_a_child_after_the_end_of_the_run_changes_nothing() -> None:
    run = waiting().then(cancel())
    assert run.when(child_ended("call", Status.COMPLETED, 1)).nothing


# -- nobody waits any more -------------------------------------------------------------------------
@pytest.mark.parametrize("started", [True, False])
def test_a_run_that_ends_badly_ends_its_children_also_those_that_are_just_being_started(started: bool) -> None:
    run = waiting() if started else begun(CALL)
    assert run.when(cancel()).cancels == [child_of("call")]


def test_a_run_that_is_done_has_no_children_to_end() -> None:
    run = begun(drawn("start>call", call=call())).then(awaits_child("call"))
    then = run.when(child_ended("call", Status.COMPLETED))
    assert (then.ending, then.cancels) == ("INSTANCE_COMPLETED", [])


def test_terminating_a_run_ends_its_children() -> None:
    stop = {"type": "end", "config": {"terminate": True}}
    run = begun(drawn("start>call, start>stop", call=call(), stop=stop)).then(awaits_child("call"))
    then = run.when(completed("stop", {}))
    assert (then.ending, then.cancels) == ("INSTANCE_COMPLETED", [child_of("call")])


def test_an_iteration_that_fails_ends_the_children_in_it_and_no_others() -> None:
    run = looping(onItemError="skip").then(awaits_child("each[0]/call"), awaits_child("each[1]/call"))
    then = run.when(failed("each[0]/work"))
    assert then.skips == ["each[0]/call"]
    assert then.cancels == [child_of("each[0]/call")]


def test_a_loop_that_fails_ends_the_children_of_all_its_iterations() -> None:
    run = looping().then(awaits_child("each[0]/call"))
    then = run.when(failed("each[1]/work"))
    assert set(then.cancels) == {child_of("each[0]/call"), child_of("each[1]/call")}


def test_a_start_that_fails_for_good_ends_what_it_may_have_started_all_the_same() -> None:
    then = begun(CALL).when(failed("call", code="NODE_TIMEOUT"))
    assert then.cancels == [child_of("call")]


def test_a_start_that_is_tried_again_leaves_alone_what_it_may_have_started() -> None:
    then = begun(CALL).when(failed("call", retryable=True))
    assert (then.types, then.cancels) == (["NODE_ATTEMPT_FAILED"], [])


# -- transitions -----------------------------------------------------------------------------------------
def plan(run: Scenario, leased: LeasedState, stimuli: Sequence[Stimulus]) -> Planned:
    """One instance's batch."""
    return plan_transitions([(leased, stimuli)], now=run.now, lease_ms=LEASE_MS)


def held(run: Scenario) -> LeasedState:
    """The instance of a scenario, held by a worker."""
    return LeasedState(run.state, 3, "me", run.now + LEASE_MS)


def test_a_run_is_not_parked_before_it_is_known_whether_its_child_has_ended() -> None:
    run = begun(CALL)
    leased = held(run)
    (transition,) = plan(run, leased, [awaits_child("call")]).transitions
    assert (transition.release, leased.unchecked) == (False, {child_of("call")})
    leased.unchecked.clear()
    (transition,) = plan(run, leased, [LogReloaded()]).transitions
    assert (transition.release, [*transition.events], transition.available_at) == (True, [], None), (
        "the child's end will wake it"
    )


def test_whoever_takes_a_run_over_does_not_know_of_its_children_yet() -> None:
    run = waiting().crashed()
    leased = held(run)
    assert leased.unchecked == {child_of("call")}
    assert plan(run, leased, [HANDED_OVER]).transitions == []


def test_a_turn_says_whom_it_wakes_and_what_it_ends() -> None:
    run = waiting()
    run.state.head = replace(run.state.head, parent_id="parent", parent_waits=True)
    (transition,) = plan(run, held(run), [cancel()]).transitions
    assert (transition.wakes, transition.cancels) == ("parent", [child_of("call")])
    run = waiting()
    run.state.head = replace(run.state.head, parent_id="parent", parent_waits=False)
    (transition,) = plan(run, held(run), [cancel()]).transitions
    assert transition.wakes is None, "nobody waits for it"


def test_looking_without_news_changes_nothing() -> None:
    assert waiting().when(TAIL).nothing
