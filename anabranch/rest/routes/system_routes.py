"""Routes about the process and the caller: health, readiness, node types, whoami."""

from __future__ import annotations

from anabranch.keys.access import Role
from anabranch.rest.models.system_models import CurrentKey, Liveness, NodeTypeList, Ready
from anabranch.rest.routes.route import PUBLIC, Reply, RouteCall, RouteTable
from anabranch.service.definitions.node_type_view import node_types_as_json

HEALTH = RouteTable("process")
"""Routes for monitoring, without a key."""

ROUTES = RouteTable("workflows")


@HEALTH.get("/healthz", PUBLIC, {200: Liveness})
async def alive(call: RouteCall) -> Reply:
    """Is this process alive?

    This process answers; the database is not checked.
    """
    return Reply({"status": "ok"})


@HEALTH.get("/readyz", PUBLIC, {200: Ready, 503: Ready})
async def ready(call: RouteCall) -> Reply:
    """Whether this process accepts work.

    200 if the process accepts work, 503 if not, with the state of each part.
    """
    state = await call.services.readiness.look()
    return Reply({"status": "ok" if state.ready else "unavailable", **state.parts}, 200 if state.ready else 503)


@ROUTES.get("/v1/node-types", Role.VIEWER, {200: NodeTypeList})
async def list_node_types(call: RouteCall) -> Reply:
    """List the node types.

    Every installed node type with the schema of its config, and the fields that every node has.
    """
    return Reply(node_types_as_json(call.services.node_types))


@ROUTES.get("/v1/me", Role.VIEWER, {200: CurrentKey}, tag="access")
async def get_me(call: RouteCall) -> Reply:
    """Read the caller's key.

    The key that the request came with, its tenant and its role.
    """
    who = call.principal
    return Reply({"keyID": who.key_id, "tenant": who.tenant_id, "role": who.role.value})
