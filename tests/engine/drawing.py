"""Short ways to draw a workflow."""

from __future__ import annotations

from itertools import pairwise
from typing import Any


def drawn(
    name: str, *nodes: dict[str, Any], edges: list[tuple[str, ...]] | None = None, **options: Any
) -> dict[str, Any]:
    """A workflow of `start` and these nodes, in a row unless edges (from, to[, handle]) are given."""
    ids = ["start", *(node["id"] for node in nodes)]
    pairs = list(pairwise(ids)) if edges is None else edges
    return {
        "name": name,
        "nodes": [{"id": "start", "type": "start"}, *nodes],
        "edges": [
            {"upstreamNodeID": edge[0], "downstreamNodeID": edge[1], "sourceHandle": edge[2] if len(edge) > 2 else None}
            for edge in pairs
        ],
        "workflowOptions": options,
    }


def node(node_id: str, type_: str = "set", *, config: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """One node; a `set` of nothing unless told otherwise."""
    if config is None and type_ == "set":
        config = {"values": {}}
    return {"id": node_id, "type": type_, **({} if config is None else {"config": config}), **fields}


QUICK_RETRY = {"maxAttempts": 3, "backoff": {"kind": "fixed", "base": "20ms"}}
