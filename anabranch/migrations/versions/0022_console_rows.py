"""Lines of the console that are written together share a row.

Before the deploy: the program refuses to work without the column. A program from before it may run beside this one; it
shows the last line of each row.
Locks: the table of lines, for a moment.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("console_lines", sa.Column("earlier", sa.Text()))
