"""The claim on PostgreSQL: which runs a worker takes over, in one statement.

Executed by `postgresql_dialect`, as a whole transaction in autocommit. The conditions that both databases share are in
`sql.statements`; SQLite's claim is `sqlite_claim`, and the memory store has one of its own.
"""

# Statements are put together from this package's own column names and conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from functools import cache

from sqlalchemy import TextClause, text

from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.store.postgresql.postgresql_statements import NOW_MS
from anabranch.engine.store.schema import HAS_NOT_ENDED, IS_OPEN, IS_SUSPECT
from anabranch.engine.store.sql.statements import (
    FITS,
    IS_PARKED,
    IS_POOL,
    IS_WHOLE,
    LOG_WEIGHT,
    MAY_GO_ON,
    NAMES_POOL,
)

_IS_LAPSED = f"worker_id <> :worker_id AND available_at <= {NOW_MS} AND available_at > :away_until"


@cache
def claim(
    *, parked: bool, only: bool, steal: bool, knows: bool, capacities: bool, large: bool, alone: bool
) -> TextClause:
    """Assign open, due instances (with `steal` also owned ones) to a worker, longest overdue first, up to a total log
    size.

    Uses ix_instance_available and ix_instance_suspect, or the primary key and ix_instance_root when only one run or
    some families are asked for. Skips rows that another claim or a commit holds locked. With `capacities` it takes no
    more of a tenant than these allow; the other rows that it found are unlocked again. The version rises although no
    event is appended: a worker that lost its lease without knowing must lose its next commit too.

    Suspects are taken if they may run together with those of the worker; the claim stops at one that may not, and one
    that must be `alone` comes without other runs. If leases of another worker have expired, the statement returns those
    runs with the worker, to be judged, and takes none; not with `steal`.
    """
    due = f"(available_at <= {NOW_MS}" + (" OR worker_id IS NOT NULL)" if steal else ")")
    if parked:
        due = f"instance_id = ANY(CAST(:parked AS uuid[])) AND tenant_id = :parked_of AND {IS_PARKED}"
    due += f" AND ({MAY_GO_ON} OR deadline_at <= {NOW_MS})"
    if only:
        due += " AND (instance_id = ANY(CAST(:ids AS uuid[])) OR root_id = ANY(CAST(:ids AS uuid[])))"
    if knows:
        mine = "workflow_name || ':' || workflow_version = ANY(CAST(:known_code AS text[]))"
        lacking = f"value <> ALL(CAST(:known_types AS text[])) AND NOT (:every_pool AND {IS_POOL})"
        has = f"NOT EXISTS (SELECT 1 FROM json_array_elements_text(CAST(needs AS json)) AS t(value) WHERE {lacking})"
        due += f" AND (kind <> '{CODED_KIND}' OR {mine}) AND (needs IS NULL OR {has})"
        due += f" AND (:default_pool OR coalesce(needs, '') LIKE '{NAMES_POOL}')"
    if not large:
        due += f" AND {IS_WHOLE}"
    within = "TRUE"
    if capacities:
        due += " AND tenant_id <> ALL(CAST(:full AS text[]))"
        within = "of_tenant <= coalesce(CAST(CAST(:capacities AS json) ->> tenant_id AS integer), :capacity)"
    is_open = HAS_NOT_ENDED if only else IS_OPEN
    lapsed = "FALSE" if steal else f"({_IS_LAPSED}) IS TRUE"
    suspects_due = due + ("" if alone else " AND company > 1")
    return text(f"""
        WITH suspected AS (
            SELECT instance_id, available_at, company, {LOG_WEIGHT} AS weight FROM workflow_instances
            WHERE {is_open} AND {IS_SUSPECT} AND {suspects_due} AND NOT {lapsed}
            ORDER BY available_at, instance_id LIMIT :limit FOR UPDATE SKIP LOCKED
        ), fitting AS (
            SELECT * FROM (
                SELECT *, row_number() OVER (ORDER BY available_at, instance_id) AS place,
                    min(company) OVER (ORDER BY available_at, instance_id) AS least,
                    sum(weight) OVER (ORDER BY available_at, instance_id) - weight AS before
                FROM suspected) AS lined_up
            WHERE {FITS} AND before < :weight_max
        ), found AS (
            SELECT instance_id, tenant_id, available_at, {LOG_WEIGHT} AS weight,
                CASE WHEN {lapsed} THEN worker_id END AS lost_by
            FROM workflow_instances
            WHERE {is_open} AND {due} AND (NOT {IS_SUSPECT} OR {lapsed})
            ORDER BY available_at, instance_id LIMIT :limit FOR UPDATE SKIP LOCKED
        ), due AS (
            SELECT * FROM (
                SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY available_at, instance_id) AS of_tenant
                FROM found) AS numbered
            WHERE {within}
        ), chosen AS (
            SELECT * FROM (
                SELECT *, sum(weight) OVER (ORDER BY available_at, instance_id) - weight AS before FROM due) AS weighed
            WHERE before < :weight_max AND NOT EXISTS (SELECT 1 FROM fitting WHERE company = 1)
        ), named AS (
            SELECT instance_id, available_at, lost_by, CAST(NULL AS integer) AS company FROM chosen
            UNION ALL SELECT instance_id, available_at, NULL, company FROM fitting
        ), taken AS (
            UPDATE workflow_instances AS i
            SET version = i.version + 1, worker_id = :worker_id, available_at = {NOW_MS} + :lease_ms
            FROM named WHERE i.instance_id = named.instance_id
              AND NOT EXISTS (SELECT 1 FROM named WHERE lost_by IS NOT NULL)
        )
        SELECT instance_id, lost_by, company FROM named ORDER BY available_at, instance_id
    """)
