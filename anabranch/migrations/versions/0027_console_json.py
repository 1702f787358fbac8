"""Rows of the console have all of their lines as JSON.

Before the deploy: the program refuses to work without the column. A program from before it may run beside this one; it
shows an empty line instead of each new row.
Locks: the table of lines, for a moment.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("console_lines", sa.Column("lines", sa.Text()))
