"""Analysis of a graph for an editor: handles, variables, references, structure.

Pure. Called while a user draws. Formats the results of the other modules of this package for the wire. For a graph with
errors it returns what it can. Edges are named by pointer, because their ids are optional.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from anabranch.engine.rules.callbacks import CALLBACK_TYPE, CALLBACKS_NAME
from anabranch.engine.rules.entry_points import START_TYPE
from anabranch.engine.rules.events import ERROR_HANDLE
from anabranch.engine.rules.graph.control_flow.flow import Flow
from anabranch.engine.rules.graph.control_flow.loop_entries import is_copy
from anabranch.engine.rules.graph.control_flow.structure import ORIGIN, Structure, loops_around
from anabranch.engine.rules.graph.document import Graph, GraphEdge, GraphNode
from anabranch.engine.rules.graph.loop_config import FOR_EACH, LOOP_TYPE, is_while
from anabranch.engine.rules.graph.node_checks import NodeFacts
from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.engine.rules.graph.warnings import CODE_FIELD, CODE_TYPES, never_live
from anabranch.engine.rules.templates.builtin_variables import PATHS
from anabranch.engine.rules.templates.references import context_references, utf16_offset
from anabranch.engine.rules.templates.template import texts_in

ASPECTS = ("handles", "variables", "references", "structure")
"""What can be asked for."""

_ALWAYS, _MAYBE = "always", "maybe"

# The names that a loop provides to its iterations; `item` may be any value.
_INDEX = {"type": "integer", "minimum": 0}
_COUNT = {"type": ["integer", "null"]}


def analysis_of(graph: Graph, facts: NodeFacts, structure: Structure, aspects: Collection[str]) -> dict[str, Any]:
    """The requested aspects of the analysis of a graph."""
    nodes: dict[str, dict[str, Any]] = {node_id: {} for node_id in graph.nodes}
    if "handles" in aspects:
        for node_id, node_type in facts.types.items():
            if node_id in facts.handles:
                nodes[node_id]["handles"] = _ordered(graph.nodes[node_id], node_type, facts.handles[node_id])
    if "references" in aspects:
        for node in graph.nodes.values():
            nodes[node.id]["references"] = list(_references(node))
    if "variables" in aspects and structure.is_sound:
        variables = _Variables(graph, facts, structure)
        for node_id in structure.order:
            nodes[node_id] |= variables.of(node_id)
    found: dict[str, Any] = {}
    if set(aspects) & {"handles", "variables", "references"}:
        found["nodes"] = {node_id: each for node_id, each in nodes.items() if not is_copy(node_id)}
    if "structure" in aspects:
        found["structure"] = _structure(graph, structure)
    return found


def _ordered(node: GraphNode, node_type: NodeType, handles: frozenset[str]) -> list[str]:
    """Its handles in the order in which the type gives them, `error` last."""
    if node.mapping is not None:
        return sorted(handles)
    own = [handle for handle in dict.fromkeys(node_type.handles(node.config)) if handle != ERROR_HANDLE]
    return [*own, ERROR_HANDLE] if ERROR_HANDLE in handles else own


# -- references ---------------------------------------------------------------------------
def _references(node: GraphNode) -> Iterator[dict[str, Any]]:
    """Every reference to a name of the context in the node's templates; positions in UTF-16 units, as in JavaScript."""
    config = node.config
    if node.type in CODE_TYPES:
        config = {name: value for name, value in config.items() if name != CODE_FIELD}
    written = {"config": config} if node.mapping is None else {FOR_EACH: node.mapping["source"], "config": config}
    for pointer, text in texts_in(written):
        for reference in context_references(text):
            yield {
                "pointer": pointer,
                "start": utf16_offset(text, reference.start),
                "end": utf16_offset(text, reference.end),
                "path": list(reference.path),
            }


# -- structure ----------------------------------------------------------------------------
def _structure(graph: Graph, structure: Structure) -> dict[str, Any]:
    dead = never_live(graph, Flow(graph, structure)) if structure.is_sound else []
    return {
        "homes": {node_id: home for node_id, home in structure.homes.items() if home is not None},
        "regions": [
            {
                "header": region.header,
                "members": [node_id for node_id in graph.nodes if node_id in region.nodes],
                "again": _pointers(graph, region.again),
                "exits": _pointers(graph, region.exits),
            }
            for region in reversed(structure.regions.by_header.values())
        ],
        "returning": _pointers(graph, structure.returning),
        "unreachable": list(structure.unreachable),
        "neverLive": _pointers(graph, dead),
    }


def _pointers(graph: Graph, edges: Collection[GraphEdge]) -> list[str]:
    """The pointers of these edges, in document order."""
    wanted = {id(edge) for edge in edges}
    return [edge.pointer for edge in graph.edges if id(edge) in wanted]


