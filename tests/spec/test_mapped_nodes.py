"""Mapped nodes: a node with `forEach` runs once for each item of a list, and its output is the list."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.entry_points import ENTRY_POINT_TYPES
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.validate import analyze
from anabranch.engine.rules.repair.fork_plan import ForkCut, ForkPlan, RecordedRun, plan_fork
from anabranch.engine.rules.stimuli import EvaluationDue, LeaseAcquired, Started
from anabranch.engine.rules.test_runs import Pin, TestRunPlan
from anabranch.engine.rules.values import Payload
from anabranch.engine.rules.verify.check_log import check_log
from tests.spec.drawings import TYPES, drawn, errors, report, warnings
from tests.spec.scenario import (
    Scenario,
    asks_for,
    awaits_child,
    cancel,
    child_of,
    completed,
    failed,
    given,
    signal,
)

CALL = {"type": "httpRequest", "config": {"url": "{{ctx.item}}"}, "forEach": "{{ctx.input}}", "outputVariable": "rows"}
END = {"type": "end", "config": {"outputParameters": {"rows": "{{ctx.rows}}"}}}
EDGES = "start>call, call>end"


def mapped(edges: str = EDGES, nodes: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A workflow with a mapped call."""
    return drawn(edges, call={**CALL, **fields}, end=END, **(nodes or {}))


def running(document: dict[str, Any], input_: Any = None, **options: Any) -> Scenario:
    return given(document, input_, evaluates=True, **options).then(EvaluationDue())


def item(index: int, output: Any = None, node: str = "call") -> Any:
    return completed(f"{node}[{index}]/{node}", output)


# -- what it does -------------------------------------------------------------------------
def test_it_runs_once_per_item_and_its_output_is_the_list():
    run = running(mapped(), ["a", "b"])
    assert run.owed == {"call[0]/call"}
    assert {"item": "a", "index": 0, "count": 2}.items() <= run.sees("call[0]/call").items()
    run.then(item(0, "A"), item(1, "B"))
    assert run.outcome == {"rows": ["A", "B"]}
    assert check_log(run.plan, run.head, run.log) == []


def test_its_rows_are_those_of_a_loop_with_one_node():
    run = running(mapped(concurrency=2), ["a", "b"]).then(item(1, "B"), item(0, "A"))
    each = {"type": "loop", "config": {"source": "{{ctx.input}}", "concurrency": 2}, "outputVariable": "rows"}
    call = {"type": "httpRequest", "config": {"url": "{{ctx.item}}"}}
    looped = running(drawn("start>each, each.loop>call, each.done>end", each=each, call=call, end=END), ["a", "b"])
    looped.then(completed("each[1]/call", "B"), completed("each[0]/call", "A"))
    renamed = [
        (e.type, e.node_id.replace("each", "call"), e.scope.replace("each", "call"), e.payload.value)
        for e in looped.log
    ]
    assert [(e.type, e.node_id, e.scope, e.payload.value) for e in run.log] == renamed


def test_no_items_give_an_empty_list():
    assert running(mapped(), []).outcome == {"rows": []}


def test_as_many_items_run_at_once_as_its_concurrency_says():
    run = running(mapped(concurrency=2), ["a", "b", "c"])
    assert run.owed == {"call[0]/call", "call[1]/call"}
    assert run.when(item(1)).dispatches == ["call[2]/call"]


def test_with_a_batch_size_an_item_is_a_list_of_at_most_so_many():
    run = running(mapped(batchSize=2), ["a", "b", "c"])
    assert run.sees("call[0]/call")["item"] == ["a", "b"]
    run.then(item(0))
    assert (run.sees("call[1]/call")["item"], run.sees("call[1]/call")["count"]) == (["c"], 2)


