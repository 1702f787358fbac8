"""Verdicts, joins and skips: which nodes run, which are skipped, and when."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.spec.drawings import condition, drawn
from tests.spec.scenario import begun, completed, failed, given

DIAMOND = drawn("start>left, start>right, left>join, right>join, join>after")
ANY = {"joinMode": "any"}


def test_start_is_dispatched_when_the_instance_starts():
    run = given(drawn("start>a"))
    assert run.rows("NODE_DISPATCHED") == ["start"]
    assert run.rows("INPUT_SET") == [""]


def test_a_node_with_one_incoming_edge_follows_its_source():
    run = begun(drawn("start>a, a>b"))
    assert run.when(completed("a")).dispatches == ["b"]


def test_all_targets_of_a_completed_node_are_dispatched_together():
    assert given(drawn("start>a, start>b, start>c")).when(completed("start")).dispatches == ["a", "b", "c"]


def test_a_join_waits_for_its_slowest_branch():
    run = begun(DIAMOND)
    assert run.when(completed("left")).dispatches == []
    assert run.when(completed("right")).dispatches == ["join"]


def test_a_join_is_decided_by_its_edges_in_any_order():
    document = drawn("start>a, start>b, start>c, a>join, b>join, c>join")
    for order in permutations("abc"):
        run = begun(document).completed(*order[:2])
        assert "join" not in run.owed
        assert run.when(completed(order[2])).dispatches == ["join"]


def test_one_live_edge_among_dead_ones_runs_an_all_join():
    run = begun(drawn("start>check, check.yes>a, check.no>b, a>join, b>join", check=condition("yes", "no")))
    happened = run.when(completed("check", handle="yes"))
    assert (happened.dispatches, happened.skips) == (["a"], ["b"])
    assert run.when(completed("a")).dispatches == ["join"]


@pytest.mark.parametrize("taken", ["yes", "else"])
def test_a_join_behind_a_condition_never_hangs(taken):
    document = drawn("start>check, check.yes>a, check.else>b, a>join, b>join, start>c, c>join", check=condition("yes"))
    run = begun(document).then(completed("check", handle=taken)).completed("c")
    assert run.when(completed("a" if taken == "yes" else "b")).dispatches == ["join"]
    assert run.when(completed("join")).ending == "INSTANCE_COMPLETED"


def test_a_join_without_any_live_edge_is_skipped():
    run = begun(drawn("start>check, check.yes>a, check.yes>b, a>join, b>join", check=condition("yes")))
    happened = run.when(completed("check", handle="else"))
    assert happened.skips == ["a", "b", "join"]
    assert happened.ending == "INSTANCE_COMPLETED"


def test_skips_go_on_downstream_in_the_same_decision():
    run = begun(drawn("start>check, check.yes>a, a>b, b>c, c>d", check=condition("yes")))
    assert run.when(completed("check", handle="else")).skips == ["a", "b", "c", "d"]


def test_skips_stop_at_a_join_that_is_still_open():
    document = drawn("start>check, start>slow, check.yes>a, a>join, slow>join, join>after", check=condition("yes"))
    run = begun(document)
    assert run.when(completed("check", handle="else")).skips == ["a"]
    assert run.when(completed("slow")).dispatches == ["join"]


def test_only_the_edges_of_the_chosen_handle_are_live():
    document = drawn(
        "start>switch, switch.a>one, switch.b>two, switch.c>three, switch.d>four, switch.else>five, "
        "one>join, two>join, three>join, four>join, five>join",
        switch=condition("a", "b", "c", "d"),
    )
    for handle, chosen in (("a", "one"), ("c", "three"), ("else", "five")):
        run = begun(document)
        happened = run.when(completed("switch", handle=handle))
        assert happened.dispatches == [chosen]
        assert set(happened.skips) == {"one", "two", "three", "four", "five"} - {chosen}
        assert run.when(completed(chosen)).dispatches == ["join"]


def test_a_handle_without_edges_is_a_gap_that_skips_what_follows():
    run = begun(drawn("start>switch, switch.a>one, switch.c>two", switch=condition("a", "b", "c")))
    happened = run.when(completed("switch", handle="b"))
    assert set(happened.skips) == {"one", "two"}
    assert happened.ending == "INSTANCE_COMPLETED"


def test_two_edges_from_one_condition_into_one_join_are_two_edges():
    document = drawn("start>check, start>slow, check.yes>join, check.no>join, slow>join", check=condition("yes", "no"))
    run = begun(document)
    assert run.when(completed("check", handle="no")).dispatches == []
    assert run.when(completed("slow")).dispatches == ["join"]


def test_two_edges_from_one_condition_decide_a_join_together():
    document = drawn("start>check, check.yes>join, check.no>join", check=condition("yes", "no"))
    for handle, ran in (("yes", True), ("no", True), ("else", False)):
        happened = begun(document).when(completed("check", handle=handle))
        assert (happened.dispatches == ["join"]) is ran
        assert (happened.skips == ["join"]) is not ran


def test_the_same_edge_drawn_twice_counts_twice():
    run = begun(drawn("start>a, start>b, a>join, a>join, b>join"))
    assert run.when(completed("a")).dispatches == []
    assert run.when(completed("b")).dispatches == ["join"]


def test_default_and_error_edges_into_one_join_are_two_edges():
    document = drawn("start>a, a>join, a.error>join")
    assert begun(document).when(completed("a")).dispatches == ["join"]
    assert begun(document).when(failed("a")).dispatches == ["join"]


def test_nested_conditions_meet_in_one_join():
    document = drawn(
        "start>outer, outer.yes>inner, inner.yes>deep, deep>join, inner.else>join, outer.else>join",
        outer=condition("yes"),
        inner=condition("yes"),
    )
    skipped = begun(document).when(completed("outer", handle="else"))
    assert (skipped.dispatches, skipped.skips) == (["join"], ["inner", "deep"])
    run = begun(document).then(completed("outer", handle="yes"))
    assert run.when(completed("inner", handle="else")).dispatches == ["join"]
    run = begun(document).then(completed("outer", handle="yes"), completed("inner", handle="yes"))
    assert run.when(completed("deep")).dispatches == ["join"]


def test_joins_of_joins_wait_level_by_level():
    document = drawn("start>a, start>b, start>c, start>d, a>ab, b>ab, c>cd, d>cd, ab>all, cd>all, a>all")
    run = begun(document).completed("a", "b", "c", "ab")
    assert "all" not in run.owed
    assert run.when(completed("d")).dispatches == ["cd"]
    assert run.when(completed("cd")).dispatches == ["all"]


# -- any ----------------------------------------------------------------------------------
ANY_DIAMOND = drawn("start>left, start>right, left>join, right>join, join>after", join=ANY)


def test_the_first_live_edge_runs_an_any_join():
    assert begun(ANY_DIAMOND).when(completed("right")).dispatches == ["join"]


def test_later_live_edges_of_an_any_join_change_nothing():
    run = begun(ANY_DIAMOND).completed("right")
    assert run.when(completed("left")).dispatches == []
    run.completed("join", "after")
    assert run.rows("NODE_DISPATCHED").count("join") == 1


def test_a_late_parent_of_an_ended_any_join_changes_nothing():
    run = begun(ANY_DIAMOND).completed("right", "join")
    assert run.when(completed("left")).types == ["NODE_COMPLETED"]


def test_the_other_branches_of_an_any_join_run_on_and_the_run_ends_with_them():
    run = begun(ANY_DIAMOND).completed("right", "join", "after")
    assert run.status == "RUNNING"
    assert run.owed == {"left"}
    assert run.when(completed("left")).ending == "INSTANCE_COMPLETED"


def test_a_dead_edge_does_not_decide_an_any_join():
    document = drawn("start>check, start>slow, check.yes>a, a>join, slow>join", check=condition("yes"), join=ANY)
    run = begun(document)
    assert run.when(completed("check", handle="else")).skips == ["a"]
    assert run.when(completed("slow")).dispatches == ["join"]


def test_an_any_join_without_any_live_edge_is_skipped():
    document = drawn("start>check, check.yes>a, check.yes>b, a>join, b>join", check=condition("yes"), join=ANY)
    assert begun(document).when(completed("check", handle="else")).skips == ["a", "b", "join"]


def test_dead_edges_after_the_first_live_one_do_not_skip_an_any_join():
    document = drawn("start>check, start>fast, check.yes>join, fast>join, join>after", check=condition("yes"), join=ANY)
    run = begun(document).completed("fast")
    assert run.when(completed("check", handle="else")).skips == []
    assert run.when(completed("join")).dispatches == ["after"]


# -- the end of the scope -----------------------------------------------------------------
def test_the_instance_completes_in_the_transaction_that_leaves_nothing_open():
    run = begun(DIAMOND).completed("left", "right", "join")
    happened = run.when(completed("after"))
    assert happened.types == ["NODE_COMPLETED", "INSTANCE_COMPLETED"]
    assert run.status == "COMPLETED"


def test_every_reachable_node_has_exactly_one_ending():
    run = begun(drawn("start>check, check.yes>a, check.else>b, a>c, b>c", check=condition("yes")))
    run.then(completed("check", handle="yes")).completed("a", "c")
    assert sorted(run.rows("NODE_COMPLETED") + run.rows("NODE_SKIPPED")) == ["a", "b", "c", "check", "start"]


def test_unreachable_nodes_have_no_rows_and_their_edges_no_verdicts():
    run = begun(drawn("start>a, island>a, island>b"))
    assert run.owed == {"a"}
    run.completed("a")
    assert run.status == "COMPLETED"
    assert {event.node_id for event in run.log} == {"", "start", "a"}


def test_the_completed_set_does_not_depend_on_the_order_of_results():
    document = drawn("start>a, start>b, start>c, a>ab, b>ab, ab>end, c>end", ab=ANY)
    endings = set()
    for order in permutations("abc"):
        run = begun(document).completed(*order)
        while run.owed:
            run.completed(*sorted(run.owed))
        endings.add(tuple(sorted(run.rows("NODE_COMPLETED"))))
    assert endings == {("a", "ab", "b", "c", "end", "start")}
