"""Runs can be reopened: how often, which rows of their logs do not count any more, and an end for each time.

Before the deploy: the program refuses to work without them. A program from before it must not run beside this one: it
would read what was left out.
Locks: the table of runs, for a moment; the table of logs, while the index of its endings is built again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_IS_ENDING = "event_type IN ('NODE_COMPLETED', 'NODE_FAILED', 'NODE_SKIPPED')"


def upgrade() -> None:
    """Add the columns, and build the index of endings with the generation."""
    op.add_column("workflow_instances", sa.Column("generation", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("workflow_instances", sa.Column("left_out", sa.Text()))
    op.add_column("workflow_instance_logs", sa.Column("generation", sa.Integer(), nullable=False, server_default="0"))
    op.drop_index("ux_log_ending", "workflow_instance_logs")
    op.create_index(
        "ux_log_ending",
        "workflow_instance_logs",
        ["instance_id", "node_id", "scope", "generation"],
        unique=True,
        postgresql_where=sa.text(_IS_ENDING),
        sqlite_where=sa.text(_IS_ENDING),
    )
