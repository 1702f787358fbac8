"""Takeovers: what is owed to the new owner, who is suspected of having killed the process, and who is guilty."""

from __future__ import annotations

import pytest

from anabranch.engine.rules.event_payloads import Recovered
from anabranch.engine.rules.shared.blame import (
    ANY_CAPACITY,
    CRASHES_MAX,
    Blame,
    Judgement,
    SuspectCapacity,
    crashed,
    judged,
    may_join,
)
from anabranch.engine.rules.stimuli import LeaseAcquired, PauseRequested, ResumeRequested
from tests.spec.drawings import drawn, loop
from tests.spec.scenario import HANDED_OVER, LAPSED, asks_for, begun, completed, failed, given, signal

CHAIN = drawn("start>a, a>b")


def test_the_takeover_of_a_lapsed_lease_is_recorded():
    happened = begun(CHAIN).crashed().when(LAPSED)
    assert happened.types == ["INSTANCE_RECOVERED"]
    assert happened.payload("INSTANCE_RECOVERED") == {"recoveries": 1, "company": 1, "crashes": 0}


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


def taken_over_by_turns(run, *blames):
    """What the log says of each takeover of a lapsed lease, with what the row said of crashes."""
    return [run.crashed().when(LeaseAcquired(Blame(*blame))).payload("INSTANCE_RECOVERED") for blame in blames]


def test_takeovers_are_counted_until_what_was_unanswered_has_its_answer():
    run = begun(CHAIN)
    assert taken_over_by_turns(run, (4,), (2,), (1,), (1, 1), (1, 2)) == [
        {"recoveries": 1, "company": 4, "crashes": 0},
        {"recoveries": 2, "company": 2, "crashes": 0},
        {"recoveries": 3, "company": 1, "crashes": 0},
        {"recoveries": 4, "company": 1, "crashes": 1},
        {"recoveries": 5, "company": 1, "crashes": 2},
    ]
    assert run.completed("a").state.suspicion is None
    assert taken_over_by_turns(run, (7,)) == [{"recoveries": 1, "company": 7, "crashes": 0}]


def test_a_handover_of_a_suspect_leaves_no_row():
    run = begun(CHAIN).crashed().then(LeaseAcquired(Blame(3)))
    assert run.crashed().when(LeaseAcquired(Blame(3))).nothing
    assert run.state.blame == Blame(3)


def test_neither_signals_nor_healthy_branches_nor_timers_end_a_suspicion():
    run = begun(drawn("start>poison, start>quick, quick>more, start>nap, start>wait")).then(
        completed("nap", delay_ms=10), asks_for("wait", "go")
    )
    run.crashed().then(LeaseAcquired(Blame(1)), signal("go", 1), completed("quick"))
    run.later(60_000)
    run.then(completed("more"))
    assert run.state.blame == Blame(1), "what kills may still be under way"
    assert run.completed("poison").state.blame is None


def test_a_branch_that_began_after_the_takeover_need_not_answer():
    run = begun(drawn("start>slow, start>quick, quick>later")).crashed().then(LeaseAcquired(Blame(2)))
    run.completed("quick", "slow")
    assert run.state.blame is None
    assert run.owed == {"later"}


@pytest.mark.parametrize(
    "answer", [failed("a", retryable=True), failed("a"), asks_for("a", "go"), completed("a", delay_ms=1_000_000)]
)
def test_any_answer_ends_the_suspicion(answer):
    run = begun(CHAIN).crashed().then(LeaseAcquired(Blame(1)), answer)
    assert run.state.blame is None


def test_a_run_that_waited_is_above_suspicion_at_once():
    run = begun(drawn("start>a")).then(completed("a", delay_ms=1_000_000))
    assert taken_over_by_turns(run, (5,)) == [{"recoveries": 0, "company": 5, "crashes": 0}]
    assert run.state.suspicion is None


def test_a_suspended_run_is_taken_over_without_a_word():
    run = begun(CHAIN).then(PauseRequested("to look at it")).crashed()
    assert run.when(LeaseAcquired(Blame(2))).nothing


def test_what_crashed_too_often_and_is_resumed_may_crash_as_often_again():
    run = begun(CHAIN).crashed().then(LeaseAcquired(Blame(1, 2)))
    run.written_elsewhere(crashed(3)).then(ResumeRequested("key-1"))
    assert run.state.blame == Blame(1, 0)
    assert run.owed == {"a"}


def test_logs_from_before_blame_are_read():
    run = begun(CHAIN).written_elsewhere(Recovered(2))
    assert (run.state.suspicion.recoveries, run.state.blame) == (2, None)
    assert run.completed("a").state.suspicion is None


# -- who is guilty ------------------------------------------------------------------------------
def crashes_until_suspended(executing, crashes_max=CRASHES_MAX):
    """Of a run that kills its process whenever it is executed, with as many others as its company allows."""
    blame, crashes = None, 0
    while True:
        judgement = judged(blame, executing=executing, crashes_max=crashes_max)
        blame, crashes = judgement.blame, crashes + 1
        if judgement.suspends:
            return crashes


@pytest.mark.parametrize(("executing", "crashes"), [(0, 4), (1, 4), (2, 5), (3, 5), (21, 8), (64, 10), (1_000, 13)])
def test_a_poisonous_run_is_suspended_within_the_bound(executing, crashes):
    assert crashes_until_suspended(executing) == crashes == 1 + (executing or 1).bit_length() - 1 + CRASHES_MAX


def test_only_the_only_suspect_of_its_process_is_counted():
    assert judged(None, executing=21, crashes_max=3) == Judgement(Blame(21))
    assert judged(Blame(21), executing=1, crashes_max=3) == Judgement(Blame(10))
    assert judged(Blame(2), executing=1, crashes_max=3) == Judgement(Blame(1))
    assert judged(Blame(1), executing=1, crashes_max=3) == Judgement(Blame(1, 1), delay_ms=1_000)
    assert judged(Blame(1, 1), executing=1, crashes_max=9) == Judgement(Blame(1, 2), delay_ms=10_000)
    assert judged(Blame(1, 7), executing=1, crashes_max=9) == Judgement(Blame(1, 8), delay_ms=100_000)
    assert judged(Blame(1, 2), executing=1, crashes_max=3) == Judgement(Blame(1, 3), suspends=True)


def test_nothing_is_counted_against_a_run_that_stands_still():
    assert judged(Blame(1, 2), executing=1, crashes_max=3, suspended=True) == Judgement(Blame(1, 2))


def test_a_process_holds_no_more_suspects_than_the_least_company():
    assert may_join(ANY_CAPACITY, [5] * 5)
    assert not may_join(ANY_CAPACITY, [5] * 6)
    assert may_join(SuspectCapacity(2, 4), [9, 9])
    assert not may_join(SuspectCapacity(2, 4), [9, 9, 9])
    assert not may_join(SuspectCapacity(2, 4), [2])
    assert may_join(ANY_CAPACITY, [1])
    assert not may_join(ANY_CAPACITY, [1, 9])
    assert not may_join(SuspectCapacity(alone=False), [1])


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
