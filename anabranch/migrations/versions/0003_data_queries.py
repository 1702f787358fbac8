"""Data sources and saved queries.

Before the deploy: the program refuses to work without them.
Locks: nothing that exists.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

Type: TypeAlias = sa.types.TypeEngine[Any]

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier: Type = postgresql.UUID(as_uuid=False) if is_postgresql else sa.Text()
    json_text: Type = postgresql.JSON() if is_postgresql else sa.Text()
    op.create_table(
        "data_sources",
        sa.Column("data_source_id", identifier, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("url", sa.LargeBinary(), nullable=False),
        sa.Column("sealed", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("data_source_id", name="pk_data_sources"),
    )
    op.create_index("ux_data_source_name", "data_sources", ["tenant_id", "name"], unique=True)
    op.create_table(
        "data_queries",
        sa.Column("data_query_id", identifier, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("data_source_id", identifier, nullable=False),
        sa.Column("sql", sa.Text(), nullable=False),
        sa.Column("params", json_text, nullable=False),
        sa.Column("writes", sa.Boolean(), nullable=False),
        sa.Column("timeout_ms", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("data_query_id", name="pk_data_queries"),
    )
    op.create_index("ux_data_query_name", "data_queries", ["tenant_id", "name"], unique=True)
    op.create_index("ix_data_query_source", "data_queries", ["data_source_id"])
