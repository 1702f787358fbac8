"""How an instance completes, and what its output is."""

from __future__ import annotations

from tests.spec.drawings import condition, drawn, loop
from tests.spec.scenario import asks_for, begun, completed, failed

END = {"type": "end"}
STOP = {"type": "end", "config": {"terminate": True}}


def named(name, **config):
    """An End that writes under this key."""
    return {"type": "end", "config": {"name": name, **config}}


# -- output -------------------------------------------------------------------------------
def test_the_output_is_what_the_end_collected():
    run = begun(drawn("start>a, a>end", end=END)).completed("a")
    happened = run.when(completed("end", {"sum": 3}))
    assert happened.types == ["NODE_COMPLETED", "INSTANCE_COMPLETED"]
    assert happened.payload("INSTANCE_COMPLETED") == {"sum": 3}


def test_a_run_without_a_reached_end_has_no_output():
    assert begun(drawn("start>a")).completed("a").outcome is None
    run = begun(drawn("start>check, check.yes>end", check=condition("yes"), end=END))
    assert run.then(completed("check", handle="else")).outcome is None


def test_several_ends_are_merged_in_the_order_of_the_log():
    document = drawn("start>one, start>two", one=END, two=END)
    run = begun(document).then(completed("two", {"a": 2, "b": 2}), completed("one", {"a": 1}))
    assert run.outcome == {"a": 1, "b": 2}
    run = begun(document).then(completed("one", {"a": 1}), completed("two", {"a": 2, "b": 2}))
    assert run.outcome == {"a": 2, "b": 2}


def test_a_named_end_writes_under_its_name():
    run = begun(drawn("start>one, start>two", one=named("first"), two=END))
    run.then(completed("one", {"a": 1}), completed("two", {"a": 2}))
    assert run.outcome == {"first": {"a": 1}, "a": 2}


def test_an_end_in_a_body_adds_nothing_to_the_output():
    run = begun(drawn("start>each, each.loop>inner, each.done>end", each=loop(), inner=END, end=END))
    run.then(completed("each", [1]), completed("each[0]/inner", {"a": 1}), completed("end", {"b": 2}))
    assert run.outcome == {"b": 2}


def test_an_end_does_not_stop_the_other_branches():
    run = begun(drawn("start>end, start>a", end=END)).then(completed("end", {"a": 1}))
    assert run.status == "RUNNING"
    assert run.when(completed("a")).ending == "INSTANCE_COMPLETED"


def test_an_output_is_kept_across_a_restart():
    run = begun(drawn("start>end, start>a", end=END)).then(completed("end", {"a": 1})).crashed()
    assert run.when(completed("a")).payload("INSTANCE_COMPLETED") == {"a": 1}


def test_an_instance_with_an_open_wait_is_not_complete():
    run = begun(drawn("start>a, start>wait")).then(asks_for("wait", "go")).completed("a")
    assert run.status == "WAITING"


# -- terminate ----------------------------------------------------------------------------
def test_a_terminating_end_completes_the_instance_at_once():
    run = begun(drawn("start>stop, start>a, a>b", stop=STOP))
    happened = run.when(completed("stop", {"why": "enough"}))
    assert happened.types == ["NODE_COMPLETED", "NODE_SKIPPED", "INSTANCE_COMPLETED"]
    assert run.outcome == {"why": "enough"}


def test_open_activations_are_skipped_and_told_to_stop():
    run = begun(drawn("start>stop, start>a, start>b, start>c, start>d", stop=STOP))
    run.then(asks_for("b", "go"), completed("c", delay_ms=10), failed("d", retryable=True))
    happened = run.when(completed("stop", {}))
    assert set(happened.skips) == {"a", "b", "c", "d"}
    assert happened.stops == ["a"]


def test_an_attempt_that_begins_and_is_skipped_in_one_decision_is_neither_dispatched_nor_stopped():
    run = begun(drawn("start>stop, start>a", stop=STOP)).then(failed("a", retryable=True))
    happened = run.then(completed("stop", {}, delay_ms=2_000)).later(5_000)
    assert happened.types == ["NODE_DISPATCHED", "NODE_COMPLETED", "NODE_SKIPPED", "INSTANCE_COMPLETED"]
    assert (happened.decision.commands, happened.stops) == ([], [])


def test_late_results_of_a_terminated_instance_change_nothing():
    run = begun(drawn("start>stop, start>a", stop=STOP)).then(completed("stop", {}))
    assert run.when(completed("a")).nothing


def test_earlier_ends_count_into_the_output_of_a_terminated_instance():
    run = begun(drawn("start>end, start>stop", end=END, stop=STOP))
    run.then(completed("end", {"a": 1}), completed("stop", {"b": 2}))
    assert run.outcome == {"a": 1, "b": 2}


def test_a_named_terminating_end_writes_under_its_name():
    run = begun(drawn("start>stop", stop=named("why", terminate=True))).then(completed("stop", {"a": 1}))
    assert run.outcome == {"why": {"a": 1}}


def test_a_terminating_end_deep_in_a_loop_completes_the_instance():
    document = drawn(
        "start>beside, start>outer, outer.loop>inner, inner.loop>stop, outer.done>after",
        outer=loop(),
        inner=loop(concurrency=3),
        stop=STOP,
    )
    run = begun(document).then(completed("outer", [1, 2]), completed("outer[0]/inner", [1, 2, 3]))
    happened = run.when(completed("outer[0]/inner[1]/stop", {"found": 1}))
    assert happened.ending == "INSTANCE_COMPLETED"
    assert run.outcome == {"found": 1}
    assert set(happened.skips) == {
        "beside",
        "outer",
        "outer[0]/inner",
        "outer[0]/inner[0]/stop",
        "outer[0]/inner[2]/stop",
    }
    assert "after" not in run.rows("NODE_SKIPPED"), "what was never reached is not listed"


def test_inner_activations_are_skipped_before_the_loops_around_them():
    document = drawn(
        "start>stop, start>outer, outer.loop>inner, inner.loop>work", outer=loop(), inner=loop(), stop=STOP
    )
    run = begun(document).then(completed("outer", [1]), completed("outer[0]/inner", [1]))
    assert run.when(completed("stop", {})).skips == ["outer[0]/inner[0]/work", "outer[0]/inner", "outer"]


def test_nothing_is_dispatched_by_a_terminating_decision():
    run = begun(drawn("start>stop, start>each, each.loop>work, each.done>after", each=loop(), stop=STOP))
    run.then(completed("each", [1, 2]))
    assert run.when(completed("stop", {})).dispatches == []
