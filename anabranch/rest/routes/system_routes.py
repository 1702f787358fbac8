"""Routes about the process and the caller: health, readiness, node types, whoami."""

from __future__ import annotations

from anabranch.keys.access import Role
from anabranch.rest.models.system_models import CurrentKey, Liveness, NodeTypeList, Ready
from anabranch.rest.routes.route import PUBLIC, Reply, Route, RouteCall
from anabranch.service.definitions.node_type_view import node_types_as_json


async def alive(call: RouteCall) -> Reply:
    """This process answers; the database is not checked."""
    return Reply({"status": "ok"})


async def ready(call: RouteCall) -> Reply:
    """200 if the process accepts work, 503 if not, with the state of each part."""
    state = await call.services.readiness.look()
    return Reply({"status": "ok" if state.ready else "unavailable", **state.parts}, 200 if state.ready else 503)


async def list_node_types(call: RouteCall) -> Reply:
    """Every installed node type with the schema of its config, and the fields that every node has."""
    return Reply(node_types_as_json(call.services.node_types))


async def get_me(call: RouteCall) -> Reply:
    """The key that the request came with, its tenant and its role."""
    who = call.principal
    return Reply({"keyID": who.key_id, "tenant": who.tenant_id, "role": who.role.value})


HEALTH = (
    Route("GET", "/healthz", alive, "Is this process alive?", PUBLIC, {200: Liveness}, tag="process"),
    Route(
        "GET", "/readyz", ready, "Whether this process accepts work.", PUBLIC, {200: Ready, 503: Ready}, tag="process"
    ),
)
"""Routes for monitoring, without a key."""

ROUTES = (
    *HEALTH,
    Route("GET", "/v1/node-types", list_node_types, "List the node types.", Role.VIEWER, {200: NodeTypeList},
          tag="workflows"),
    Route("GET", "/v1/me", get_me, "Read the caller's key.", Role.VIEWER, {200: CurrentKey}, tag="access"),
)  # fmt: skip
