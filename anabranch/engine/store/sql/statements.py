"""Statements that every database understands, each a named function or constant.

Executed by `store`, `reads` and `definitions`. What differs between databases is in `sqlite_statements` and
`postgresql_statements`, their claims in `sqlite_claim` and `postgresql_claim`.
"""

# Statements are put together from this package's own column names and conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from functools import cache

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Select,
    TextClause,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    not_,
    null,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.sql.dml import Delete, Insert, Update
from sqlalchemy.sql.functions import coalesce

from anabranch.engine.ports import SHORT_LOG_WEIGHT_MAX, WHOLE_LOG_WEIGHT_MAX
from anabranch.engine.rules.coded.coded_plan import CODED_TENANT_ID
from anabranch.engine.rules.events import EventType, Status, SuspendReason
from anabranch.engine.rules.graph.pools import PREFIX
from anabranch.engine.rules.shared.log_limit import ROW_WEIGHT
from anabranch.engine.store.schema import (
    HAS_NOT_ENDED,
    IS_OPEN,
    IS_PENDING,
    variables,
    workflow_versions,
    workflows,
)
from anabranch.engine.store.sql.rows import INSTANCE_COLUMNS

_COLUMNS = ", ".join(INSTANCE_COLUMNS)

SIGNALS_KEPT = f"""
    SELECT coalesce(sum(CASE
        WHEN event_type = '{EventType.SIGNAL_RECEIVED}' THEN 1
        WHEN event_type = '{EventType.NODE_WAITING}' AND payload ->> 'signalSeq' IS NOT NULL THEN -1
        ELSE 0 END), 0)
    FROM workflow_instance_logs WHERE instance_id = :instance_id"""
"""How many signals of an instance no wait has taken: a scan of its log, for long logs only."""

COUNT_SIGNALS_KEPT = text(SIGNALS_KEPT)


LOG_WEIGHT = f"(log_bytes + {ROW_WEIGHT} * CAST(last_seq AS bigint))"
"""The approximate size of the log in memory: `InstanceRow.log_weight` in SQL."""

IS_WHOLE = f"{LOG_WEIGHT} <= {WHOLE_LOG_WEIGHT_MAX}"
"""The log can be read at once, together with others."""


IS_AWAKE = f"status <> '{Status.SUSPENDED}'"
"""Of an open run: it is not suspended."""

IS_PARKED = f"worker_id IS NULL AND status = '{Status.WAITING}' AND {LOG_WEIGHT} <= {SHORT_LOG_WEIGHT_MAX}"
"""Of an open run: it only waits, no worker owns it, and its log is short."""

IS_POOL = f"value LIKE '{PREFIX}%'"
"""Whether a need, `value`, is a pool."""

NAMES_POOL = f'%"{PREFIX}%'
"""Needs, as JSON, that name pools: then all that the run has, the default pool too."""

MAY_GO_ON = """(EXISTS (
    SELECT 1 FROM pauses AS p WHERE p.tenant_id = workflow_instances.tenant_id
      AND (p.workflow_id IS NULL OR p.workflow_id = workflow_instances.workflow_id))) IS NOT TRUE"""
"""Neither its workflow nor its tenant is paused. (`IS NOT TRUE` keeps the planner from making a join of it, which
would read the runs in another order than that of the index.)"""

FITS = ":owned + place <= least AND :owned + place <= :company_min"
"""Whether the worker may take a due suspect at this `place` in the order, where `least` is the smallest company so far.
See `blame.may_join`."""

HAS_CAPACITY = "log_bytes + :bytes <= :bytes_max AND last_seq < :rows_max"
"""The log has capacity for one more row."""

_RELEASES = ", ".join(f"'{reason}'" for reason in SuspendReason if reason.releases)
_IS_RELEASED = f":suspended_for IN ({_RELEASES})"

SUSPENDS = f"""
    status = '{Status.SUSPENDED}', suspended_for = :suspended_for,
    worker_id = CASE WHEN {_IS_RELEASED} THEN NULL ELSE worker_id END,
    available_at = CASE WHEN :suspended_for = '{SuspendReason.ENGINE_DEFECT}' THEN NULL
                        WHEN worker_id IS NULL OR {_IS_RELEASED} THEN deadline_at ELSE available_at END"""
