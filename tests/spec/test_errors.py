"""Failures for good: handled by an edge, ignored, or the end of the iteration or the instance."""

from __future__ import annotations

from itertools import pairwise

import pytest

from anabranch.engine.rules.entry_points import ENTRY_POINT_TYPES
from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.engine.rules.shared.decisions import CONTEXT_BYTES_MAX
from anabranch.engine.rules.value_parts import PART_BYTES_MIN
from tests.spec.drawings import TYPES, TypesWith, condition, drawn, loop
from tests.spec.scenario import asks_for, begun, cancel, completed, failed, given, signal

IGNORE = {"errorHandling": "ignore"}
FAIL_WORKFLOW = {"errorHandling": "fail_workflow"}


# -- handled ------------------------------------------------------------------------------
def test_an_error_edge_handles_a_failure_and_only_error_edges_are_live():
    run = begun(drawn("start>a, a>fine, a.error>rescue"))
    happened = run.when(failed("a"))
    assert (happened.failures, happened.dispatches, happened.skips) == (["a"], ["rescue"], ["fine"])
    assert happened.event("NODE_FAILED").next_handle == "error"
    assert run.when(completed("rescue")).ending == "INSTANCE_COMPLETED"


def test_a_handled_error_is_folded_under_the_variable():
    run = begun(drawn("start>a, a.error>rescue", a={"outputVariable": "orders"}))
    run.then(failed("a", "no route to host", code="HTTP_STATUS"))
    error = {"type": "Broken", "message": "no route to host", "code": "HTTP_STATUS", "attempt": 1}
    assert run.sees("rescue")["orders"] == {"error": error}
    assert run.context("rescue")["__node_a"] == {"error": error}


def test_an_unused_error_edge_is_dead():
    happened = begun(drawn("start>a, a>fine, a.error>rescue")).when(completed("a"))
    assert (happened.dispatches, happened.skips) == (["fine"], ["rescue"])


def test_the_row_of_a_failure_has_the_whole_error():
    happened = begun(drawn("start>a, a.error>rescue")).when(failed("a", "no", code="QUERY_FAILED"))
    assert happened.payload("NODE_FAILED") == {
        "error": {
            "code": "QUERY_FAILED",
            "type": "Broken",
            "message": "no",
            "nodeID": "a",
            "scope": "",
            "attempt": 1,
        }
    }
    assert happened.event("NODE_FAILED").error_message == "no"


def test_an_ignored_failure_folds_null_and_follows_the_default_edges():
    run = begun(drawn("start>a, a>next, a.error>rescue", a={"outputVariable": "orders", **IGNORE}))
    happened = run.when(failed("a"))
    assert (happened.failures, happened.dispatches, happened.skips) == (["a"], ["next"], ["rescue"])
    assert run.sees("next")["orders"] is None


def test_an_ignored_condition_follows_else():
    document = drawn("start>check, check.yes>a, check.else>b", check={**condition("yes"), **IGNORE})
    happened = begun(document).when(failed("check"))
    assert (happened.dispatches, happened.skips) == (["b"], ["a"])


def test_an_ignored_loop_follows_done():
    document = drawn("start>each, each.loop>work, each.done>after", each={**loop(), **IGNORE})
    run = begun(document).then(completed("each", ["x"]))
    happened = run.when(failed("each[0]/work"))
    assert (happened.failures, happened.dispatches) == (["each[0]/work", "each"], ["after"])


# -- unhandled at the root ----------------------------------------------------------------
def test_an_unhandled_failure_fails_the_instance_in_the_same_transaction():
    run = begun(drawn("start>a, a>b"))
    happened = run.when(failed("a", "out of paper"))
    assert happened.types == ["NODE_FAILED", "INSTANCE_FAILED"]
    assert run.status == "FAILED"
    assert run.outcome == happened.payload("NODE_FAILED")["error"]
    assert happened.event("INSTANCE_FAILED").error_message == "out of paper"


def test_a_failed_instance_tells_what_is_in_flight_to_stop():
    run = begun(drawn("start>a, start>b, start>c")).completed("c")
    assert run.when(failed("a")).stops == ["b"]


def test_late_results_of_a_failed_instance_are_discarded():
    run = begun(drawn("start>a, start>b")).then(failed("a"))
    assert run.when(completed("b")).nothing
    assert run.when(failed("b")).nothing


def test_a_default_edge_does_not_handle_a_failure():
    assert begun(drawn("start>a, a>b")).when(failed("a")).ending == "INSTANCE_FAILED"


