"""The claim on SQLite: which runs a worker takes over, in two reads and a write.

Executed by `sqlite_dialect` in one transaction of its writer. The conditions that both databases share are in
`sql.statements`; PostgreSQL's claim is `postgresql_claim`, and the memory store has one of its own.
"""

# Statements are put together from this package's own column names and conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from functools import cache

from sqlalchemy import TextClause, text

from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.store.schema import IS_OPEN, IS_SUSPECT
from anabranch.engine.store.sql.statements import (
    FITS,
    IS_PARKED,
    IS_POOL,
    IS_WHOLE,
    LOG_WEIGHT,
    MAY_GO_ON,
    NAMES_POOL,
)

_IS_LAPSED = "worker_id <> :worker_id AND available_at <= :now AND available_at > :away_until"
"""The lease of an open instance expired under another worker."""


@cache
def claimable(*, parked: bool, only: bool, steal: bool, knows: bool, capacities: bool, large: bool) -> TextClause:
    """Open instances that are due (with `steal` also owned ones), longest overdue first, up to a total log size.

    Without suspects, except instances whose lease expired under another worker: they are returned with that worker, to
    be judged (not with `steal`). Uses ix_instance_available, or the primary key and ix_instance_root when only one run
    or some families are asked for. With `capacities` no more of a tenant than these allow. The write lock is already
    held, so no other process claims them.
    """
    due = _due(parked=parked, only=only, steal=steal, knows=knows, capacities=capacities, large=large)
    lost = "NULL" if steal else f"CASE WHEN {_IS_LAPSED} THEN worker_id END"
    among = f"(NOT {IS_SUSPECT})" if steal else f"(NOT {IS_SUSPECT} OR {_IS_LAPSED})"
    within = "TRUE"
    if capacities:
        capacity_of = "SELECT value ->> 1 FROM json_each(:capacities) WHERE value ->> 0 = tenant_id"
        within = f"of_tenant <= coalesce(({capacity_of}), :capacity)"
    return text(f"""
        SELECT json_group_array(json_array(instance_id, lost)) FROM (
          SELECT *, sum(weight) OVER (ORDER BY available_at, instance_id) - weight AS before FROM (
            SELECT *, row_number() OVER (PARTITION BY tenant_id ORDER BY available_at, instance_id) AS of_tenant FROM (
              SELECT instance_id, tenant_id, available_at, {LOG_WEIGHT} AS weight, {lost} AS lost
              FROM workflow_instances
              WHERE {IS_OPEN} AND {due} AND {among}
              ORDER BY available_at, instance_id LIMIT :limit))
          WHERE {within} ORDER BY available_at, instance_id)
        WHERE before < :weight_max
    """)


@cache
def suspects(
    *, parked: bool, only: bool, steal: bool, knows: bool, capacities: bool, large: bool, alone: bool
) -> TextClause:
    """The due suspects that may run together with those of the worker, longest overdue first.

    Stops at one that may not. Uses ix_instance_suspect.
    """
    due = _due(parked=parked, only=only, steal=steal, knows=knows, capacities=capacities, large=large)
    if not steal:
        due += f" AND ({_IS_LAPSED}) IS NOT TRUE"
    if not alone:
        due += " AND company > 1"
    return text(f"""
        SELECT json_group_array(json_array(instance_id, company)) FROM (
          SELECT *, row_number() OVER (ORDER BY available_at, instance_id) AS place,
                 min(company) OVER (ORDER BY available_at, instance_id) AS least,
                 sum(weight) OVER (ORDER BY available_at, instance_id) - weight AS before
          FROM (
              SELECT instance_id, available_at, company, {LOG_WEIGHT} AS weight FROM workflow_instances
              WHERE {IS_OPEN} AND {IS_SUSPECT} AND {due}
              ORDER BY available_at, instance_id LIMIT :limit)
          ORDER BY available_at, instance_id)
        WHERE {FITS} AND before < :weight_max
    """)


TAKE = text(f"""
    UPDATE workflow_instances SET version = version + 1, worker_id = :worker_id, available_at = :available_at
    WHERE instance_id IN (SELECT value FROM json_each(:ids)) AND {IS_OPEN}
""")
"""Assign claimed instances to their worker, by primary key."""


def _due(*, parked: bool, only: bool, steal: bool, knows: bool, capacities: bool, large: bool) -> str:
    """The condition that a claim may take an open instance."""
    condition = "(available_at <= :now OR worker_id IS NOT NULL)" if steal else "available_at <= :now"
    if parked:
        condition = f"instance_id = :parked AND tenant_id = :parked_of AND {IS_PARKED}"
    condition += f" AND ({MAY_GO_ON} OR deadline_at <= :now)"
    if only:
        ids = "(SELECT value FROM json_each(:ids))"
        condition += f" AND (instance_id IN {ids} OR root_id IN {ids})"
    if knows:
        mine = "workflow_name || ':' || workflow_version IN (SELECT value FROM json_each(:known_code))"
        lacking = f"value NOT IN (SELECT value FROM json_each(:known_types)) AND NOT (:every_pool AND {IS_POOL})"
        has = f"NOT EXISTS (SELECT 1 FROM json_each(needs) WHERE {lacking})"
        condition += f" AND (kind <> '{CODED_KIND}' OR {mine}) AND (needs IS NULL OR {has})"
        condition += f" AND (:default_pool OR coalesce(needs, '') LIKE '{NAMES_POOL}')"
    if not large:
        condition += f" AND {IS_WHOLE}"
    if capacities:
        condition += " AND tenant_id NOT IN (SELECT value ->> 0 FROM json_each(:capacities) WHERE value ->> 1 = 0)"
    return condition
