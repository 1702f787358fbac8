"""Children: which activation started a run, whether it waits for its end, and where the run stands in its family.

Before the deploy: the program refuses to work without the columns.
Locks: the instances, for as long as new columns and two indexes over no rows take. (PostgreSQL
knows the defaults of old rows without writing them.)
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TABLE = "workflow_instances"


def upgrade() -> None:
    """Add the columns; existing instances have no parents."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier = postgresql.UUID(as_uuid=False) if is_postgresql else sa.Text()
    op.add_column(_TABLE, sa.Column("parent_node_id", sa.Text()))
    op.add_column(_TABLE, sa.Column("parent_scope", sa.Text()))
    op.add_column(_TABLE, sa.Column("parent_waits", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column(_TABLE, sa.Column("depth", sa.Integer(), nullable=False, server_default="0"))
    op.add_column(_TABLE, sa.Column("root_id", identifier))
    for name, column in (("ix_instance_parent", "parent_id"), ("ix_instance_root", "root_id")):
        is_there = sa.text(f"{column} IS NOT NULL")
        op.create_index(name, _TABLE, [column], postgresql_where=is_there, sqlite_where=is_there)
