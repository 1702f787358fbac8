"""The route of dead letters, with its request and response models."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from pydantic import AwareDatetime, Field

from anabranch.dead_letters.dead_letters import letter_as_json
from anabranch.keys.access import Role
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.base import ListModel, Page, ResponseModel
from anabranch.rest.routes.route import Reply, RouteCall, RouteTable


class DeadLetterModel(ResponseModel):
    """A job that no executor could take."""

    letterID: str
    tenant: str
    runID: str | None
    nodeID: str
    scope: str
    attempt: int
    queue: str
    reason: str
    count: int = Field(description="How often it was set aside.")
    firstAt: AwareDatetime
    lastAt: AwareDatetime


class DeadLetterList(ListModel[DeadLetterModel]):
    """Dead letters of the tenant, in the order of their ids."""


ROUTES = RouteTable("data")


@ROUTES.get("/v1/dead-letters", Role.ADMIN, {200: DeadLetterList}, query=Page)
async def list_dead_letters(call: RouteCall) -> Reply:
    """List the dead letters.

    Jobs of the tenant that the broker has set aside. `anabranch dead-letters` also lists those whose tenant
    is unknown.
    """
    found = await call.services.dead_letters.list_letters(tenant_id=call.tenant_id)
    return Reply(page_by_name([letter_as_json(each) for each in found], call.query, "dead-letters", "letterID"))