def test_fail_workflow_ignores_an_error_edge():
    run = begun(drawn("start>a, a.error>rescue", a=FAIL_WORKFLOW))
    happened = run.when(failed("a"))
    assert (happened.dispatches, happened.ending) == ([], "INSTANCE_FAILED")


def test_a_failing_start_fails_the_instance():
    assert given(drawn("start>a")).when(failed("start")).ending == "INSTANCE_FAILED"


# -- unhandled in a body ------------------------------------------------------------------
BODY = "start>each, each.loop>a, each.loop>b, a>c, b>d, each.done>after"


def test_an_unhandled_failure_in_a_body_fails_its_iteration_only():
    run = begun(drawn(BODY, each=loop(concurrency=2, onItemError="collect"))).then(completed("each", ["x", "y"]))
    happened = run.when(failed("each[0]/a", "bad item"))
    assert happened.failures == ["each[0]/a"]
    assert set(happened.skips) == {"each[0]/b", "each[0]/c", "each[0]/d"}
    assert happened.stops == ["each[0]/b"]
    assert run.owed == {"each[1]/a", "each[1]/b"}


def test_late_results_of_a_failed_iteration_are_discarded():
    run = begun(drawn(BODY, each=loop(concurrency=2, onItemError="collect"))).then(completed("each", ["x", "y"]))
    run.then(failed("each[0]/a"))
    assert run.when(completed("each[0]/b")).nothing


def test_a_failure_deep_in_nested_loops_ends_the_inner_loops_of_its_iteration():
    document = drawn(
        "start>outer, outer.loop>inner, outer.loop>beside, inner.loop>work",
        outer=loop(onItemError="collect"),
        inner=loop(concurrency=2),
    )
    run = begun(document).then(completed("outer", [1])).then(completed("outer[0]/inner", [1, 2]))
    happened = run.when(failed("outer[0]/beside"))
    assert set(happened.skips[:2]) == {"outer[0]/inner[0]/work", "outer[0]/inner[1]/work"}
    assert happened.skips[2:] == ["outer[0]/inner"]
    assert set(happened.stops) == {"outer[0]/inner[0]/work", "outer[0]/inner[1]/work"}
    assert run.status == "COMPLETED"


def test_a_failed_iteration_forgets_its_delays_retries_and_waits():
    document = drawn("start>each, each.loop>a, each.loop>b, each.loop>c, each.loop>d", each=loop(onItemError="collect"))
    run = begun(document).then(completed("each", [1, 2]))
    run.then(
        completed("each[0]/b", delay_ms=5_000),
        failed("each[0]/c", retryable=True),
        asks_for("each[0]/d", "go", timeout_ms=9_000),
    )
    run.then(failed("each[0]/a"))
    assert run.due == {}
    assert run.when(signal("go")).decision.delivered is False


def test_an_error_edge_inside_a_body_handles_its_failure():
    document = drawn("start>each, each.loop>work, work.error>rescue", each=loop())
    run = begun(document).then(completed("each", [1]))
    assert run.when(failed("each[0]/work")).dispatches == ["each[0]/rescue"]
    assert run.when(completed("each[0]/rescue", "saved")).payload("NODE_COMPLETED", "each") == ["saved"]


def test_an_ignored_failure_inside_a_body_goes_on():
    document = drawn("start>each, each.loop>work, work>next", each=loop(), work=IGNORE)
    run = begun(document).then(completed("each", [1]))
    assert run.when(failed("each[0]/work")).dispatches == ["each[0]/next"]


def test_fail_workflow_fails_the_instance_from_any_depth():
    document = drawn(
        "start>outer, outer.loop>inner, inner.loop>work, outer.error>rescue",
        outer=loop(onItemError="collect"),
        inner=loop(onItemError="skip", concurrency=2),
        work=FAIL_WORKFLOW,
    )
    run = begun(document).then(completed("outer", [1]), completed("outer[0]/inner", [1, 2]))
    happened = run.when(failed("outer[0]/inner[1]/work", "halt"))
    assert happened.types == ["NODE_FAILED", "INSTANCE_FAILED"]
    assert happened.stops == ["outer[0]/inner[0]/work"]
    assert run.outcome["message"] == "halt"


# -- errors of the rules' own -------------------------------------------------------------
def test_a_handle_that_the_node_does_not_have_fails_it():
    happened = begun(drawn("start>a, a.error>b")).when(completed("a", handle="nowhere"))
    assert happened.payload("NODE_FAILED")["error"]["code"] == "UNKNOWN_HANDLE"
    assert happened.dispatches == ["b"]


