"""The structure of a graph: reachability, loop bodies, cycles, borders, order.

Pure. `validate` reports its problems, `flow` builds on it, `compile_plan` compiles it. The idea: every handle with an
edge is a vertex of its own, between its node and the target of the edge. The body of a loop is then what the vertex of
its `loop` handle dominates (every path from an entry point passes it), and a node belongs to the innermost such loop.
An edge stays in its body, enters a body by the `loop` handle, or returns to the loop; any other edge crosses a border.
Of the edges that stay, some lead back: `regions` has the loops that they close.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace

from anabranch.dataclass import dataclass
from anabranch.engine.rules.events import DONE_HANDLE, LOOP_HANDLE
from anabranch.engine.rules.graph.control_flow.dominance import DominatorTree, immediate_dominators
from anabranch.engine.rules.graph.control_flow.loop_entries import split_entries
from anabranch.engine.rules.graph.control_flow.regions import REGION_DEPTH_MAX, Regions, Vertex
from anabranch.engine.rules.graph.control_flow.walks import (
    Successors,
    knots,
    ordered,
    reached,
    shortest_cycle,
    successors_of,
)
from anabranch.engine.rules.graph.document import Graph, GraphEdge
from anabranch.engine.rules.graph.loop_config import LOOP_TYPE
from anabranch.engine.rules.graph.problems import Problem, quoted

# At most 12 nodes of a cycle in a message: enough to find it on the canvas.
CYCLE_NODES_SHOWN = 12

ORIGIN: Vertex = "\0"
"""The vertex that leads to every entry point: a run takes one of these ways. No document that is read has this id."""


@dataclass(slots=True, eq=False)
class Structure:
    """The structure of a graph, from its edges alone. Covers reachable nodes only, except `unreachable`."""

    unreachable: list[str] = field(default_factory=list)
    """In document order; empty where there is no entry point to reach them from."""
    order: list[str] = field(default_factory=list)
    """Reachable nodes, each after those that lead to it, else in document order; empty if there are `problems`."""
    homes: dict[str, str | None] = field(default_factory=dict)
    """The loop whose body a node is directly in; None at the root."""
    forward: list[GraphEdge] = field(default_factory=list)
    """Edges that stay at home and do not lead back."""
    again: list[GraphEdge] = field(default_factory=list)
    """Edges that lead back at home: to a node that every way to their source passes."""
    entering: list[GraphEdge] = field(default_factory=list)
    """`loop` edges into the loop's own body."""
    returning: list[GraphEdge] = field(default_factory=list)
    """Edges from a node directly in a body back to its loop node."""
    parents: dict[Vertex, Vertex] = field(default_factory=dict)
    """Immediate dominators: the last vertex that every way from ORIGIN to this one passes."""
    regions: Regions = field(default_factory=lambda: Regions([], [], [], {}))
    """The loops that `again` edges close."""
    entangled: list[set[str]] = field(default_factory=list)
    """Nodes that reach each other and are entered at several of them, one set per knot."""
    side_entries: list[GraphEdge] = field(default_factory=list)
    """Edges, as drawn, that enter the loop of a cursor elsewhere than at the cursor."""
    problems: list[Problem] = field(default_factory=list)
    """Cycles and crossed borders."""

    def before(self, node_id: str) -> set[str]:
        """A node and all nodes before it; a loop does not come after its own body. Requires a sound structure."""
        sources: defaultdict[str, list[str]] = defaultdict(list)
        for edge in self.forward + self.entering:
            sources[edge.target].append(edge.source)
        found, stack = {node_id}, [node_id]
        while stack:
            for source in sources[stack.pop()]:
                if source not in found:
                    found.add(source)
                    stack.append(source)
        return found

    def up_to(self, node_id: str) -> Structure:
        """The structure restricted to a node and all nodes before it, with whole loops."""
        kept = self.before(node_id)
        for region in self.regions.by_header.values():
            if region.header in kept and node_id not in region.nodes:
                kept |= region.nodes
        whole = kept - {node_id, *loops_around(node_id, self.homes)}
        kept |= {each for each in self.order if not whole.isdisjoint(loops_around(each, self.homes))}

        def inside(edges: list[GraphEdge]) -> list[GraphEdge]:
            return [edge for edge in edges if edge.source in kept and edge.target in kept]

        return replace(
            self,
            order=[each for each in self.order if each in kept],
            forward=inside(self.forward),
            again=inside(self.again),
            entering=inside(self.entering),
            returning=inside(self.returning),
        ).with_regions()

    def with_regions(self) -> Structure:
        """Find the regions, once all edges are sorted and the forward ones have no cycles."""
        self.regions = Regions(self.forward, self.again, self.returning, self.parents)
        return self

    @property
    def is_sound(self) -> bool:
        """True if the graph can be walked: no cycles, no crossed borders, and an entry point."""
        return bool(self.order)


