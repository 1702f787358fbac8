"""The first tables: workflows, their versions, instances and their logs.

Before the deploy: the program refuses to work without them.
Locks: nothing that exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

Type: TypeAlias = sa.types.TypeEngine[Any]

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_OPEN = "status IN ('PENDING', 'RUNNING', 'WAITING')"
_ATTEMPT = "event_type IN ('NODE_ATTEMPT_FAILED', 'NODE_DISPATCHED')"
_ENDING = "event_type IN ('NODE_COMPLETED', 'NODE_FAILED', 'NODE_SKIPPED')"
_SIGNAL = "event_type = 'SIGNAL_RECEIVED'"


def upgrade() -> None:
    """Create everything; SQLite gets TEXT where PostgreSQL has types of its own."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier: Type = postgresql.UUID(as_uuid=False) if is_postgresql else sa.Text()
    json_text: Type = postgresql.JSON() if is_postgresql else sa.Text()
    _create_workflows(identifier, json_text)
    _create_instances(identifier)
    _create_logs(identifier, json_text)
    if is_postgresql:
        _compress_payloads()


def _create_workflows(identifier: Type, json_text: Type) -> None:
    op.create_table(
        "workflows",
        sa.Column("workflow_id", identifier, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("newest_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("workflow_id", name="pk_workflows"),
    )
    _create_index("ux_workflow_name", "workflows", ["tenant_id", "name"], where="deleted_at IS NULL", unique=True)
    op.create_table(
        "workflow_versions",
        sa.Column("workflow_id", identifier, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("title", sa.Text()),
        sa.Column("definition", json_text, nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workflow_id", "version", name="pk_workflow_versions"),
    )


def _create_instances(identifier: Type) -> None:
    op.create_table(
        "workflow_instances",
        sa.Column("instance_id", identifier, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("workflow_id", identifier),
        sa.Column("workflow_name", sa.Text(), nullable=False),
        sa.Column("workflow_version", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("test", sa.Boolean(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.Text()),
        sa.Column("available_at", sa.BigInteger()),
        sa.Column("starts_at", sa.BigInteger(), nullable=False),
        sa.Column("deadline_at", sa.BigInteger()),
        sa.Column("retention_days", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.Text()),
        sa.Column("parent_id", identifier),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.Column("completed_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("instance_id", name="pk_workflow_instances"),
        postgresql_with={"fillfactor": "70"},
    )
    table = "workflow_instances"
    _create_index("ix_instance_available", table, ["available_at", "instance_id"], where=_OPEN)
    _create_index("ix_instance_pending", table, ["instance_id"], where="status = 'PENDING'")
    _create_index("ix_instance_listing", table, ["tenant_id", "created_at", "instance_id"])
    by_workflow = ["tenant_id", "workflow_name", "created_at", "instance_id"]
    _create_index("ix_instance_listing_by_workflow", table, by_workflow)
    key = ["tenant_id", "workflow_name", "idempotency_key"]
    _create_index("ux_instance_idempotency", table, key, where="idempotency_key IS NOT NULL", unique=True)


def _create_logs(identifier: Type, json_text: Type) -> None:
    table = "workflow_instance_logs"
    op.create_table(
        table,
        sa.Column("instance_id", identifier, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("node_status", sa.Text()),
        sa.Column("next_handle", sa.Text()),
        sa.Column("output_variable", sa.Text()),
        sa.Column("payload", json_text, nullable=False),
        sa.Column("error_message", sa.Text()),
        sa.Column("node_attempt", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "seq", name="pk_workflow_instance_logs"),
    )
    _create_index("ux_log_ending", table, ["instance_id", "node_id", "scope"], where=_ENDING, unique=True)
    attempt = ["instance_id", "node_id", "scope", "node_attempt", "event_type"]
    _create_index("ux_log_attempt", table, attempt, where=_ATTEMPT, unique=True)
    signal_key: list[str | sa.TextClause] = ["instance_id", sa.text("(payload ->> 'key')")]
    _create_index("ux_log_signal_key", table, signal_key, where=_SIGNAL, unique=True)


def _create_index(
    name: str, table: str, columns: Sequence[str | sa.TextClause], *, where: str | None = None, unique: bool = False
) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(name, table, columns, unique=unique, postgresql_where=condition, sqlite_where=condition)


def _compress_payloads() -> None:
    """lz4 where the server was built with it: it compresses payloads several times faster than pglz."""
    known = op.get_bind().scalar(
        sa.text("SELECT 'lz4' = ANY(enumvals) FROM pg_settings WHERE name = 'default_toast_compression'")
    )
    if known:
        op.execute("ALTER TABLE workflow_instance_logs ALTER COLUMN payload SET COMPRESSION lz4")
        op.execute("ALTER TABLE workflow_versions ALTER COLUMN definition SET COMPRESSION lz4")
