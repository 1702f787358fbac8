"""Webhooks of one workflow on the same path with different methods: imported as one webhook that branches by method.

Pure. Called by `importing` with the nodes and edges of a document. Here a path belongs to one webhook.
"""

from __future__ import annotations

from typing import Any

from anabranch.n8n.texts import expression

_FIELDS = ("auth", "respond")


def join_webhooks(nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The nodes with each path once; the edges are changed in place."""
    made = list(nodes)
    by_path: dict[str, list[dict[str, Any]]] = {}
    for node in nodes:
        if node["type"] == "webhook" and not node.get("disabled"):
            by_path.setdefault(node["config"]["path"], []).append(node)
    for first, *others in by_path.values():
        if others and _can_join(first, others):
            made.insert(made.index(first) + 1, _joined(first, others, edges))
    return made


def _can_join(first: dict[str, Any], others: list[dict[str, Any]]) -> bool:
    methods = [method for node in (first, *others) for method in node["config"]["methods"]]
    same = all(node["config"].get(name) == first["config"].get(name) for node in others for name in _FIELDS)
    return same and len(set(methods)) == len(methods)


def _joined(first: dict[str, Any], others: list[dict[str, Any]], edges: list[dict[str, Any]]) -> dict[str, Any]:
    """The node that asks for the method; the others become nodes that hand the request on under their names."""
    request = f"ctx.{first['outputVariable']}"
    branches: list[dict[str, Any]] = []
    condition = {"id": f"{first['id']}_method", "type": "condition", "name": f"{first['name']}: method",
                 "config": {"branches": branches}, "position": dict(first["position"])}  # fmt: skip
    for edge in edges:
        if edge["upstreamNodeID"] == first["id"]:
            edge["upstreamNodeID"], edge["sourceHandle"] = condition["id"], "by0"
    edges.append({"upstreamNodeID": first["id"], "downstreamNodeID": condition["id"]})
    for number, node in enumerate((first, *others)):
        methods = ", ".join(f"'{method}'" for method in node["config"]["methods"])
        branches.append({"id": f"by{number}", "expression": expression(f"{request}.method in [{methods}]")})
    for number, node in enumerate(others, 1):
        first["config"]["methods"] = [*first["config"]["methods"], *node["config"]["methods"]]
        node["type"], node["config"] = "fields", {"source": expression(request)}
        edges.append({"upstreamNodeID": condition["id"], "sourceHandle": f"by{number}", "downstreamNodeID": node["id"]})
    return condition