def structure_of(graph: Graph) -> Structure:
    """The structure of a graph. Never raises; also takes edges of unknown handles.

    Where edges enter the loop of a cursor elsewhere than at the cursor, the graph gets copies of what is between.
    """
    structure = _structure_as_drawn(graph)
    if not structure.entangled:
        return structure
    nodes, edges = dict(graph.nodes), graph.edges
    entries = [edge for knot in structure.entangled for edge in split_entries(graph, knot, structure.homes)]
    found = _structure_as_drawn(graph) if entries else structure
    if found.problems:
        graph.nodes, graph.edges = nodes, edges
        return structure
    found.side_entries = entries
    return found


def _structure_as_drawn(graph: Graph) -> Structure:
    structure = Structure()
    reachable = _reach(graph, structure)
    if not graph.entry_points:
        return structure
    inner = [edge for edge in graph.edges if edge.source in reachable]
    _find_homes(graph, inner, structure)
    for edge in inner:
        _classify(graph, edge, structure)
    structure.problems.extend(_find_regions(graph, structure))
    if not structure.problems:
        structure.order = _order(graph, reachable, structure)
    return structure


def _find_regions(graph: Graph, structure: Structure) -> Iterator[Problem]:
    """Separate the edges that lead back from the forward ones; yield the problems that prevent it."""
    loops = knots(_ways(structure))
    if not loops:
        return
    tree = DominatorTree(structure.parents)
    structure.again = [edge for edge in structure.forward if tree.dominates(edge.target, edge.source)]
    leading_back = {id(edge) for edge in structure.again}
    structure.forward = [edge for edge in structure.forward if id(edge) not in leading_back]
    entangled = list(_entangled(graph, structure, _ways(structure)))
    yield from entangled
    structure.entangled = [knot for knot in loops if any(problem.node_id in knot for problem in entangled)]
    if entangled or structure.problems:
        return
    too_deep = structure.with_regions().regions.too_deep
    if too_deep is not None:
        message = f"the loop that begins at {quoted(too_deep)} has more than {REGION_DEPTH_MAX} loops inside each other"
        hint = "Move the inner ones into a workflow of their own, or lead back to one node only."
        yield Problem("LOOPS_TOO_DEEP", message, graph.nodes[too_deep].pointer, too_deep, hint=hint)


def loops_around(node_id: str, homes: dict[str, str | None]) -> list[str]:
    """The loops whose bodies a node is in, innermost first."""
    around = []
    loop = homes[node_id]
    while loop is not None:
        around.append(loop)
        loop = homes[loop]
    return around


def _reach(graph: Graph, structure: Structure) -> set[str]:
    if not graph.entry_points:
        return set()
    entry_points = (node.id for node in graph.entry_points)
    reachable = reached(successors_of((edge.source, edge.target) for edge in graph.edges), entry_points)
    structure.unreachable = [node_id for node_id in graph.nodes if node_id not in reachable]
    return reachable


def _is_loop_exit(graph: Graph, edge: GraphEdge) -> bool:
    return edge.handle == LOOP_HANDLE and graph.nodes[edge.source].type == LOOP_TYPE


def _find_homes(graph: Graph, edges: Iterable[GraphEdge], structure: Structure) -> None:
    ways: defaultdict[Vertex, dict[Vertex, None]] = defaultdict(dict)
    ways[ORIGIN] = {node.id: None for node in graph.entry_points}
    for edge in edges:
        leaving = (edge.source, edge.handle)
        ways[edge.source][leaving] = ways[leaving][edge.target] = None
    structure.parents = immediate_dominators(ways, ORIGIN)
    children: defaultdict[Vertex, list[Vertex]] = defaultdict(list)
    for vertex, parent in structure.parents.items():
        children[parent].append(vertex)
    stack: list[tuple[Vertex, str | None]] = [(child, None) for child in children[ORIGIN]]
    while stack:
        vertex, home = stack.pop()
        if isinstance(vertex, str):
            structure.homes[vertex] = home
        elif vertex[1] == LOOP_HANDLE and graph.nodes[vertex[0]].type == LOOP_TYPE:
            home = vertex[0]
        stack.extend((child, home) for child in children[vertex])


