"""`forEach` loops: iterations, their values, their errors, and what is collected."""

from __future__ import annotations

import pytest

from anabranch.engine.rules.values import VALUE_BYTES_MAX
from tests.spec.drawings import condition, drawn, loop
from tests.spec.scenario import asks_for, begun, completed, failed

WORK = "start>each, each.loop>work, each.done>after"


def each(run, source):
    """The loop `each` has resolved its source."""
    return run.then(completed("each", source))


def result_of(run, *nodes, loop_node="each"):
    """What the loop hands on once these activations have completed, each with its own name."""
    for node in nodes:
        run.then(completed(node, node))
    return run.row("NODE_COMPLETED", loop_node)


# -- opening ------------------------------------------------------------------------------
def test_the_source_and_its_length_are_recorded_once():
    happened = begun(drawn(WORK, each=loop())).when(completed("each", ["x", "y"]))
    assert happened.types == ["LOOP_OPENED", "NODE_DISPATCHED"]
    assert happened.payload("LOOP_OPENED") == {"items": ["x", "y"], "count": 2}


def test_iterations_run_one_after_the_other_by_default():
    run = each(begun(drawn(WORK, each=loop())), ["x", "y"])
    assert run.owed == {"each[0]/work"}
    assert run.when(completed("each[0]/work")).dispatches == ["each[1]/work"]


def test_concurrency_bounds_the_open_iterations():
    run = each(begun(drawn(WORK, each=loop(concurrency=2))), [1, 2, 3, 4])
    assert run.owed == {"each[0]/work", "each[1]/work"}
    assert run.when(completed("each[1]/work")).dispatches == ["each[2]/work"]
    assert run.when(completed("each[2]/work")).dispatches == ["each[3]/work"]
    assert run.owed == {"each[0]/work", "each[3]/work"}


def test_a_concurrency_beyond_the_items_opens_all_of_them():
    run = each(begun(drawn(WORK, each=loop(concurrency=100))), [1, 2, 3])
    assert run.owed == {"each[0]/work", "each[1]/work", "each[2]/work"}


def test_an_empty_source_leaves_by_done_with_an_empty_list_and_no_rows_for_the_body():
    run = begun(drawn("start>each, each.loop>work, work>more, each.done>after", each=loop()))
    happened = run.when(completed("each", []))
    assert happened.types == ["LOOP_OPENED", "NODE_COMPLETED", "NODE_DISPATCHED"]
    assert happened.payload("NODE_COMPLETED") == []
    assert happened.dispatches == ["after"]


def test_a_skipped_loop_writes_no_rows_for_its_body():
    document = drawn(
        "start>check, check.yes>each, each.loop>work, each.done>after", each=loop(), check=condition("yes")
    )
    happened = begun(document).when(completed("check", handle="else"))
    assert happened.skips == ["each", "after"]


def test_a_loop_ends_when_its_last_iteration_has_ended():
    run = each(begun(drawn(WORK, each=loop(concurrency=2))), [1, 2])
    assert run.when(completed("each[1]/work")).completions == ["each[1]/work"]
    happened = run.when(completed("each[0]/work"))
    assert happened.completions == ["each[0]/work", "each"]
    assert happened.dispatches == ["after"]
    assert happened.event("NODE_COMPLETED", "each").next_handle == "done"


def test_a_second_result_of_an_open_loop_changes_nothing():
    run = each(begun(drawn(WORK, each=loop())), [1])
    assert run.when(completed("each", [1, 2, 3])).nothing
    assert run.when(failed("each")).nothing


def test_an_iteration_ends_when_everything_in_it_has_ended():
    document = drawn("start>each, each.loop>a, each.loop>b, a>c", each=loop())
    run = each(begun(document), [1, 2]).completed("each[0]/a", "each[0]/b")
    assert run.owed == {"each[0]/c"}
    assert run.when(completed("each[0]/c")).dispatches == ["each[1]/a", "each[1]/b"]


def test_a_body_with_joins_and_conditions_has_its_own_verdicts():
    document = drawn(
        "start>each, each.loop>check, check.yes>a, check.else>b, a>join, b>join",
        each=loop(concurrency=2),
        check=condition("yes"),
    )
    run = each(begun(document), [1, 2])
    assert run.when(completed("each[0]/check", handle="yes")).skips == ["each[0]/b"]
    assert run.when(completed("each[1]/check", handle="else")).skips == ["each[1]/a"]
    assert run.when(completed("each[0]/a")).dispatches == ["each[0]/join"]
    assert run.when(completed("each[1]/b")).dispatches == ["each[1]/join"]


