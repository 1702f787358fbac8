"""Subscriptions and messages as stored, and the port to the store.

Everything belongs to a tenant; another tenant's reads as absent. Times are milliseconds since the epoch, of the
store's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from anabranch.dataclass import dataclass

FAILED_TOPIC = "#failed"
"""The topic of messages about failed runs. Nobody can publish on it: a topic has no `#`."""

FAILURE_KEY_PREFIX = "failure:"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A workflow that is started for each message on the topics that a pattern fits."""

    subscription_id: str
    tenant_id: str
    pattern: str
    head: str
    """The first segment of the pattern: what an index finds it by."""
    workflow: str
    """Name or id, as it was written: looked up again for each message."""
    created_at: int = 0
    version: int | None = None
    """None: the active one of the time."""
    workflow_id: str | None = None
    node_id: str | None = None
    """The node of that workflow that has armed it; None: somebody saved it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of one message to one subscription, and its result."""

    subscription_id: str
    workflow: str
    instance_id: str | None = None
    error: dict[str, Any] | None = None
    """`{"code", "message"}`: it cannot start, ever."""
    version: int | None = None
    node_id: str | None = None
    """The trigger that the run begins at; None: the start."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self.instance_id is not None or self.error is not None


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was published on a topic, and the runs that it starts."""

    message_id: str
    tenant_id: str
    topic: str
    key: str
    payload: Any
    deliveries: Sequence[Delivery] = ()
    """One for each subscription that fitted when it was published."""
    created_at: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether every subscription has its run or a permanent error."""
        return all(delivery.is_done for delivery in self.deliveries)


class SavedTopics(Protocol):
    """Keeps subscriptions, and messages for as long as they may be repeated.

    What an `actor` does to subscriptions is on record in the same transaction.
    """

    async def add_subscription(
        self, subscription: Subscription, *, count_max: int, actor: str | None = None
    ) -> tuple[Subscription, bool]:
        """Keep it, or give back the tenant's one with this pattern and workflow; True if it is new.

        Raises LimitReached where a tenant would get more than `count_max`.
        """

    async def list_subscriptions(self, *, tenant_id: str, pattern: str | None = None) -> Sequence[Subscription]:
        """A tenant's, all or those of one pattern, by pattern and workflow."""

    async def delete_subscription(self, subscription_id: str, *, tenant_id: str, actor: str | None = None) -> bool:
        """Remove it; False if there was none."""

    async def subscriptions_by_head(self, heads: Sequence[str], *, tenant_id: str) -> Sequence[Subscription]:
        """Those of a tenant whose patterns begin with one of these segments, in the order of their ids."""

    async def add_message(
        self, message: Message, *, own_ms: int, unfinished_max: int, unfinished_per_tenant_max: int
    ) -> Message:
        """Store a message, or return the tenant's existing one with its topic and key.

        For `own_ms` no other process finishes it. Raises TooManyPending while `unfinished_max` messages are unfinished,
        or `unfinished_per_tenant_max` of its tenant.
        """

    async def save_deliveries(self, message: Message) -> None:
        """Store the results of its deliveries; a finished message is not finished again."""

    async def take_unfinished(self, *, limit: int, own_ms: int) -> Sequence[Message]:
        """Claim messages of all tenants that no process is finishing, longest overdue first; ours for `own_ms`."""

    async def remove_finished(self, *, before: int, limit: int) -> int:
        """Remove finished messages that were published before that time; how many."""
