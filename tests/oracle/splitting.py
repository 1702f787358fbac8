"""Loops that are entered elsewhere than at their cursor, as the oracle reads them: that way once more, before the loop.

Nothing of the engine is imported. A document without such a loop comes back as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.oracle.regions import Edge, dominates, reach
from tests.oracle.shape import ENTRY_POINTS, ORIGIN


def split(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document with the nodes on such ways twice: as `NODE@CURSOR` the second time."""
    types = {node["id"]: node["type"] for node in document["nodes"]}
    edges: list[Edge] = [
        (edge["upstreamNodeID"], edge.get("sourceHandle") or "default", edge["downstreamNodeID"])
        for edge in document["edges"]
    ]
    ways = [*((ORIGIN, "", name) for name, kind in types.items() if kind in ENTRY_POINTS), *edges]
    for cursor in [name for name, kind in types.items() if kind == "cursor"]:
        loop = {name for name in reach([cursor], edges) if cursor in reach([name], edges)}
        headers = [name for name in loop if all(dominates(name, other, ORIGIN, ways) for other in loop)]
        if len(loop) > 1 and not headers:
            return _split(document, cursor, loop, edges)
    return document


def _split(document: Mapping[str, Any], cursor: str, loop: set[str], edges: list[Edge]) -> Mapping[str, Any]:
    entries = [edge for edge in edges if edge[0] not in loop and edge[2] in loop and edge[2] != cursor]
    inside = [edge for edge in edges if edge[0] in loop and edge[2] in loop and cursor not in edge[::2]]
    copied = reach([edge[2] for edge in entries], inside)
    again = {name: f"{name}@{cursor}" for name in copied}
    drawn = [(source, handle, again[target]) if (source, handle, target) in entries else (source, handle, target)
             for source, handle, target in edges]  # fmt: skip
    drawn += [
        (again[source], handle, again.get(target, target)) for source, handle, target in edges if source in copied
    ]
    nodes = [
        *document["nodes"],
        *({**node, "id": again[node["id"]]} for node in document["nodes"] if node["id"] in copied),
    ]
    ends = ("upstreamNodeID", "sourceHandle", "downstreamNodeID")
    return {**document, "nodes": nodes, "edges": [dict(zip(ends, edge, strict=True)) for edge in drawn]}
