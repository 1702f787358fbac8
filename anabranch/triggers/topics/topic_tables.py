"""The rows of topics: subscriptions in the table of triggers, and messages for as long as they may be repeated.

Used by the service and by the publisher. Shares the database threads of the store
that it is built on. It does not match patterns: it looks them up by their first segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import Connection, Select, and_, delete, func, insert, select, update

from anabranch.audit.audit_recording import record_audit_event
from anabranch.engine.rules.entry_points import TOPIC_TYPE
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.reading.reads import is_uuid
from anabranch.errors import LimitReached, TooManyPending
from anabranch.triggers.topics.saved_topics import Delivery, Message, Subscription
from anabranch.triggers.topics.topic_patterns import head_of
from anabranch.triggers.topics.topic_schema import topic_messages
from anabranch.triggers.trigger_schema import IS_SAVED, triggers

_SUBSCRIPTION = (
    triggers.c.trigger_id,
    triggers.c.tenant_id,
    triggers.c.subject,
    triggers.c.head,
    triggers.c.workflow,
    triggers.c.created_at,
    triggers.c.version,
    triggers.c.workflow_id,
    triggers.c.node_id,
)
_SUBSCRIPTIONS = select(*_SUBSCRIPTION).where(triggers.c.kind == TOPIC_TYPE)
_MESSAGE = (
    topic_messages.c.message_id,
    topic_messages.c.tenant_id,
    topic_messages.c.topic,
    topic_messages.c.key,
    topic_messages.c.payload,
    topic_messages.c.deliveries,
    topic_messages.c.created_at,
)


class TopicTable:
    """`saved_topics.SavedTopics` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def add_subscription(
        self, subscription: Subscription, *, count_max: int, actor: str | None = None
    ) -> tuple[Subscription, bool]:
        """The subscription that is kept, and whether it is new. Raises LimitReached at `count_max` of them."""

        def add(connection: Connection) -> tuple[Subscription, bool]:
            now = self._store.dialect.now(connection)
            kept, is_new = _add_subscription(connection, subscription, now=now, count_max=count_max)
            if is_new:
                _record(connection, actor, "subscription.saved", kept, now=now)
            return kept, is_new

        return await self._store.transact(add, repeat_duplicate=True)  # the same one may be added meanwhile

    async def list_subscriptions(self, *, tenant_id: str, pattern: str | None = None) -> Sequence[Subscription]:
        """Uses ix_trigger_head."""
        query = _SUBSCRIPTIONS.where(triggers.c.tenant_id == tenant_id)
        if pattern is not None:
            query = query.where(triggers.c.head == head_of(pattern), triggers.c.subject == pattern)
        found = await self._subscriptions(query)
        return sorted(found, key=lambda each: (each.pattern, each.workflow))

    async def delete_subscription(self, subscription_id: str, *, tenant_id: str, actor: str | None = None) -> bool:
        """Remove a subscription that somebody saved, and record it; False if the tenant has none with this id."""
        of_kind = and_(triggers.c.kind == TOPIC_TYPE, IS_SAVED)
        row = and_(triggers.c.trigger_id == subscription_id, triggers.c.tenant_id == tenant_id, of_kind)
        statement = delete(triggers).where(row).returning(*_SUBSCRIPTION)

        def remove(connection: Connection) -> bool:
            removed = connection.execute(statement).one_or_none()
            if removed is None:
                return False
            now = self._store.dialect.now(connection)
            _record(connection, actor, "subscription.deleted", Subscription(*removed), now=now)
            return True

        return is_uuid(subscription_id) and await self._store.transact(remove)

    async def subscriptions_by_head(self, heads: Sequence[str], *, tenant_id: str) -> Sequence[Subscription]:
        """Uses ix_trigger_head."""
        of_heads = _SUBSCRIPTIONS.where(triggers.c.tenant_id == tenant_id, triggers.c.head.in_(heads))
        return await self._subscriptions(of_heads.order_by(triggers.c.trigger_id))

    async def add_message(
        self, message: Message, *, own_ms: int, unfinished_max: int, unfinished_per_tenant_max: int
    ) -> Message:
        """The message as it is kept: the first one with its key. Raises TooManyPending at a limit."""

        def add(connection: Connection) -> Message:
            """Find the message with the key or insert it within the limits, in one transaction."""
            now = self._store.dialect.now(connection)
            return _add_message(
                connection,
                message,
                now=now,
                own_ms=own_ms,
                unfinished_max=unfinished_max,
                unfinished_per_tenant_max=unfinished_per_tenant_max,
            )

        # With the same key at the same moment the first message is found.
        return await self._store.transact(add, repeat_duplicate=True)

    async def save_deliveries(self, message: Message) -> None:
        """Two processes that finish the same message find the same runs; the later write stays."""
        values: dict[str, Any] = {"deliveries": _deliveries_text(message.deliveries)}
        if message.is_finished:
            values["due_at"] = None
        # A finished message stays finished, even if a late writer knows less.
        statement = (
            update(topic_messages)
            .where(topic_messages.c.message_id == message.message_id, topic_messages.c.due_at.is_not(None))
            .values(values)
        )
        await self._store.write(lambda connection: connection.execute(statement))

    async def take_unfinished(self, *, limit: int, own_ms: int) -> Sequence[Message]:
        """Uses ix_topic_message_due; rows that another takes are skipped."""

        def take(connection: Connection) -> list[Message]:
            """Select due messages that nobody has locked, and postpone them for the others."""
            now = self._store.dialect.now(connection)
            due = (
                select(*_MESSAGE)
                .where(topic_messages.c.due_at.is_not(None), topic_messages.c.due_at <= now)
                .order_by(topic_messages.c.due_at)
                .limit(limit)
                .with_for_update(skip_locked=True)
            )
            taken = [_message(row) for row in connection.execute(due)]
            ids = [message.message_id for message in taken]
            if ids:
                mine = update(topic_messages).where(topic_messages.c.message_id.in_(ids))
                connection.execute(mine.values(due_at=now + own_ms))
            return taken

        return await self._store.transact(take)

    async def remove_finished(self, *, before: int, limit: int) -> int:
        """Uses ix_topic_message_finished."""
        old = (
            select(topic_messages.c.message_id)
            .where(topic_messages.c.due_at.is_(None), topic_messages.c.created_at < before)
            .order_by(topic_messages.c.created_at)
            .limit(limit)
        )
        statement = delete(topic_messages).where(topic_messages.c.message_id.in_(old))
        return await self._store.write(lambda connection: connection.execute(statement).rowcount)

    async def _subscriptions(self, query: Select[Any]) -> list[Subscription]:
        return await self._store.read(lambda connection: [Subscription(*row) for row in connection.execute(query)])


