"""Mapped nodes as the oracle reads them: a loop over the list, with the node as all that is in its body.

Nothing of the engine is imported. The loop has the id of the node; the body has one of its own, which no document can
hold, and is shown under the node's id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

ITEM = "@item"

_OF_THE_LOOP = ("concurrency", "onItemError", "batchSize")
_OF_THE_ITEM = ("type", "config", "retry", "timeout")

Row = TypeVar("Row", bound=Any)


def expanded(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with a loop in place of each mapped node."""
    nodes: list[dict[str, Any]] = []
    edges = [dict(edge) for edge in document["edges"]]
    for node in document["nodes"]:
        if "forEach" not in node:
            nodes.append(node)
            continue
        name = node["id"]
        config = {"source": node["forEach"], **{each: node[each] for each in _OF_THE_LOOP if each in node}}
        kept = {each: value for each, value in node.items() if each not in (*_OF_THE_LOOP, *_OF_THE_ITEM, "forEach")}
        item = {each: node[each] for each in _OF_THE_ITEM if each in node}
        nodes += [{**kept, "type": "loop", "config": config}, {**item, "id": name + ITEM, "shown": name}]
        for edge in edges:
            if edge["upstreamNodeID"] == name and edge.get("sourceHandle") in (None, "default"):
                edge["sourceHandle"] = "done"
        edges.append({"upstreamNodeID": name, "sourceHandle": "loop", "downstreamNodeID": name + ITEM})
    return {**document, "nodes": nodes, "edges": edges}


def shown(key: tuple[str, str]) -> tuple[str, str]:
    """The node id and the scope of an activation as the engine has them."""
    return key[0].removesuffix(ITEM), key[1]


def expanded_log(document: Mapping[str, Any], log: Sequence[Row]) -> list[Row]:
    """The rows of a run as those of its expanded document."""
    mapped = {node["id"] for node in document["nodes"] if "forEach" in node}
    return [_expanded_row(event) if event.node_id in mapped else event for event in log]


def _expanded_row(event: Row) -> Row:
    if event.scope.endswith("]") and event.scope.rpartition("/")[2].rpartition("[")[0] == event.node_id:
        return replace(event, node_id=event.node_id + ITEM)
    return replace(event, next_handle="done") if event.next_handle == "default" else event
