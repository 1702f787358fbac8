"""The size of every log on its run's row, and autovacuum settings for the tables that change all the time.

Before the deploy: the program refuses to work without them.
Locks: the tables of runs and messages, for a moment; the open runs, while the size of their logs is added up. Of runs
that have ended the size stays 0: nobody asks for it any more.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_IS_OPEN = "status IN ('PENDING', 'RUNNING', 'WAITING')"

_AUTOVACUUM = {
    "workflow_instances": "autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02,"
    " autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0.05",
    "workflow_instance_logs": "autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.02,"
    " autovacuum_vacuum_insert_threshold = 100000, autovacuum_vacuum_insert_scale_factor = 0.1,"
    " autovacuum_analyze_threshold = 10000, autovacuum_analyze_scale_factor = 0.05,"
    " toast.autovacuum_vacuum_threshold = 10000, toast.autovacuum_vacuum_scale_factor = 0.02",
    "topic_messages": "autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02,"
    " toast.autovacuum_vacuum_threshold = 1000, toast.autovacuum_vacuum_scale_factor = 0.02",
}


def upgrade() -> None:
    """Add the column, fill it for open runs, and set the storage parameters."""
    is_postgresql = op.get_bind().dialect.name == "postgresql"
    op.add_column("workflow_instances", sa.Column("log_bytes", sa.BigInteger(), nullable=False, server_default="0"))
    size = "octet_length(CAST(payload AS text))" if is_postgresql else "length(CAST(payload AS BLOB))"
    op.execute(f"""
        UPDATE workflow_instances SET log_bytes = (
            SELECT coalesce(sum({size}), 0) FROM workflow_instance_logs AS l
            WHERE l.instance_id = workflow_instances.instance_id)
        WHERE {_IS_OPEN}
    """)  # noqa: S608  # constants of this file
    if is_postgresql:
        for table, options in _AUTOVACUUM.items():
            op.execute(f"ALTER TABLE {table} SET ({options})")