def test_a_loop_node_takes_batches_too():
    each = {"type": "loop", "config": {"source": [1, 2, 3], "batchSize": 2}}
    run = running(drawn("start>each, each.loop>work", each=each, work={"type": "httpRequest", "config": {"url": "u"}}))
    assert run.sees("each[0]/work")["item"] == [1, 2]
    both = {"type": "loop", "config": {"while": "{{true}}", "batchSize": 2}}
    assert errors(drawn("start>each", each=both)) == [("CONFIG_INVALID", "each")]


@pytest.mark.parametrize(
    ("policy", "rows"), [("collect", ["A", {"error": "HANDLER_ERROR"}, "C"]), ("skip", ["A", "C"])]
)
def test_a_failed_item_is_collected_or_left_out(policy: str, rows: list[Any]):
    run = running(mapped(onItemError=policy), ["a", "b", "c"])
    run.then(item(0, "A"), failed("call[1]/call"), item(2, "C"))
    found = [{"error": each["error"]["code"]} if isinstance(each, dict) else each for each in run.outcome["rows"]]
    assert found == rows


def test_a_failed_item_fails_the_node_and_stops_the_others():
    run = running(mapped(concurrency=2), ["a", "b", "c"])
    happened = run.when(failed("call[0]/call"))
    assert (happened.failures, happened.skips) == (["call[0]/call", "call"], ["call[1]/call"])
    assert (happened.stops, happened.ending) == (["call[1]/call"], "INSTANCE_FAILED")


def test_its_error_edge_takes_what_fails_it():
    run = running(mapped("start>call, call>end, call.error>alarm"), ["a"])
    happened = run.when(failed("call[0]/call"))
    assert (happened.dispatches, happened.skips) == (["alarm"], ["end"])


def test_ignored_failures_leave_null():
    run = running(mapped(errorHandling="ignore"), ["a"]).then(failed("call[0]/call"))
    assert run.outcome == {"rows": None}


def test_an_item_is_tried_again_by_itself():
    run = running(mapped(concurrency=2, retry={"maxAttempts": 2}), ["a", "b"])
    run.then(failed("call[0]/call", retryable=True), item(1, "B"))
    run.later(60_000)
    assert run.owed == {"call[0]/call#2"}
    run.then(completed("call[0]/call#2", "A"))
    assert run.outcome == {"rows": ["A", "B"]}


def test_what_it_goes_through_must_be_a_list():
    assert running(mapped(), "no list").outcome["code"] == "LOOP_SOURCE_NOT_A_LIST"


def test_more_items_than_a_loop_may_have_fail_it():
    assert running(mapped(), [0] * 100_001).outcome["code"] == "LOOP_LIMIT"


def test_waits_signals_and_timeouts_are_those_of_the_items():
    wait = {"type": "waitForEvent", "config": {"event": "go", "timeout": "1s"}, "forEach": [1, 2], "concurrency": 2}
    document = drawn("start>wait, wait>end", wait={**wait, "outputVariable": "rows"}, end=END)
    assert warnings(document) == []
    run = given(document, evaluates=True).then(EvaluationDue())
    run.then(*(asks_for(f"wait[{index}]/wait", "go", timeout_ms=1_000) for index in (0, 1)))
    run.then(signal("go", "yes"))
    run.later(1_000)
    assert run.outcome == {"rows": ["yes", None]}


def test_children_of_a_mapped_workflow_node_are_cancelled_with_it():
    call = {"type": "workflow", "config": {"workflow": "other"}, "forEach": "{{ctx.input}}", "concurrency": 2}
    run = running(drawn("start>call", call=call), [1, 2])
    run.then(awaits_child("call[0]/call"), awaits_child("call[1]/call"))
    assert set(run.when(cancel()).cancels) == {child_of("call[0]/call"), child_of("call[1]/call")}


