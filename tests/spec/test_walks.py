"""Walks along edges, checked against networkx."""

from __future__ import annotations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.engine.rules.graph.control_flow.walks import knots, ordered, reached, shortest_cycle, successors_of

names = st.integers(0, 9).map(str)
edge_lists = st.lists(st.tuples(names, names), max_size=25)


@settings(max_examples=300, deadline=None)
@given(edge_lists)
def test_reach_knots_and_cycles_are_those_of_networkx(edges: list[tuple[str, str]]) -> None:
    graph, successors = nx.DiGraph(edges), successors_of(edges)
    graph.add_node("0")
    expected = [each for each in nx.strongly_connected_components(graph) if graph.subgraph(each).edges]

    found = knots(successors)

    assert reached(successors, "0") == nx.descendants(graph, "0") | {"0"}
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))
    for knot in found:
        first = min(knot)
        cycle = shortest_cycle(successors, knot, first)
        shortest = min(1 + nx.shortest_path_length(graph, each, first) for each in graph[first] if each in knot)
        assert cycle[0] == first and set(cycle) <= knot
        assert len(cycle) == len(set(cycle)) == shortest
        assert all(graph.has_edge(*pair) for pair in zip(cycle, [*cycle[1:], first], strict=True))


@settings(max_examples=300, deadline=None)
@given(edge_lists)
def test_the_order_is_the_least_of_all_that_fit(edges: list[tuple[str, str]]) -> None:
    edges = [(source, target) for source, target in edges if (int(source) * 7) % 10 < (int(target) * 7) % 10]
    nodes = {str(number) for number in range(10)}
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(nodes)

    assert ordered(nodes, successors_of(edges), key=int) == list(nx.lexicographical_topological_sort(graph, key=int))


def test_the_longest_chain_is_walked_without_recursion() -> None:
    chain = [(str(number), str(number + 1)) for number in range(5_000)]

    assert len(reached(successors_of(chain), "0")) == 5_001
    assert knots(successors_of(chain)) == []
    assert [len(knot) for knot in knots(successors_of([*chain, ("5000", "0")]))] == [5_001]
