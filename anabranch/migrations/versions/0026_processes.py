"""Which processes run on the database, and which programs work with its schema.

Before the deploy: the program refuses to work without the tables. Programs from before it must be stopped first.
Locks: none.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "processes",
        sa.Column("process_id", sa.Text(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column("schema_revision", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("process_id", name="pk_processes"),
    )
    op.create_table(
        "schema_support",
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("oldest_program", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_schema_support"),
    )
