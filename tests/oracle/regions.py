"""Loops that are drawn without a loop node, as the oracle reads them: straight from the contract, not fast.

Nothing of the engine is imported. Dominance is asked by taking things away: what cannot be reached any more without
them passes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Edge = tuple[str, str, str]
"""(source, handle, target)."""


@dataclass(eq=False)
class Region:
    """One loop: what is in it, what leads back, and what leads out."""

    header: str
    nodes: set[str]
    again: list[Edge]
    exits: list[Edge] = field(default_factory=list)
    runs_once: list[Edge] = field(default_factory=list)


def reach(starts: Iterable[str], edges: Sequence[Edge]) -> set[str]:
    """These nodes and all that they lead to."""
    targets = defaultdict(set)
    for source, _, target in edges:
        targets[source].add(target)
    found = set(starts)
    todo = list(found)
    while todo:
        fresh = targets[todo.pop()] - found
        found |= fresh
        todo.extend(fresh)
    return found


def dominates(node: str, other: str, start: str, edges: Sequence[Edge]) -> bool:
    """Does every way from start to the other node pass this one?"""
    return node == other or other not in reach([start], [e for e in edges if node not in (e[0], e[2])])


def regions_of(home: Mapping[str, str], start: str, edges: Sequence[Edge], back: Sequence[Edge]) -> list[Region]:
    """The regions of a graph, inner ones first. `back`: the edges back to loop nodes."""
    inner = [e for e in edges if home[e[0]] == home[e[2]] and e not in back]
    # An edge that leads back is part of a cycle: most graphs have none, and dominance is slow to ask for.
    again = [e for e in inner if e[0] in reach([e[2]], inner) and dominates(e[2], e[0], start, edges)]
    if not again:
        return []
    found = []
    for header in dict.fromkeys(e[2] for e in again):
        own = [e for e in again if e[2] == header]
        upwards = [(target, handle, source) for source, handle, target in inner if source != header]
        found.append(Region(header, {header} | reach((e[0] for e in own), [e for e in upwards if e[0] != header]), own))
    found.sort(key=lambda region: len(region.nodes))
    staying = [*inner, *back]
    for region in found:
        _draw_in(region, found, start, edges, staying)
    return sorted(found, key=lambda region: len(region.nodes))


def _draw_in(region: Region, found: list[Region], start: str, edges: Sequence[Edge], staying: Sequence[Edge]) -> None:
    exits = _exits(region, staying)
    side = [e for e in exits if not _is_exclusive(e, region, found, start, edges)]
    out = reach((e[2] for e in exits if e not in side), staying)
    drawn: list[Edge] = list(side)
    while True:
        gone = [
            e
            for e in drawn
            if any(n in out or not dominates(region.header, n, start, edges) for n in reach([e[2]], staying))
        ]
        if not gone:
            break
        drawn = [e for e in drawn if e not in gone]
        out |= reach((e[2] for e in gone), staying)
    nodes = reach((e[2] for e in drawn), staying)
    for other in found:
        if region.nodes <= other.nodes:
            other.nodes |= nodes
    region.runs_once = [e for e in side if e not in drawn]
    for other in found:
        other.exits = _exits(other, staying)


def _exits(region: Region, staying: Sequence[Edge]) -> list[Edge]:
    return [e for e in staying if e[0] in region.nodes and e[2] not in region.nodes]


def _is_exclusive(edge: Edge, region: Region, found: list[Region], start: str, edges: Sequence[Edge]) -> bool:
    return all(
        any(
            handle != other
            for node, handle in _taken(edge, region, start, edges).items()
            for other in [_taken(back, region, start, edges).get(node, handle)]
            if _counts(node, (handle, other), region, found, start, edges)
        )
        for back in region.again
    )


def _taken(edge: Edge, region: Region, start: str, edges: Sequence[Edge]) -> dict[str, str]:
    """By node the handle that was certainly taken when the edge is live in a pass."""
    taken = {edge[0]: edge[1]}
    for node in region.nodes:
        if node == edge[0] or not dominates(node, edge[0], start, edges):
            continue
        for handle in {e[1] for e in edges if e[0] == node}:
            if edge[0] not in reach([start], [e for e in edges if e[:2] != (node, handle)]):
                taken[node] = handle
    return taken


def _counts(
    node: str, handles: tuple[str, str], region: Region, found: list[Region], start: str, edges: Sequence[Edge]
) -> bool:
    """Has the node taken one handle only? In an inner region it has if no exit behind it stays open."""
    around = [r for r in found if node in r.nodes and r is not region and r.nodes < region.nodes]
    if not around:
        return True
    for other in found:
        for late in other.runs_once:
            if any(_taken(late, region, start, edges).get(node) == handle for handle in handles):
                return False
    return True
