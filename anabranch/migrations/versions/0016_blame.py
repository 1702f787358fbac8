"""Blame for crashes: its columns on the row of a run, and what working processes say of themselves.

Before the deploy: the program refuses to work without them. A program from before it may run beside this one; what it
does not say of itself is taken as unknown.
Locks: the table of runs, for a moment; the index is built over no rows.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_IS_SUSPECT = "company IS NOT NULL"


def upgrade() -> None:
    """Add the columns, the index of suspects and the table."""
    op.add_column("workflow_instances", sa.Column("company", sa.Integer()))
    op.add_column("workflow_instances", sa.Column("crashes", sa.Integer(), nullable=False, server_default="0"))
    op.create_index(
        "ix_instance_suspect",
        "workflow_instances",
        ["available_at", "instance_id"],
        postgresql_where=sa.text(_IS_SUSPECT),
        sqlite_where=sa.text(_IS_SUSPECT),
    )
    op.create_table(
        "workers",
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("executing", sa.Integer()),
        sa.Column("company", sa.Integer()),
        sa.PrimaryKeyConstraint("worker_id", name="pk_workers"),
    )
