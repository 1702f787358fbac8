"""Runs can be forked from others: which one it was. Runs that are there already are none.

Before the deploy: the program refuses to work without it.
Locks: the table of runs, for a moment.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

Type: TypeAlias = sa.types.TypeEngine[Any]

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier: Type = postgresql.UUID(as_uuid=False) if is_postgresql else sa.Text()
    op.add_column("workflow_instances", sa.Column("forked_from", identifier))