# -- variables ----------------------------------------------------------------------------
class _Variables:
    """The names that each node can read: which nodes may have written them, and whether one certainly has."""

    def __init__(self, graph: Graph, facts: NodeFacts, structure: Structure) -> None:
        self._graph = graph
        self._facts = facts
        self._structure = structure
        self._flow = Flow(graph, structure)
        self._writers: defaultdict[str, list[str]] = defaultdict(list)
        self._body: defaultdict[str, list[str]] = defaultdict(list)
        for node_id in structure.order:
            variable = graph.nodes[node_id].output_variable
            if variable is not None:
                self._writers[variable].append(node_id)
            home = structure.homes[node_id]
            if home is not None:
                self._body[home].append(node_id)
        self._dominators = self._find_dominators()

    def of(self, node_id: str) -> dict[str, Any]:
        """`variables` of a node; for a loop also `iteration`: what its `while` and `yield` can read."""
        loops = loops_around(node_id, self._structure.homes)
        node = self._graph.nodes[node_id]
        mapped = [] if node.mapping is None else [node_id]
        found = {"variables": self._given(node_id, [*mapped, *loops]) | self._written(node_id)}
        if node.type == LOOP_TYPE:
            inside = {
                variable: self._variable(_MAYBE, [writer])
                for writer in self._body[node_id]
                if (variable := self._graph.nodes[writer].output_variable) is not None
            }
            found["iteration"] = found["variables"] | inside | self._given(node_id, [node_id])
        return found

    def _written(self, node_id: str) -> dict[str, Any]:
        before = self._flow.behind[node_id]
        dominators = self._dominators[node_id]
        found = {}
        for variable, everybody in self._writers.items():
            writers = [writer for writer in everybody if self._flow.node_set([writer]) & before]
            if writers:
                certain = _ALWAYS if any(writer in dominators for writer in writers) else _MAYBE
                found[variable] = self._variable(certain, writers)
        return found

    def _variable(self, certain: str, writers: list[str]) -> dict[str, Any]:
        schemas = [self._output_schema(writer) for writer in writers]
        schema = schemas[0] if all(each == schemas[0] for each in schemas) else {"anyOf": schemas}
        return {"certain": certain, "writers": writers, "schema": schema if all(schemas) else {}}

    def _output_schema(self, node_id: str) -> Mapping[str, Any]:
        """The schema of an output; empty if the value may be that of a handled or ignored failure instead."""
        node, node_type = self._graph.nodes[node_id], self._facts.types.get(node_id)
        fails_well = node.error_handling == "ignore" or any(
            edge.source == node_id and edge.handle == ERROR_HANDLE for edge in self._graph.edges
        )
        if node_type is None or node.disabled or fails_well:
            return {}
        try:
            schema = node_type.description.output_schema(node.config)
        except Exception:  # noqa: BLE001 -- a config that is wrong, or other people's code
            return {}
        return schema if node.mapping is None else {"type": "array"}

    def _given(self, node_id: str, loops: list[str]) -> dict[str, Any]:
        """The names that the engine provides: the input, and inside loops those of the innermost loop of each kind."""
        given = {"input": _given(self._input_schema(node_id), [])}
        given |= {name: _given({"type": "object", "properties": {key: {"type": "string"}}}, []) for name, key in PATHS}
        waits = [node.id for node in self._graph.nodes.values() if node.type == CALLBACK_TYPE]
        if waits:
            given[CALLBACKS_NAME] = _given(
                {"type": "object", "properties": {each: {"type": "string"} for each in waits}}, []
            )
        for loop in reversed(loops):
            repeats = is_while(self._graph.nodes[loop].config)
            given |= {"index": _given(_INDEX, [loop]), "count": _given(_COUNT, [loop])}
            given |= {"results": _given({"type": "array"}, [loop])} if repeats else {"item": _given({}, [loop])}
        return given

    def _input_schema(self, node_id: str) -> Mapping[str, Any]:
        """The schema of the inputs that a node may get."""
        before = self._flow.behind[node_id]
        schemas = [
            self._graph.input_schema or {} if each.type == START_TYPE else self._output_schema(each.id)
            for each in self._graph.entry_points
            if each.id == node_id or self._flow.node_set([each.id]) & before
        ]
        if all(schema == schemas[0] for schema in schemas):
            return schemas[0]
        return {"anyOf": schemas} if all(schemas) else {}

    def _find_dominators(self) -> dict[str, frozenset[str]]:
        """For each node the nodes on every path from an entry point to it, without itself."""
        found: dict[str, frozenset[str]] = {}
        for node_id in self._structure.order:
            parent = self._structure.parents.get(node_id)
            while isinstance(parent, tuple):
                parent = parent[0]  # the node whose exit this is
            found[node_id] = frozenset() if parent in (None, ORIGIN) else found[parent] | {parent}
        return found


def _given(schema: Mapping[str, Any], writers: list[str]) -> dict[str, Any]:
    return {"certain": _ALWAYS, "writers": writers, "schema": schema}
