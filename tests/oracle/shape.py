"""The shape of a drawn workflow as the oracle walks it: what is reachable, loop bodies, back edges, an order.

Pure data, computed once per document, straight from the contract's sentences and with no care for speed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from graphlib import TopologicalSorter
from typing import Any

from tests.oracle.regions import reach, regions_of

ENTRY_POINTS = {"start", "webhook", "schedule", "topic", "workflowCall", "failure"}

ORIGIN = "?"
"""What leads to every entry point, for the question what all ways pass. No node has this id."""


class Shape:
    """Reachable nodes and edges of a valid document. A body is named by its loop, the root by ""."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.nodes: dict[str, Mapping[str, Any]] = {node["id"]: node for node in document["nodes"]}
        self.entry_points = [name for name, node in self.nodes.items() if node["type"] in ENTRY_POINTS]
        drawn = [
            (edge["upstreamNodeID"], edge.get("sourceHandle") or "default", edge["downstreamNodeID"])
            for edge in document["edges"]
        ]
        reachable = reach(self.entry_points, drawn)
        self.edges = [edge for edge in drawn if edge[0] in reachable]
        self.home = self._homes(reachable)
        self.back = [edge for edge in self.edges if edge[2] == self.home[edge[0]]]
        ways = [*((ORIGIN, "", name) for name in self.entry_points), *self.edges]
        self.regions = {r.header: r for r in regions_of({**self.home, ORIGIN: ORIGIN}, ORIGIN, ways, self.back)}
        self.again = [edge for region in self.regions.values() for edge in region.again]
        self.forward = [edge for edge in self.edges if edge not in self.back and edge not in self.again]
        sources = {name: {source for source, _, target in self.forward if target == name} for name in reachable}
        self.order = list(TopologicalSorter(sources).static_order())
        self._members: dict[str, list[str]] = defaultdict(list)
        for name in self.order:
            inside = [*(f"#{header}" for header in self.around(name)), self.home[name]]
            self._members[inside[0]].append(name)
            if inside[0] == f"#{name}":
                self._members[inside[1]].append(inside[0])

    def around(self, name: str) -> list[str]:
        """The headers of the regions around a node, innermost first."""
        return [header for header, region in self.regions.items() if name in region.nodes]

    def members(self, container: str) -> list[str]:
        """What is directly in a container, in order: nodes, and `#header` for a region."""
        return self._members[container]

    def leaves_by(self, name: str, handle: str) -> bool:
        """True if an edge leaves the node by this handle."""
        return any(edge[:2] == (name, handle) for edge in self.edges)

    def is_sink(self, name: str) -> bool:
        """True if no edge leaves the node."""
        return not any(edge[0] == name for edge in self.edges)

    def is_doubtful_sink(self, name: str) -> bool:
        """True if edges lead only into the node's own body: whether that makes it a sink is not promised."""
        return not self.is_sink(name) and all(edge[1] == "loop" for edge in self.edges if edge[0] == name)

    def _homes(self, reachable: set[str]) -> dict[str, str]:
        """The smallest body around each node: a body is what only the loop's `loop` handle leads to."""
        loops = [name for name in reachable if self.nodes[name]["type"] == "loop"]
        outside = {loop: reach(self.entry_points, [e for e in self.edges if e[:2] != (loop, "loop")]) for loop in loops}
        bodies = [("", reachable), *((loop, reachable - outside[loop]) for loop in loops)]
        return {name: min((len(body), loop) for loop, body in bodies if name in body)[1] for name in reachable}
