"""Refresh tokens that services replace are kept, encrypted.

Before the deploy: the program refuses to work without the table. Programs of 0030 go on beside it.
Locks: none.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "renewed_tokens",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("grant_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("held_until", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "grant_id", name="pk_renewed_tokens"),
    )
