"""Loops that are drawn by an edge that leads back: passes, exits with one verdict, limits, failures, names."""

from __future__ import annotations

from anabranch.engine.rules.verify.check_log import check_log
from tests.spec.drawings import condition, drawn, loop, reads, report, warnings, writes
from tests.spec.scenario import begun, cancel, completed, failed

POLL = drawn("start>ask, ask>look, look.again>ask, look.else>done, done>end", look=condition("again"))


WAITING = {"ask": {"type": "delay", "config": {"duration": "1s"}}, "end": {"type": "end"}}


def test_each_pass_has_a_scope_of_its_own():
    run = begun(POLL)
    for number in (1, 2, 3):
        assert run.owed == {f"ask#{number}/ask"}
        run.then(completed(f"ask#{number}/ask"))
        run.then(completed(f"ask#{number}/look", handle="again"))
    run.then(completed("ask#4/ask"), completed("ask#4/look", handle="else"))
    assert run.owed == {"done"}
    assert run.rows("NODE_SKIPPED") == []


def test_a_loop_that_nothing_leads_to_is_skipped_in_one_row():
    document = drawn(
        "start>which, which.yes>ask, which.else>other, ask>look, look.again>ask, look.else>join, other>join",
        which=condition("yes"),
        look=condition("again"),
    )
    happened = begun(document).when(completed("which", handle="else"))
    assert (happened.skips, happened.dispatches) == (["ask"], ["other"])


def test_a_join_outside_waits_until_the_loop_has_ended():
    edges = "start>ask, ask.no>join, ask.again>ask, start>other, other>join"
    run = begun(drawn(edges, ask=condition("no", "again"))).then(completed("other"))
    run.then(completed("ask#1/ask", handle="again"))
    assert run.owed == {"ask#2/ask"}
    run.then(completed("ask#2/ask", handle="no"))
    assert run.owed == {"join"}


def test_an_exit_that_is_never_taken_is_dead_once():
    edges = "start>ask, ask.again>ask, ask.bad>alarm, ask.else>done"
    happened = begun(drawn(edges, ask=condition("again", "bad"))).when(completed("ask#1/ask", handle="else"))
    assert (happened.skips, happened.dispatches) == (["alarm"], ["done"])


def test_a_side_branch_that_others_lead_to_as_well_runs_once_after_the_loop():
    edges = "start>ask, ask>look, ask>log, start>other, other>log, look.again>ask, look.else>done"
    document = drawn(edges, look=condition("again"))
    assert ("EXIT_RUNS_ONCE", "e2") in warnings(document)
    run = begun(document).then(completed("other"), completed("ask#1/ask"), completed("ask#1/look", handle="again"))
    assert run.owed == {"ask#2/ask"}
    run.then(completed("ask#2/ask"))
    assert run.when(completed("ask#2/look", handle="else")).dispatches == ["log", "done"]


def test_passes_never_overlap_even_with_a_slow_side_branch():
    run = begun(drawn("start>ask, ask>look, ask>note, look.again>ask", look=condition("again")))
    run.then(completed("ask#1/ask"), completed("ask#1/look", handle="again"))
    assert run.owed == {"ask#1/note"}
    run.then(completed("ask#1/note"))
    assert run.owed == {"ask#2/ask"}


def test_what_a_pass_writes_the_next_one_sees_and_what_comes_after():
    document = drawn(
        "start>ask, ask>look, look.again>ask, look.else>done",
        ask=writes("page"), look=condition("again"), done=reads("page"),
    )  # fmt: skip
    run = begun(document).then(completed("ask#1/ask", "first"), completed("ask#1/look", handle="again"))
    assert run.sees("ask#2/ask")["page"] == "first"
    run.then(completed("ask#2/ask", "second"), completed("ask#2/look", handle="else"))
    assert run.sees("done")["page"] == "second"


def test_more_passes_than_allowed_fail_the_loop():
    document = drawn("start>ask, ask.again>ask, ask.else>done", ask=condition("again", maxPasses=2))
    run = begun(document).then(completed("ask#1/ask", handle="again"))
    happened = run.when(completed("ask#2/ask", handle="again"))
    assert (happened.failures, happened.ending) == (["ask"], "INSTANCE_FAILED")
    assert happened.payload("NODE_FAILED")["error"]["code"] == "LOOP_LIMIT"


def test_an_error_edge_of_the_header_that_leads_out_handles_the_limit():
    edges = "start>ask, ask.again>ask, ask.else>done, ask.error>alarm"
    run = begun(drawn(edges, ask=condition("again", maxPasses=1, outputVariable="asked")))
    happened = run.when(completed("ask#1/ask", handle="again"))
    assert (happened.dispatches, happened.skips) == (["alarm"], ["done"])
    assert run.sees("alarm")["asked"]["error"]["code"] == "LOOP_LIMIT"


def test_a_failure_in_a_pass_fails_the_run_as_a_region_is_no_border():
    run = begun(POLL).then(completed("ask#1/ask"))
    assert run.when(failed("ask#1/look")).ending == "INSTANCE_FAILED"


