"""Drawn workflows in one line, for specs: `drawn("start>a, a>b, a.error>c", b=anything)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.engine.rules.graph.problems import Problem
from anabranch.engine.rules.graph.validate import Report, validate
from anabranch.handlers.registry import builtin_types

TYPES = builtin_types()


class TypesWith:
    """The built-in types and some more, or fewer."""

    def __init__(self, *types: NodeType, without: Sequence[str] = ()) -> None:
        self._types = {node_type.type: node_type for node_type in types}
        self._without = without

    def get(self, type_name: str) -> NodeType | None:
        if type_name in self._without:
            return None
        return self._types.get(type_name) or TYPES.get(type_name)

    def names(self) -> list[str]:
        return sorted({*TYPES.names(), *self._types} - set(self._without))


def broken(**faults: Callable[[Any], Any]) -> NodeType:
    """A node type called `broken` with these answers."""
    answers: dict[str, Any] = {"handles": lambda config: ("default",), "check": lambda config: (), **faults}
    return NodeType(type="broken", title="Broken", config_schema={"type": "object"}, **answers)


def raises(config: Any) -> Any:
    """The answer of a type with a defect."""
    raise KeyError("x")


def drawn(edges: str = "", **nodes: Any) -> dict[str, Any]:
    """A workflow of edges `source>target` or `source.handle>target`, separated by commas.

    Nodes named nowhere else are `set` nodes; `start` is there by itself. Edges get the ids e0, e1, …
    Keywords that are no objects are fields of the workflow.
    """
    drawn_edges = [_edge(f"e{index}", text.strip()) for index, text in enumerate(edges.split(",")) if text.strip()]
    ends = [edge[end] for edge in drawn_edges for end in ("upstreamNodeID", "downstreamNodeID")]
    fields = {name: value for name, value in nodes.items() if name in ("name", "title", "workflowOptions")}
    given = {name: value for name, value in nodes.items() if name not in fields}
    names = dict.fromkeys(["start", *ends, *given])
    return {**fields, "nodes": [_node(name, given.get(name, {})) for name in names], "edges": drawn_edges}


def condition(*branches: str, **fields: Any) -> dict[str, Any]:
    """A condition with these branches, each steered by the input."""
    config = {"branches": [{"id": branch, "expression": f"{{{{ctx.input.{branch}}}}}"} for branch in branches]}
    return {"type": "condition", "config": config, **fields}


def loop(**config: Any) -> dict[str, Any]:
    """A loop over a list of the input, unless the config says otherwise."""
    source = {} if "while" in config else {"source": "{{ctx.input.items}}"}
    return {"type": "loop", "config": {**source, **config}}


def writes(variable: str, **fields: Any) -> dict[str, Any]:
    """A node that writes this variable."""
    return {"outputVariable": variable, **fields}


def reads(*variables: str, **fields: Any) -> dict[str, Any]:
    """A node that reads these variables."""
    return {"config": {"values": {f"v{i}": f"{{{{ctx.{name}}}}}" for i, name in enumerate(variables)}}, **fields}


def report(document: Any) -> Report:
    """What the validator says with the built-in types."""
    return validate(document, TYPES)


def errors(document: Any) -> list[tuple[str, str | None]]:
    """(code, node id or else edge id) of every refusal."""
    return _places(report(document).errors)


def warnings(document: Any) -> list[tuple[str, str | None]]:
    """(code, node id or else edge id) of every warning of an accepted workflow."""
    answer = report(document)
    assert answer.valid, f"it should be accepted, but: {answer.errors}"
    return _places(answer.warnings)


def _places(problems: Sequence[Problem]) -> list[tuple[str, str | None]]:
    return [(problem.code, problem.edge_id or problem.node_id) for problem in problems]


def _edge(edge_id: str, text: str) -> dict[str, Any]:
    exit_, target = text.split(">")
    source, _, handle = exit_.partition(".")
    return {"id": edge_id, "upstreamNodeID": source, "downstreamNodeID": target, "sourceHandle": handle or None}


def _node(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    default = "start" if name == "start" else "set"
    node: dict[str, Any] = {"id": name, "type": default, **fields}
    if node["type"] == "set":
        node.setdefault("config", {"values": {}})
    return node
