"""Retries: attempts that fail, when the next is due, and when it is over."""

from __future__ import annotations

from typing import Any

from anabranch.engine.rules.shared.retry import RETRY_AFTER_MS_MAX, RetryPolicy
from tests.spec.drawings import drawn, loop, reads
from tests.spec.scenario import LAPSED, begun, completed, failed

SECOND = 1_000


def retried(**retry: Any) -> dict[str, Any]:
    """A node with this retry policy."""
    return {"retry": retry}


def test_a_failed_attempt_is_repeated_when_its_wait_is_over():
    run = begun(drawn("start>a"))
    happened = run.when(failed("a", "busy", retryable=True))
    assert happened.types == ["NODE_ATTEMPT_FAILED"]
    assert happened.wakes == {"a": SECOND}
    assert run.later(SECOND).dispatches == ["a#2"]


def test_the_row_of_a_failed_attempt_has_its_error_and_the_due_time_of_the_next():
    happened = begun(drawn("start>a")).when(failed("a", "busy", retryable=True))
    assert happened.payload("NODE_ATTEMPT_FAILED") == {
        "error": {
            "code": "HANDLER_ERROR",
            "type": "Broken",
            "message": "busy",
            "nodeID": "a",
            "scope": "",
            "attempt": 1,
        },
        "dueAt": "1970-01-01T01:00:01.000+00:00",
    }
    assert happened.event("NODE_ATTEMPT_FAILED").error_message == "busy"


def test_three_attempts_are_three_executions_with_waits_of_one_and_two_seconds():
    run = begun(drawn("start>a", a=retried(maxAttempts=3)))
    assert run.when(failed("a", retryable=True)).wakes == {"a": SECOND}
    run.later(SECOND)
    assert run.when(failed("a#2", retryable=True)).wakes == {"a": 2 * SECOND}
    run.later(2 * SECOND)
    happened = run.when(failed("a#3", retryable=True))
    assert happened.types == ["NODE_FAILED", "INSTANCE_FAILED"]
    assert happened.payload("NODE_FAILED")["error"]["attempt"] == 3


def test_a_single_attempt_is_not_retried():
    run = begun(drawn("start>a", a=retried(maxAttempts=1)))
    assert run.when(failed("a", retryable=True)).ending == "INSTANCE_FAILED"


def test_what_cannot_be_mended_is_not_retried():
    run = begun(drawn("start>a", a=retried(maxAttempts=5)))
    assert run.when(failed("a", code="TEMPLATE_ERROR")).ending == "INSTANCE_FAILED"


def test_a_later_attempt_may_succeed():
    run = begun(drawn("start>a, a>b")).then(failed("a", retryable=True))
    run.later(SECOND)
    assert run.when(completed("a#2", "fine")).dispatches == ["b"]
    assert run.context("b")["__node_a"] == "fine"


def test_a_later_attempt_may_end_the_retries():
    run = begun(drawn("start>a", a=retried(maxAttempts=9))).then(failed("a", retryable=True))
    run.later(SECOND)
    assert run.when(failed("a#2", retryable=False)).ending == "INSTANCE_FAILED"


def test_a_retry_waits_and_holds_no_worker():
    run = begun(drawn("start>a")).then(failed("a", retryable=True))
    assert run.status == "WAITING"
    assert run.owed == set()


def test_a_retry_is_never_early():
    run = begun(drawn("start>a")).then(failed("a", retryable=True))
    assert run.later(SECOND - 1).nothing
    assert run.later(1).dispatches == ["a#2"]


def test_a_retry_fires_once():
    run = begun(drawn("start>a")).then(failed("a", retryable=True))
    run.later(SECOND)
    assert run.later(SECOND).nothing


def test_a_retry_keeps_its_due_time_across_a_restart():
    run = begun(drawn("start>a")).then(failed("a", retryable=True))
    run.now += 400
    assert run.crashed().when(LAPSED).dispatches == []
    assert run.due == {"a": 600}


def test_a_retry_that_became_due_while_nobody_was_there_is_dispatched_at_adoption():
    run = begun(drawn("start>a")).then(failed("a", retryable=True)).crashed()
    run.now += 60 * SECOND
    assert run.when(LAPSED).dispatches == ["a#2"]


def test_a_server_may_ask_for_a_longer_wait_but_not_for_a_shorter_one():
    assert begun(drawn("start>a")).when(failed("a", retryable=True, retry_after_ms=30_000)).wakes == {"a": 30_000}
    assert begun(drawn("start>a")).when(failed("a", retryable=True, retry_after_ms=10)).wakes == {"a": SECOND}


def test_nobody_can_put_off_the_next_attempt_for_longer_than_a_day():
    run = begun(drawn("start>a"))
    assert run.when(failed("a", retryable=True, retry_after_ms=10**15)).wakes == {"a": RETRY_AFTER_MS_MAX}
    assert run.later(RETRY_AFTER_MS_MAX).dispatches == ["a#2"]