def test_only_the_engine_picks_the_error_handle():
    happened = begun(drawn("start>a, a.error>b")).when(completed("a", handle="error"))
    assert happened.payload("NODE_FAILED")["error"]["code"] == "UNKNOWN_HANDLE"


def test_a_node_without_a_default_handle_must_name_the_one_it_leaves_by():
    happened = begun(drawn("start>check, check.yes>a", check=condition("yes"))).when(completed("check"))
    assert happened.payload("NODE_FAILED")["error"]["code"] == "UNKNOWN_HANDLE"


SINK = NodeType(
    type="sink",
    title="Sink",
    config_schema={"type": "object"},
    handles=lambda config: (),
    check=lambda config: (),
)


def test_a_node_of_a_type_without_handles_needs_to_name_none():
    document = drawn("start>a, a.error>rescue", a={"type": "sink"})
    happened = begun(document, types=TypesWith(SINK)).when(completed("a", 1))
    assert (happened.completions, happened.skips) == (["a"], ["rescue"])


def test_an_unknown_handle_is_not_retried():
    run = begun(drawn("start>a", a={"retry": {"maxAttempts": 5}}))
    assert run.when(completed("a", handle="nowhere")).ending == "INSTANCE_FAILED"


BIG = "x" * (PART_BYTES_MIN - 2)
"""The largest text that is not stored apart."""
FITTING = CONTEXT_BYTES_MAX // PART_BYTES_MIN - 1
"""So many of these outputs fit into a context, beside the input and the small ones."""


def test_an_output_that_would_overfill_the_context_fails_its_node():
    nodes = [f"n{number}" for number in range(FITTING)]
    run = begun(drawn(", ".join([*(f"start>{node}" for node in nodes), "start>last, last.error>rescue"])))
    run.completed(*nodes, output=BIG)
    happened = run.when(completed("last", BIG))
    assert happened.payload("NODE_FAILED")["error"]["code"] == "CONTEXT_TOO_LARGE"
    assert happened.dispatches == ["rescue"]


def test_a_large_value_fills_a_context_with_references():
    nodes = [f"n{number}" for number in range(60)]
    run = begun(drawn(", ".join(f"{before}>{node}" for before, node in pairwise(["start", *nodes]))))
    run.completed(*nodes, output={"text": "x" * 1_000_000})
    assert run.status == "COMPLETED"
    assert run.state.context_bytes(run.state.root) < 60 * 300
    assert run.state.values_bytes == 1_000_002
    values = {id(entry[1]["text"]) for name, entry in run.state.root.entries.items() if name.startswith("__node_n")}
    assert len(values) == 1, "a run has it in memory once"


def test_different_large_values_fill_the_log():
    nodes = [f"n{number}" for number in range(70)]
    run = begun(drawn(", ".join(f"{before}>{node}" for before, node in pairwise(["start", *nodes]))))
    for number, node in enumerate(nodes):
        if run.status == "RUNNING":
            run.completed(node, output=f"{number:03}" + "x" * 1_000_000)
    assert (run.status, run.state.outcome.value["code"]) == ("FAILED", "LOG_TOO_LARGE")


def test_what_iterations_write_fills_the_context_only_while_they_are_open():
    document = drawn("start>each, each.loop>work, work>shrink", each=loop())
    run = begun(document).then(completed("each", list(range(FITTING + 2))))
    for index in range(FITTING + 2):
        run.completed(f"each[{index}]/work", output=BIG)
        run.completed(f"each[{index}]/shrink", output="small")
    assert run.status == "COMPLETED"


@pytest.mark.parametrize("kind", sorted(set(TYPES.names()) - ENTRY_POINT_TYPES - {"end"}))
def test_every_type_but_entry_points_and_end_may_fail_into_its_error_edge(kind):
    run = begun(
        {
            "nodes": [{"id": "start", "type": "start"}, {"id": "a", "type": kind}, {"id": "b", "type": "set"}],
            "edges": [
                {"upstreamNodeID": "start", "downstreamNodeID": "a"},
                {"upstreamNodeID": "a", "downstreamNodeID": "b", "sourceHandle": "error"},
            ],
        }
    )
    assert run.when(failed("a")).dispatches == ["b"]


def test_a_failed_end_fails_the_instance():
    run = begun(drawn("start>end", end={"type": "end"}))
    assert run.when(failed("end")).ending == "INSTANCE_FAILED"


def test_a_failure_after_a_cancel_changes_nothing():
    run = begun(drawn("start>a")).then(cancel())
    assert run.when(failed("a")).nothing
    assert run.status == "CANCELLED"
