"""Statements of housekeeping: counters of ended runs, and the removal of runs after their retention.

Executed by `sql_housekeeping`; every database understands them. Where rows are locked, the dialect provides the clause.
Ended runs are found through ix_instance_ended, one retention after the other.
"""

# Statements are put together from this package's own conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from functools import cache

from sqlalchemy import TextClause, text

from anabranch.engine.rules.coded.coded_plan import CODED_TENANT_ID
from anabranch.engine.store.schema import HAS_NOT_ENDED, IS_OPEN

# Test runs are not counted.
_IS_COUNTED = "workflow_id IS NOT NULL AND NOT test"
_HAS_ENDED_BETWEEN = "retention_days = :retention_days AND completed_at > :after AND completed_at <= :until"

RETENTIONS = text("""
    WITH RECURSIVE kept(days) AS (
        SELECT min(retention_days) FROM workflow_instances WHERE completed_at IS NOT NULL
        UNION ALL
        SELECT (SELECT min(retention_days) FROM workflow_instances
                WHERE completed_at IS NOT NULL AND retention_days > kept.days)
        FROM kept WHERE kept.days IS NOT NULL
    ) SELECT days FROM kept WHERE days IS NOT NULL
""")
"""The different retentions of ended runs, each found by one look into ix_instance_ended."""

# -- counting ----------------------------------------------------------------------------------
COUNTED_UNTIL = text("SELECT reached FROM watermarks WHERE name = 'run_counts'")
"""The watermark: ended runs up to then are in the counters."""

BEGIN_COUNTING = text("INSERT INTO watermarks (name, reached) VALUES ('run_counts', 0) ON CONFLICT DO NOTHING")
"""Create the watermark, once per database."""

MOVE_COUNTED_UNTIL = text("UPDATE watermarks SET reached = :until WHERE name = 'run_counts'")
"""Move the locked watermark."""


@cache
def lock_counting(row_lock: str) -> TextClause:
    """The watermark, locked until the transaction ends; nothing if another process has locked it."""
    return text(f"SELECT reached FROM watermarks WHERE name = 'run_counts' {row_lock}")


END_OF_CHUNK = text(f"""
    SELECT completed_at FROM workflow_instances WHERE {_HAS_ENDED_BETWEEN}
    ORDER BY completed_at LIMIT 1 OFFSET :offset
""")
"""When the last run of a full chunk ended; nothing if there are fewer."""

COUNT_CHUNK = text(f"""
    INSERT INTO run_counts (tenant_id, workflow_id, status, runs)
    SELECT tenant_id, workflow_id, status, count(*) FROM workflow_instances
    WHERE {_HAS_ENDED_BETWEEN} AND {_IS_COUNTED}
    GROUP BY tenant_id, workflow_id, status
    ON CONFLICT (tenant_id, workflow_id, status) DO UPDATE SET runs = run_counts.runs + excluded.runs
""")
"""Add the runs that ended in a time range to the counters."""

COUNTED_RUNS = text("SELECT workflow_id, status, runs FROM run_counts WHERE tenant_id = :tenant_id")
"""The counters of a tenant."""

ENDED_RUNS = text(f"""
    SELECT workflow_id, status, count(*) FROM workflow_instances
    WHERE {_HAS_ENDED_BETWEEN} AND tenant_id = :tenant_id AND {_IS_COUNTED}
    GROUP BY workflow_id, status
""")
"""Runs that ended in a time range and are in no counter yet."""

ENDED_OF_ALL = text(f"""
    SELECT tenant_id, workflow_id, status, count(*) FROM workflow_instances
    WHERE {_HAS_ENDED_BETWEEN} AND {_IS_COUNTED}
    GROUP BY tenant_id, workflow_id, status
""")
"""Runs of all tenants that ended in a time range."""

OPEN_OF_ALL = text(f"""
    SELECT workflow_name, kind, status, suspended_for, count(*) FROM workflow_instances
    WHERE {IS_OPEN} AND NOT test GROUP BY workflow_name, kind, status, suspended_for
""")
"""The open runs of all tenants by workflow and status: a scan of the open instances."""

UNCLAIMED = text(f"""
    SELECT count(*) FROM workflow_instances AS i
    WHERE {IS_OPEN} AND available_at <= :now AND worker_id IS NULL AND status <> 'SUSPENDED'
        AND NOT EXISTS (SELECT 1 FROM pauses AS p WHERE p.tenant_id = i.tenant_id
                        AND (p.workflow_id IS NULL OR p.workflow_id = i.workflow_id))
""")
"""Due runs that nobody owns and nothing holds back: a range of ix_instance_available."""

