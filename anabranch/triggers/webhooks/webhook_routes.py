"""The route that lists webhooks, with its response model. Webhooks themselves are served by `rest.public_routes`."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Literal

from pydantic import Field

from anabranch.keys.access import Role
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.base import ListModel, Page, ResponseModel
from anabranch.rest.routes.route import Reply, RouteCall, RouteTable
from anabranch.triggers.webhooks.webhook_requests import hook_url


class WebhookPage(Page):
    """A page of webhooks."""

    workflow: str | None = Field(None, min_length=1, description="Those of this workflow alone, by id or name.")


class WebhookSummary(ResponseModel):
    """A webhook that a node of a workflow's active version has armed."""

    triggerID: str
    path: str
    url: str = Field(description="Where it is called.")
    methods: list[str]
    auth: Literal["none", "header", "basic", "hmac"]
    respond: Literal["immediately", "atEnd", "respondNode"]
    workflowID: str
    name: str
    version: int
    nodeID: str


class WebhookList(ListModel[WebhookSummary]):
    """Webhooks of the tenant."""


ROUTES = RouteTable("triggers")


@ROUTES.get("/v1/webhooks", Role.VIEWER, {200: WebhookList}, query=WebhookPage)
async def list_webhooks(call: RouteCall) -> Reply:
    """List the webhooks that are armed.

    Those of active versions, by path.
    """
    base = call.services.addresses.base_url
    items = [
        {
            "triggerID": hook.trigger_id,
            "path": hook.subject,
            "url": hook_url(base, call.tenant_id, hook.subject),
            "methods": hook.config.get("methods") or ["POST"],
            "auth": (hook.config.get("auth") or {}).get("kind", "none"),
            "respond": hook.config.get("respond") or "immediately",
            "workflowID": hook.workflow_id,
            "name": hook.workflow,
            "version": hook.version,
            "nodeID": hook.node_id,
        }
        for hook in await call.services.webhooks.list_hooks(tenant_id=call.tenant_id)
        if call.query.workflow in (None, hook.workflow_id, hook.workflow)
    ]
    return Reply(page_by_name(items, call.query, "webhooks", "path"))
