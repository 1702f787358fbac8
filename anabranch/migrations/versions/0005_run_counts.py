"""Run counts, retention and lists: counter rows, an index over what has ended, listings by workflow instead of name.

Before the deploy: the program refuses to work without them.
Locks: the instances, for as long as two indexes over them take to build; the workflows, for the
order of their names. The runs that have ended already are counted after the start, in chunks.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TABLE = "workflow_instances"


def upgrade() -> None:
    """Create the tables; exchange the index of listings, which no longer follow a name that another may take."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier = postgresql.UUID(as_uuid=False) if is_postgresql else sa.Text()
    op.create_table(
        "run_counts",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("workflow_id", identifier, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("runs", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "workflow_id", "status", name="pk_run_counts"),
    )
    op.create_table(
        "watermarks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("reached", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_watermarks"),
    )
    has_ended = sa.text("completed_at IS NOT NULL")
    op.create_index(
        "ix_instance_ended",
        _TABLE,
        ["retention_days", "completed_at"],
        postgresql_where=has_ended,
        sqlite_where=has_ended,
    )
    op.drop_index("ix_instance_listing_by_workflow", _TABLE)
    by_workflow = ["tenant_id", "workflow_id", "created_at", "instance_id"]
    op.create_index("ix_instance_listing_by_workflow", _TABLE, by_workflow)
    if is_postgresql:
        op.execute('ALTER TABLE workflows ALTER COLUMN name TYPE TEXT COLLATE "C"')
