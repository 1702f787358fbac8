"""Delays and waits: outputs that are kept until a due time, and signals that may never come."""

from __future__ import annotations

from tests.spec.drawings import condition, drawn, loop
from tests.spec.scenario import HANDED_OVER, asks_for, begun, completed, signal

DAY = 86_400_000


# -- delays -------------------------------------------------------------------------------
def test_a_delayed_node_waits_with_its_output_stored():
    run = begun(drawn("start>a, a>b"))
    happened = run.when(completed("a", {"n": 1}, delay_ms=5_000))
    assert happened.types == ["NODE_WAITING"]
    assert happened.wakes == {"a": 5_000}
    assert happened.payload("NODE_WAITING") == {
        "dueAt": "1970-01-01T01:00:05.000+00:00",
        "output": {"n": 1},
        "nextHandle": "default",
    }
    assert run.status == "WAITING"


def test_a_delayed_node_completes_with_its_stored_output_when_it_is_due():
    run = begun(drawn("start>a, a>b")).then(completed("a", {"n": 1}, delay_ms=5_000))
    happened = run.later(5_000)
    assert happened.payload("NODE_COMPLETED") == {"n": 1}
    assert happened.dispatches == ["b"]


def test_a_delay_is_never_early():
    run = begun(drawn("start>a")).then(completed("a", delay_ms=5_000))
    assert run.later(4_999).nothing
    assert run.later(1).completions == ["a"]


def test_a_delay_fires_once():
    run = begun(drawn("start>a, start>b")).then(completed("a", delay_ms=5_000))
    run.later(5_000)
    assert run.later(5_000).nothing


def test_the_commit_of_a_fired_timer_must_find_it_passed():
    run = begun(drawn("start>a, start>b")).then(completed("a", delay_ms=100), completed("b", delay_ms=300))
    due = run.now + 300
    assert run.later(1_000).decision.not_before == due


def test_an_answer_that_fires_no_timer_may_be_committed_at_any_time():
    assert begun(drawn("start>a")).when(completed("a")).decision.not_before is None


def test_a_delayed_node_keeps_the_handle_it_chose():
    document = drawn("start>check, check.yes>a, check.else>b", check=condition("yes"))
    run = begun(document).then(completed("check", {"branch": "yes"}, handle="yes", delay_ms=10))
    happened = run.later(10)
    assert (happened.dispatches, happened.skips) == (["a"], ["b"])


def test_a_delay_of_ten_months_is_kept_like_one_of_ten_milliseconds():
    run = begun(drawn("start>a")).then(completed("a", "ripe", delay_ms=300 * DAY))
    assert run.crashed().due == {"a": 300 * DAY}
    assert run.later(300 * DAY).payload("NODE_COMPLETED") == "ripe"


def test_a_delay_of_nothing_is_due_at_once():
    run = begun(drawn("start>a")).then(completed("a", delay_ms=0))
    assert run.later(0).completions == ["a"]


def test_delays_fire_in_the_order_of_their_due_times():
    run = begun(drawn("start>a, start>b, start>c"))
    run.then(completed("a", delay_ms=30), completed("b", delay_ms=10), completed("c", delay_ms=20))
    assert run.later(100).completions == ["b", "c", "a"]


def test_only_the_due_ones_fire():
    run = begun(drawn("start>a, start>b, start>c"))
    run.then(completed("a", delay_ms=30), completed("b", delay_ms=10), completed("c", delay_ms=20))
    assert run.later(20).completions == ["b", "c"]
    assert run.due == {"a": 10}


def test_a_second_result_of_a_delayed_node_changes_nothing():
    run = begun(drawn("start>a")).then(completed("a", 1, delay_ms=50))
    assert run.when(completed("a", 2, delay_ms=500)).nothing
    assert run.when(completed("a", 2)).nothing
    assert run.later(50).payload("NODE_COMPLETED") == 1