def test_an_any_join_in_a_body_runs_once_in_each_iteration():
    document = drawn("start>each, each.loop>a, each.loop>b, a>join, b>join", each=loop(), join={"joinMode": "any"})
    run = each(begun(document), [1, 2])
    assert run.when(completed("each[0]/b")).dispatches == ["each[0]/join"]
    assert run.when(completed("each[0]/join")).dispatches == []
    assert run.when(completed("each[0]/a")).dispatches == ["each[1]/a", "each[1]/b"]


def test_a_join_of_the_loop_edge_and_an_inner_edge_waits_for_both():
    document = drawn("start>each, each.loop>a, each.loop>join, a>join", each=loop())
    run = each(begun(document), [1])
    assert run.owed == {"each[0]/a"}
    assert run.when(completed("each[0]/a")).dispatches == ["each[0]/join"]


def test_a_back_edge_is_no_incoming_edge_of_the_loops_join():
    document = drawn("start>a, start>b, a>each, b>each, each.loop>work, work>each, each.done>after", each=loop())
    run = begun(document).completed("a")
    assert run.when(completed("b")).dispatches == ["each"]
    each(run, [1])
    assert run.when(completed("each[0]/work")).dispatches == ["after"]


def test_a_loop_without_a_body_ends_at_once():
    run = begun(drawn("start>each, each.done>after", each=loop()))
    happened = run.when(completed("each", [1, 2]))
    assert happened.payload("NODE_COMPLETED") == [None, None]
    assert happened.dispatches == ["after"]


def test_a_loop_without_a_body_still_yields():
    run = begun(drawn("start>each, each.done>after", each=loop(**{"yield": "{{ctx.item * ctx.index}}"})))
    assert run.when(completed("each", [5, 6, 7])).payload("NODE_COMPLETED") == [0, 6, 14]


# -- values -------------------------------------------------------------------------------
def test_results_are_in_item_order_whatever_ended_first():
    run = each(begun(drawn(WORK, each=loop(concurrency=3))), [1, 2, 3])
    result = result_of(run, "each[2]/work", "each[0]/work", "each[1]/work")
    assert result == ["each[0]/work", "each[1]/work", "each[2]/work"]


def test_the_value_of_an_iteration_is_its_only_completed_sink():
    run = each(begun(drawn("start>each, each.loop>a, a>b", each=loop())), [1])
    assert result_of(run, "each[0]/a", "each[0]/b") == ["each[0]/b"]


def test_several_completed_sinks_make_an_object_by_variable_or_node():
    document = drawn("start>each, each.loop>a, each.loop>b", each=loop(), b={"outputVariable": "bee"})
    run = each(begun(document), [1])
    assert result_of(run, "each[0]/a", "each[0]/b") == [{"a": "each[0]/a", "bee": "each[0]/b"}]


def test_a_skipped_sink_is_no_value():
    document = drawn("start>each, each.loop>check, check.yes>a, check.else>b", each=loop(), check=condition("yes"))
    run = each(begun(document), [1]).then(completed("each[0]/check", handle="else"), completed("each[0]/b", "bee"))
    assert run.row("NODE_COMPLETED", "each") == ["bee"]


def test_no_completed_sink_makes_null():
    document = drawn("start>each, each.loop>check, check.yes>a", each=loop(), check=condition("yes"))
    run = each(begun(document), [1]).then(completed("each[0]/check", handle="else"))
    assert run.row("NODE_COMPLETED", "each") == [None]


def test_a_live_back_edge_beats_the_sinks():
    document = drawn("start>each, each.loop>a, each.loop>b, a>each", each=loop())
    run = each(begun(document), [1])
    assert result_of(run, "each[0]/a", "each[0]/b") == ["each[0]/a"]


def test_of_several_live_back_edges_the_later_ending_counts():
    document = drawn("start>each, each.loop>a, each.loop>b, a>each, b>each", each=loop())
    assert result_of(each(begun(document), [1]), "each[0]/a", "each[0]/b") == ["each[0]/b"]
    assert result_of(each(begun(document), [1]), "each[0]/b", "each[0]/a") == ["each[0]/a"]


def test_a_dead_back_edge_is_no_value():
    document = drawn("start>each, each.loop>check, check.yes>each, check.else>b", each=loop(), check=condition("yes"))
    run = each(begun(document), [1]).then(completed("each[0]/check", handle="else"), completed("each[0]/b", "bee"))
    assert run.row("NODE_COMPLETED", "each") == ["bee"]