"""A run without owner is claimed at its deadline and not before; a run that no worker can decide has no owner."""

SUSPENDS_UNFIT = f"status = '{Status.SUSPENDED}', suspended_for = :suspended_for"
"""It stays due: a suitable worker claims it."""

RESUMES = f"""
    status = CASE WHEN started_at IS NULL THEN '{Status.PENDING}' ELSE '{Status.RUNNING}' END, suspended_for = NULL,
    crashes = CASE WHEN suspended_for = '{SuspendReason.CRASHED}' THEN 0 ELSE crashes END"""
"""Whether it waits is only known after folding its log."""


# -- leases ------------------------------------------------------------------------------------
@cache
def extend(among_ids: str, row_lock: str) -> TextClause:
    """Move the end of these leases if they are still this worker's; returns them.

    Skips rows locked by others: waiting for one could lose all other leases. The caller checks what is missing.
    """
    return text(f"""
        UPDATE workflow_instances SET available_at = :available_at
        WHERE instance_id IN ({_owned_rows(among_ids, row_lock)}) RETURNING instance_id
    """)


@cache
def release(among_ids: str | None, row_lock: str) -> TextClause:
    """Release instances of this worker, except rows locked by others.

    Without `among_ids`: all of them.
    """
    return text(f"""
        UPDATE workflow_instances SET version = version + 1, worker_id = NULL, available_at = :now
        WHERE instance_id IN ({_owned_rows(among_ids, row_lock)})
    """)


def _owned_rows(among_ids: str | None, row_lock: str) -> str:
    """The open instances that a worker owns: those among these, by primary key, or all, by a scan of the open ones."""
    are_wanted = IS_OPEN if among_ids is None else f"{among_ids} AND {HAS_NOT_ENDED}"
    return f"""
        SELECT instance_id FROM workflow_instances
        WHERE {are_wanted} AND worker_id = :worker_id ORDER BY instance_id {row_lock}"""


OWNED = text(f"SELECT count(*) FROM workflow_instances WHERE {IS_OPEN} AND worker_id = :worker_id")
"""How many open instances a worker owns: a scan of the open ones, for workers that are lost or end."""


@cache
def versions(among_ids: str) -> TextClause:
    """Version and owner of each of these instances, by primary key."""
    return text(f"SELECT instance_id, version, worker_id FROM workflow_instances WHERE {among_ids}")


# -- inquiries ---------------------------------------------------------------------------------
INSTANCE = text(f"SELECT {_COLUMNS} FROM workflow_instances WHERE instance_id = :instance_id")
"""One row, by primary key."""

INSTANCE_OF_KEY = text(f"""
    SELECT {_COLUMNS} FROM workflow_instances
    WHERE tenant_id = :tenant_id AND workflow_name = :workflow_name AND idempotency_key = :idempotency_key
""")
"""The row of the run that a start with this key created. Uses the unique index on keys."""

COUNT_PENDING = text(f"""
    SELECT tenant_id, count(*) FROM (
        SELECT tenant_id FROM workflow_instances WHERE {IS_PENDING} LIMIT :up_to) AS pending
    GROUP BY tenant_id
""")
"""PENDING instances by tenant, up to a limit in all. Uses ix_instance_pending."""

AWAITED_CHILDREN = text(f"""
    SELECT {_COLUMNS} FROM workflow_instances
    WHERE parent_id = :instance_id AND parent_waits AND {HAS_NOT_ENDED} ORDER BY instance_id
""")
"""The open children of a run that it awaits. Uses ix_instance_parent."""

DESCENDANTS = text(f"""
    SELECT {_COLUMNS} FROM workflow_instances WHERE root_id = :root_id ORDER BY instance_id LIMIT :limit
""")
"""The rows of the runs below a root. Uses ix_instance_root."""

