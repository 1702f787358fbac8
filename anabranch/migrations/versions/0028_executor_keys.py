"""API keys of executors name the pools whose jobs they are for.

Before the deploy: the program refuses to work without the column. A program from before it refuses keys of executors.
Locks: `api_keys` exclusively for an instant.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("api_keys", sa.Column("pools", sa.Text()))
