"""The tables of subscriptions and messages."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import Identifier, JsonText, metadata, partial_index, storage

topic_subscriptions = Table(
    "topic_subscriptions",
    metadata,
    Column("subscription_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("head", Text, nullable=False),
    Column("pattern", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("subscription_id", name="pk_topic_subscriptions"),
)


# One index for both: a message looks up the few patterns that begin as its topic does.
Index(
    "ux_topic_subscription",
    topic_subscriptions.c.tenant_id,
    topic_subscriptions.c.head,
    topic_subscriptions.c.pattern,
    topic_subscriptions.c.workflow,
    unique=True,
)


# `due_at`: when another process may finish it; NULL once it is finished. Kept for a day after that.
topic_messages = Table(
    "topic_messages",
    metadata,
    Column("message_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("payload", JsonText, nullable=False),
    Column("deliveries", JsonText, nullable=False),
    Column("due_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("message_id", name="pk_topic_messages"),
    # A day's messages: every row is updated when it is finished and removed a day later.
    info=storage(
        {
            "autovacuum_vacuum_threshold": "1000",
            "autovacuum_vacuum_scale_factor": "0.02",
            "toast.autovacuum_vacuum_threshold": "1000",
            "toast.autovacuum_vacuum_scale_factor": "0.02",
        }
    ),
)


Index(
    "ux_topic_message_key",
    topic_messages.c.tenant_id,
    topic_messages.c.topic,
    topic_messages.c.key,
    unique=True,
)


partial_index(
    "ix_topic_message_due",
    topic_messages.c.due_at,
    where=topic_messages.c.due_at.is_not(None),
)


partial_index(
    "ix_topic_message_finished",
    topic_messages.c.created_at,
    where=topic_messages.c.due_at.is_(None),
)