SIGNAL_KEY_EXISTS = text(f"""
    SELECT 1 FROM workflow_instance_logs
    WHERE instance_id = :instance_id AND event_type = '{EventType.SIGNAL_RECEIVED}' AND payload ->> 'key' = :key
""")
"""Whether an instance has a signal with this key. Uses ux_log_signal_key."""

DELETE_TEST_ROW = text("""
    DELETE FROM workflow_instances
    WHERE instance_id = :instance_id AND tenant_id = :tenant_id AND test AND completed_at IS NOT NULL
""")
"""Remove the row of an ended test run of this tenant; no other row."""

DELETE_LOG = text("DELETE FROM workflow_instance_logs WHERE instance_id = :instance_id")
"""Remove a log whose instance row goes in the same transaction."""


# -- definitions -------------------------------------------------------------------------------
_VERSION_COLUMNS = (
    workflow_versions.c.workflow_id,
    workflows.c.tenant_id,
    workflow_versions.c.name,
    workflow_versions.c.title,
    workflow_versions.c.kind,
    workflow_versions.c.version,
    workflow_versions.c.definition,
    workflows.c.created_at,
    workflow_versions.c.created_at.label("updated_at"),
    coalesce(workflows.c.active_version, workflows.c.newest_version).label("active_version"),
)
_SAME_WORKFLOW = workflows.c.workflow_id == workflow_versions.c.workflow_id
_VERSIONS = select(*_VERSION_COLUMNS).join_from(workflow_versions, workflows, _SAME_WORKFLOW)
_LIVE = workflows.c.deleted_at.is_(None)


def _entries(*, with_definitions: bool) -> Select[tuple[object, ...]]:
    """The columns of versions for lists. Definitions, which may have megabytes, are only read on request."""
    definition = workflow_versions.c.definition if with_definitions else null()
    columns = [definition if column is workflow_versions.c.definition else column for column in _VERSION_COLUMNS]
    return select(*columns).join_from(workflow_versions, workflows, _SAME_WORKFLOW)


def newest_versions(
    *, tenant_id: str, limit: int, after: str | None, with_definitions: bool
) -> Select[tuple[object, ...]]:
    """The newest version of each workflow that a tenant sees, by name, strictly after that one.

    Uses ux_workflow_name.
    """
    visible = or_(workflows.c.tenant_id == tenant_id, _is_code_unhidden_for(tenant_id))
    query = _entries(with_definitions=with_definitions).where(
        visible, _LIVE, workflow_versions.c.version == workflows.c.newest_version
    )
    if after is not None:
        query = query.where(workflows.c.name > after)
    return query.order_by(workflows.c.name).limit(limit)


def versions_of(*, tenant_id: str, workflow_id: str, limit: int, before: int | None) -> Select[tuple[object, ...]]:
    """The versions of a workflow that is not deleted, newest first, strictly before that one. Uses the primary keys."""
    query = _entries(with_definitions=False).where(
        workflows.c.tenant_id.in_((tenant_id, CODED_TENANT_ID)),
        _LIVE,
        workflow_versions.c.workflow_id == workflow_id,
    )
    if before is not None:
        query = query.where(workflow_versions.c.version < before)
    return query.order_by(workflow_versions.c.version.desc()).limit(limit)


@cache
def visible_version(*, by_id: bool, numbered: bool, active: bool) -> Select[tuple[object, ...]]:
    """The version `:version` of the `:workflow` that `:tenant_id` sees, which is its own or a coded one of all tenants.

    Unless it is `numbered`, the newest or active one. Starts read it: it is put together once, and uses
    ux_workflow_name or the primary keys.
    """
    tenant_id: BindParameter[str] = bindparam("tenant_id")
    workflow: BindParameter[str] = bindparam("workflow")
    of_tenant = workflows.c.tenant_id.in_((tenant_id, CODED_TENANT_ID))
    visible = or_(workflows.c.tenant_id == tenant_id, _is_code_unhidden_for(tenant_id))
    which = (workflows.c.workflow_id == workflow,) if by_id else (workflows.c.name == workflow, visible)
    number = bindparam("version") if numbered else _default_number(active=active)
    return _VERSIONS.where(of_tenant, _LIVE, *which, workflow_versions.c.version == number)


