"""Immediate dominators, checked against what they mean and against networkx."""

from __future__ import annotations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.engine.rules.graph.control_flow.dominance import immediate_dominators

graphs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)


def successors_of(edges: list[tuple[int, int]]) -> dict[int, list[int]]:
    successors: dict[int, list[int]] = {}
    for source, target in edges:
        successors.setdefault(source, []).append(target)
    return successors


@settings(max_examples=300, deadline=None)
@given(graphs)
def test_they_are_what_networkx_finds(edges: list[tuple[int, int]]):
    graph = nx.DiGraph(edges)
    graph.add_node(0)
    expected = nx.immediate_dominators(graph, 0)
    expected.pop(0, None)  # depending on the version, start is its own dominator or has none
    assert immediate_dominators(successors_of(edges), 0) == expected


def test_the_join_of_a_diamond_is_dominated_by_its_fork():
    assert immediate_dominators({"a": "bc", "b": "d", "c": "d", "d": "e"}, "a") == {
        "b": "a", "c": "a", "d": "a", "e": "d",
    }  # fmt: skip


def test_what_start_does_not_reach_is_left_out():
    assert immediate_dominators({1: [2], 3: [2]}, 1) == {2: 1}


def test_a_ladder_of_edges_leading_back_is_no_trouble():
    size = 6_000
    ladder = {step: [step + 1, step - 1, step - 2] for step in range(3, size)}
    ladder |= {0: [1, size], 1: [2], 2: [3, 1], size: [size - 1, size - 2]}
    assert set(immediate_dominators(ladder, 0).values()) == {0}
