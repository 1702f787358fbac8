"""Ends that come from outside: deadlines and cancels, and beginnings that are due later."""

from __future__ import annotations

from tests.spec.drawings import drawn, loop
from tests.spec.scenario import (
    HANDED_OVER,
    LAPSED,
    TIMERS,
    asks_for,
    begun,
    cancel,
    completed,
    failed,
    given,
    signal,
)

HOUR = 3_600_000
RESCUED = drawn("start>a, a.error>rescue", a={"errorHandling": "ignore"})


# -- beginning ----------------------------------------------------------------------------
def test_an_instance_begins_when_it_is_created():
    run = given(drawn("start>a"))
    assert run.owed == {"start"}
    assert run.status == "RUNNING"


def test_an_instance_that_may_begin_later_is_pending_until_then():
    run = given(drawn("start>a"), available_in_ms=HOUR)
    assert run.status == "PENDING"
    assert run.due == {"": HOUR}
    assert run.later(HOUR - 1).nothing
    assert run.later(1).dispatches == ["start"]


def test_the_commit_of_a_beginning_must_find_its_time_come():
    run = given(drawn("start>a"), available_in_ms=HOUR)
    assert run.later(2 * HOUR).decision.not_before == run.head.available_at


def test_an_instance_without_room_stays_pending_for_any_worker():
    run = given(drawn("start>a"), begin=False)
    assert run.status == "PENDING"
    assert run.crashed().when(HANDED_OVER).dispatches == ["start"]


def test_a_begun_instance_does_not_begin_again():
    run = given(drawn("start>a"))
    assert run.when(TIMERS).nothing
    assert run.crashed().when(HANDED_OVER).nothing


def test_a_signal_before_the_beginning_is_kept():
    run = given(drawn("start>wait"), available_in_ms=HOUR).then(signal("go", "early"))
    assert run.status == "PENDING"
    run.later(HOUR)
    assert run.completed("start").when(asks_for("wait", "go")).payload("NODE_COMPLETED") == "early"


def test_a_pending_instance_can_be_cancelled():
    run = given(drawn("start>a"), available_in_ms=HOUR)
    assert run.when(cancel()).types == ["INSTANCE_CANCELLED"]
    assert run.later(HOUR).nothing


# -- deadlines ----------------------------------------------------------------------------
def test_at_its_deadline_the_instance_fails_and_nothing_else_happens():
    run = begun(drawn("start>a, start>b"), deadline_in_ms=HOUR)
    happened = run.later(HOUR)
    assert happened.types == ["INSTANCE_FAILED"]
    assert happened.payload("INSTANCE_FAILED")["code"] == "DEADLINE_EXCEEDED"
    assert set(happened.stops) == {"a", "b"}


def test_a_deadline_is_never_early():
    run = begun(drawn("start>a"), deadline_in_ms=HOUR)
    assert run.later(HOUR - 1).nothing


def test_the_commit_of_a_deadline_must_find_it_passed():
    run = begun(drawn("start>a"), deadline_in_ms=HOUR)
    assert run.later(2 * HOUR).decision.not_before == run.head.deadline_at


def test_a_deadline_fails_the_instance_whatever_its_error_handling():
    assert begun(RESCUED, deadline_in_ms=HOUR).later(HOUR).types == ["INSTANCE_FAILED"]


def test_a_result_after_the_deadline_is_too_late():
    run = begun(drawn("start>a"), deadline_in_ms=HOUR)
    run.now += HOUR
    assert run.when(completed("a")).types == ["INSTANCE_FAILED"]


def test_a_result_before_the_deadline_counts():
    run = begun(drawn("start>a"), deadline_in_ms=HOUR)
    run.now += HOUR - 1
    assert run.when(completed("a")).ending == "INSTANCE_COMPLETED"
    assert run.later(1).nothing


def test_the_deadline_is_one_of_the_things_an_instance_is_woken_for():
    run = begun(drawn("start>a"), deadline_in_ms=HOUR)
    assert run.due == {"": HOUR}
    assert given(drawn("start>a"), deadline_in_ms=HOUR).state.next_due() == run.head.deadline_at


def test_work_due_after_the_deadline_waits_until_the_deadline():
    run = begun(drawn("start>a"), deadline_in_ms=HOUR).then(completed("a", delay_ms=10 * HOUR))
    assert run.state.next_due() == run.head.deadline_at
    assert run.later(HOUR).types == ["INSTANCE_FAILED"]


def test_a_timer_due_before_the_deadline_but_offered_after_it_does_not_fire():
    run = begun(drawn("start>a"), deadline_in_ms=HOUR).then(completed("a", delay_ms=10))
    assert run.later(HOUR).types == ["INSTANCE_FAILED"]


def test_an_instance_born_after_its_deadline_fails_with_nothing_dispatched():
    run = given(drawn("start>a"), deadline_in_ms=-1)
    assert run.owed == set()
    assert run.when(TIMERS).types == ["INSTANCE_FAILED"]
    assert run.rows("NODE_DISPATCHED") == []


def test_a_takeover_after_the_deadline_fails_the_instance():
    run = begun(drawn("start>a"), deadline_in_ms=HOUR).crashed()
    run.now += HOUR
    assert run.when(LAPSED).types == ["INSTANCE_FAILED"]


# -- cancels ------------------------------------------------------------------------------
def test_a_cancel_ends_the_instance_and_stops_its_handlers():
    run = begun(drawn("start>a, start>b"))
    happened = run.when(cancel("no budget"))
    assert happened.types == ["INSTANCE_CANCELLED"]
    assert happened.payload("INSTANCE_CANCELLED") == "no budget"
    assert set(happened.stops) == {"a", "b"}
    assert run.status == "CANCELLED"


def test_a_cancel_in_any_phase_leaves_nothing_owed():
    waiting = begun(drawn("start>a")).then(asks_for("a", "go", timeout_ms=HOUR))
    delayed = begun(drawn("start>a")).then(completed("a", delay_ms=HOUR))
    retrying = begun(drawn("start>a")).then(failed("a", retryable=True))
    looping = begun(drawn("start>each, each.loop>work", each=loop())).then(completed("each", [1]))
    for run in (waiting, delayed, retrying, looping):
        assert run.when(cancel()).ending == "INSTANCE_CANCELLED"
        assert (run.owed, run.due) == (set(), {})


def test_a_second_cancel_changes_nothing():
    run = begun(drawn("start>a")).then(cancel())
    assert run.when(cancel()).nothing


def test_a_result_that_arrives_after_the_cancel_cannot_complete_the_instance():
    run = begun(drawn("start>a")).then(cancel())
    assert run.when(completed("a")).nothing
    assert run.status == "CANCELLED"


def test_a_cancel_that_arrives_after_completion_changes_nothing():
    run = begun(drawn("start>a")).completed("a")
    assert run.when(cancel()).nothing
    assert run.status == "COMPLETED"


def test_no_stimulus_at_all_moves_an_ended_instance():
    run = begun(drawn("start>a")).completed("a")
    for stimulus in (TIMERS, LAPSED, HANDED_OVER, cancel(), signal("go"), completed("a"), failed("a")):
        assert run.when(stimulus).nothing