def test_a_handled_error_on_a_back_edge_is_the_value():
    document = drawn("start>each, each.loop>a, a.error>each", each=loop())
    run = each(begun(document), [1]).then(failed("each[0]/a", "no"))
    assert run.row("NODE_COMPLETED", "each") == [
        {"error": {"type": "Broken", "message": "no", "code": "HANDLER_ERROR", "attempt": 1}}
    ]


def test_an_ignored_failure_on_a_back_edge_is_null():
    document = drawn("start>each, each.loop>a, each.loop>b, a>each", each=loop(), a={"errorHandling": "ignore"})
    run = each(begun(document), [1]).completed("each[0]/b", output="a sink").then(failed("each[0]/a"))
    assert run.row("NODE_COMPLETED", "each") == [None]


def test_yield_is_resolved_in_the_final_context_of_the_iteration():
    document = drawn(
        "start>each, each.loop>a, a>b",
        each=loop(**{"yield": "{{ctx.item}}-{{ctx.index}}-{{ctx.word}}"}),
        a={"outputVariable": "word"},
    )
    run = each(begun(document), ["x", "y"])
    for index, word in enumerate(["one", "two"]):
        run.then(completed(f"each[{index}]/a", word)).completed(f"each[{index}]/b")
    assert run.row("NODE_COMPLETED", "each") == ["x-0-one", "y-1-two"]


def test_a_yield_that_cannot_be_resolved_fails_the_iteration():
    document = drawn(WORK, each=loop(onItemError="collect", **{"yield": "{{ctx.nothing.there}}"}))
    run = each(begun(document), [1])
    happened = run.when(completed("each[0]/work"))
    assert happened.payload("NODE_COMPLETED", "each")[0]["error"]["code"] == "TEMPLATE_PATH_MISSING"


def test_an_end_in_a_body_is_a_sink_of_its_iteration_only():
    run = each(begun(drawn("start>each, each.loop>end", each=loop(), end={"type": "end"})), [1])
    run.then(completed("each[0]/end", {"n": 1}))
    assert run.row("NODE_COMPLETED", "each") == [{"n": 1}]
    assert run.outcome is None


# -- errors -------------------------------------------------------------------------------
def test_by_default_a_failed_iteration_fails_the_loop_with_its_error():
    run = each(begun(drawn(WORK, each=loop(concurrency=3))), [1, 2, 3])
    happened = run.when(failed("each[1]/work", "bad item"))
    assert happened.failures == ["each[1]/work", "each"]
    error = happened.payload("NODE_FAILED", "each")["error"]
    assert (error["message"], error["nodeID"], error["scope"]) == ("bad item", "work", "each[1]")
    assert set(happened.skips) == {"each[0]/work", "each[2]/work"}
    assert set(happened.stops) == {"each[0]/work", "each[2]/work"}
    assert run.status == "FAILED"


def test_the_first_error_is_the_one_that_counts():
    """The abandoned iteration cannot resolve its yield, which is only a consequence."""
    document = drawn(WORK, each=loop(concurrency=2, **{"yield": "{{ctx.word}}"}), work={"outputVariable": "word"})
    run = each(begun(document), [1, 2]).then(failed("each[1]/work", "bad item"))
    assert run.outcome["message"] == "bad item"


def test_a_failed_loop_opens_no_further_iterations():
    run = each(begun(drawn("start>each, each.loop>work, each.error>rescue", each=loop())), [1, 2, 3])
    happened = run.when(failed("each[0]/work"))
    assert happened.dispatches == ["rescue"]
    assert happened.types.count("NODE_SKIPPED") == 0


def test_collect_puts_the_error_in_its_place():
    run = each(begun(drawn(WORK, each=loop(onItemError="collect"))), [1, 2])
    run.then(failed("each[0]/work", "bad item"), completed("each[1]/work", "fine"))
    collected = run.row("NODE_COMPLETED", "each")
    assert collected[0]["error"]["message"] == "bad item"
    assert collected[1] == "fine"


def test_skip_leaves_the_item_out_and_shifts_no_index():
    run = each(begun(drawn(WORK, each=loop(onItemError="skip"))), ["a", "b", "c"])
    run.then(completed("each[0]/work", 0), failed("each[1]/work"))
    assert run.sees("each[2]/work")["index"] == 2
    run.then(completed("each[2]/work", 2))
    assert run.row("NODE_COMPLETED", "each") == [0, 2]


