"""Runs can be SUSPENDED: the reason on their row, and the index of open runs has them too.

Before the deploy: the program refuses to work without them. A program from before it must not run beside this one: it
does not know the status.
Locks: the table of runs, while the index of its open ones is built again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_IS_OPEN = "status IN ('PENDING', 'RUNNING', 'WAITING', 'SUSPENDED')"


def upgrade() -> None:
    """Add the column, and build the index with the new condition."""
    op.add_column("workflow_instances", sa.Column("suspended_for", sa.Text()))
    op.drop_index("ix_instance_available", "workflow_instances")
    op.create_index(
        "ix_instance_available",
        "workflow_instances",
        ["available_at", "instance_id"],
        postgresql_where=sa.text(_IS_OPEN),
        sqlite_where=sa.text(_IS_OPEN),
    )