def _add_subscription(
    connection: Connection, wanted: Subscription, *, now: int, count_max: int
) -> tuple[Subscription, bool]:
    of_tenant = and_(triggers.c.tenant_id == wanted.tenant_id, triggers.c.kind == TOPIC_TYPE)
    same = _SUBSCRIPTIONS.where(
        of_tenant,
        IS_SAVED,
        triggers.c.head == wanted.head,
        triggers.c.subject == wanted.pattern,
        triggers.c.workflow == wanted.workflow,
    )
    known = connection.execute(same).one_or_none()
    if known is not None:
        return Subscription(*known), False
    count = connection.execute(select(func.count()).select_from(triggers).where(of_tenant)).scalar_one()
    if count >= count_max:
        raise LimitReached(f"there are {count_max} subscriptions already")
    row = {
        "trigger_id": wanted.subscription_id,
        "tenant_id": wanted.tenant_id,
        "kind": TOPIC_TYPE,
        "workflow": wanted.workflow,
        "subject": wanted.pattern,
        "head": wanted.head,
        "config": "{}",
        "enabled": True,
        "created_at": now,
        "updated_at": now,
    }
    connection.execute(insert(triggers).values(row))
    return replace(wanted, created_at=now), True


def _record(connection: Connection, actor: str | None, action: str, subscription: Subscription, *, now: int) -> None:
    record_audit_event(
        connection,
        actor,
        action,
        tenant_id=subscription.tenant_id,
        target=subscription.subscription_id,
        details={"pattern": subscription.pattern, "workflow": subscription.workflow},
        now=now,
    )


def _add_message(
    connection: Connection,
    wanted: Message,
    *,
    now: int,
    own_ms: int,
    unfinished_max: int,
    unfinished_per_tenant_max: int,
) -> Message:
    known = connection.execute(
        select(*_MESSAGE).where(
            topic_messages.c.tenant_id == wanted.tenant_id,
            topic_messages.c.topic == wanted.topic,
            topic_messages.c.key == wanted.key,
        )
    ).one_or_none()
    if known is not None:
        return _message(known)
    open_ones = select(topic_messages.c.tenant_id).where(topic_messages.c.due_at.is_not(None)).limit(unfinished_max)
    counted = open_ones.subquery()
    of_tenant = func.count().filter(counted.c.tenant_id == wanted.tenant_id)
    in_all, of_its_tenant = connection.execute(select(func.count(), of_tenant).select_from(counted)).one()
    if in_all >= unfinished_max:
        raise TooManyPending(f"{unfinished_max} messages wait for their runs to be started already")
    if of_its_tenant >= unfinished_per_tenant_max:
        raise TooManyPending(
            f"{unfinished_per_tenant_max} messages of tenant {wanted.tenant_id!r} wait for their runs already",
            hint="Retry later; the operator may raise ANABRANCH_UNFINISHED_MAX_PER_TENANT.",
            details={"limit": unfinished_per_tenant_max, "scope": "tenant"},
        )
    connection.execute(
        insert(topic_messages).values(
            message_id=wanted.message_id,
            tenant_id=wanted.tenant_id,
            topic=wanted.topic,
            key=wanted.key,
            payload=orjson.dumps(wanted.payload).decode(),
            deliveries=_deliveries_text(wanted.deliveries),
            due_at=None if wanted.is_finished else now + own_ms,
            created_at=now,
        )
    )
    return wanted


def _deliveries_text(deliveries: Sequence[Delivery]) -> str:
    return orjson.dumps(
        [
            [each.subscription_id, each.workflow, each.instance_id, each.error, each.version, each.node_id]
            for each in deliveries
        ]
    ).decode()


def _message(row: Sequence[Any]) -> Message:
    message_id, tenant_id, topic, key, payload, deliveries, created_at = row
    owed = [Delivery(*fields) for fields in orjson.loads(deliveries)]
    return Message(message_id, tenant_id, topic, key, orjson.loads(payload), owed, created_at)
