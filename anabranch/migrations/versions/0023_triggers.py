"""One table for schedules, subscriptions and the triggers of workflows; the old rows are moved into it.

Before the deploy: the program refuses to work without it. A program from before it finds no schedules and subscriptions
any more, and cannot save any: stop those before the migration.
Locks: the tables of schedules and subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

Type: TypeAlias = sa.types.TypeEngine[Any]

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

# 500 rows a statement: schedules have inputs of up to 1 MB.
_ROWS = 500

_SCHEDULES = sa.text("""
    SELECT CAST(schedule_id AS TEXT), tenant_id, name, workflow, version, cron, timezone, every_ms, anchor_at,
           CAST(input AS TEXT), missed, enabled, next_at, last_at, CAST(last_instance_id AS TEXT),
           CAST(last_error AS TEXT), created_at, updated_at
    FROM schedules""")

_SUBSCRIPTIONS = sa.text("""
    SELECT CAST(subscription_id AS TEXT), tenant_id, head, pattern, workflow, created_at FROM topic_subscriptions""")


def upgrade() -> None:
    """Create the table, move the rows, remove the old tables."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier: Type = postgresql.UUID(as_uuid=False) if is_postgresql else sa.Text()
    json_text: Type = postgresql.JSON() if is_postgresql else sa.Text()
    _create(identifier, json_text)
    # JSON is written as text: the type would encode it again.
    columns = [sa.column(name, sa.Text()) for name in _COLUMNS]
    values = {name: sa.cast(sa.bindparam(name), identifier) for name in ("trigger_id", "last_instance_id")}
    values |= {name: sa.cast(sa.bindparam(name, type_=sa.Text()), json_text) for name in ("config", "last_error")}
    statement = sa.insert(sa.table("triggers", *columns)).values(
        {name: values.get(name, sa.bindparam(name, type_=_TYPES.get(name))) for name in _COLUMNS}
    )
    for rows in (_schedules(), _subscriptions()):
        while batch := [row for _, row in zip(range(_ROWS), rows, strict=False)]:
            op.get_bind().execute(statement, batch)
    op.drop_table("schedules")
    op.drop_table("topic_subscriptions")


_COLUMNS = (
    *("trigger_id", "tenant_id", "kind", "name", "workflow", "version", "subject", "head", "config", "enabled"),
    *("next_at", "last_at", "last_instance_id", "last_error", "created_at", "updated_at"),
)

_TYPES: dict[str, Type] = {
    "version": sa.Integer(),
    "enabled": sa.Boolean(),
    **{name: sa.BigInteger() for name in ("next_at", "last_at", "created_at", "updated_at")},
}


def _schedules() -> Iterator[dict[str, Any]]:
    for row in op.get_bind().execute(_SCHEDULES).all():
        schedule_id, tenant_id, name, workflow, version, cron, timezone, every_ms, anchor_at = row[:9]
        input_, missed, enabled, next_at, last_at, last_instance_id, last_error, created_at, updated_at = row[9:]
        timing = {"cron": cron, "timezone": timezone, "everyMs": every_ms, "anchorAt": anchor_at, "missed": missed}
        yield {
            "trigger_id": schedule_id,
            "tenant_id": tenant_id,
            "kind": "schedule",
            "name": name,
            "workflow": workflow,
            "version": version,
            "subject": None,
            "head": None,
            "config": orjson.dumps(timing).decode()[:-1] + f',"input":{input_}}}',  # the input as it was written
            "enabled": bool(enabled),
            "next_at": next_at,
            "last_at": last_at,
            "last_instance_id": last_instance_id,
            "last_error": last_error,
            "created_at": created_at,
            "updated_at": updated_at,
        }


def _subscriptions() -> Iterator[dict[str, Any]]:
    for subscription_id, tenant_id, head, pattern, workflow, created_at in op.get_bind().execute(_SUBSCRIPTIONS).all():
        yield {
            **dict.fromkeys(_COLUMNS),
            "trigger_id": subscription_id,
            "tenant_id": tenant_id,
            "kind": "topic",
            "workflow": workflow,
            "subject": pattern,
            "head": head,
            "config": "{}",
            "enabled": True,
            "created_at": created_at,
            "updated_at": created_at,
        }


def _create(identifier: Type, json_text: Type) -> None:
    op.create_table(
        "triggers",
        sa.Column("trigger_id", identifier, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("workflow", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer()),
        sa.Column("workflow_id", identifier),
        sa.Column("node_id", sa.Text()),
        sa.Column("subject", sa.Text()),
        sa.Column("head", sa.Text()),
        sa.Column("config", json_text, nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("next_at", sa.BigInteger()),
        sa.Column("last_at", sa.BigInteger()),
        sa.Column("last_instance_id", identifier),
        sa.Column("last_error", json_text),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("trigger_id", name="pk_triggers"),
    )
    op.create_index("ix_trigger_head", "triggers", ["tenant_id", "kind", "head"])
    _partial_index("ux_trigger_name", ["tenant_id", "name"], "name IS NOT NULL", unique=True)
    _partial_index("ix_trigger_due", ["next_at", "trigger_id"], "next_at IS NOT NULL")
    saved = "kind = 'topic' AND node_id IS NULL"
    _partial_index("ux_trigger_subscription", ["tenant_id", "subject", "workflow"], saved, unique=True)
    _partial_index("ux_trigger_webhook", ["tenant_id", "subject"], "kind = 'webhook'", unique=True)
    _partial_index("ux_trigger_node", ["workflow_id", "node_id"], "node_id IS NOT NULL", unique=True)


def _partial_index(name: str, columns: list[str], condition: str, *, unique: bool = False) -> None:
    where = sa.text(condition)
    op.create_index(name, "triggers", columns, unique=unique, postgresql_where=where, sqlite_where=where)
