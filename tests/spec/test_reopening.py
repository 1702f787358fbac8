"""A run that has ended badly goes on: what is left out, what is tried again, and what stays as it was."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.engine.handler_contract import Helpers
from anabranch.engine.rules.drawn.drawn_state import NO_CONTEXT
from anabranch.engine.rules.event_payloads import SignalAwaited, left_out_by
from anabranch.engine.rules.events import ENDINGS, ActivationKey, EventType, Status
from anabranch.engine.rules.history import ActivationStatus, History, activations_of
from anabranch.engine.rules.repair.retry_plan import plan_retry
from anabranch.engine.rules.shared.left_out import is_left_out, together
from anabranch.engine.rules.stimuli import PauseRequested
from anabranch.errors import RetryRefused, RetryWouldRepeat
from tests.spec import scenario
from tests.spec.drawings import condition, drawn
from tests.spec.scenario import (
    HANDED_OVER,
    Scenario,
    asks_for,
    awaits_child,
    begun,
    cancel,
    child_ended,
    completed,
    failed,
    signal,
)
from tests.spec.shapes import random_shape
from tests.spec.test_any_order import STIMULI, Weather, finish

TWICE = {"maxAttempts": 2, "backoff": {"kind": "fixed", "base": "1s"}}
LINE = drawn("start>a, a>b, b>c", b={"retry": TWICE})


def lost() -> Scenario:
    """A run that has used up the attempts of its second node."""
    run = begun(LINE).completed("a").then(failed("b", retryable=True))
    run.later(1_000)
    return run.then(failed("b#2", retryable=True))


def test_the_failed_node_is_tried_again_at_once_and_what_has_completed_is_not() -> None:
    run = lost().reopened(closed_ms=60_000)
    assert run.when(HANDED_OVER).dispatches == ["b#3"]
    assert run.completed("b#3", "c").status is Status.COMPLETED
    assert run.rows("NODE_DISPATCHED") == ["start", "a", "b", "b#2", "b#3", "c"]


def test_attempts_are_counted_on_and_the_budget_begins_anew() -> None:
    run = lost().reopened().then(HANDED_OVER, failed("b#3", retryable=True))
    assert run.status is not Status.FAILED, "the first of two attempts"
    assert run.later(1_000).dispatches == ["b#4"]
    assert run.when(failed("b#4", retryable=True)).ending == "INSTANCE_FAILED"


def test_what_is_tried_again_has_its_old_key_or_a_new_one() -> None:
    def key_of(run: Scenario, attempt: int) -> str:
        activation = run.state.activation("b", "")
        assert activation is not None
        of_run = {"instance_id": "run", "tenant_id": "t", "workflow_id": None, "now_ms": 0, "context": NO_CONTEXT}
        return Helpers(node_id="b", scope="", attempt=attempt, redone=activation.redone, **of_run).idempotency_key

    first = key_of(begun(LINE).completed("a"), 1)
    assert key_of(lost().reopened(), 3) == first
    run = lost().reopened(new_keys=True)
    second = key_of(run, 3)
    assert second != first
    run.then(HANDED_OVER, failed("b#3")).reopened()
    assert key_of(run, 4) == second, "it keeps that one"
    run.then(HANDED_OVER, failed("b#4")).reopened(new_keys=True)
    assert key_of(run, 5) not in (first, second)


def test_a_retry_in_a_loop_without_a_loop_node_goes_on_in_its_pass() -> None:
    graph = drawn("start>ask, ask>look, look.again>ask, look.else>done", look=condition("again"))
    run = begun(graph).then(completed("ask#1/ask"), completed("ask#1/look", handle="again"), failed("ask#2/ask"))
    assert run.status is Status.FAILED
    run.reopened()
    assert run.when(HANDED_OVER).dispatches == ["ask#2/ask#2"]
    run.then(completed("ask#2/ask#2"), completed("ask#2/look", handle="again"), completed("ask#3/ask"))
    run.then(completed("ask#3/look", handle="else"))
    assert run.completed("done").status is Status.COMPLETED
    assert [row for row in run.rows("NODE_DISPATCHED") if "ask" in row][:2] == ["ask#1/ask", "ask#1/look"]


def test_a_loop_that_has_used_up_its_passes_is_not_retried() -> None:
    graph = drawn("start>ask, ask.again>ask, ask.else>done", ask={**condition("again"), "maxPasses": 2})
    run = begun(graph).then(completed("ask#1/ask", handle="again"), completed("ask#2/ask", handle="again"))
    assert run.status is Status.FAILED
    with pytest.raises(RetryWouldRepeat):
        run.reopened()


def test_a_run_can_be_reopened_again_and_again() -> None:
    run = lost()
    for attempt in (3, 5, 7):
        run.reopened().then(HANDED_OVER, failed(f"b#{attempt}", retryable=True)).later(1_000)
        run.then(failed(f"b#{attempt + 1}", retryable=True))
        assert run.status is Status.FAILED
    assert run.reopened().then(HANDED_OVER).completed("b#9", "c").status is Status.COMPLETED


def test_what_was_under_way_beside_the_failure_is_owed_again_with_the_same_attempt() -> None:
    run = begun(drawn("start>a, start>b, a>c, b>c")).then(failed("a"))
    assert run.status is Status.FAILED
    run.reopened().then(HANDED_OVER)
    assert run.owed == {"a#2", "b"}
    assert run.completed("a#2", "b", "c").status is Status.COMPLETED


def test_after_a_cancel_and_after_the_deadline_nothing_is_tried_again() -> None:
    cancelled = begun(drawn("start>a, a>b")).then(cancel()).reopened()
    assert cancelled.when(HANDED_OVER).dispatches == []
    assert cancelled.owed == {"a"}
    late = begun(drawn("start>a, a>b"), deadline_in_ms=5_000)
    assert late.later(5_000).ending == "INSTANCE_FAILED"
    late.reopened(closed_ms=60_000).then(HANDED_OVER)
    assert late.due[""] == 5_000, "the deadline restarts with its old length"
    assert late.completed("a", "b").status is Status.COMPLETED


def test_what_was_suspended_when_it_ended_goes_on() -> None:
    run = begun(LINE).then(PauseRequested("to look at it"), cancel())
    assert run.reopened().status is Status.RUNNING
    assert run.owed == {"a"}
    assert run.completed("a", "b", "c").status is Status.COMPLETED


def test_waits_for_signals_time_out_later_by_the_time_that_the_run_was_closed() -> None:
    run = begun(drawn("start>w, start>x, w>after")).then(asks_for("w", "paid", timeout_ms=10_000), failed("x"))
    run.reopened(closed_ms=3_600_000).then(HANDED_OVER)
    assert run.due["w"] == 10_000
    assert run.then(signal("paid", 1)).completed("x#2", "after").status is Status.COMPLETED


def test_delays_and_retries_keep_their_due_times() -> None:
    run = begun(drawn("start>d, start>r, start>x", r={"retry": TWICE}))
    run.then(completed("d", delay_ms=10_000), failed("r", retryable=True), failed("x"))
    run.reopened(closed_ms=60_000)
    assert {"r#2", "x#2"} == set(run.when(HANDED_OVER).dispatches)
    assert "d" in run.rows("NODE_COMPLETED"), "it came due meanwhile"


def test_a_failure_in_an_iteration_leaves_out_the_iterations_that_it_ended() -> None:
    each = {"type": "loop", "config": {"source": "{{ctx.input}}", "concurrency": 3}}
    run = begun(drawn("start>each, each.loop>work, work>more, each.done>after", each=each))
    run.then(completed("each", [1, 2, 3])).completed("each[0]/work", "each[0]/more", "each[1]/work")
    assert run.when(failed("each[2]/work")).ending == "INSTANCE_FAILED"
    run.reopened()
    assert run.when(HANDED_OVER).dispatches == ["each[2]/work#2"]
    assert run.owed == {"each[1]/more", "each[2]/work#2"}
    run.completed("each[1]/more", "each[2]/work#2", "each[2]/more", "after")
    assert run.status is Status.COMPLETED


def test_handled_collected_and_ignored_failures_stay() -> None:
    each = {"type": "loop", "config": {"source": "{{ctx.input}}", "onItemError": "collect"}}
    edges = "start>h, h.error>mend, start>i, start>each, each.loop>work, mend>x"
    run = begun(drawn(edges, i={"errorHandling": "ignore"}, each=each))
    run.then(failed("h"), failed("i"), completed("each", [1]), failed("each[0]/work"))
    run.completed("mend").then(failed("x"))
    assert run.status is Status.FAILED
    run.reopened()
    assert run.when(HANDED_OVER).dispatches == ["x#2"]
    assert run.completed("x#2").status is Status.COMPLETED


def test_a_parent_waits_again_for_the_child_whose_end_it_failed_with() -> None:
    run = begun(drawn("start>call, call>after", call={"type": "workflow", "config": {"workflow": "w"}}))
    error = {"code": "HANDLER_ERROR", "message": "it broke", "nodeID": "n"}
    run.then(awaits_child("call"), child_ended("call", Status.FAILED, error))
    planned = plan_retry(run.plan, run.head, run.log)
    assert planned.redo == []
    assert [(child.is_cause, child.is_awaited) for child in planned.children] == [(True, True)]
    run.reopened()
    assert run.when(HANDED_OVER).dispatches == []
    assert run.status is Status.WAITING
    assert run.then(child_ended("call", Status.COMPLETED, 1)).completed("after").status is Status.COMPLETED


def test_only_failures_that_nothing_handles_would_end_the_run_as_the_cause_did() -> None:
    def loop(**config: str) -> dict[str, Any]:
        return {"type": "loop", "config": {"source": "{{ctx.input}}", **config}}

    call = {"type": "workflow", "config": {"workflow": "w"}}
    names = ("cause", "bare", "ignored", "handled", "failing/a", "collecting/b", "edged/c", "strict/d")
    run = begun(
        drawn(
            "start>cause, start>bare, start>ignored, start>handled, handled.error>mend, start>failing, failing.loop>a, "
            "start>collecting, collecting.loop>b, start>edged, edged.loop>c, edged.error>mend, start>strict, "
            "strict.loop>d",
            cause=call,
            bare=call,
            ignored={**call, "errorHandling": "ignore"},
            handled=call,
            failing=loop(),
            a=call,
            collecting=loop(onItemError="collect"),
            b=call,
            edged=loop(),
            c=call,
            strict=loop(onItemError="collect"),
            d={**call, "errorHandling": "fail_workflow"},
            mend={"joinMode": "any"},
        )
    )
    run.then(*(completed(loop_id, [1]) for loop_id in ("failing", "collecting", "edged", "strict")))
    run.then(*(awaits_child(name.replace("/", "[0]/")) for name in names))
    run.then(child_ended("cause", Status.FAILED, {"code": "HANDLER_ERROR", "message": "it broke"}))
    assert run.status is Status.FAILED
    children = plan_retry(run.plan, run.head, run.log).children
    assert len(children) == len(names)
    assert {child.key[0] for child in children if child.would_end_run} == {"cause", "bare", "a", "d"}


def test_after_a_cancel_no_failure_of_a_child_counts_as_the_cause() -> None:
    run = begun(drawn("start>call", call={"type": "workflow", "config": {"workflow": "w"}}))
    run.then(awaits_child("call"), cancel())
    assert [child.would_end_run for child in plan_retry(run.plan, run.head, run.log).children] == [False]


def test_failures_on_the_data_of_the_run_are_not_retried() -> None:
    endless = {"type": "loop", "config": {"while": "{{true}}", "maxIterations": 1}}
    run = begun(drawn("start>each, each.loop>work", each=endless)).completed("each", "each[0]/work")
    assert run.status is Status.FAILED
    with pytest.raises(RetryWouldRepeat):
        plan_retry(run.plan, run.head, run.log)


def test_a_log_that_ends_in_an_unknown_way_is_refused() -> None:
    run = lost()
    log = [event for event in run.log if event.type is not EventType.NODE_FAILED]
    with pytest.raises(RetryRefused):
        plan_retry(run.plan, run.head, log)


def test_what_a_failing_decision_left_undrawn_is_drawn() -> None:
    """As if the end had come in the middle of a decision: `b` is ready, and has no row."""
    run = begun(drawn("start>a, a>b"))
    assert run.when(completed("a")).dispatches == ["b"]
    run.log.pop()
    run.crashed().then(cancel()).reopened()
    assert run.when(HANDED_OVER).dispatches == ["b"]


def test_the_history_shows_what_is_tried_again_and_none_of_what_is_left_out() -> None:
    run = lost().reopened()
    history = History(left_out=left_out_by(run.log))
    for event in run.log:
        history.take(event)
    (activation,) = history.open.values()
    assert (activation.node_id, activation.status) == ("b", ActivationStatus.RETRYING)
    assert history.status is Status.RUNNING
    assert [each.node_id for each in activations_of(run.log, left_out=left_out_by(run.log))] == ["start", "a", "b"]


def test_the_history_shows_until_when_a_wait_is_prolonged() -> None:
    run = begun(drawn("start>w, start>x")).then(asks_for("w", "paid", timeout_ms=10_000), failed("x"))
    run.reopened(closed_ms=3_600_000)
    (waits,) = (each for each in activations_of(run.log, left_out=left_out_by(run.log)) if each.node_id == "w")
    (key,) = run.state.signals.waits["paid"]
    assert isinstance(waits.waits_for, SignalAwaited)
    assert waits.waits_for.due_at == run.state.activation(*key).due_at


def test_stretches_of_rows_are_merged_and_found() -> None:
    ranges = together([(5, 6)], [(1, 1), (7, 9)])
    assert ranges == ((1, 1), (5, 9))
    assert [seq for seq in range(1, 12) if is_left_out(ranges, seq)] == [1, 5, 6, 7, 8, 9]


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_whatever_the_graph_and_the_order_a_retried_run_repeats_nothing_and_ends(rng: random.Random) -> None:
    run = scenario.given(random_shape(rng), deadline_in_ms=rng.choice([None, None, 30_000]))
    for _ in range(4):
        Weather(rng, run).blow(STIMULI)
        if run.status not in (Status.FAILED, Status.CANCELLED):
            break
        ended, rows = effective_endings(run), len(run.log)
        try:
            run.reopened(closed_ms=rng.choice([0, 5_000])).then(HANDED_OVER)
        except RetryWouldRepeat:
            return
        kept = ended.keys() & effective_endings(run).keys()
        assert all(ended[key] is not EventType.NODE_COMPLETED for key in ended.keys() - kept)
        for event in run.log[rows:]:
            again = event.type is EventType.NODE_DISPATCHED and (event.node_id, event.scope) in kept
            assert not again, f"{event.node_id} in {event.scope} had ended"
    if not run.state.is_terminal:
        finish(run)


def effective_endings(run: Scenario) -> dict[ActivationKey, EventType]:
    """How the activations ended that have, but for rows that are left out."""
    left_out = left_out_by(run.log)
    endings = (event for event in run.log if event.type in ENDINGS and not is_left_out(left_out, event.seq))
    return {(event.node_id, event.scope): event.type for event in endings}
