"""One layout for workflow files, so that versions differ only in what was changed.

Pure. Called by `anabranch fmt`. It orders the fields that the engine knows and keeps everything else in its place:
nodes, edges, values, and fields of other tools, which come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.engine.rules.graph.node_types import NodeTypes

_WORKFLOW = ("$schema", "name", "title", "workflowOptions", "nodes", "edges", "notes", "viewport")
_OPTIONS = ("inputSchema", "retention", "deadline", "pool")
_NODE = (
    "id", "type", "name", "disabled", "config",
    "outputVariable", "joinMode", "errorHandling", "retry", "timeout", "heartbeatTimeout", "pool", "position",
)  # fmt: skip
_RETRY = ("maxAttempts", "attempts", "backoff")
_BACKOFF = ("kind", "base", "max", "jitter")
_EDGE = ("id", "upstreamNodeID", "sourceHandle", "downstreamNodeID")


def laid_out(document: Any, node_types: NodeTypes) -> Any:
    """The document with its fields in order; a value that is not a workflow is returned unchanged."""
    if not isinstance(document, Mapping):
        return document
    ordered = _ordered(document, _WORKFLOW)
    if isinstance(ordered.get("nodes"), list):
        ordered["nodes"] = [_node(each, node_types) for each in ordered["nodes"]]
    if isinstance(ordered.get("edges"), list):
        ordered["edges"] = [_ordered(each, _EDGE) for each in ordered["edges"]]
    if "workflowOptions" in ordered:
        ordered["workflowOptions"] = _ordered(ordered["workflowOptions"], _OPTIONS)
    return ordered


def _node(node: Any, node_types: NodeTypes) -> Any:
    if not isinstance(node, Mapping):
        return node
    ordered = _ordered(node, _NODE)
    known = node_types.get(node["type"]) if isinstance(node.get("type"), str) else None
    if known is not None and "config" in ordered:
        ordered["config"] = _ordered(ordered["config"], tuple(known.config_schema.get("properties", ())))
    if isinstance(ordered.get("retry"), Mapping):
        ordered["retry"] = _ordered(ordered["retry"], _RETRY)
        if "backoff" in ordered["retry"]:
            ordered["retry"]["backoff"] = _ordered(ordered["retry"]["backoff"], _BACKOFF)
    return ordered


def _ordered(value: Any, order: Sequence[str]) -> Any:
    """Known fields first, in their order; then the others as they stand."""
    if not isinstance(value, Mapping):
        return value
    return {name: value[name] for name in (*order, *value) if name in value}
