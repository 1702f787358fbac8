"""Where runs come from: which run was run again, and who started it. Runs that are there already say neither.

Before the deploy: the program refuses to work without it.
Locks: the table of runs, for a moment.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

Type: TypeAlias = sa.types.TypeEngine[Any]

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, and the index by which the newest re-run is found."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier: Type = postgresql.UUID(as_uuid=False) if is_postgresql else sa.Text()
    op.add_column("workflow_instances", sa.Column("rerun_of", identifier))
    op.add_column("workflow_instances", sa.Column("started_by", sa.Text()))
    op.create_index(
        "ix_instance_rerun",
        "workflow_instances",
        ["rerun_of"],
        postgresql_where=sa.text("rerun_of IS NOT NULL"),
        sqlite_where=sa.text("rerun_of IS NOT NULL"),
    )