def _classify(graph: Graph, edge: GraphEdge, structure: Structure) -> None:
    source_home, target_home = structure.homes[edge.source], structure.homes[edge.target]
    if _is_loop_exit(graph, edge):
        if target_home == edge.source:
            structure.entering.append(edge)
        else:
            structure.problems.append(_crossing_entry(edge))
    elif source_home == target_home:
        structure.forward.append(edge)
    elif source_home == edge.target:
        structure.returning.append(edge)
    else:
        structure.problems.append(_crossing(edge, structure))


def _crossing_entry(edge: GraphEdge) -> Problem:
    if edge.source == edge.target:
        message = f"{edge.shown} leads from the loop straight back to itself: there is no body in between"
        hint = "Remove the edge if the body is meant to be empty, or put a node between."
    else:
        message = (
            f"{edge.shown} leads to a node that is not in the loop's body, "
            "because another way reaches it without passing the loop"
        )
        hint = f"Lead to it from {DONE_HANDLE!r}, or remove the other way."
    return Problem("LOOP_BORDER", message, edge.pointer, edge.source, edge.id, hint)


def _crossing(edge: GraphEdge, structure: Structure) -> Problem:
    """The problem of an edge from inside a body to a node outside it. (The other direction is impossible, by
    dominance.)"""
    source_home, target_home = structure.homes[edge.source], structure.homes[edge.target]
    if edge.target in loops_around(edge.source, structure.homes):
        message = f"{edge.shown} returns to an outer loop from inside the loop {quoted(source_home)}"
        hint = f"Lead back to {quoted(source_home)}, and from its {DONE_HANDLE!r} to {quoted(edge.target)}."
    else:
        where = "the root" if target_home is None else f"the body of {quoted(target_home)}"
        message = f"{edge.shown} leaves the body of the loop {quoted(source_home)} for {where}"
        hint = f"What comes after the loop starts from its {DONE_HANDLE!r} handle."
    return Problem("LOOP_BORDER", message, edge.pointer, edge.source, edge.id, hint)


def _ways(structure: Structure) -> Successors:
    return successors_of((edge.source, edge.target) for edge in structure.forward)


def _entangled(graph: Graph, structure: Structure, ways: Successors) -> Iterator[Problem]:
    """One problem per cycle that is entered at several nodes; it names two of them.

    Since none of them comes first, passes cannot be told apart.
    """
    position = {node_id: index for index, node_id in enumerate(graph.nodes)}
    found = sorted(knots(ways), key=lambda knot: min(map(position.__getitem__, knot)))
    knot_of = {node_id: number for number, knot in enumerate(found) for node_id in knot}
    entries: defaultdict[int, dict[str, GraphEdge]] = defaultdict(dict)
    for edge in graph.edges:
        number = knot_of.get(edge.target)
        if number is not None and edge.source in structure.homes and knot_of.get(edge.source) != number:
            entries[number].setdefault(edge.target, edge)
    for number, knot in enumerate(found):
        if len(entries[number]) > 1:  # otherwise only the crossed border is reported
            one, other = sorted(entries[number].values(), key=lambda edge: position[edge.target])[:2]
            yield _cycle(shortest_cycle(ways, knot, one.target), (one, other), graph, size=len(knot))


def _cycle(cycle: Sequence[str], entries: tuple[GraphEdge, GraphEdge], graph: Graph, *, size: int) -> Problem:
    shown = [quoted(node_id) for node_id in (*cycle[:CYCLE_NODES_SHOWN], cycle[0])]
    if len(cycle) > CYCLE_NODES_SHOWN:
        shown.insert(CYCLE_NODES_SHOWN, "…")
    entered = " and ".join(f"at {quoted(edge.target)} from {quoted(edge.source)}" for edge in entries)
    message = f"the nodes lead back to themselves: {' → '.join(shown)}; they are entered {entered}"
    if size > len(cycle):
        message += f" ({size} nodes are entangled)"
    closing = next(edge for edge in graph.edges if edge.source == cycle[-1] and edge.target == cycle[0])
    hint = "A loop begins at one node: lead both edges to one node first."
    return Problem("CYCLE", message, closing.pointer, cycle[0], closing.id, hint)


def _order(graph: Graph, reachable: set[str], structure: Structure) -> list[str]:
    position = {node_id: index for index, node_id in enumerate(graph.nodes)}
    succession = successors_of((edge.source, edge.target) for edge in structure.forward + structure.entering)
    return ordered(reachable, succession, key=position.__getitem__)
