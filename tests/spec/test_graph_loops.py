"""Cycles, loop bodies and their borders: which edges may lead back, in and out."""

from __future__ import annotations

import itertools

import pytest

from anabranch.engine.rules.graph.control_flow.structure import structure_of
from anabranch.engine.rules.graph.document import parse
from tests.spec.drawings import condition, drawn, errors, loop, report, warnings


def regions(edges: str, **nodes: object) -> dict[str, list[str]]:
    structure = structure_of(parse(drawn(edges, **nodes)))
    assert structure.is_sound, structure.problems
    return {header: sorted(region.nodes) for header, region in structure.regions.by_header.items()}


def homes(edges: str, **nodes: object) -> dict[str, str | None]:
    structure = structure_of(parse(drawn(edges, **nodes)))
    assert structure.is_sound, structure.problems
    return structure.homes


def test_a_cycle_that_is_entered_at_two_nodes_is_refused_and_both_entries_are_named():
    (problem,) = report(drawn("start>x, x>a, x>c, a>b, b>c, c>a")).errors
    assert (problem.code, problem.node_id, problem.edge_id) == ("CYCLE", "a", "e5")
    assert "'a' → 'b' → 'c' → 'a'" in problem.message
    assert "at 'a' from 'x' and at 'c' from 'x'" in problem.message
    assert "one node first" in (problem.hint or "")


@pytest.mark.parametrize(
    ("edges", "region"),
    [
        ("start>a, a>b, b>c, c>a", ["a", "b", "c"]),
        ("start>a, a>a", ["a"]),
        ("start>a, a>b, b.error>a", ["a", "b"]),
        ("start>l, l.loop>x, l.done>a, a>l", ["a", "l"]),
        ("start>l, l.done>l", ["l"]),
        ("start>l, l.loop>x, x>y, y>x, y>l", ["x", "y"]),
    ],
)
def test_a_cycle_that_is_entered_at_one_node_is_a_region(edges: str, region: list[str]):
    (found,) = regions(edges, l=loop()).values()
    assert found == region


def test_a_cycle_that_is_entered_across_a_border_is_refused():
    edges = "start>l, l.loop>a, a>b, b>a, start>b"
    assert {code for code, _ in errors(drawn(edges, l=loop()))} == {"CYCLE", "LOOP_BORDER"}


def test_separate_knots_are_separate_problems():
    edges = "start>a, start>b, a>b, b>a, start>c, start>d, c>d, d>c"
    assert [code for code, _ in errors(drawn(edges))] == ["CYCLE", "CYCLE"]


def test_regions_of_two_headers_are_nested_or_side_by_side():
    assert regions("start>a, a>b, b>a, b>c, c>b") == {"b": ["b", "c"], "a": ["a", "b", "c"]}
    assert regions("start>a, a>a, a>b, b>b", a=condition("on")) == {"b": ["b"], "a": ["a", "b"]}
    edges = "start>a, a.again>a, a.on>b, b.again>b"
    assert regions(edges, a=condition("again", "on"), b=condition("again")) == {"b": ["b"], "a": ["a"]}


def test_a_side_branch_is_drawn_into_the_region_that_alone_leads_to_it():
    edges = "start>ask, ask>look, ask>note, note>tell, look.again>ask, look.else>done"
    assert regions(edges, look=condition("again"))["ask"] == ["ask", "look", "note", "tell"]
    # What an exclusive exit leads to as well comes after the loop, and so does all that leads to it.
    assert regions(edges + ", done>tell", look=condition("again"))["ask"] == ["ask", "look"]


def test_an_inner_loop_may_lead_back_to_the_outer_one():
    edges = "start>a, a>b, b.inner>b, b.outer>a, b.else>end"
    assert regions(edges, b=condition("inner", "outer"), end={"type": "end"}) == {"b": ["b"], "a": ["a", "b"]}


def test_loops_inside_each_other_have_a_limit():
    names = [f"n{index}" for index in range(60)]
    ways = ["start>n0", *(f"{one}>{other}" for one, other in itertools.pairwise(names))]
    back = [f"n59>{name}" for name in names]
    assert [code for code, _ in errors(drawn(", ".join(ways + back)))] == ["LOOPS_TOO_DEEP"]


