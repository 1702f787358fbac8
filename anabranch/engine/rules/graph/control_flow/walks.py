"""Graph algorithms: reachability, strongly connected components, a cycle, a topological order.

Pure; used by `structure`. Every function takes node → successors, is linear except for sorting, and does not recurse: a
graph may be one chain of 2,000 nodes. A library would take a tenth of the time of `anabranch run` with a small file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import TypeAlias

Successors: TypeAlias = Mapping[str, Collection[str]]
"""Node → where its edges lead, each target once; a node without successors may be absent."""


def successors_of(edges: Iterable[tuple[str, str]]) -> dict[str, dict[str, None]]:
    """(source, target) → the successors of each source, in the order of their first edges."""
    successors: dict[str, dict[str, None]] = {}
    for source, target in edges:
        successors.setdefault(source, {})[target] = None
    return successors


def reached(successors: Successors, starts: Iterable[str]) -> set[str]:
    """Nodes and all nodes that they lead to."""
    found = set(starts)
    stack = list(found)
    while stack:
        for successor in successors.get(stack.pop(), ()):
            if successor not in found:
                found.add(successor)
                stack.append(successor)
    return found


def knots(successors: Successors) -> list[set[str]]:
    """The strongly connected components with a cycle, in no particular order (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    oldest: dict[str, int] = {}
    """The smallest number that a node leads back to, among those that are not in a closed set."""
    above: list[str] = []
    closed: set[str] = set()
    found: list[set[str]] = []
    for root in successors:
        if root in number:
            continue
        path = [(root, iter(successors[root]))]
        number[root] = oldest[root] = len(number)
        above.append(root)
        while path:
            node, ahead = path[-1]
            successor = next((each for each in ahead if each not in closed), None)
            if successor is None:
                path.pop()
                if path:
                    oldest[path[-1][0]] = min(oldest[path[-1][0]], oldest[node])
                if oldest[node] == number[node]:
                    knot = {node}
                    while (member := above.pop()) != node:
                        knot.add(member)
                    closed |= knot
                    if len(knot) > 1 or node in successors.get(node, ()):
                        found.append(knot)
            elif successor in number:
                oldest[node] = min(oldest[node], number[successor])
            else:
                number[successor] = oldest[successor] = len(number)
                above.append(successor)
                path.append((successor, iter(successors.get(successor, ()))))
    return found


def shortest_cycle(successors: Successors, knot: Collection[str], first: str) -> list[str]:
    """The nodes of one of the shortest cycles through a node of a component, that node first."""
    came_from: dict[str, str] = {}
    waiting = deque([first])
    while first not in came_from:
        node = waiting.popleft()
        for successor in successors.get(node, ()):
            if successor in knot and successor not in came_from:
                came_from[successor] = node
                waiting.append(successor)
    cycle, node = [], came_from[first]
    while node != first:
        cycle.append(node)
        node = came_from[node]
    return [first, *reversed(cycle)]


def ordered(nodes: Iterable[str], successors: Successors, *, key: Callable[[str], int]) -> list[str]:
    """A topological order of nodes without cycles; of several possible next nodes, the smallest by `key` comes
    first."""
    leading = dict.fromkeys(nodes, 0)
    for targets in successors.values():
        for target in targets:
            leading[target] += 1
    free = [(key(node), node) for node, count in leading.items() if count == 0]
    heapify(free)
    order = []
    while free:
        _, node = heappop(free)
        order.append(node)
        for target in successors.get(node, ()):
            leading[target] -= 1
            if leading[target] == 0:
                heappush(free, (key(target), target))
    return order