def test_all_items_may_fail_and_be_skipped():
    run = each(begun(drawn(WORK, each=loop(onItemError="skip", concurrency=2))), [1, 2])
    run.then(failed("each[0]/work"), failed("each[1]/work"))
    assert run.row("NODE_COMPLETED", "each") == []


def test_a_loop_fails_as_soon_as_its_results_pass_one_megabyte():
    run = each(begun(drawn(WORK, each=loop(concurrency=4))), [1, 2, 3, 4])
    third = "x" * (VALUE_BYTES_MAX // 3)
    run.then(completed("each[0]/work", third), completed("each[1]/work", third))
    happened = run.when(completed("each[2]/work", third))
    assert happened.payload("NODE_FAILED")["error"]["code"] == "VALUE_TOO_LARGE"
    assert happened.skips == ["each[3]/work"]


def test_errors_that_the_handler_finds_fail_the_loop_node():
    for code in ("LOOP_SOURCE_NOT_A_LIST", "LOOP_LIMIT"):
        happened = begun(drawn("start>each, each.loop>work, each.error>rescue", each=loop())).when(
            failed("each", code=code)
        )
        assert happened.payload("NODE_FAILED")["error"]["code"] == code
        assert happened.dispatches == ["rescue"]


# -- nesting ------------------------------------------------------------------------------
NESTED = drawn("start>outer, outer.loop>inner, inner.loop>work, inner.done>sum, outer.done>after",
               outer=loop(concurrency=2), inner=loop(concurrency=2))  # fmt: skip


def test_inner_loops_have_scopes_of_their_own_in_each_outer_iteration():
    run = begun(NESTED).then(completed("outer", [1, 2]))
    assert run.owed == {"outer[0]/inner", "outer[1]/inner"}
    run.then(completed("outer[0]/inner", [1, 2]), completed("outer[1]/inner", [1]))
    assert run.owed == {"outer[0]/inner[0]/work", "outer[0]/inner[1]/work", "outer[1]/inner[0]/work"}


def test_an_inner_loop_ends_within_its_outer_iteration():
    run = begun(NESTED).then(completed("outer", [1]), completed("outer[0]/inner", [1]))
    assert run.when(completed("outer[0]/inner[0]/work", 7)).dispatches == ["outer[0]/sum"]
    happened = run.when(completed("outer[0]/sum", 8))
    assert happened.payload("NODE_COMPLETED", "outer") == [8]
    assert happened.dispatches == ["after"]


def test_inner_loops_collect_on_their_own_terms():
    document = drawn("start>outer, outer.loop>inner, inner.loop>work", outer=loop(), inner=loop(onItemError="skip"))
    run = begun(document).then(completed("outer", [1]), completed("outer[0]/inner", [1, 2]))
    run.then(failed("outer[0]/inner[0]/work"), completed("outer[0]/inner[1]/work", "b"))
    assert run.row("NODE_COMPLETED", "outer") == [["b"]]


def test_a_failed_inner_loop_fails_its_outer_iteration():
    document = drawn("start>outer, outer.loop>inner, inner.loop>work", outer=loop(onItemError="collect"), inner=loop())
    run = begun(document).then(completed("outer", [1]), completed("outer[0]/inner", [1, 2]))
    happened = run.when(failed("outer[0]/inner[0]/work", "deep"))
    assert happened.failures == ["outer[0]/inner[0]/work", "outer[0]/inner"]
    assert happened.payload("NODE_COMPLETED", "outer")[0]["error"]["message"] == "deep"


def test_empty_inner_loops_pass_through_their_outer_iterations():
    document = drawn("start>outer, outer.loop>inner, inner.loop>work", outer=loop(), inner=loop())
    run = begun(document).then(completed("outer", [1, 2]), completed("outer[0]/inner", []))
    assert run.when(completed("outer[1]/inner", [])).ending == "INSTANCE_COMPLETED"


@pytest.mark.parametrize("concurrency", [1, 2, 5])
def test_every_item_is_worked_on_exactly_once(concurrency):
    run = each(begun(drawn(WORK, each=loop(concurrency=concurrency))), list("abcde"))
    while any("work" in node for node in run.owed):
        node = min(node for node in run.owed if "work" in node)
        run.then(completed(node, run.sees(node)["item"]))
        assert len(run.owed) <= concurrency
    assert run.row("NODE_COMPLETED", "each") == list("abcde")


def test_a_wait_in_one_iteration_does_not_hold_the_others():
    run = each(begun(drawn(WORK, each=loop(concurrency=2))), [1, 2, 3]).then(asks_for("each[0]/work", "go"))
    assert run.when(completed("each[1]/work")).dispatches == ["each[2]/work"]
