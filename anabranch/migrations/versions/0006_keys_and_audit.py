"""Tables for API keys and for the audit trail.

Before the deploy: the program refuses to work without them.
Locks: nothing that exists.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create them, empty."""
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger()),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("revoked_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("key_id", name="pk_api_keys"),
    )
    op.create_index("ux_api_key_digest", "api_keys", ["digest"], unique=True)
    op.create_index("ix_api_key_tenant", "api_keys", ["tenant_id", "created_at"])
    op.create_table(
        "audit_log",
        sa.Column("position", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("position", name="pk_audit_log"),
    )
    op.create_index("ix_audit_tenant", "audit_log", ["tenant_id", "position"])
    op.create_table(
        "audit_head",
        sa.Column("chain", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("chain", name="pk_audit_head"),
    )
