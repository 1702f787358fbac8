"""Layered layout: place the nodes of a small graph in columns, from left to right.

Pure. Called by `pictures`, and for templates that have no positions. Edges that lead back change nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from anabranch.dataclass import dataclass

Edge: TypeAlias = tuple[str, str]
Position: TypeAlias = tuple[int, int]

# The distance of two columns and of two rows on the canvas: nodes are 216 wide.
COLUMN, ROW = 304, 152


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of nodes and edges."""

    positions: Mapping[str, Position]
    """By node."""
    ways: Mapping[Edge, Sequence[Position]]
    """For each edge that leads to a later column than the next one: the free waypoints between, in order."""


def lay_out(nodes: Sequence[str], edges: Sequence[Edge]) -> Layout:
    """A column for each node by the longest way from the start, and in it the first free row from that of what leads to
    it."""
    forward = list(dict.fromkeys(_forward(nodes, edges)))
    column = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for source, target in forward:
            column[target] = max(column[target], column[source] + 1)
    leading: dict[str, list[str]] = defaultdict(list)
    ways: dict[Edge, list[str]] = {}
    for source, target in forward:
        between = [f"{source} {target} {at}" for at in range(column[source] + 1, column[target])]
        column.update({waypoint: column[source] + number for number, waypoint in enumerate(between, 1)})
        for one, other in pairwise([source, *between, target]):
            leading[other].append(one)
        if between:
            ways[source, target] = between
    taken: dict[int, set[int]] = defaultdict(set)
    row: dict[str, int] = {}
    order = {node: number for number, node in enumerate(column)}  # nodes stand before waypoints
    for node in sorted(column, key=lambda each: (column[each], order[each])):
        wanted = min((row[source] for source in leading[node]), default=0)
        while wanted in taken[column[node]]:
            wanted += 1
        taken[column[node]].add(wanted)
        row[node] = wanted
    at = {node: (column[node] * COLUMN, row[node] * ROW) for node in column}
    return Layout(
        {node: at[node] for node in nodes},
        {edge: [at[waypoint] for waypoint in between] for edge, between in ways.items()},
    )


def edges_of(document: Mapping[str, Any]) -> list[Edge]:
    """The edges of a workflow document, as pairs of ids."""
    return [(edge["upstreamNodeID"], edge["downstreamNodeID"]) for edge in document["edges"]]


def _forward(nodes: Sequence[str], edges: Sequence[Edge]) -> Iterator[Edge]:
    """The edges without those that lead back, by a walk from the first node."""
    following = defaultdict(list)
    for source, target in edges:
        following[source].append(target)
    done: set[str] = set()
    for first in nodes:
        above: list[str] = []
        stack = [(first, False)]
        while stack:
            node, leaves = stack.pop()
            if leaves:
                above.remove(node)
                done.add(node)
                continue
            if node in done or node in above:
                continue
            above.append(node)
            stack.append((node, True))
            for target in following[node]:
                if target not in above:
                    yield node, target
                    stack.append((target, False))
