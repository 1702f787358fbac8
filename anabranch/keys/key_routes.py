"""Routes of API keys, with their request and response models."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from anabranch.errors import NotFound
from anabranch.keys.access import Role
from anabranch.keys.api_keys import key_as_json
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.base import ListModel, Page, RequestModel, ResponseModel
from anabranch.rest.routes.route import Reply, RouteCall, RouteTable


class KeyForm(RequestModel):
    """A key to create; it belongs to the tenant of the request's key."""

    role: Annotated[Role, Field(strict=False)]
    pools: list[str] = Field(
        [], max_length=100, description="Of the role `executor`: the pools whose jobs it executes."
    )


class KeySummary(ResponseModel):
    """A key, without the key itself."""

    keyID: str
    tenant: str
    role: Role
    pools: list[str] | None
    createdAt: AwareDatetime
    createdBy: str
    lastUsedAt: AwareDatetime | None
    expiresAt: AwareDatetime | None
    revokedAt: AwareDatetime | None


class MadeKey(ResponseModel):
    """A new key. It is shown only once."""

    key: str
    keyID: str
    tenant: str
    role: Role


class KeyList(ListModel[KeySummary]):
    """All keys of the tenant."""


ROUTES = RouteTable("data")


@ROUTES.get("/v1/keys", Role.ADMIN, {200: KeyList}, query=Page)
async def list_keys(call: RouteCall) -> Reply:
    """List the API keys.

    Keys of the tenant, including revoked ones, without the keys themselves.
    """
    found = await call.services.access.list_keys(call.tenant_id)
    return Reply(page_by_name([key_as_json(each) for each in found], call.query, "keys", "keyID"))


@ROUTES.post("/v1/keys", Role.ADMIN, {201: MadeKey}, body=KeyForm)
async def create_key(call: RouteCall) -> Reply:
    """Make an API key.

    The key is in this response and nowhere else.
    """
    form: KeyForm = call.body
    made = await call.services.access.create_key(
        tenant_id=call.tenant_id, role=form.role, actor=call.actor, pools=form.pools
    )
    document = {"key": made.key, "keyID": made.key_id, "tenant": made.tenant_id, "role": made.role.value}
    return Reply(document, 201, {"Location": f"/v1/keys/{made.key_id}"})


@ROUTES.delete("/v1/keys/{keyID}", Role.ADMIN, {204: None}, errors=(NotFound,))
async def revoke_key(call: RouteCall) -> Reply:
    """Revoke an API key.

    The key is refused within 2 seconds; its open sockets are closed within 5.
    """
    await call.services.access.revoke_key(call.path["keyID"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)
