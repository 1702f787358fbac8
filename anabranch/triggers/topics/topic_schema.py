"""The table of messages: those on topics, and those about failed runs."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import Identifier, JsonText, metadata, partial_index, storage

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
