"""What may, must and cannot happen before what in a sound graph.

Pure. Asked by `advice` for its warnings and by nobody else. Sets of nodes are bit masks
(one bit per node, in topological order): with 2,000 nodes a set is a 250-byte integer, and
the union of two of them one machine loop, so the whole graph costs one pass per question
and never a scan over pairs of nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

from anabranch.engine.rules.graph import Graph, GraphEdge
from anabranch.engine.rules.structure import Exit, Structure, Vertex

NodeSet: TypeAlias = int
"""A set of nodes as a bit mask."""


class Flow:
    """The order of events in a graph whose structure is sound."""

    def __init__(self, graph: Graph, structure: Structure) -> None:
        self._graph = graph
        self._structure = structure
        self._order = structure.order
        self._bits: dict[str, NodeSet] = {node_id: 1 << index for index, node_id in enumerate(structure.order)}
        self._outgoing: defaultdict[str, list[GraphEdge]] = defaultdict(list)
        self._incoming: defaultdict[str, list[GraphEdge]] = defaultdict(list)
        self._entering = {id(edge) for edge in structure.entering}
        for edge in structure.forward + structure.entering:
            self._outgoing[edge.source].append(edge)
            self._incoming[edge.target].append(edge)

    def node_set(self, node_ids: Iterable[str]) -> NodeSet:
        """The set of these nodes."""
        return self._union(self._bits[node_id] for node_id in node_ids)

    def members(self, nodes: NodeSet) -> Iterator[str]:
        """The nodes of a set, in topological order."""
        while nodes:
            lowest = nodes & -nodes
            yield self._order[lowest.bit_length() - 1]
            nodes ^= lowest

    @cached_property
    def behind(self) -> dict[str, NodeSet]:
        """For each node those that may have ended before it begins: whatever has a way to it.

        A loop is not behind its own body: while that runs, the loop has not ended.
        """
        behind: dict[str, NodeSet] = {}
        for node_id in self._order:
            nodes = 0
            for edge in self._incoming[node_id]:
                nodes |= behind[edge.source] | self._ended_source(edge)
            behind[node_id] = nodes
        return behind

    @cached_property
    def settled(self) -> dict[str, NodeSet]:
        """For each node those that have certainly ended, or will never run, once it begins.

        It begins because an edge came: whichever it was, the edge's source had run, and what
        excludes that edge will not run. An `all` join has also waited for its other edges,
        whose sources may have run or been skipped.
        """
        ran: dict[str, NodeSet] = {}
        ended: dict[str, NodeSet] = {}  # the same, but once the node has ended in any way: run or skipped
        everyone = (1 << len(self._order)) - 1
        for node_id in self._order:
            edges = self._incoming[node_id]
            whichever, all_of_them = everyone if edges else 0, 0
            for edge in edges:
                source = self._ended_source(edge)
                whichever &= ran[edge.source] | source | self.exclusive[edge.source, edge.handle]
                # Bodies exist only in iterations: there the loop has run.
                all_of_them |= ended[edge.source] | source if source else ran[edge.source]
            join_any = self._graph.nodes[node_id].join_any
            ran[node_id] = whichever if join_any else whichever | all_of_them
            ended[node_id] = whichever & all_of_them if join_any else all_of_them
        return ran

    @cached_property
    def exclusive(self) -> dict[Vertex, NodeSet]:
        """For each node (or exit) those that never run in a run where it runs (or is taken).

        A node completes by one handle. So below a node that all ways pass, what only some of
        its handles lead to excludes what only its other handles lead to. What excludes a
        dominator excludes everything below it, for each of these runs has passed it.
        """
        exclusive: dict[Vertex, NodeSet] = {}
        for node_id in self._order:
            for vertex in (node_id, *self._exits[node_id]):
                parent = self._structure.parents.get(vertex)
                exclusive[vertex] = 0 if parent is None else exclusive[parent]
                if isinstance(parent, str) and len(self._exits[parent]) > 1:
                    ways = [way for way in self._exits[parent] if way == vertex or self._leads_to(way, vertex)]
                    exclusive[vertex] |= self._below[parent] & ~self._union(self._beyond[way] for way in ways)
        return exclusive

    def may_run_together(self, node_id: str, others: NodeSet) -> NodeSet:
        """Those of `others`, up to this node in topological order, that may be running when it runs."""
        bit = self._bits[node_id]
        earlier = others & (bit - 1) & ~self.settled[node_id]
        return earlier & ~self.exclusive[node_id] if earlier else 0

    def edges_never_live(self, is_possible: Callable[[str, str], bool]) -> list[GraphEdge]:
        """Edges that no run takes if nodes never complete by handles that are not possible for them."""
        alive: set[str] = set()
        dead: list[GraphEdge] = []
        returning = defaultdict(list)
        for edge in self._structure.returning:
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
        return 0 if id(edge) in self._entering else self._bits[edge.source]

    def _leads_to(self, way: Exit, vertex: Vertex) -> bool:
        return isinstance(vertex, str) and bool(self._beyond[way] & self._bits[vertex])

    @staticmethod
    def _union(sets: Iterable[NodeSet]) -> NodeSet:
        nodes = 0
        for each in sets:
            nodes |= each
        return nodes

    @cached_property
    def _exits(self) -> dict[str, list[Exit]]:
        """The handles that edges leave each node by."""
        exits: defaultdict[str, dict[Exit, None]] = defaultdict(dict)
        for edge in self._structure.forward + self._structure.entering:
            exits[edge.source][edge.source, edge.handle] = None
        return defaultdict(list, {node_id: list(ways) for node_id, ways in exits.items()})

    @cached_property
    def _beyond(self) -> dict[Exit, NodeSet]:
        """For each exit all nodes that it has a way to."""
        beyond: defaultdict[Exit, NodeSet] = defaultdict(int)
        ahead: dict[str, NodeSet] = {}
        for node_id in reversed(self._order):
            for edge in self._outgoing[node_id]:
                beyond[node_id, edge.handle] |= self._bits[edge.target] | ahead[edge.target]
            ahead[node_id] = 0
            for way in self._exits[node_id]:
                ahead[node_id] |= beyond[way]
        return beyond

    @cached_property
    def _below(self) -> dict[Vertex, NodeSet]:
        """For each vertex the nodes that it dominates, without itself."""
        below: defaultdict[Vertex, NodeSet] = defaultdict(int)
        # A node's dominators come before it in topological order, so backwards each is complete when added.
        for node_id in reversed(self._order):
            vertex: Vertex = node_id
            dominated = below[node_id] | self._bits[node_id]
            parent = self._structure.parents.get(vertex)
            while parent is not None:
                below[parent] |= dominated
                if isinstance(parent, str):
                    break
                parent = self._structure.parents.get(parent)
        return below