def test_a_join_waits_for_a_delay():
    run = begun(drawn("start>a, start>b, a>join, b>join")).then(completed("a", delay_ms=10)).completed("b")
    assert run.owed == set()
    assert run.later(10).dispatches == ["join"]


def test_a_delay_in_a_body_holds_its_iteration():
    run = begun(drawn("start>each, each.loop>pause", each=loop())).then(completed("each", [1, 2]))
    run.then(completed("each[0]/pause", delay_ms=10))
    assert run.owed == set()
    assert run.later(10).dispatches == ["each[1]/pause"]


def test_while_work_goes_on_beside_a_delay_the_instance_is_running():
    run = begun(drawn("start>a, start>b")).then(completed("a", delay_ms=10))
    assert run.status == "RUNNING"


def test_a_delay_due_in_an_absence_completes_at_the_takeover():
    run = begun(drawn("start>a, a>b")).then(completed("a", delay_ms=10)).crashed()
    run.now += DAY
    assert run.when(HANDED_OVER).dispatches == ["b"]


# -- waits --------------------------------------------------------------------------------
WAIT = drawn("start>wait, wait>go, wait.timeout>late", wait={"type": "waitForEvent", "config": {"event": "paid"}})


def test_a_wait_is_open_until_its_signal_comes():
    run = begun(WAIT)
    happened = run.when(asks_for("wait", "paid"))
    assert happened.types == ["NODE_WAITING"]
    assert happened.payload("NODE_WAITING") == {"event": "paid"}
    assert happened.wakes == {}
    assert run.status == "WAITING"


def test_the_row_of_a_wait_says_what_it_waits_for():
    happened = begun(WAIT).when(asks_for("wait", "paid", match={"id": 7}, timeout_ms=60_000))
    assert happened.payload("NODE_WAITING") == {
        "event": "paid",
        "match": {"id": 7},
        "dueAt": "1970-01-01T01:01:00.000+00:00",
    }


def test_a_signal_completes_the_wait_with_its_payload():
    run = begun(WAIT).then(asks_for("wait", "paid"))
    happened = run.when(signal("paid", {"sum": 3}))
    assert happened.payload("NODE_COMPLETED") == {"sum": 3}
    assert (happened.dispatches, happened.skips) == (["go"], ["late"])


def test_a_wait_that_times_out_leaves_by_timeout_with_null():
    run = begun(WAIT).then(asks_for("wait", "paid", timeout_ms=60_000))
    happened = run.later(60_000)
    assert happened.payload("NODE_COMPLETED") is None
    assert (happened.dispatches, happened.skips) == (["late"], ["go"])


def test_a_timeout_is_never_early():
    run = begun(WAIT).then(asks_for("wait", "paid", timeout_ms=60_000))
    assert run.later(59_999).nothing


def test_a_signal_beats_a_timeout_that_nobody_has_recorded_yet():
    run = begun(WAIT).then(asks_for("wait", "paid", timeout_ms=60_000))
    run.now += 70_000
    assert run.when(signal("paid")).dispatches == ["go"]
    assert run.later(0).nothing


def test_a_signal_after_the_timeout_is_kept():
    run = begun(WAIT).then(asks_for("wait", "paid", timeout_ms=60_000))
    run.later(60_000)
    happened = run.when(signal("paid"))
    assert happened.types == ["SIGNAL_RECEIVED"]
    assert happened.decision.delivered is False


def test_a_signalled_wait_forgets_its_timeout():
    run = begun(WAIT).then(asks_for("wait", "paid", timeout_ms=60_000), signal("paid"))
    assert run.due == {}
    assert run.later(60_000).nothing


def test_a_timeout_is_kept_across_a_restart():
    run = begun(WAIT).then(asks_for("wait", "paid", timeout_ms=60_000)).crashed()
    assert run.due == {"wait": 60_000}


def test_a_wait_asked_for_twice_is_opened_once():
    run = begun(WAIT).then(asks_for("wait", "paid"))
    assert run.when(asks_for("wait", "paid")).nothing