OPEN_RUNS = text(f"""
    SELECT workflow_id, status, count(*) FROM workflow_instances
    WHERE {IS_OPEN} AND (tenant_id = :tenant_id AND {_IS_COUNTED}) IS TRUE
    GROUP BY workflow_id, status
""")
"""The open runs: a scan of the open instances of all tenants, through ix_instance_available.

`IS TRUE` keeps SQLite from scanning all runs of the tenant instead.
"""

RUNS_BY_VERSION = text("""
    SELECT workflow_version, status, count(*) FROM workflow_instances
    WHERE workflow_id = :workflow_id AND tenant_id = :tenant_id AND NOT test
    GROUP BY workflow_version, status
""")
"""All stored runs of a workflow, by version. Uses ix_instance_listing_by_workflow."""


# -- removing ----------------------------------------------------------------------------------
_OF_REMOVED = "instance_id, tenant_id, workflow_id, status, test, last_seq, log_bytes, completed_at, created_at"
_HAS_NO_OPEN_PARENT = f"""
    NOT EXISTS (SELECT 1 FROM workflow_instances AS p WHERE p.instance_id = i.parent_id AND p.{IS_OPEN})"""


@cache
def expired(row_lock: str) -> TextClause:
    """Ended runs past their retention, oldest end first, except children of open parents."""
    return text(f"""
        SELECT {_OF_REMOVED} FROM workflow_instances AS i
        WHERE retention_days = :retention_days AND completed_at <= :until AND {_HAS_NO_OPEN_PARENT}
        ORDER BY completed_at LIMIT :limit {row_lock}
    """)


COUNT_EXPIRED = text(f"""
    SELECT count(*), coalesce(sum(last_seq), 0) FROM workflow_instances AS i
    WHERE retention_days = :retention_days AND completed_at <= :until AND {_HAS_NO_OPEN_PARENT}
""")
"""How many of them there are, and with how many events."""


@cache
def remove_runs(among_ids: str) -> TextClause:
    """Remove instance rows, by primary key."""
    return text(f"DELETE FROM workflow_instances WHERE {among_ids}")


@cache
def remove_logs(among_ids: str) -> TextClause:
    """Remove the logs of instance rows that go in the same transaction, by primary key."""
    return text(f"DELETE FROM workflow_instance_logs WHERE {among_ids}")


RUN_TO_DELETE = text(f"""
    SELECT tenant_id, workflow_id, workflow_name, workflow_version, status, test, completed_at,
        (SELECT p.instance_id FROM workflow_instances AS p WHERE p.instance_id = i.parent_id AND p.{HAS_NOT_ENDED})
            AS open_parent_id
    FROM workflow_instances AS i WHERE instance_id = :instance_id AND tenant_id = :tenant_id
""")
"""A run of a tenant, and its parent if that is open."""

DELETE_ENDED_RUN = text("""
    DELETE FROM workflow_instances
    WHERE instance_id = :instance_id AND tenant_id = :tenant_id AND completed_at IS NOT NULL
""")
"""Remove the row of an ended run, by primary key."""

UNCOUNT = text("""
    UPDATE run_counts SET runs = runs - :runs
    WHERE tenant_id = :tenant_id AND workflow_id = :workflow_id AND status = :status
""")
"""Take removed runs out of the counter that they are in."""

DROP_EMPTY_COUNT = text("""
    DELETE FROM run_counts
    WHERE tenant_id = :tenant_id AND workflow_id = :workflow_id AND status = :status AND runs <= 0
""")
"""Remove a counter that has reached 0: the workflow may be gone, too."""


_NEXT_RUNS = """
    FROM workflow_instances
    WHERE tenant_id = :tenant_id AND (created_at, instance_id) > (:created_at, :instance_id)
    ORDER BY created_at, instance_id"""


