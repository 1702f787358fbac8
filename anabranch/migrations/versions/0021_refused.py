"""An index of the runs that other code, or another release, may continue.

Before the deploy: the program refuses to work without it.
Locks: the table of runs, while the index is built.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_IS_REFUSED = "suspended_for IN ('DEFINITION_ERROR', 'ENGINE_DEFECT', 'NONDETERMINISM')"


def upgrade() -> None:
    """Build it."""
    where = sa.text(_IS_REFUSED)
    op.create_index(
        "ix_instance_refused", "workflow_instances", ["instance_id"], postgresql_where=where, sqlite_where=where
    )
