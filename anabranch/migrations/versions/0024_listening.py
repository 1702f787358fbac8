"""The test runs of drafts that wait for a request.

Before the deploy: the program refuses to work without the column. A program from before it may run beside this one.
Locks: the table of drafts, for a moment.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("drafts", sa.Column("listening", sa.Text()))
