"""TopicService: subscribe workflows to topics, publish messages.

Called by the APIs and the command line. It knows the port of topics, the service of workflows and the publisher; no
HTTP. Every method takes the tenant; other tenants' subscriptions read as absent, and messages only reach workflows of
the same tenant. Changes by an `actor` are recorded in the audit trail.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.values import check_key, checked_payload
from anabranch.errors import ArmedByNode, InvalidRequest, NoManualStart, NotFound
from anabranch.service.documents import check_fields, refused
from anabranch.service.workflow_service import WorkflowService
from anabranch.triggers.run_starter import check_start_by_hand
from anabranch.triggers.topics.publisher import Publisher
from anabranch.triggers.topics.saved_topics import Message, SavedTopics, Subscription
from anabranch.triggers.topics.topic_patterns import head_of, problem_of_pattern, problem_of_topic

# 10,000 subscriptions per tenant: a message that fits them all starts its runs within half a minute or so.
SUBSCRIPTIONS_MAX = 10_000

_FIELDS = frozenset({"type", "name"})
_WORKFLOW = "workflow"


class TopicService:
    """Subscriptions and messages of one database."""

    def __init__(self, *, saved: SavedTopics, workflows: WorkflowService, publisher: Publisher) -> None:
        self._saved = saved
        self._workflows = workflows
        self._publisher = publisher

    async def subscribe(
        self, pattern: str, document: Any, *, tenant_id: str, actor: str | None = None
    ) -> tuple[Subscription, bool]:
        """Start a workflow for each message on the topics that the pattern fits: `{"type": "workflow", "name"}`.

        The same again gives the subscription that is there, and False. Raises InvalidRequest, LimitReached.
        """
        _refuse(problem_of_pattern(pattern))
        check_fields(document, known=_FIELDS, texts=("type", "name"))
        if document["type"] != _WORKFLOW:
            raise refused([("WRONG_VALUE", "/type", f"type is {_WORKFLOW!r}: only workflows can be subscribed")])
        try:
            check_start_by_hand(await self._workflows.get_startable(document["name"], tenant_id=tenant_id))
        except (NotFound, NoManualStart) as refusal:
            raise refused([(refusal.code, "/name", refusal.message)]) from None
        wanted = Subscription(str(uuid.uuid4()), tenant_id, pattern, head_of(pattern), document["name"])
        return await self._saved.add_subscription(wanted, count_max=SUBSCRIPTIONS_MAX, actor=actor)

    async def list_subscriptions(self, *, tenant_id: str, pattern: str | None = None) -> Sequence[Subscription]:
        """All of them, or those of exactly this pattern, by pattern and workflow. Raises InvalidRequest."""
        if pattern is not None:
            _refuse(problem_of_pattern(pattern))
        return await self._saved.list_subscriptions(tenant_id=tenant_id, pattern=pattern)

    async def unsubscribe(self, subscription_id: str, *, tenant_id: str, actor: str | None = None) -> None:
        """Remove one: no message that is published from now on starts it. Raises NotFound, ArmedByNode."""
        if not await self._saved.delete_subscription(subscription_id, tenant_id=tenant_id, actor=actor):
            for each in await self._saved.list_subscriptions(tenant_id=tenant_id):
                if each.subscription_id == subscription_id:
                    where = f"by node {each.node_id!r} of workflow {each.workflow}, version {each.version}"
                    raise ArmedByNode(f"subscription {subscription_id} is armed {where}")
            hint = "`anabranch topics list` shows the subscriptions."
            raise NotFound(f"there is no subscription {subscription_id!r}", hint=hint)

    async def publish(self, topic: str, payload: Any, *, tenant_id: str, key: str | None = None) -> Message:
        """Start one run per subscription that fits, its input the payload; once per message key.

        The message is durable when this returns, and so are the runs it names; those that could not start yet
        are started later. The same key again, within the day, gives the same message with the same runs,
        whatever the payload. Raises InvalidRequest (topic, key), InvalidInput (payload),
        TooManyPending, StoreUnavailable.
        """
        _refuse(problem_of_topic(topic))
        if key is not None:
            check_key(key, "a message's key")
        body = checked_payload(payload, "the message")
        return await self._publisher.publish(topic, body.value, tenant_id=tenant_id, key=key)


def subscription_as_json(subscription: Subscription) -> dict[str, Any]:
    """A subscription as REST and `--json` show it."""
    return {
        "subscriptionID": subscription.subscription_id,
        "pattern": subscription.pattern,
        "type": _WORKFLOW,
        "name": subscription.workflow,
        "version": subscription.version,
        "nodeID": subscription.node_id,
        "createdAt": to_iso(subscription.created_at),
    }


def message_as_json(message: Message) -> dict[str, Any]:
    """The answer to a publish: runs in the order of subscriptions, deliveries that cannot start, and how many runs
    follow later."""
    return {
        "messageID": message.message_id,
        "runs": [each.instance_id for each in message.deliveries if each.instance_id is not None],
        "errors": [
            {"subscriptionID": each.subscription_id, "name": each.workflow, **each.error}
            for each in message.deliveries
            if each.error is not None
        ],
        "unfinished": sum(not each.is_done for each in message.deliveries),
    }


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise InvalidRequest(problem, hint="Write segments with dots between, such as orders.created.")
