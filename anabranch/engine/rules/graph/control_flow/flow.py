"""Reachability in a sound graph: which nodes may, must or cannot end before others begin.

Pure. Used by `warnings` only. Sets of nodes are bit masks (one bit per node, in topological order): with 2,000 nodes a
set is an integer of 250 bytes, and a union is one machine loop. So each question costs one pass over the graph, and
never a scan over pairs of nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

from anabranch.engine.rules.graph.control_flow.regions import Exit
from anabranch.engine.rules.graph.control_flow.structure import Structure
from anabranch.engine.rules.graph.document import Graph, GraphEdge

NodeSet: TypeAlias = int
"""A set of nodes as a bit mask."""


class Flow:
    """The control flow of a graph whose structure is sound."""

    def __init__(self, graph: Graph, structure: Structure) -> None:
        self._graph = graph
        self._structure = structure
        self._order = structure.order
        self._bits: dict[str, NodeSet] = {node_id: 1 << index for index, node_id in enumerate(structure.order)}
        self._outgoing: defaultdict[str, list[GraphEdge]] = defaultdict(list)
        self._incoming: defaultdict[str, list[GraphEdge]] = defaultdict(list)
        self._entering = {id(edge) for edge in structure.entering}
        self._regions = {header: self.node_set(region.nodes) for header, region in structure.regions.by_header.items()}
        for edge in structure.forward + structure.entering:
            self._outgoing[edge.source].append(edge)
            self._incoming[edge.target].append(edge)

    def node_set(self, node_ids: Iterable[str]) -> NodeSet:
        """The set of these nodes."""
        nodes = 0
        for node_id in node_ids:
            nodes |= self._bits[node_id]
        return nodes

    def members(self, nodes: NodeSet) -> Iterator[str]:
        """The nodes of a set, in topological order."""
        while nodes:
            lowest = nodes & -nodes
            yield self._order[lowest.bit_length() - 1]
            nodes ^= lowest

    @cached_property
    def behind(self) -> dict[str, NodeSet]:
        """For each node the nodes that may have ended before it begins: all that have a path to it.

        A loop does not end before its own body. In a region all nodes may have ended, in an earlier pass.
        """
        behind: dict[str, NodeSet] = {}
        for node_id in self._order:
            nodes = 0
            for edge in self._incoming[node_id]:
                nodes |= behind[edge.source] | self._ended_source(edge)
            for header in self._structure.regions.around(node_id):
                nodes |= self._regions[header]
            behind[node_id] = nodes
        return behind

    @cached_property
    def settled(self) -> dict[str, NodeSet]:
        """For each node the nodes that have certainly ended, or will never run, once it begins.

        It begins because an edge became live: whichever it was, the edge's source has run, and nodes that exclude that
        edge will not run. An `all` join has also waited for its other edges, whose sources have run or were skipped.
        """
        ran: dict[str, NodeSet] = {}
        ended: dict[str, NodeSet] = {}  # the same, once the node has ended in any way: run or skipped
        everyone = (1 << len(self._order)) - 1
        for node_id in self._order:
            edges = self._incoming[node_id]
            # A run that begins here runs nothing that only other entry points lead to.
            whichever = everyone if edges else everyone & ~self._ahead[node_id] & ~self._bits[node_id]
            all_of_them = 0
            for edge in edges:
                source = self._ended_source(edge)
                whichever &= ran[edge.source] | source | self._excluded_by(edge)
                all_of_them |= ended[edge.source] | source
            join_any = self._graph.nodes[node_id].join_any
            ran[node_id] = whichever if join_any else whichever | all_of_them
            ended[node_id] = whichever & all_of_them if join_any else all_of_them
        return ran

    def may_run_together(self, node_id: str, others: NodeSet) -> NodeSet:
        """The nodes of `others` that may run at the same time as this node, up to it in topological order."""
        return others & (self._bits[node_id] - 1) & ~self.settled[node_id]

    def edges_never_live(self, is_possible: Callable[[str, str], bool]) -> list[GraphEdge]:
        """Edges that no run takes, given the handles that nodes can never complete by."""
        alive: set[str] = set()
        dead: list[GraphEdge] = []
        returning = defaultdict(list)
        for edge in (*self._structure.returning, *self._structure.again):
            returning[edge.source].append(edge)
        for node_id in self._order:
            edges = self._outgoing[node_id] + returning[node_id]
            if node_id not in alive and self._incoming[node_id]:
                dead.extend(edges)
                continue
            for edge in edges:
                if is_possible(edge.source, edge.handle):
                    alive.add(edge.target)
                else:
                    dead.append(edge)
        return dead

    def _ended_source(self, edge: GraphEdge) -> NodeSet:
        """The nodes that have ended, or will never run, when an edge becomes live: its source, and the regions that it
        leads out of."""
        if id(edge) in self._entering:
            return 0
        nodes = self._bits[edge.source]
        for header in self._structure.regions.around(edge.source) if self._regions else ():
            if not self._regions[header] & self._bits[edge.target]:
                nodes |= self._regions[header]
        return nodes

    def _excluded_by(self, edge: GraphEdge) -> NodeSet:
        """Nodes that never run in a run that takes this edge.

        A node completes by one handle. So the nodes that it dominates and that this handle does not lead to are
        excluded. Entering a body excludes nothing, since the loop continues.
        """
        if id(edge) in self._entering:
            return 0
        return self._below[edge.source] & ~self._beyond[edge.source, edge.handle]

    @cached_property
    def _beyond(self) -> dict[Exit, NodeSet]:
        """For each exit all nodes that it leads to."""
        beyond: defaultdict[Exit, NodeSet] = defaultdict(int)
        for node_id in self._order:
            for edge in self._outgoing[node_id]:
                beyond[node_id, edge.handle] |= self._bits[edge.target] | self._ahead[edge.target]
        return beyond

    @cached_property
    def _ahead(self) -> dict[str, NodeSet]:
        """For each node all nodes that it leads to."""
        ahead: dict[str, NodeSet] = {}
        for node_id in reversed(self._order):
            ahead[node_id] = 0
            for edge in self._outgoing[node_id]:
                ahead[node_id] |= self._bits[edge.target] | ahead[edge.target]
        return ahead

    @cached_property
    def _below(self) -> dict[str, NodeSet]:
        """For each node the nodes that it dominates, without itself."""
        below: defaultdict[str, NodeSet] = defaultdict(int)
        # A node's dominators come before it in topological order, so backwards each is complete when added.
        for node_id in reversed(self._order):
            parent = self._structure.parents.get(node_id)
            if isinstance(parent, tuple):
                parent = parent[0]  # the node whose exit this is dominates the exit
            if parent is not None:
                below[parent] |= below[node_id] | self._bits[node_id]
        return below
