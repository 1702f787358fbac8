"""What coded steps were asked for with: a column of their first rows. Rows that are there already have none.

Before the deploy: the program refuses to work without it. Processes of the version before, which still run, do not
mind it.
Locks: the log, for a moment.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("workflow_instance_logs", sa.Column("arguments", sa.Text()))
