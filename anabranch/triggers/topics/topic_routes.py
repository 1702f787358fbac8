"""Routes of topics, with their request and response models: subscriptions, and messages."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from anabranch.engine.rules.values import KEY_CHARACTERS_MAX
from anabranch.errors import ArmedByNode, InvalidInput, LimitReached, NotFound, ShuttingDown, TooManyPending
from anabranch.keys.access import Role
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.base import Form, ListModel, Page, ResponseModel
from anabranch.rest.routes.route import AnyJson, Checked, Header, Reply, RouteCall, RouteTable
from anabranch.triggers.topics.topic_service import message_as_json, subscription_as_json


class SubscriptionForm(Form):
    """A subscription to create."""

    type: Literal["workflow"]
    name: str = Field(min_length=1, description="Id or name of the workflow.")


class SubscriptionSummary(ResponseModel):
    """A subscription."""

    subscriptionID: str
    pattern: str
    type: Literal["workflow"]
    name: str
    version: int | None = Field(description="Null: the active one of the time.")
    nodeID: str | None = Field(description="The node of that workflow's version that has armed it; not removed here.")
    createdAt: AwareDatetime


class PublishedMessage(ResponseModel):
    """A published message, and the runs that it started."""

    messageID: str
    runs: list[str]
    errors: list[dict[str, Any]] = Field(description="Subscriptions whose workflow cannot be started, and why.")
    unfinished: int = Field(description="Runs that are yet to be started.")


class SubscriptionList(ListModel[SubscriptionSummary]):
    """Subscriptions of the tenant."""


_MESSAGE_KEY = Header(
    "Idempotency-Key", "A repeated key starts nothing, and gets the first response again.", KEY_CHARACTERS_MAX
)


ROUTES = RouteTable("triggers")


@ROUTES.get("/v1/subscriptions", Role.VIEWER, {200: SubscriptionList}, query=Page)
async def list_all_subscriptions(call: RouteCall) -> Reply:
    """List the subscriptions to all topics.

    Subscriptions with any pattern, by id.
    """
    found = await call.services.topics.list_subscriptions(tenant_id=call.tenant_id)
    items = [subscription_as_json(each) for each in found]
    return Reply(page_by_name(items, call.query, "subscriptions", "subscriptionID"))


@ROUTES.get("/v1/topics/{pattern}/subscriptions", Role.VIEWER, {200: SubscriptionList}, query=Page)
async def list_subscriptions(call: RouteCall) -> Reply:
    """List the subscriptions to a pattern of topics.

    Subscriptions with exactly this pattern.
    """
    found = await call.services.topics.list_subscriptions(tenant_id=call.tenant_id, pattern=call.path["pattern"])
    items = [subscription_as_json(each) for each in found]
    return Reply(page_by_name(items, call.query, "subscriptions", "subscriptionID"))


@ROUTES.post(
    "/v1/topics/{pattern}/subscriptions",
    Role.EDITOR,
    {201: SubscriptionSummary, 200: SubscriptionSummary},
    body=Checked(SubscriptionForm),
    errors=(LimitReached,),
)
async def subscribe(call: RouteCall) -> Reply:
    """Subscribe a workflow to a pattern of topics.

    201; 200 if the workflow was subscribed already.
    """
    made, is_new = await call.services.topics.subscribe(
        call.path["pattern"], call.body, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(subscription_as_json(made), 201 if is_new else 200)


@ROUTES.delete(
    "/v1/topics/{pattern}/subscriptions/{subscription}", Role.EDITOR, {204: None}, errors=(NotFound, ArmedByNode)
)
async def unsubscribe(call: RouteCall) -> Reply:
    """End a subscription.

    Messages that are published from now on do not start it.
    """
    await call.services.topics.unsubscribe(call.path["subscription"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


@ROUTES.post(
    "/v1/topics/{topic}/messages",
    Role.OPERATOR,
    {202: PublishedMessage},
    body=AnyJson(),
    body_required=False,
    headers=(_MESSAGE_KEY,),
    errors=(InvalidInput, TooManyPending, ShuttingDown),
)
async def publish(call: RouteCall) -> Reply:
    """Publish a message; it starts one run per subscription that fits.

    The message and the runs that it names are durable; the body is the input of each.
    """
    message = await call.services.topics.publish(
        call.path["topic"], call.body, tenant_id=call.tenant_id, key=call.headers.get("Idempotency-Key")
    )
    return Reply(message_as_json(message), 202)
