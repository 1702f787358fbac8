"""Routes about the process: is it alive, is it ready, what does it count, what can it be asked."""

from __future__ import annotations

from anabranch.rest.models.system import Alive, NodeTypeList, Ready
from anabranch.rest.routes.route import PUBLIC, Call, Reply, Route
from anabranch.service.access import Role


async def alive(call: Call) -> Reply:
    """This process answers; nothing is said of the database."""
    return Reply({"status": "ok"})


async def ready(call: Call) -> Reply:
    """200 if work may be sent here, 503 if not; each part is told apart."""
    fitness = await call.services.readiness.look()
    return Reply({"status": "ok" if fitness.ready else "unavailable", **fitness.parts}, 200 if fitness.ready else 503)


async def list_node_types(call: Call) -> Reply:
    """Every node type that is installed here."""
    types = [
        found for name in call.services.node_types.names() if (found := call.services.node_types.get(name)) is not None
    ]
    items = [
        {
            "name": each.type,
            "title": each.title,
            "configSchema": dict(each.config_schema),
            "handles": [*each.handles({}), *(["error"] if each.has_error_handle else [])],
        }
        for each in types
    ]
    return Reply({"items": items, "nextCursor": None})


HEALTH = (
    Route("GET", "/healthz", alive, "Is this process alive?", PUBLIC, {200: Alive}, tag="process"),
    Route(
        "GET", "/readyz", ready, "May work be sent to this process?", PUBLIC, {200: Ready, 503: Ready}, tag="process"
    ),
)
"""What a process is asked by who watches it, and needs no key."""

ROUTES = (
    *HEALTH,
    Route("GET", "/v1/node-types", list_node_types, "List the node types.", Role.VIEWER, {200: NodeTypeList},
          tag="workflows"),
)  # fmt: skip