def test_in_the_body_of_a_loop_the_inner_item_hides_the_outer_one():
    each = {"type": "loop", "config": {"source": "{{ctx.input}}"}}
    call = {**CALL, "forEach": "{{ctx.item}}"}
    run = running(drawn("start>each, each.loop>call, each.done>end", each=each, call=call), [["a"], ["b"]])
    assert run.owed == {"each[0]/call[0]/call"}
    assert run.sees("each[0]/call[0]/call")["item"] == "a"
    run.then(completed("each[0]/call[0]/call", 1), completed("each[1]/call[0]/call", 2))
    assert run.row("NODE_COMPLETED", "each") == [[1], [2]]


def test_it_may_be_the_header_of_a_region():
    more = {"type": "condition", "config": {"branches": [{"id": "again", "expression": "{{ctx.rows == [1]}}"}]}}
    document = mapped("start>call, call>more, more.again>call, more.else>end", {"more": more})
    run = running(document, ["a"]).then(completed("call#1/call[0]/call", 1), completed("call#2/call[0]/call", 2))
    assert run.outcome == {"rows": [2]}
    assert check_log(run.plan, run.head, run.log) == []


def test_a_disabled_one_completes_at_once():
    assert running(mapped(disabled=True), ["a"]).outcome == {"rows": None}


def test_a_pin_stands_for_the_whole_list():
    plan = compile_plan(mapped(), TYPES, TestRunPlan({"call": Pin([7])}))
    assert given(plan, ["a"]).then(EvaluationDue()).outcome == {"rows": [7]}


def test_a_test_run_up_to_it_runs_all_its_items():
    plan = compile_plan(mapped(), TYPES, TestRunPlan(until="call"))
    run = given(plan, ["a", "b"]).then(EvaluationDue(), item(0), item(1))
    assert (run.status, set(run.plan.nodes)) == ("COMPLETED", {"start", "call"})


def test_a_crash_between_items_changes_nothing():
    run = running(mapped(batchSize=1), ["a", "b"]).crashed().then(item(0, "A")).crashed().then(item(1, "B"))
    assert run.outcome == {"rows": ["A", "B"]}


# -- repair -------------------------------------------------------------------------------
def test_a_retry_tries_the_failed_item_alone():
    run = running(mapped(concurrency=2), ["a", "b"]).then(item(0, "A"), failed("call[1]/call"))
    assert run.status == "FAILED"
    run.reopened().when(LeaseAcquired())
    assert [place.partition("#")[0] for place in run.owed] == ["call[1]/call"]


def test_a_fork_keeps_the_items_that_have_completed():
    run = running(mapped(concurrency=2), ["a", "b"]).then(item(0, "A"), failed("call[1]/call"))
    fork = forked(run, mapped(concurrency=2), ["a", "b"])
    assert {(each["nodeID"], each["scope"]) for each in fork.run} == {("call", "call[1]")}
    assert ("call", "call[0]") in {(each["nodeID"], each["scope"]) for each in fork.reuse}


def test_a_fork_runs_the_items_of_a_changed_config_again():
    run = running(mapped(concurrency=2), ["a", "b"]).then(item(0, "A"), failed("call[1]/call"))
    fork = forked(run, mapped(concurrency=2, config={"url": "{{ctx.item}}", "method": "POST"}), ["a", "b"])
    assert [(each["scope"], each["because"]) for each in fork.run] == [
        ("call[0]", "CONFIG_CHANGED"),
        ("call[1]", "FAILED"),
    ]


def forked(run: Scenario, document: dict[str, Any], input_: Any) -> ForkPlan:
    source = RecordedRun(run.plan, run.head, run.log)
    return plan_fork(
        source, compile_plan(document, TYPES), run.head, Started(Payload.of(input_)), cut=ForkCut(), now=run.now
    )


# -- validation ---------------------------------------------------------------------------
@pytest.mark.parametrize("type_name", ["start", "end", "condition", "switch", "loop", "cursor"])
def test_what_decides_how_a_run_goes_on_is_not_mapped(type_name: str):
    configs: dict[str, Any] = {
        "condition": {"branches": []},
        "switch": {"value": 1, "cases": []},
        "loop": {"source": []},
        "cursor": {"source": []},
    }
    node = {"type": type_name, "config": configs.get(type_name, {}), "forEach": "{{ctx.input}}"}
    place = "start" if type_name == "start" else "n"
    document = drawn("start>other" if type_name == "start" else "start>n", **{place: node})
    assert ("FOR_EACH_NOT_ALLOWED", place) in errors(document)


