"""The cursor: a list is handed out batch by batch, one in each pass of the loop that it is in."""

from __future__ import annotations

from typing import Any

from anabranch.engine.rules.stimuli import EvaluationDue
from anabranch.engine.rules.verify.check_log import check_log
from tests.spec.drawings import condition, drawn, errors, report, warnings
from tests.spec.scenario import Scenario, cancel, completed, given

WORK = {"type": "httpRequest", "config": {"url": "https://example.com"}, "outputVariable": "worked"}
END = {"type": "end", "config": {"outputParameters": {"last": "{{ctx.worked | default(null)}}"}}}
DRAWN = "start>list, list.loop>work, work>list, list.done>end"


def cursor(source: Any = "{{ctx.input}}", size: Any = 2, **fields: Any) -> dict[str, Any]:
    return {"type": "cursor", "config": {"source": source, "batchSize": size}, "outputVariable": "batch", **fields}


def running(document: dict[str, Any], input_: Any = None) -> Scenario:
    return given(document, input_, evaluates=True).then(EvaluationDue())


def handed_out(run: Scenario, node: str = "list") -> list[tuple[str, Any, str | None]]:
    """The scopes, batches and handles of what a cursor has completed with."""
    return [
        (event.scope, event.payload.value, event.next_handle)
        for event in run.log
        if event.type == "NODE_COMPLETED" and event.node_id == node
    ]


def test_each_pass_gets_the_next_batch_and_the_end_of_the_list_leaves_by_done():
    run = running(drawn(DRAWN, list=cursor(), work=WORK, end=END), [1, 2, 3])
    assert run.sees("list#1/work")["batch"] == [1, 2]
    run.then(completed("list#1/work", "a"), completed("list#2/work", "b"))
    assert handed_out(run) == [("list#1", [1, 2], "loop"), ("list#2", [3], "loop"), ("list#3", [], "done")]
    assert run.outcome == {"last": "b"}
    assert check_log(run.plan, run.head, run.log) == []


def test_a_batch_has_one_item_unless_its_size_is_given():
    document = drawn(DRAWN, list={"type": "cursor", "config": {"source": [7, 8]}}, work=WORK, end=END)
    assert handed_out(running(document)) == [("list#1", [7], "loop")]


def test_an_empty_list_is_done_at_once():
    assert handed_out(running(drawn(DRAWN, list=cursor(), work=WORK, end=END), [])) == [("list#1", [], "done")]


def test_a_crash_between_passes_changes_nothing():
    run = running(drawn(DRAWN, list=cursor(), work=WORK, end=END), [1, 2, 3])
    run.crashed().then(completed("list#1/work"))
    run.crashed().then(completed("list#2/work"))
    assert [batch for _, batch, _ in handed_out(run)] == [[1, 2], [3], []]


def test_what_is_added_to_the_list_meanwhile_is_handed_out_too_and_nothing_twice():
    source = "{{ctx.worked | default(ctx.input)}}"
    run = running(drawn(DRAWN, list=cursor(source), work=WORK, end=END), [1, 2, 3])
    run.then(completed("list#1/work", [1, 2, 3]), completed("list#2/work", [1, 2, 3, 4, 5]))
    run.then(completed("list#3/work", [1]))
    assert [batch for _, batch, _ in handed_out(run)] == [[1, 2], [3], [4, 5], []]


def test_the_size_of_a_batch_may_change():
    run = running(drawn(DRAWN, list=cursor(size="{{ctx.worked | default(1)}}"), work=WORK, end=END), [1, 2, 3, 4])
    run.then(completed("list#1/work", 2), completed("list#2/work", 5))
    assert [batch for _, batch, _ in handed_out(run)] == [[1], [2, 3], [4]]


def test_a_loop_inside_a_loop_begins_the_list_anew():
    edges = "start>page, page>list, list.loop>work, work>list, list.done>more, more.again>page, more.else>end"
    page = {"type": "delay", "config": {"duration": "1s"}, "outputVariable": "rows"}
    more = {"type": "condition", "config": {"branches": [{"id": "again", "expression": "{{ctx.rows == [1]}}"}]}}
    run = running(drawn(edges, page=page, list=cursor("{{ctx.rows}}"), work=WORK, more=more, end=END))
    run.then(completed("page#1/page", [1]), completed("page#1/list#1/work"), completed("page#2/page", [2, 3]))
    assert handed_out(run)[-1] == ("page#2/list#1", [2, 3], "loop")


def test_a_loop_around_it_that_is_left_and_joined_again_goes_on_where_it_was():
    edges = "start>ask, ask>list, list.loop>work, work>ask, list.done>end"
    run = running(drawn(edges, ask=WORK, list=cursor(size=1), work=WORK, end=END), [1, 2])
    run.then(completed("ask#1/ask"), completed("ask#1/work"), completed("ask#2/ask"))
    assert handed_out(run) == [("ask#1", [1], "loop"), ("ask#2", [2], "loop")]


def test_in_each_iteration_of_a_loop_node_the_list_begins_anew():
    edges = "start>each, each.loop>list, list.loop>work, work>list, list.done>each, each.done>end"
    each = {"type": "loop", "config": {"source": "{{ctx.input}}"}}
    run = running(drawn(edges, each=each, list=cursor("{{ctx.item}}", 1), work=WORK, end=END), [[1], [2]])
    run.then(completed("each[0]/list#1/work"))
    assert handed_out(run)[-1] == ("each[1]/list#1", [2], "loop")