def _is_code_unhidden_for(tenant_id: str | BindParameter[str]) -> ColumnElement[bool]:
    """The condition that a coded workflow is visible by name: all tenants see it, except a tenant that had the name
    before."""
    own = workflows.alias("own")
    hidden = exists().where(own.c.tenant_id == tenant_id, own.c.name == workflows.c.name, own.c.deleted_at.is_(None))
    return and_(workflows.c.tenant_id == CODED_TENANT_ID, not_(hidden))


def live_version(
    *, tenant_id: str, workflow_id: str | None, name: str | None, version: int | None
) -> Select[tuple[object, ...]]:
    """One version of a workflow that is not deleted, by id or by name; without a number the newest one."""
    which = workflows.c.workflow_id == workflow_id if workflow_id is not None else workflows.c.name == name
    number = _default_number(active=False) if version is None else version
    return _VERSIONS.where(workflows.c.tenant_id == tenant_id, _LIVE, which, workflow_versions.c.version == number)


def _default_number(*, active: bool) -> ColumnElement[int]:
    newest = workflows.c.newest_version
    return coalesce(workflows.c.active_version, newest) if active else newest.expression


def pinned_version(*, workflow_id: str, version: int) -> Select[tuple[object, ...]]:
    """One version, also of a deleted workflow, by primary key."""
    return _VERSIONS.where(workflow_versions.c.workflow_id == workflow_id, workflow_versions.c.version == version)


def lock_workflow(*, tenant_id: str, workflow_id: str, against_new_runs: bool) -> Select[tuple[object, ...]]:
    """The number of the newest version, locked until the transaction ends, so that saves run one after the other. New
    runs share the lock with each other and with a save.

    With `against_new_runs` the lock excludes them and waits for those under way. SQLite needs no lock within a write
    transaction.
    """
    return (
        select(workflows.c.newest_version)
        .where(workflows.c.workflow_id == workflow_id, workflows.c.tenant_id == tenant_id, _LIVE)
        .with_for_update(key_share=not against_new_runs)
    )


def delete_variables_of(workflow_id: str, *, tenant_id: str) -> Delete:
    """The variables of a workflow."""
    return delete(variables).where(variables.c.tenant_id == tenant_id, variables.c.workflow_id == workflow_id)


def insert_workflow(**values: object) -> Insert:
    """A new workflow; ux_workflow_name refuses a name that a live one has."""
    return insert(workflows).values(**values)


def insert_version(**values: object) -> Insert:
    """A new version of a workflow that is locked."""
    return insert(workflow_versions).values(**values)


def update_version(*, workflow_id: str, version: int, definition: str) -> Update:
    """Store the current options of a coded workflow; drawn versions never change."""
    which = (workflow_versions.c.workflow_id == workflow_id, workflow_versions.c.version == version)
    return update(workflow_versions).where(*which).values(definition=definition)


def update_workflow(*, workflow_id: str, **values: object) -> Update:
    """Rename a locked workflow, move it to its newest or active version, or mark it deleted."""
    return update(workflows).where(workflows.c.workflow_id == workflow_id).values(**values)


OPEN_RUN_OF_WORKFLOW = text(f"""
    SELECT 1 FROM workflow_instances WHERE {IS_OPEN} AND workflow_id = :workflow_id LIMIT 1
""")
"""Whether a workflow has an open run: a scan of the open instances, through ix_instance_available."""


@cache
def runs_of_deleted_workflows(*, of_one: bool) -> TextClause:
    """Open runs of workflows (with `of_one`: of this one) that are deleted; a scan of the open instances."""
    which = " AND workflow_id = :workflow_id" if of_one else ""
    return text(f"""
        SELECT tenant_id, instance_id FROM workflow_instances
        WHERE {IS_OPEN}
          AND workflow_id IN (SELECT workflow_id FROM workflows WHERE deleted_at IS NOT NULL{which})
        LIMIT :limit
    """)
