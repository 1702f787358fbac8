"""Takeovers: what counts, what is owed to the new owner, and when it is enough."""

from __future__ import annotations

from anabranch.engine.rules.stimuli import RECOVERIES_MAX, LeaseAcquired
from tests.spec.drawings import drawn, loop
from tests.spec.scenario import HANDED_OVER, LAPSED, asks_for, begun, completed, failed, given, signal

CHAIN = drawn("start>a, a>b")


def test_the_takeover_of_a_lapsed_lease_is_recorded():
    happened = begun(CHAIN).crashed().when(LAPSED)
    assert happened.types == ["INSTANCE_RECOVERED"]
    assert happened.payload("INSTANCE_RECOVERED") == {"recoveries": 1}


def test_a_handover_leaves_no_row():
    assert begun(CHAIN).crashed().when(HANDED_OVER).nothing


def test_the_new_owner_owes_what_was_dispatched_with_the_same_attempt_numbers():
    run = begun(drawn("start>a, start>b")).then(failed("a", retryable=True))
    run.later(1_000)
    assert run.crashed().owed == {"a#2", "b"}
    run.then(LAPSED)
    assert run.owed == {"a#2", "b"}, "a crash is not an attempt"


def test_the_result_of_the_old_owners_execution_still_counts():
    run = begun(CHAIN).crashed().then(LAPSED)
    assert run.when(completed("a")).dispatches == ["b"]


def test_ten_takeovers_without_progress_are_survived():
    run = begun(CHAIN)
    for count in range(1, RECOVERIES_MAX + 1):
        assert run.crashed().when(LAPSED).payload("INSTANCE_RECOVERED") == {"recoveries": count}
    assert RECOVERIES_MAX == 10
    assert run.when(completed("a")).dispatches == ["b"]


def test_after_ten_takeovers_without_progress_the_next_one_gives_up():
    run = begun(CHAIN).then(*[LAPSED] * RECOVERIES_MAX)
    happened = run.when(LAPSED)
    assert happened.types == ["INSTANCE_FAILED"]
    assert happened.payload("INSTANCE_FAILED")["code"] == "RECOVERY_LIMIT"
    assert happened.stops == ["a"]


def test_any_progress_starts_the_count_anew():
    run = begun(CHAIN).then(*[LAPSED] * RECOVERIES_MAX).completed("a")
    assert run.when(LAPSED).payload("INSTANCE_RECOVERED") == {"recoveries": 1}


def test_handovers_do_not_count():
    run = begun(CHAIN).then(*[LAPSED] * RECOVERIES_MAX, *[HANDED_OVER] * 20)
    assert run.status == "RUNNING"


def test_a_takeover_while_nothing_is_dispatched_does_not_count():
    run = begun(drawn("start>a")).then(completed("a", delay_ms=1_000_000))
    for _ in range(RECOVERIES_MAX + 5):
        assert run.when(LAPSED).payload("INSTANCE_RECOVERED") == {"recoveries": 0}
    assert run.status == "WAITING"


def test_the_limit_is_a_setting():
    run = begun(CHAIN).then(LeaseAcquired(lapsed=True, recoveries_max=1))
    assert run.when(LeaseAcquired(lapsed=True, recoveries_max=1)).ending == "INSTANCE_FAILED"


def test_no_age_fails_an_instance():
    run = begun(CHAIN).crashed()
    run.now += 365 * 86_400_000
    assert run.when(LAPSED).types == ["INSTANCE_RECOVERED"]
    assert run.owed == {"a"}


def test_what_became_due_or_arrived_in_the_absence_happens_at_the_takeover():
    run = begun(drawn("start>a, start>b, start>c, start>d, d>e"))
    run.then(completed("a", delay_ms=10), failed("b", retryable=True), asks_for("c", "go"))
    run.written_elsewhere(signal("go", "news")).crashed()
    run.now += 60_000
    happened = run.when(LAPSED)
    assert set(happened.completions) == {"a", "c"}
    assert happened.dispatches == ["b#2"]
    assert run.owed == {"b#2", "d"}


def test_a_pending_instance_begins_when_it_is_claimed():
    run = given(CHAIN, begin=False).crashed()
    assert run.when(HANDED_OVER).dispatches == ["start"]


def test_a_loop_goes_on_where_it_was():
    run = begun(drawn("start>each, each.loop>work", each=loop(concurrency=2))).then(completed("each", ["a", "b", "c"]))
    run.then(completed("each[1]/work", "B")).crashed().then(LAPSED)
    assert run.owed == {"each[0]/work", "each[2]/work"}
    run.then(completed("each[2]/work", "C"), completed("each[0]/work", "A"))
    assert run.row("NODE_COMPLETED", "each") == ["A", "B", "C"]
