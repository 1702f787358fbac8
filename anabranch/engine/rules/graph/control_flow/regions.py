"""Natural loops: edges that lead back to a node that dominates them, and the regions that they close.

Pure. Called by `structure`. A *region* is a loop that is drawn without a loop node: its *header*, and every node from
which the header is reached again. It is entered at its header alone, so each pass through it is a graph without cycles.
An edge that leads from inside to the header is an *again edge*, one that leads outside an *exit*.

An exit is *exclusive* if it is never live in a pass in which an again edge is live: its target comes after the loop.
Any other exit is a *side branch*: the nodes behind it run once in each pass and become part of the region, if only the
region leads to them; otherwise they stay outside and run once, after the loop (the warning EXIT_RUNS_ONCE).

The regions are found as in Havlak, "Nesting of reducible and irreducible loops" (1997), inner ones first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.rules.graph.control_flow.dominance import DominatorTree
from anabranch.engine.rules.graph.document import GraphEdge

Exit: TypeAlias = tuple[str, str]
"""A handle that an edge leaves by: (node id, handle)."""

Vertex: TypeAlias = str | Exit
"""A node (by id) or a handle that an edge leaves it by."""

# 50 nested loops: more than a person draws; each level makes scopes longer and checks slower.
REGION_DEPTH_MAX = 50


@dataclass(slots=True, eq=False)
class Region:
    """A loop that is drawn without a loop node."""

    header: str
    nodes: set[str]
    """All nodes in it, those of inner regions included, those in the bodies of its loop nodes not."""
    again: list[GraphEdge]
    """The edges that lead back to the header."""
    exits: list[GraphEdge] = field(default_factory=list)
    """The edges that lead out of it, in document order per source."""
    run_once: list[GraphEdge] = field(default_factory=list)
    """Those exits that may be live in a pass which is followed by another."""
    outer: str | None = None
    """The header of the region around it, in the same loop body."""
    height: int = 1
    """How many regions are nested here, itself included."""


class Regions:
    """The regions of a graph, by header, and the region that each node is in.

    `forward` edges have no cycles, `again` edges close them; both stay in one loop body. `returning` ones lead from
    it to its loop node. `parents` are the immediate dominators, inner ones later.
    """

    def __init__(
        self,
        forward: Sequence[GraphEdge],
        again: Sequence[GraphEdge],
        returning: Sequence[GraphEdge],
        parents: Mapping[Vertex, Vertex],
    ) -> None:
        self.by_header: dict[str, Region] = {}
        """Inner regions come before those around them."""
        self.too_deep: str | None = None
        """The header of a region with more than REGION_DEPTH_MAX nested regions; then nothing else is set."""
        self._innermost: dict[str, str] = {}
        if again:
            self._parents = parents
            self._tree = DominatorTree(parents)
            self._run_once: list[int] = []
            """The numbers of the side branches that stay outside of their regions, sorted."""
            self._handles: defaultdict[str, dict[str, None]] = defaultdict(dict)
            for edge in (*forward, *again, *returning):
                self._handles[edge.source][edge.handle] = None
            self._find(forward, again, returning)

    def around(self, node_id: str) -> list[str]:
        """The headers of the regions that a node is in, innermost first."""
        headers = []
        header = self._innermost.get(node_id)
        while header is not None:
            headers.append(header)
            header = self.by_header[header].outer
        return headers

    def _find(self, forward: Sequence[GraphEdge], again: Sequence[GraphEdge], returning: Sequence[GraphEdge]) -> None:
        leaving: defaultdict[str, list[GraphEdge]] = defaultdict(list)
        coming: defaultdict[str, list[str]] = defaultdict(list)
        for edge in (*forward, *again, *returning):
            leaving[edge.source].append(edge)
        for edge in (*forward, *again):
            coming[edge.target].append(edge.source)
        closing: defaultdict[str, list[GraphEdge]] = defaultdict(list)
        for edge in again:
            closing[edge.target].append(edge)
        # A dominator comes before what it dominates: backwards, inner headers come first.
        inner_first = [
            vertex for vertex in reversed(list(self._parents)) if isinstance(vertex, str) and vertex in closing
        ]
        for header in inner_first:
            region = self._natural_loop(header, closing[header], coming)
            self.by_header[header] = region
            if region.height <= REGION_DEPTH_MAX:
                self._draw_in(region, leaving)
            if region.height > REGION_DEPTH_MAX:
                self.too_deep = header
                return
        for region in self.by_header.values():
            staying = {id(edge) for edge in region.run_once}
            region.exits = list(_exits(region, leaving))
            region.run_once = [edge for edge in region.exits if id(edge) in staying]

    def _natural_loop(self, header: str, again: list[GraphEdge], coming: Mapping[str, list[str]]) -> Region:
        """The nodes that reach an again edge without passing the header; inner regions count as their headers."""
        region = Region(header, {header}, again)
        stack = [edge.source for edge in again]
        while stack:
            node_id = stack.pop()
            if node_id in region.nodes:
                continue
            inner = self._outermost(node_id)
            if inner is None:
                region.nodes.add(node_id)
                self._innermost[node_id] = header
                stack.extend(coming[node_id])
            else:
                self._nest(inner, region)
                stack.extend(coming[inner.header])
        own = self._outermost(header)
        assert own is None, "one header has one region, and what it dominates is inside it"
        self._innermost[header] = header
        return region

    def _outermost(self, node_id: str) -> Region | None:
        around = self.around(node_id)
        return self.by_header[around[-1]] if around else None

    def _nest(self, inner: Region, region: Region) -> None:
        inner.outer = region.header
        region.nodes |= inner.nodes
        region.height = max(region.height, inner.height + 1)

    def _draw_in(self, region: Region, leaving: Mapping[str, list[GraphEdge]]) -> None:
        """Add to a region the side branches that only it leads to."""
        exits = list(_exits(region, leaving))
        exclusive = self._exclusive(exits, region)
        side = [edge for edge in exits if id(edge) not in exclusive]
        if not side:
            return
        reached, sources = _reached([edge.target for edge in side], leaving)
        outside, _ = _reached([edge.target for edge in exits if id(edge) in exclusive], leaving)
        stack = [
            node_id for node_id in reached if node_id in outside or not self._tree.dominates(region.header, node_id)
        ]
        # A node with a predecessor outside is outside, and so is everything behind it.
        stays: set[str] = set()
        while stack:
            node_id = stack.pop()
            if node_id not in stays:
                stays.add(node_id)
                stack.extend(sources[node_id])
                stack.extend(edge.target for edge in leaving[node_id])
        drawn = reached - stays
        region.run_once = [edge for edge in side if edge.target not in drawn]
        for edge in region.run_once:
            insort(self._run_once, self._tree.first[edge.source, edge.handle])
        for node_id in drawn:
            inner = self._outermost(node_id)
            if inner is None:
                region.nodes.add(node_id)
                self._innermost[node_id] = region.header
            elif inner is not region:
                self._nest(inner, region)

    def _exclusive(self, exits: Sequence[GraphEdge], region: Region) -> set[int]:
        """The exits (by `id`) that are never live in a pass in which an again edge is live.

        Such an exit and each again edge branch off at a node by different handles: where their paths meet in the
        dominator tree.
        """
        again = sorted(self._tree.first[edge.source, edge.handle] for edge in region.again)
        known: dict[Vertex, bool] = {region.header: True}

        def is_apart(vertex: Vertex) -> bool:
            """Whether all between the header and this vertex parts; each vertex on the way is answered once."""
            way: list[Vertex] = []
            while vertex not in known:
                way.append(vertex)
                vertex = self._parents[vertex]
            answer = known[vertex]
            for lower in reversed(way):
                answer = known[lower] = answer and self._parts(vertex, lower, region, again)
                vertex = lower
            return answer

        return {
            id(edge)
            for edge in exits
            if not self._count(again, (edge.source, edge.handle)) and is_apart((edge.source, edge.handle))
        }

    def _parts(self, upper: Vertex, lower: Vertex, region: Region, again: list[int]) -> bool:
        """Whether the again edges that branch off between `upper` and `lower` exclude what is below `lower`."""
        count = self._count(again, upper)
        if count == self._count(again, lower):
            return True
        if not isinstance(upper, str) or isinstance(lower, str):
            return False  # both may be live: they leave by one handle, or are behind a join
        handles: list[Vertex] = [(upper, handle) for handle in self._handles[upper]]
        if sum(self._count(again, handle) for handle in handles) != count:
            return False
        if self._innermost[upper] == region.header:
            return True
        # A node of an inner region takes one handle in each of its passes. Only the last pass counts if all exits of
        # that region are exclusive.
        taken = [handle for handle in handles if handle == lower or self._count(again, handle)]
        return not any(self._count(self._run_once, handle) for handle in taken)

    def _count(self, numbers: list[int], vertex: Vertex) -> int:
        """How many of these (sorted) vertices a vertex dominates."""
        return bisect_right(numbers, self._tree.last[vertex]) - bisect_left(numbers, self._tree.first[vertex])


def _exits(region: Region, leaving: Mapping[str, list[GraphEdge]]) -> Iterator[GraphEdge]:
    for node_id in sorted(region.nodes):
        for edge in leaving.get(node_id, ()):
            if edge.target not in region.nodes:
                yield edge


def _reached(
    targets: Iterable[str], leaving: Mapping[str, list[GraphEdge]]
) -> tuple[set[str], defaultdict[str, list[str]]]:
    """All nodes that these lead to, including themselves, each with its predecessors."""
    found: set[str] = set()
    sources: defaultdict[str, list[str]] = defaultdict(list)
    stack = list(targets)
    while stack:
        node_id = stack.pop()
        if node_id in found:
            continue
        found.add(node_id)
        for edge in leaving.get(node_id, ()):
            sources[edge.target].append(node_id)
            stack.append(edge.target)
    return found, sources