@cache
def purgeable(row_lock: str, *, by_workflow: bool, statuses: int, bounded: bool) -> TextClause:
    """The ended runs that meet the conditions of a purge, among the next runs of a tenant in the order of creation (of
    `bounded` ones up to a run), except children of open parents.

    Scans ix_instance_listing from the last run of the step before up to the last that it needs.
    """
    conditions = "AND workflow_id = :workflow_id" if by_workflow else ""
    if bounded:
        conditions += " AND (created_at, instance_id) <= (:end_created_at, :end_instance_id)"
    if statuses:
        conditions += f" AND status IN ({', '.join(f':status_{number}' for number in range(statuses))})"
    return text(f"""
        SELECT {_OF_REMOVED} FROM workflow_instances AS i
        WHERE tenant_id = :tenant_id AND (created_at, instance_id) > (:created_at, :instance_id)
          AND completed_at <= :until AND {_HAS_NO_OPEN_PARENT} {conditions}
        ORDER BY created_at, instance_id LIMIT :limit {row_lock}
    """)


END_OF_LOOK = text(f"SELECT created_at, instance_id {_NEXT_RUNS} LIMIT 1 OFFSET :looked_at - 1")
"""The last run that such a statement scans; nothing at the end."""


_BY_NAME = "workflow IN (w.name, CAST(w.workflow_id AS text))"
_LIVE_BY_NAME = f"""
    SELECT 1 FROM workflows AS l
    WHERE l.name = w.name AND l.tenant_id IN (w.tenant_id, '{CODED_TENANT_ID}') AND l.deleted_at IS NULL"""


UNUSED_WORKFLOWS = text(f"""
        SELECT workflow_id, tenant_id, name, is_replaced FROM (
            SELECT w.workflow_id, w.tenant_id, w.name, w.deleted_at,
                   EXISTS ({_LIVE_BY_NAME}) AS is_replaced,
                   EXISTS (SELECT 1 FROM triggers AS t
                           WHERE t.tenant_id = w.tenant_id AND t.node_id IS NULL AND t.{_BY_NAME}) AS is_named
            FROM workflows AS w
            WHERE w.deleted_at IS NOT NULL AND w.tenant_id <> '{CODED_TENANT_ID}'
              AND NOT EXISTS (SELECT 1 FROM workflow_instances AS i
                              WHERE i.tenant_id = w.tenant_id AND i.workflow_id = w.workflow_id)
        ) AS unused
        WHERE is_replaced OR NOT is_named OR deleted_at <= :named_until
        ORDER BY workflow_id LIMIT :limit
""")
"""Deleted workflows that no run needs, and whether another one has taken the name.

One that a schedule or subscription names stays until `:named_until`. Uses ix_instance_listing_by_workflow.
"""

OF_WORKFLOW = tuple(
    text(f"DELETE FROM {table} WHERE workflow_id = :workflow_id")
    for table in ("workflow_versions", "run_counts", "pauses", "workflows")
)
"""Remove the rows of a workflow that no run needs."""

NAMING_WORKFLOW = text("""
    DELETE FROM triggers
    WHERE tenant_id = :tenant_id AND node_id IS NULL AND workflow IN (:name, CAST(:workflow_id AS text))
""")
"""Remove its schedules and subscriptions."""


# -- orphans -----------------------------------------------------------------------------------
LOGGED_RUNS = text("""
    WITH RECURSIVE logged(id, number) AS (
        SELECT (SELECT instance_id FROM workflow_instance_logs WHERE instance_id > :after
                ORDER BY instance_id LIMIT 1), 1
        UNION ALL
        SELECT (SELECT l.instance_id FROM workflow_instance_logs AS l WHERE l.instance_id > logged.id
                ORDER BY l.instance_id LIMIT 1), number + 1
        FROM logged WHERE logged.id IS NOT NULL AND number < :limit
    ) SELECT id, EXISTS (SELECT 1 FROM workflow_instances AS i WHERE i.instance_id = logged.id)
    FROM logged WHERE id IS NOT NULL ORDER BY id
""")
"""The next runs that have a log, and whether they have a row. Looks each up in the primary key."""

ORPHANED_VERSIONS = text("""
    DELETE FROM workflow_versions
    WHERE NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.workflow_id = workflow_versions.workflow_id)
""")
"""Remove versions of missing workflows."""

ORPHANED_COUNTS = text("""
    DELETE FROM run_counts
    WHERE NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.workflow_id = run_counts.workflow_id)
""")
"""Remove run counts of missing workflows."""

COUNT_ORPHANED_VERSIONS = text(str(ORPHANED_VERSIONS).replace("DELETE", "SELECT count(*)", 1))
"""How many of these there are."""
