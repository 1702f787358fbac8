"""Schedules, subscriptions to topics, and messages on them.

Before the deploy: the program refuses to work without them.
Locks: nothing that exists.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

Type: TypeAlias = sa.types.TypeEngine[Any]

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier: Type = postgresql.UUID(as_uuid=False) if is_postgresql else sa.Text()
    json_text: Type = postgresql.JSON() if is_postgresql else sa.Text()
    _create_schedules(identifier, json_text)
    _create_topics(identifier, json_text)


def _create_schedules(identifier: Type, json_text: Type) -> None:
    op.create_table(
        "schedules",
        sa.Column("schedule_id", identifier, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("cron", sa.Text()),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("every_ms", sa.BigInteger()),
        sa.Column("anchor_at", sa.BigInteger(), nullable=False),
        sa.Column("input", json_text, nullable=False),
        sa.Column("missed", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("next_at", sa.BigInteger()),
        sa.Column("last_at", sa.BigInteger()),
        sa.Column("last_instance_id", identifier),
        sa.Column("last_error", json_text),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("schedule_id", name="pk_schedules"),
    )
    op.create_index("ux_schedule_name", "schedules", ["tenant_id", "name"], unique=True)
    _create_partial_index("ix_schedule_due", "schedules", ["next_at", "schedule_id"], "next_at IS NOT NULL")


def _create_topics(identifier: Type, json_text: Type) -> None:
    op.create_table(
        "topic_subscriptions",
        sa.Column("subscription_id", identifier, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("pattern", sa.Text(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subscription_id", name="pk_topic_subscriptions"),
    )
    unique = ["tenant_id", "head", "pattern", "workflow"]
    op.create_index("ux_topic_subscription", "topic_subscriptions", unique, unique=True)
    op.create_table(
        "topic_messages",
        sa.Column("message_id", identifier, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("payload", json_text, nullable=False),
        sa.Column("deliveries", json_text, nullable=False),
        sa.Column("due_at", sa.BigInteger()),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("message_id", name="pk_topic_messages"),
    )
    op.create_index("ux_topic_message_key", "topic_messages", ["tenant_id", "topic", "key"], unique=True)
    _create_partial_index("ix_topic_message_due", "topic_messages", ["due_at"], "due_at IS NOT NULL")
    _create_partial_index("ix_topic_message_finished", "topic_messages", ["created_at"], "due_at IS NULL")


def _create_partial_index(name: str, table: str, columns: list[str], condition: str) -> None:
    op.create_index(name, table, columns, postgresql_where=sa.text(condition), sqlite_where=sa.text(condition))