def test_what_the_other_side_asks_for_does_not_shorten_a_longer_backoff():
    slow = {"retry": {"backoff": {"kind": "fixed", "base": "2d", "max": "2d"}}}
    run = begun(drawn("start>a", a=slow))
    assert run.when(failed("a", retryable=True, retry_after_ms=10**15)).wakes == {"a": 2 * RETRY_AFTER_MS_MAX}


def test_the_backoff_of_the_node_is_used():
    run = begun(drawn("start>a", a=retried(backoff={"kind": "fixed", "base": "250ms"})))
    assert run.when(failed("a", retryable=True)).wakes == {"a": 250}


def test_jitter_is_the_same_wherever_it_is_decided():
    jittered = drawn("start>a", a=retried(backoff={"base": "10s", "jitter": 0.5}))
    waits = {begun(jittered).when(failed("a", retryable=True)).wakes["a"] for _ in range(3)}
    assert len(waits) == 1
    assert waits != {10_000}


def test_jitter_spreads_the_items_of_a_loop():
    document = drawn("start>each, each.loop>work", each=loop(concurrency=20), work=retried(backoff={"jitter": 0.5}))
    run = begun(document).then(completed("each", list(range(20))))
    waits = [run.when(failed(f"each[{i}]/work", retryable=True)).wakes[f"each[{i}]/work"] for i in range(20)]
    assert len(set(waits)) > 10


def test_a_late_result_of_an_earlier_attempt_changes_nothing():
    run = begun(drawn("start>a")).then(failed("a", retryable=True))
    assert run.when(completed("a")).nothing
    run.later(SECOND)
    assert run.when(completed("a")).nothing
    assert run.when(failed("a")).nothing
    assert run.owed == {"a#2"}


def test_a_result_of_an_attempt_that_was_never_dispatched_changes_nothing():
    run = begun(drawn("start>a"))
    assert run.when(completed("a#2")).nothing


def test_every_attempt_sees_what_the_first_one_saw():
    run = begun(drawn("start>a, start>b, a>end", b={"outputVariable": "later"}, a=reads("later")))
    run.then(failed("a", retryable=True)).completed("b", output="news")
    run.later(SECOND)
    assert "later" not in run.sees("a")


def test_every_attempt_sees_what_the_first_one_saw_after_a_crash_too():
    run = begun(drawn("start>a, start>b", b={"outputVariable": "later"}))
    run.then(failed("a", retryable=True)).completed("b", output="news")
    run.later(SECOND)
    assert "later" not in run.crashed().sees("a")


def test_two_retries_that_are_due_together_are_dispatched_together():
    run = begun(drawn("start>a, start>b")).then(failed("a", retryable=True), failed("b", retryable=True))
    assert run.later(SECOND).dispatches == ["a#2", "b#2"]


def test_a_delay_that_ends_when_its_retry_was_due_is_one_timer_and_not_two():
    run = begun(drawn("start>a")).then(failed("a", retryable=True))
    run.later(SECOND)
    run.then(completed("a#2", delay_ms=0))
    assert run.crashed().later(0).completions == ["a"]


def test_a_loop_failed_by_its_body_is_not_retried():
    document = drawn(
        "start>each, each.loop>work", each={**loop(), **retried(maxAttempts=5)}, work=retried(maxAttempts=1)
    )
    run = begun(document).then(completed("each", [1]))
    assert run.when(failed("each[0]/work", retryable=True)).types == [
        "NODE_FAILED",
        "NODE_FAILED",
        "INSTANCE_FAILED",
    ]


def test_a_loop_whose_handler_fails_is_retried():
    run = begun(drawn("start>each, each.loop>work", each=loop()))
    assert run.when(failed("each", retryable=True)).wakes == {"each": SECOND}
    assert run.later(SECOND).dispatches == ["each#2"]
    assert run.when(completed("each#2", [1])).dispatches == ["each[0]/work"]


def test_a_retry_in_a_body_keeps_its_iteration_open():
    document = drawn("start>each, each.loop>work", each=loop())
    run = begun(document).then(completed("each", [1, 2]), failed("each[0]/work", retryable=True))
    assert run.owed == set()
    assert run.later(SECOND).dispatches == ["each[0]/work#2"]
    assert run.when(completed("each[0]/work#2")).dispatches == ["each[1]/work"]


def test_a_policy_without_waits_retries_at_once():
    run = begun(drawn("start>a", a=retried(backoff={"base": 0})))
    assert run.when(failed("a", retryable=True)).wakes == {"a": 0}
    assert run.later(0).dispatches == ["a#2"]
    assert RetryPolicy.parse({"backoff": {"base": 0}}).delay_ms(1, key="") == 0
