"""Immediate dominators: for each vertex, the last one that every path from start passes.

Pure. Called by `structure`. Lengauer and Tarjan's algorithm with path compression: O(edges · log vertices) for any
graph. Iterating to a fixed point is as fast on graphs that people draw, but takes 15 seconds on a hostile graph within
the limits (a ladder of back edges), and would block a server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

Vertex = TypeVar("Vertex", bound=Hashable)


def immediate_dominators(successors: Mapping[Vertex, Iterable[Vertex]], start: Vertex) -> dict[Vertex, Vertex]:
    """The immediate dominator of every vertex that start reaches, except start itself.

    Dominators come before what they dominate. A vertex without successors may be absent from the mapping.
    """
    order, parents = _depth_first(successors, start)
    number = {vertex: index for index, vertex in enumerate(order)}
    predecessors: list[list[int]] = [[] for _ in order]
    for index, vertex in enumerate(order):
        for successor in successors.get(vertex, ()):
            predecessors[number[successor]].append(index)
    dominators = _dominators(parents, predecessors)
    return {vertex: order[dominators[index]] for index, vertex in enumerate(order) if index}


class DominatorTree(Generic[Vertex]):
    """Answers in constant time whether one vertex dominates another; built from the immediate dominators."""

    def __init__(self, parents: Mapping[Vertex, Vertex]) -> None:
        children: defaultdict[Vertex, list[Vertex]] = defaultdict(list)
        for vertex, parent in parents.items():
            children[parent].append(vertex)
        self.first: dict[Vertex, int] = {}
        """The number of each vertex; what it dominates has the numbers up to `last`."""
        self.last: dict[Vertex, int] = {}
        stack = [(root, False) for root in children if root not in parents]
        while stack:
            vertex, is_done = stack.pop()
            if is_done:
                self.last[vertex] = len(self.first) - 1
            else:
                self.first[vertex] = len(self.first)
                stack.append((vertex, True))
                stack.extend((child, False) for child in children[vertex])

    def dominates(self, upper: Vertex, lower: Vertex) -> bool:
        """Whether every path from start to `lower` passes `upper`. Each vertex dominates itself."""
        return self.first[upper] <= self.first[lower] <= self.last[upper]


def _depth_first(successors: Mapping[Vertex, Iterable[Vertex]], start: Vertex) -> tuple[list[Vertex], list[int]]:
    """Vertices in depth-first order, with the number of each one's parent."""
    order: list[Vertex] = []
    parents: list[int] = []
    met: set[Vertex] = set()
    stack = [(start, 0)]
    while stack:
        vertex, parent = stack.pop()
        if vertex in met:
            continue
        met.add(vertex)
        index = len(order)
        order.append(vertex)
        parents.append(parent)
        stack.extend((successor, index) for successor in successors.get(vertex, ()) if successor not in met)
    return order, parents


def _dominators(parents: list[int], predecessors: list[list[int]]) -> list[int]:
    """By number; vertices are numbered depth first, so a dominator's number is the smaller one."""
    size = len(parents)
    semi = list(range(size))
    forest = _Forest(size, semi)
    waiting: list[list[int]] = [[] for _ in range(size)]
    dominators = [0] * size
    for vertex in range(size - 1, 0, -1):
        for predecessor in predecessors[vertex]:
            semi[vertex] = min(semi[vertex], semi[forest.least(predecessor)])
        waiting[semi[vertex]].append(vertex)
        parent = parents[vertex]
        forest.link(parent, vertex)
        for other in waiting[parent]:
            least = forest.least(other)
            dominators[other] = least if semi[least] < semi[other] else parent
        waiting[parent].clear()
    for vertex in range(1, size):
        if dominators[vertex] != semi[vertex]:
            dominators[vertex] = dominators[dominators[vertex]]
    return dominators


class _Forest:
    """The part of the depth-first tree seen so far, with short cuts to the roots of its trees."""

    def __init__(self, size: int, semi: list[int]) -> None:
        self._semi = semi
        self._above: list[int | None] = [None] * size
        self._best = list(range(size))

    def link(self, parent: int, vertex: int) -> None:
        """Hang a vertex below its parent."""
        self._above[vertex] = parent

    def least(self, vertex: int) -> int:
        """The vertex with the least semidominator on the way up to, but without, the root of its tree."""
        path: list[int] = []
        above = self._above[vertex]
        current = vertex
        while above is not None and self._above[above] is not None:
            path.append(current)
            current, above = above, self._above[above]
        for lower in reversed(path):
            upper = self._above[lower]
            assert upper is not None
            if self._semi[self._best[upper]] < self._semi[self._best[lower]]:
                self._best[lower] = self._best[upper]
            self._above[lower] = self._above[upper]
        return self._best[vertex]
