"""Workflows and tenants that stand still, and the version of a workflow that starts take.

Before the deploy: the program refuses to work without them. A program from before it may run beside this one; it
starts the newest version, and goes on with what is paused.
Locks: the table of workflows, for a moment.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the column."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier: sa.types.TypeEngine[str] = sa.UUID(as_uuid=False) if is_postgresql else sa.Text()
    op.add_column("workflows", sa.Column("active_version", sa.Integer()))
    op.create_table(
        "pauses",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("workflow_id", identifier),
        sa.Column("paused_by", sa.Text(), nullable=False),
        sa.Column("paused_at", sa.BigInteger(), nullable=False),
    )
    _unique("ux_pause_of_workflow", ["tenant_id", "workflow_id"], "workflow_id IS NOT NULL")
    _unique("ux_pause_of_tenant", ["tenant_id"], "workflow_id IS NULL")


def _unique(name: str, columns: list[str], condition: str) -> None:
    where = sa.text(condition)
    op.create_index(name, "pauses", columns, unique=True, postgresql_where=where, sqlite_where=where)
