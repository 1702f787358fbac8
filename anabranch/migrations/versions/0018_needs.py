"""What a run needs of a worker, and what each worker has.

Before the deploy: the program refuses to work without them. A program from before it may run beside this one; it takes
runs that it cannot run, as it always did.
Locks: the table of runs, for a moment.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("workflow_instances", sa.Column("needs", sa.Text()))
    op.add_column("workers", sa.Column("node_types", sa.Text(), nullable=False, server_default="[]"))
    op.add_column("workers", sa.Column("code", sa.Text(), nullable=False, server_default="[]"))