def test_all_other_types_are():
    for name in set(TYPES.names()) - ENTRY_POINT_TYPES - {"end", "condition", "switch", "loop", "cursor"}:
        node = {"type": name, "forEach": "{{ctx.input}}"}
        assert "FOR_EACH_NOT_ALLOWED" not in {code for code, _ in errors(drawn("start>n", n=node))}


@pytest.mark.parametrize("source", [5, True, {}, "rows", ""])
def test_what_it_goes_through_is_a_list_or_a_template(source: Any):
    assert errors(mapped(forEach=source)) == [("BAD_FOR_EACH", "call")]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"concurrency": 0}, "/concurrency"),
        ({"concurrency": "{{ctx.n}}"}, "/concurrency"),
        ({"onItemError": "explode"}, "/onItemError"),
        ({"batchSize": 0}, "/batchSize"),
        ({"forEach": "{{ctx.input"}, "/forEach"),
        ({"forEach": "{{secret.LIST}}"}, "/forEach"),
    ],
)
def test_its_fields_are_checked_as_those_of_a_loop(fields: dict[str, Any], pointer: str):
    found = report(mapped(**fields)).errors
    assert {problem.pointer for problem in found} == {f"/nodes/1{pointer}"}
    assert all("config" not in problem.message for problem in found)


def test_fields_of_mapped_nodes_have_no_effect_without_for_each():
    document = drawn("start>a", a={"concurrency": 3})
    assert warnings(document) == [("FIELD_WITHOUT_EFFECT", "a")]


def test_it_leaves_by_default_and_error_alone():
    wait = {"type": "waitForEvent", "config": {"event": "go", "timeout": "1s"}, "forEach": [1]}
    assert errors(drawn("start>wait, wait.timeout>late", wait=wait)) == [("UNKNOWN_HANDLE", "e1")]


def test_its_config_may_read_the_item_and_its_list_may_not():
    assert warnings(mapped()) == []
    assert warnings(mapped(forEach="{{ctx.item}}")) == [("VARIABLE_NEVER_WRITTEN", "call")]
    (problem,) = report(mapped(forEach="{{ctx.item}}")).warnings
    assert problem.pointer == "/nodes/1/forEach"


def test_the_bound_of_activations_counts_the_items():
    assert report(mapped()).activations_max == 3 + 100_000
    each = {"type": "loop", "config": {"source": "{{ctx.input}}", "maxIterations": 2}}
    inside = drawn("start>each, each.loop>call", each=each, call={**CALL, "forEach": "{{ctx.item}}"})
    assert report(inside).activations_max == 2 + 2 * (1 + 100_000)


def test_editors_are_told_its_handles_what_its_config_can_read_and_where_it_reads():
    wait = {"type": "waitForEvent", "config": {"event": "go-{{ctx.item}}", "timeout": "1s"}, "forEach": "{{ctx.input}}"}
    document = drawn("start>wait, wait>end", wait={**wait, "outputVariable": "rows"}, end=END)
    aspects = analyze(document, TYPES, ["handles", "variables", "references"])[1].aspects["nodes"]
    assert aspects["wait"]["handles"] == ["default", "error"]
    assert {"item", "index", "count"} <= aspects["wait"]["variables"].keys()
    assert aspects["end"]["variables"]["rows"]["schema"] == {"type": "array"}
    assert "item" not in aspects["end"]["variables"]
    places = {(each["pointer"], tuple(each["path"])) for each in aspects["wait"]["references"]}
    assert places == {("/forEach", ("input",)), ("/config/event", ("item",))}
