"""Routes of secrets, with their request and response models."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from pydantic import AwareDatetime, Field

from anabranch.errors import SecretKeyMissing, SecretKeyWrong, SecretUnknown
from anabranch.keys.access import Role
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.base import ListModel, Page, RequestModel, ResponseModel
from anabranch.rest.routes.route import Reply, RouteCall, RouteTable
from anabranch.secrets.secret_store import secret_as_json


class SecretForm(RequestModel):
    """A secret as it is set."""

    name: str = Field(pattern="^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    value: str = Field(min_length=1, max_length=65_536)


class SecretSummary(ResponseModel):
    """A secret without its value."""

    name: str
    version: int
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class SecretList(ListModel[SecretSummary]):
    """All secrets of the tenant."""


ROUTES = RouteTable("data")


@ROUTES.get("/v1/secrets", Role.ADMIN, {200: SecretList}, query=Page)
async def list_secrets(call: RouteCall) -> Reply:
    """List the secrets.

    Names and times; no values.
    """
    found = await call.services.secrets.list(tenant_id=call.tenant_id)
    return Reply(page_by_name([secret_as_json(each) for each in found], call.query, "secrets"))


@ROUTES.post(
    "/v1/secrets", Role.ADMIN, {201: SecretSummary}, body=SecretForm, errors=(SecretKeyMissing, SecretKeyWrong)
)
async def set_secret(call: RouteCall) -> Reply:
    """Set a secret; its value never comes back.

    The newest value is used; running workflows read it with their next attempt.
    """
    form: SecretForm = call.body
    entry = await call.services.secrets.set(
        tenant_id=call.tenant_id, name=form.name, value=form.value, actor=call.actor
    )
    return Reply(secret_as_json(entry), 201, {"Location": f"/v1/secrets/{entry.name}"})


@ROUTES.delete("/v1/secrets/{secret}", Role.ADMIN, {204: None}, errors=(SecretUnknown,))
async def delete_secret(call: RouteCall) -> Reply:
    """Delete a secret.

    From then on, nodes that read it fail with SECRET_UNKNOWN.
    """
    await call.services.secrets.delete(tenant_id=call.tenant_id, name=call.path["secret"], actor=call.actor)
    return Reply(status=204)
