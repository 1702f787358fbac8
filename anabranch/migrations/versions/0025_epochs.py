"""Which lines of history the database has been on, so that processes notice a failover that lost commits.

Before the deploy: the program refuses to work without the table. A program from before it does not look at it.
Locks: none.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "database_epochs",
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.Column("began_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("epoch", name="pk_database_epochs"),
    )