def test_a_failure_in_a_pass_fails_the_iteration_around_it():
    document = drawn(
        "start>each, each.loop>ask, ask>look, look.again>ask, look.else>last, last>each",
        each=loop(onItemError="collect"), look=condition("again"),
    )  # fmt: skip
    run = begun(document).completed("each", output=["a", "b"]).then(completed("each[0]/ask#1/ask"))
    happened = run.when(failed("each[0]/ask#1/look"))
    assert set(happened.skips) == {"each[0]/last"}
    assert happened.dispatches == ["each[1]/ask#1/ask"]


def test_the_value_of_an_iteration_is_what_the_loop_in_it_left_by():
    document = drawn("start>each, each.loop>ask, ask.again>ask, ask.else>each", each=loop(), ask=condition("again"))
    run = begun(document).completed("each", output=["a"])
    run.then(completed("each[0]/ask#1/ask", 1, handle="again"), completed("each[0]/ask#2/ask", 2, handle="else"))
    assert run.row("NODE_COMPLETED", "each") == [2]


def test_regions_inside_each_other_count_their_own_passes():
    edges = "start>a, a>b, b.inner>b, b.outer>a, b.else>end"
    run = begun(drawn(edges, b=condition("inner", "outer"), end={"type": "end"}))
    run.then(completed("a#1/a"), completed("a#1/b#1/b", handle="inner"), completed("a#1/b#2/b", handle="outer"))
    assert run.owed == {"a#2/a"}
    run.then(completed("a#2/a"), completed("a#2/b#1/b", handle="else"))
    assert run.owed == {"end"}


def test_a_loop_node_in_a_region_runs_in_each_pass():
    edges = "start>page, page>each, each.loop>work, each.done>more, more.again>page, more.else>end"
    run = begun(drawn(edges, each=loop(), more=condition("again"), end={"type": "end"}))
    for number, handle in ((1, "again"), (2, "else")):
        run.then(completed(f"page#{number}/page"), completed(f"page#{number}/each", [1]))
        run.then(completed(f"page#{number}/each[0]/work"), completed(f"page#{number}/more", handle=handle))
    assert run.owed == {"end"}


def test_a_cancel_stops_what_runs_in_a_pass():
    run = begun(POLL).then(completed("ask#1/ask"))
    happened = run.when(cancel())
    assert (happened.stops, happened.ending) == (["ask#1/look"], "INSTANCE_CANCELLED")


def test_a_terminate_skips_the_pass_that_is_open():
    edges = "start>ask, ask>look, look.again>ask, look.else>done, start>stop"
    run = begun(drawn(edges, look=condition("again"), stop={"type": "end", "config": {"terminate": True}}))
    happened = run.when(completed("stop", {}))
    assert (set(happened.skips), happened.ending) == ({"ask#1/ask", "ask"}, "INSTANCE_COMPLETED")


def test_an_end_in_a_pass_counts_for_what_is_around_the_loop():
    edges = "start>ask, ask>note, ask>look, look.again>ask"
    note = {"type": "end", "config": {"name": "note"}}
    run = begun(drawn(edges, look=condition("again"), note=note))
    run.then(completed("ask#1/ask"), completed("ask#1/note", 1), completed("ask#1/look", handle="again"))
    run.then(completed("ask#2/ask"), completed("ask#2/note", 2), completed("ask#2/look", handle="else"))
    assert run.outcome == {"note": 2}


def test_a_decision_that_has_worked_enough_leaves_the_next_pass_to_the_next_one():
    document = drawn("start>ask, ask.again>ask, ask.else>done", ask=condition("again"))
    run = begun(document, work_max=0)
    run.then(completed("ask#1/ask", handle="again"))
    assert run.owed == set()
    assert list(run.due) == ["ask"]


def test_the_bound_of_activations_multiplies_the_passes():
    nodes = {"b": condition("inner", "outer", maxPasses=3), "a": {"maxPasses": 5}, "end": {"type": "end"}}
    assert report(drawn("start>a, a>b, b.inner>b, b.outer>a, b.else>end", **nodes)).activations_max == 2 + 5 * (1 + 3)


def test_odd_loops_are_warned_about():
    assert ("LOOP_SPINS", "e2") in warnings(POLL)
    waits = drawn("start>ask, ask>look, look.again>ask, look.else>end", look=condition("again"), **WAITING)
    assert warnings(waits) == []
    assert ("LOOP_NEVER_LEFT", "e2") in warnings(drawn("start>a, a>b, b>a, b>c"))
    (found,) = (
        each for each in report(drawn("start>a, a.again>a", a=condition("again"))).warnings if "LEFT" in each.code
    )
    assert "no edge leads out of the loop at 'a'" in found.message
    assert ("FIELD_WITHOUT_EFFECT", "a") in warnings(drawn("start>a, a>b", a={"maxPasses": 3}))


def test_a_loop_that_was_about_to_begin_is_skipped_where_its_iteration_fails():
    edges = "start>each, each.loop>a, a>r, r.again>r, r.else>ask, a>ask, ask.again>ask, ask.else>each"
    nodes = {"each": loop(onItemError="collect"), "ask": condition("again"), "r": condition("again", maxPasses=1)}
    run = begun(drawn(edges, **nodes)).completed("each", output=["x"]).then(completed("each[0]/a"))
    happened = run.when(completed("each[0]/r#1/r", handle="again"))
    assert (happened.failures, happened.skips, happened.dispatches) == (["each[0]/r"], ["each[0]/ask"], [])
    assert check_log(run.plan, run.head, run.log) == []
