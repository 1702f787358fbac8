"""Suspended runs: nothing begins, nothing fires, what arrives is kept, and a resume does all that is owed."""

from __future__ import annotations

from anabranch.engine.rules.stimuli import PauseRequested, ResumeRequested
from tests.spec.drawings import drawn
from tests.spec.scenario import LAPSED, TIMERS, asks_for, begun, cancel, completed, failed, given, signal

CHAIN = drawn("start>a, a>b")
PAUSE = PauseRequested("paused by Ada")
RESUME = ResumeRequested("Ada")


def test_a_pause_is_one_row_and_says_why():
    run = begun(CHAIN)
    happened = run.when(PAUSE)
    assert happened.types == ["INSTANCE_SUSPENDED"]
    assert happened.payload("INSTANCE_SUSPENDED") == {
        "reason": "PAUSED",
        "message": "paused by Ada",
        "hint": "Resume it when it should continue.",
    }
    assert happened.stops == [], "what is under way is let end"
    assert run.status == "SUSPENDED"


def test_a_pause_of_a_paused_run_and_a_resume_of_a_running_one_change_nothing():
    run = begun(CHAIN)
    assert run.when(RESUME).nothing
    assert run.then(PAUSE).when(PAUSE).nothing


def test_a_suspended_run_owes_nothing_and_a_resumed_one_everything():
    run = begun(CHAIN).then(PAUSE)
    assert (run.owed, run.due) == (set(), {})
    happened = run.when(RESUME)
    assert happened.types == ["INSTANCE_RESUMED"]
    assert happened.payload("INSTANCE_RESUMED") == {"by": "Ada"}
    assert run.owed == {"a"}
    assert [command.node_id for command in happened.decision.commands] == ["a"]


def test_what_a_handler_comes_to_meanwhile_is_recorded_with_what_follows_and_nothing_is_performed():
    run = begun(CHAIN).then(PAUSE)
    happened = run.when(completed("a"))
    assert (happened.completions, happened.dispatches) == (["a"], ["b"])
    assert happened.decision.commands == []
    assert run.then(RESUME).owed == {"b"}


def test_no_delay_retry_or_timeout_fires_meanwhile_and_on_resume_the_oldest_comes_first():
    run = begun(drawn("start>a, start>w, start>d")).then(
        failed("a", retryable=True),
        asks_for("w", "paid", timeout_ms=9_000),
        completed("d", delay_ms=5_000),
        PAUSE,
    )
    assert run.later(3_600_000).nothing
    happened = run.when(RESUME)
    assert happened.types[:1] == ["INSTANCE_RESUMED"]
    moved = [event.node_id for event in happened.decision.events[1:] if event.node_id in ("a", "d", "w")]
    assert moved == ["a", "d", "w"]
    assert run.owed == {"a#2"}


def test_a_signal_is_promised_meanwhile_and_served_on_resume():
    run = begun(drawn("start>w, w>b")).then(asks_for("w", "paid", timeout_ms=1_000), PAUSE)
    happened = run.when(signal("paid", 7))
    assert happened.types == ["SIGNAL_RECEIVED"]
    assert happened.decision.delivered is True
    assert run.later(10_000).nothing
    happened = run.when(RESUME)
    assert happened.completions == ["w"], "the signal was there before its wait would have ended"
    assert happened.event("NODE_COMPLETED", "w").payload.value == 7


def test_the_deadline_counts_meanwhile():
    run = begun(CHAIN, deadline_in_ms=5_000).then(PAUSE)
    assert run.due == {"": 5_000}
    happened = run.later(5_000)
    assert happened.ending == "INSTANCE_FAILED"
    assert run.outcome["code"] == "DEADLINE_EXCEEDED"


def test_a_cancel_ends_it():
    run = begun(CHAIN).then(PAUSE)
    assert run.when(cancel()).ending == "INSTANCE_CANCELLED"
    assert run.status == "CANCELLED"


def test_a_run_that_has_not_begun_begins_on_resume():
    run = given(CHAIN, available_in_ms=1_000).then(PAUSE)
    assert run.later(2_000).nothing
    assert run.when(RESUME).dispatches == ["start"]


def test_a_takeover_does_not_go_on_with_it_and_counts_nothing():
    run = begun(CHAIN).then(PAUSE).crashed()
    assert run.status == "SUSPENDED"
    assert run.when(LAPSED).nothing
    assert run.then(RESUME).owed == {"a"}


def test_a_reload_of_the_log_performs_nothing():
    run = begun(CHAIN).then(PAUSE).crashed()
    assert run.when(TIMERS).nothing
    assert run.owed == set()
