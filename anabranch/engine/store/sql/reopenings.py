"""Reopen failed and cancelled runs: one transaction for a run and the runs below it that continue with it.

A part of `ports.Store`; `store.SqlStore` inherits it. Locks are taken from the top down, as by commits and cancels: the
counters of ended runs, the parent, the runs.
"""

# Statements are put together from this package's own column names and conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import Connection, text

from anabranch.engine.ports import FamilyReopening, InstanceRow, Reopening
from anabranch.engine.rules.events import EventType
from anabranch.engine.store.schema import HAS_NOT_ENDED, IS_ENDING
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.dialect import Dialect
from anabranch.engine.store.sql.housekeeping import housekeeping_statements
from anabranch.engine.store.sql.housekeeping.sql_housekeeping import uncount
from anabranch.engine.store.sql.reading.reads import is_uuid
from anabranch.engine.store.sql.rows import INSTANCE_COLUMNS, instance_row

_COLUMNS = ", ".join(INSTANCE_COLUMNS)


class _Changed(Exception):
    """Something has changed since the reopening was planned."""


class Reopenings(SqlComponent):
    """The part of `ports.Store` that reopens runs."""

    async def reopen_family(self, family: FamilyReopening) -> list[InstanceRow] | None:
        """Reopen the runs and return their new rows; None, with nothing written, if something is not as planned."""
        ids = [each.instance_id for each in family.runs]
        if not all(map(is_uuid, ids)):
            return None
        try:
            return await self.transact(lambda connection: _reopen(self.dialect, connection, family))
        except _Changed:
            return None


def _reopen(dialect: Dialect, connection: Connection, family: FamilyReopening) -> list[InstanceRow]:
    lock, share = ("FOR UPDATE", "FOR KEY SHARE") if dialect.row_lock else ("", "")
    counted_until = connection.execute(housekeeping_statements.lock_counting(lock)).scalar_one_or_none() or 0
    if family.awaited_by is not None:
        _touch_parent(dialect, connection, lock, *family.awaited_by)
    rows: list[InstanceRow] = []
    for run in family.runs:
        asked = {"instance_id": run.instance_id, "tenant_id": family.tenant_id, "last_seq": run.last_seq}
        ended = connection.execute(text(f"{_ENDED} {lock}"), asked).one_or_none()
        if ended is None:
            raise _Changed
        if ended.workflow_id is not None:
            of = {"workflow_id": ended.workflow_id}
            if connection.execute(text(f"{_LIVE_WORKFLOW} {share}"), of).first() is None:
                raise _Changed
        if ended.completed_at <= counted_until:
            uncount(connection, [ended])
        rows.append(_reopen_one(dialect, connection, run))
    if family.attached:
        connection.execute(text(_ATTACH.format(among_ids=dialect.among_ids)), {"ids": dialect.ids(family.attached)})
    return rows


def _touch_parent(
    dialect: Dialect, connection: Connection, lock: str, parent_id: str, node_id: str, scope: str
) -> None:
    """Raise the parent's version if its activation is open. The row is locked first, so that the check sees what the
    lock waited for."""
    asked = {"parent_id": parent_id, "node_id": node_id, "scope": scope}
    connection.execute(text(f"{_PARENT} {lock}"), {"parent_id": parent_id}).first()
    touched = connection.execute(text(_TOUCH_PARENT.format(is_effective=dialect.is_effective)), asked)
    if not touched.rowcount:
        raise _Changed


def _reopen_one(dialect: Dialect, connection: Connection, run: Reopening) -> InstanceRow:
    raw = run.reopened.payload.raw.decode()
    now = dialect.now(connection)
    changed: dict[str, Any] = {
        "instance_id": run.instance_id,
        "bytes": len(raw.encode()),
        "now": now,
        "deadline_at": run.reopened.deadline_at,
        "generation": run.reopened.generation,
        "left_out": orjson.dumps(run.left_out).decode(),
        "parent_waits": run.parent_waits,
    }
    row = instance_row(tuple(connection.execute(_REOPEN, changed).one()))
    connection.execute(
        text(_LOG.format(payload="CAST(:payload AS json)" if dialect.row_lock else ":payload")),
        {
            "instance_id": run.instance_id,
            "seq": row.last_seq,
            "payload": raw,
            "now": now,
            "generation": run.reopened.generation,
        },
    )
    return row


_ENDED = """
    SELECT instance_id, tenant_id, workflow_id, status, test, completed_at FROM workflow_instances
    WHERE instance_id = :instance_id AND tenant_id = :tenant_id AND last_seq = :last_seq
      AND status IN ('FAILED', 'CANCELLED')"""

_LIVE_WORKFLOW = "SELECT 1 FROM workflows WHERE workflow_id = :workflow_id AND deleted_at IS NULL"

_PARENT = "SELECT 1 FROM workflow_instances WHERE instance_id = :parent_id"

_TOUCH_PARENT = f"""
    UPDATE workflow_instances SET version = version + 1
    WHERE instance_id = :parent_id AND {HAS_NOT_ENDED} AND NOT EXISTS (
        SELECT 1 FROM workflow_instance_logs AS l
        WHERE l.instance_id = :parent_id AND l.node_id = :node_id AND l.scope = :scope AND l.{IS_ENDING}
          AND {{is_effective}})"""

_ATTACH = f"""
    UPDATE workflow_instances SET version = version + 1, parent_waits = true WHERE {{among_ids}} AND {HAS_NOT_ENDED}"""

_REOPEN = text(f"""
    UPDATE workflow_instances SET version = version + 1, last_seq = last_seq + 1, log_bytes = log_bytes + :bytes,
        status = CASE WHEN started_at IS NULL THEN 'PENDING' ELSE 'RUNNING' END, worker_id = NULL,
        available_at = :now, completed_at = NULL, suspended_for = NULL, deadline_at = :deadline_at,
        generation = :generation, left_out = :left_out, parent_waits = :parent_waits,
        company = CASE WHEN company IS NULL THEN NULL ELSE 1 END, crashes = 0
    WHERE instance_id = :instance_id
    RETURNING {_COLUMNS}
""")

_LOG = f"""
    INSERT INTO workflow_instance_logs
        (instance_id, seq, node_id, scope, event_type, payload, node_attempt, created_at, generation)
    VALUES (:instance_id, :seq, '', '', '{EventType.INSTANCE_REOPENED}', {{payload}}, 0, :now, :generation)"""
