"""Drafts of workflows, with the pins of their test runs.

Before the deploy: the program refuses to work without them.
Locks: nothing that exists.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

Type: TypeAlias = sa.types.TypeEngine[Any]

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    identifier: Type = postgresql.UUID(as_uuid=False) if is_postgresql else sa.Text()
    op.create_table(
        "drafts",
        sa.Column("draft_id", identifier, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("workflow_id", identifier),
        sa.Column("base_version", sa.Integer()),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text()),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("pins", sa.Text(), nullable=False),
        sa.Column("pins_revision", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("draft_id", name="pk_drafts"),
    )
    op.create_index("ux_draft_workflow", "drafts", ["tenant_id", "workflow_id"], unique=True)
