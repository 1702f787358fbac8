"""Queries for `doctor --data` and `restore-check`: pages of runs, families, counters, triggers.

Reading only, one short statement each; `SqlStore` inherits it.
"""

# Statements are put together from this package's own column names; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.events import Status
from anabranch.engine.store.schema import IS_OPEN, metadata
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.rows import INSTANCE_COLUMNS, instance_row

_COLUMNS = ", ".join(INSTANCE_COLUMNS)

_RUNS = text(f"SELECT {_COLUMNS} FROM workflow_instances WHERE instance_id > :after ORDER BY instance_id LIMIT :limit")

_OPEN_RUNS = text(
    f"SELECT {_COLUMNS} FROM workflow_instances WHERE instance_id > :after AND {IS_OPEN}"
    " ORDER BY instance_id LIMIT :limit"
)

_LAST_REPORT = text("SELECT max(seen_at) FROM workers")

_DUE_SCHEDULES = text("""
    SELECT trigger_id, tenant_id, name, workflow, next_at FROM triggers
    WHERE next_at <= :now ORDER BY next_at, trigger_id LIMIT :limit
""")

_LEFT_TO_DELIVER = text("SELECT count(*) FROM topic_messages WHERE due_at IS NOT NULL")

_COUNTS = text("""
    SELECT c.tenant_id, c.workflow_id, c.status, c.runs,
        (SELECT count(*) FROM workflow_instances AS i
         WHERE i.tenant_id = c.tenant_id AND i.workflow_id = c.workflow_id AND i.status = c.status AND NOT i.test
           AND i.completed_at <= (SELECT reached FROM watermarks WHERE name = 'run_counts')) AS stored
    FROM run_counts AS c
    WHERE c.workflow_id > :after OR c.workflow_id = :after AND (c.tenant_id, c.status) > (:tenant_id, :status)
    ORDER BY c.workflow_id, c.tenant_id, c.status LIMIT 1
""")

_MISSING_VERSIONS = text("""
    SELECT w.workflow_id, w.name, w.version, w.which FROM (
        SELECT workflow_id, name, newest_version AS version, 'newest' AS which FROM workflows
        UNION ALL SELECT workflow_id, name, active_version, 'active' FROM workflows
                  WHERE active_version <> newest_version) AS w
    WHERE NOT EXISTS (SELECT 1 FROM workflow_versions AS v
                      WHERE v.workflow_id = w.workflow_id AND v.version = w.version)
    ORDER BY w.workflow_id, w.version LIMIT :limit
""")


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule with an occurrence that is due and not started."""

    trigger_id: str
    tenant_id: str
    name: str | None
    """None: a node of the workflow has armed it."""
    workflow: str
    next_at: int


@dataclass(frozen=True, slots=True)
class UnreadableRun:
    """A run whose row has a value that no version writes."""

    instance_id: str
    message: str


@dataclass(frozen=True, slots=True)
class CountedRuns:
    """A counter of ended runs, and the number of stored runs that it should equal; from one snapshot."""

    tenant_id: str
    workflow_id: str
    status: Status
    counted: int
    stored: int


class DataChecks(SqlComponent):
    """The part of a store that `doctor --data` and `restore-check` use."""

    async def runs_after(self, instance_id: str, *, limit: int) -> list[InstanceRow | UnreadableRun]:
        """The next runs of all tenants by id. Uses the primary key."""
        asked = {"after": instance_id, "limit": limit}
        rows = await self.read(lambda connection: connection.execute(_RUNS, asked).all())
        return [_read_or_not(tuple(row)) for row in rows]

    async def open_runs_after(self, instance_id: str, *, limit: int) -> list[InstanceRow]:
        """The next runs of all tenants that have not ended, by id. Uses the primary key or ix_instance_available."""
        asked = {"after": instance_id, "limit": limit}
        rows = await self.read(lambda connection: connection.execute(_OPEN_RUNS, asked).all())
        return [instance_row(tuple(row)) for row in rows]

    async def last_report(self) -> int | None:
        """When a working process last reported (ms): a few seconds before the state that the database is in."""
        return await self.read(lambda connection: connection.execute(_LAST_REPORT).scalar())

    async def due_schedules_before(self, now: int, *, limit: int) -> list[DueSchedule]:
        """Schedules of all tenants that are due, the oldest first. Uses ix_trigger_due."""
        asked = {"now": now, "limit": limit}
        rows = await self.read(lambda connection: connection.execute(_DUE_SCHEDULES, asked).all())
        return [DueSchedule(str(row.trigger_id), row.tenant_id, row.name, row.workflow, row.next_at) for row in rows]

    async def messages_to_deliver(self) -> int:
        """Messages on topics that are not finished. Uses ix_topic_message_due."""
        return await self.read(lambda connection: int(connection.execute(_LEFT_TO_DELIVER).scalar_one()))

    async def runs_among(self, instance_ids: Sequence[str]) -> Mapping[str, InstanceRow | None]:
        """Those of these runs that are stored; None: its row cannot be read. Uses the primary key."""
        query = text(f"SELECT {_COLUMNS} FROM workflow_instances WHERE {self.dialect.among_ids}")
        asked = {"ids": self.dialect.ids(instance_ids)}
        rows = await self.read(lambda connection: connection.execute(query, asked).all())
        found = {str(row.instance_id): _read_or_not(tuple(row)) for row in rows}
        return {key: row if isinstance(row, InstanceRow) else None for key, row in found.items()}

    async def counter_after(self, before: CountedRuns | None) -> CountedRuns | None:
        """The next counter of ended runs with the number of stored runs; None at the end. Scans
        ix_instance_listing_by_workflow, one workflow at a time.
        """
        first = "00000000-0000-0000-0000-000000000000"
        asked = {
            "after": first if before is None else before.workflow_id,
            "tenant_id": "" if before is None else before.tenant_id,
            "status": "" if before is None else before.status.value,
        }
        row = await self.read(lambda connection: connection.execute(_COUNTS, asked).one_or_none())
        if row is None:
            return None
        return CountedRuns(row.tenant_id, str(row.workflow_id), Status(row.status), row.runs, row.stored)

    async def missing_versions(self, *, limit: int) -> list[tuple[str, str, int, str]]:
        """Id, name, version and which one it is, of workflows whose newest or active version is not stored."""
        rows = await self.read(lambda connection: connection.execute(_MISSING_VERSIONS, {"limit": limit}).all())
        return [(str(row.workflow_id), row.name, row.version, row.which) for row in rows]

    async def missing_indexes(self) -> list[str]:
        """The indexes of the schema that the database does not have."""

        query = text(self.dialect.index_names)
        there = await self.read(lambda connection: set(connection.execute(query).scalars()))
        wanted = (str(index.name) for table in metadata.sorted_tables for index in table.indexes)
        return sorted(name for name in wanted if name not in there)


def _read_or_not(values: Sequence[Any]) -> InstanceRow | UnreadableRun:
    try:
        return instance_row(values)
    except Exception as unreadable:  # noqa: BLE001 -- whatever a stored value makes a parser raise
        message = f"its row cannot be read: {type(unreadable).__name__}: {unreadable}"
        return UnreadableRun(str(values[INSTANCE_COLUMNS.index("instance_id")]), message)