def test_outside_of_a_loop_it_hands_out_the_first_batch_and_is_warned_about():
    document = drawn("start>list, list.loop>work, list.done>end", list=cursor(), work=WORK, end=END)
    assert warnings(document) == [("CURSOR_WITHOUT_LOOP", "list")]
    run = running(document, [1, 2, 3])
    assert handed_out(run) == [("", [1, 2], "loop")]
    assert run.rows("NODE_SKIPPED") == ["end"]


def test_a_source_that_is_no_list_fails_the_cursor_for_good():
    run = running(drawn(DRAWN, list=cursor(), work=WORK, end=END), {"no": "list"})
    assert (run.outcome["code"], run.rows("NODE_FAILED")) == ("LOOP_SOURCE_NOT_A_LIST", ["list#1/list"])


def test_a_batch_has_at_least_one_item():
    for size in (0, -1, 1.5, "two"):
        assert errors(drawn(DRAWN, list=cursor(size=size), work=WORK, end=END)) == [("CONFIG_INVALID", "list")]
    run = running(drawn(DRAWN, list=cursor(size="{{ctx.input.size}}"), work=WORK, end=END), {"size": 0})
    assert run.outcome["code"] == "NODE_CONFIG_INVALID"


def test_its_list_is_a_reason_to_leave_the_loop_and_no_loop_spins_over_a_list():
    assert warnings(drawn(DRAWN, list=cursor(), end=END)) == []
    assert ("LOOP_SPINS", "e2") in warnings(drawn("start>list, list.loop>work, list.done>list", list=cursor()))
    never = drawn("start>list, list.loop>work, work>list, list.done>work", list=cursor())
    assert ("LOOP_NEVER_LEFT", "e2") in warnings(never)


def test_a_disabled_cursor_is_done():
    run = running(drawn(DRAWN, list=cursor(disabled=True), work=WORK, end=END), [1])
    assert handed_out(run) == [("list#1", None, "done")]


def test_ignored_failures_leave_by_done():
    run = running(drawn(DRAWN, list=cursor(errorHandling="ignore"), work=WORK, end=END), "no list")
    assert run.status == "COMPLETED"


def test_a_cancel_between_batches_ends_the_run():
    run = running(drawn(DRAWN, list=cursor(), work=WORK, end=END), [1])
    assert run.when(cancel()).stops == ["list#1/work"]


def test_a_condition_may_leave_in_the_middle_of_the_list():
    edges = "start>list, list.loop>work, work>enough, enough.yes>end, enough.else>list, list.done>end"
    document = drawn(edges, list=cursor("{{ctx.input.rows}}", 1), work=WORK, enough=condition("yes"), end=END)
    run = running(document, {"yes": True, "rows": [1, 2, 3]}).then(completed("list#1/work"))
    assert (run.status, len(handed_out(run))) == ("COMPLETED", 1)


# -- entered elsewhere --------------------------------------------------------------------
ELSEWHERE = "start>list, start>other, other>look, list.loop>work, work>look, look>list, list.done>end"
LOOK = {"type": "set", "config": {"values": {"n": "{{ctx.batch | default([])}}"}}, "joinMode": "any"}


def test_a_way_into_the_loop_elsewhere_runs_once_before_it_up_to_the_cursor():
    document = drawn(ELSEWHERE, list=cursor(size=1), other=WORK, work=WORK, look=LOOK, end=END)
    assert warnings(document) == [("ENTERED_BEFORE_CURSOR", "e2")]
    run = running(document, [7])
    assert run.owed == {"other"}
    run.then(completed("other"))
    assert run.row("NODE_COMPLETED", "look@list") == {"n": []}
    run.then(completed("list#1/work"))
    assert run.row("NODE_COMPLETED", "list#1/look") == {"n": [7]}
    assert handed_out(run) == [("list#1", [7], "loop"), ("list#2", [], "done")]
    assert check_log(run.plan, run.head, run.log) == []


def test_a_loop_that_is_entered_at_two_nodes_has_one_cursor_or_is_refused():
    edges = "start>a, start>b, a>b, b.again>a, b.else>end"
    assert errors(drawn(edges, b=condition("again"), end=END)) == [("CYCLE", "e3")]
    two = "start>list, start>look, list.loop>look, look>more, more.loop>list"
    assert [code for code, _ in errors(drawn(two, list=cursor(), more=cursor(), look=LOOK))] == ["CYCLE"]
    each = "start>list, start>each, list.loop>each, each.loop>work, each.done>list"
    looped = {"type": "loop", "config": {"source": [1]}}
    assert [code for code, _ in errors(drawn(each, list=cursor(), each=looped))] == ["CYCLE"]


def test_problems_of_what_runs_before_the_loop_as_well_are_told_once():
    look = {**LOOK, "config": {"values": {"n": "{{ctx.nobody}}"}}, "errorHandling": "continue"}
    document = drawn(ELSEWHERE, list=cursor(size=1), other=WORK, work=WORK, look=look, end=END)
    assert sorted(code for code, _ in warnings(document)) == [
        "CONTINUE_WITHOUT_ERROR_EDGE", "ENTERED_BEFORE_CURSOR", "VARIABLE_NEVER_WRITTEN",
    ]  # fmt: skip
    assert report(document).activations_max == 1 + 1 + 1 + 3 * 1_000 + 1


def test_a_loop_that_ends_with_its_list_need_not_be_left_by_an_edge():
    assert warnings(drawn("start>list, list.loop>work, work>list", list=cursor(), work=WORK)) == []
