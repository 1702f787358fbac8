"""Large values, stored once by their content.

Before the deploy: the program refuses to work without them. Rows from before keep their payloads as they are.
Locks: the table of logs, for a moment.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

Type: TypeAlias = sa.types.TypeEngine[Any]

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables, and the column that refers to them."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier: Type = postgresql.UUID(as_uuid=False) if is_postgresql else sa.Text()
    op.create_table(
        "stored_values",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", "tenant_id", name="pk_stored_values"),
    )
    op.create_index("ix_stored_values_size", "stored_values", ["tenant_id", "size"])
    op.create_table(
        "value_references",
        sa.Column("instance_id", identifier, nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "sha256", name="pk_value_references"),
    )
    op.create_index("ix_value_references", "value_references", ["sha256", "tenant_id"])
    op.add_column("workflow_instance_logs", sa.Column("parts", sa.Text()))