def test_the_body_is_what_only_the_loop_handle_reaches():
    assert homes("start>l, l.loop>x, x>y, l.done>z, start>w, w>z", l=loop()) == {
        "start": None, "l": None, "x": "l", "y": "l", "z": None, "w": None,
    }  # fmt: skip


def test_inner_loops_have_bodies_of_their_own():
    edges = "start>l, l.loop>m, m.loop>x, x>m, m.done>y, y>l, l.done>z"
    assert homes(edges, l=loop(), m=loop()) == {
        "start": None, "l": None, "m": "l", "x": "m", "y": "l", "z": None,
    }  # fmt: skip


def test_a_body_may_branch_join_and_return_by_several_edges():
    edges = "start>l, l.loop>c, c.yes>a, c.else>b, a>j, b>j, j>l, a.error>l, c.error>l, l.done>z"
    assert warnings(drawn(edges, l=loop(), c=condition("yes"))) == []


@pytest.mark.parametrize("edges", ["start>l", "start>l, l.done>z", "start>l, l.loop>x", "start>l, l.loop>x, x>l"])
def test_a_loop_needs_neither_body_nor_done_nor_a_way_back(edges: str):
    assert warnings(drawn(edges, l=loop())) == []


def test_an_inner_loop_may_return_to_the_outer_by_done():
    assert warnings(drawn("start>l, l.loop>m, m.loop>x, m.done>l", l=loop(), m=loop())) == []


@pytest.mark.parametrize(
    ("edges", "culprits"),
    [
        ("start>l, l.loop>x, l.done>z, x>z", ["e3"]),
        ("start>l, l.loop>x, x>z, start>z", ["e2"]),
        ("start>l, l.loop>x, start>x", ["e1"]),
        ("start>l, l.loop>x, l.done>x", ["e1"]),
        ("start>l, l.loop>x, x>j, start>j, j>l", ["e2"]),
        ("start>l, l.loop>m, m.loop>x, x>l", ["e3"]),
        ("start>l, l.loop>m, m.loop>x, m.done>y, x>y", ["e4"]),
        ("start>l, l.loop>m, m.loop>x, l.done>z, x>z", ["e4"]),
        ("start>l, start>m, l.loop>x, m.loop>x", ["e2", "e3"]),
        ("start>l, l.loop>l", ["e1"]),
    ],
)
def test_an_edge_across_a_border_is_refused_and_is_no_cycle(edges: str, culprits: list[str]):
    found = errors(drawn(edges, l=loop(), m=loop()) if "m" in edges else drawn(edges, l=loop()))
    assert found == [("LOOP_BORDER", culprit) for culprit in culprits]


def test_what_start_does_not_reach_has_no_say_in_bodies():
    edges = "start>l, l.loop>x, lost>x, lost>y, y>x"
    assert homes(edges, l=loop())["x"] == "l"
    assert warnings(drawn(edges, l=loop())) == [("UNREACHABLE_NODE", "lost"), ("UNREACHABLE_NODE", "y")]


def test_a_loop_that_is_not_connected_yet_is_no_cycle():
    edges = "start>a, l.loop>m, m.loop>x, x>m, m.done>l"
    assert {code for code, _ in warnings(drawn(edges, l=loop(), m=loop()))} == {"UNREACHABLE_NODE"}


def test_a_cycle_that_start_does_not_reach_is_no_error_as_it_never_runs():
    assert errors(drawn("start>a, b>c, c>b")) == []
    assert warnings(drawn("start>a, b>c, c>b")) == [("UNREACHABLE_NODE", "b"), ("UNREACHABLE_NODE", "c")]


def test_nodes_are_ordered_by_edges_and_else_as_drawn():
    document = drawn("start>z, z>y, start>a, a>x, y>x", l=loop())
    assert structure_of(parse(document)).order == ["start", "z", "y", "a", "x"]
