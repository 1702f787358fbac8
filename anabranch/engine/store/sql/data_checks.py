"""Queries for `doctor --data` and `restore-check`: pages of runs, families, counters, triggers.

Reading only, one short statement each; `SqlStore` inherits it.
"""

# Statements are put together from this package's own column names; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from anabranch.dataclass import dataclass
from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.events import NODE_STATUS, EventType
from anabranch.engine.store.schema import IS_ENDING, IS_OPEN, metadata
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.rows import INSTANCE_COLUMNS, instance_row
from anabranch.errors import RunUnreadable

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

_COUNTED_WORKFLOW = text("""
    SELECT tenant_id, workflow_id FROM (
        SELECT * FROM (SELECT tenant_id, workflow_id FROM workflow_instances
                       WHERE workflow_id IS NOT NULL AND (tenant_id, workflow_id) > (:tenant_id, :after)
                       ORDER BY tenant_id, workflow_id LIMIT 1) AS stored
        UNION ALL
        SELECT * FROM (SELECT tenant_id, workflow_id FROM run_counts
                       WHERE (tenant_id, workflow_id) > (:tenant_id, :after)
                       ORDER BY tenant_id, workflow_id LIMIT 1) AS counted) AS following
    ORDER BY tenant_id, workflow_id LIMIT 1
""")

_COUNTS = text("""
    SELECT status, sum(counted) AS counted, sum(stored) AS stored FROM (
        SELECT status, runs AS counted, 0 AS stored FROM run_counts
        WHERE tenant_id = :tenant_id AND workflow_id = :workflow_id
        UNION ALL
        SELECT status, 0, 1 FROM workflow_instances
        WHERE tenant_id = :tenant_id AND workflow_id = :workflow_id AND NOT test
          AND completed_at <= (SELECT reached FROM watermarks WHERE name = 'run_counts')) AS each_run
    GROUP BY status ORDER BY status
""")

_STATUS_OF_NODE = " ".join(f"WHEN '{type_}' THEN '{status}'" for type_, status in NODE_STATUS.items())

# Rows that are added from outside have generation 0: only the ends of activations are compared by it.
_DIFFERING_ROWS = f"""
    SELECT instance_id, seq, generation, node_status, reopenings, status_by_type FROM (
        SELECT instance_id, seq, event_type, generation, node_status,
            CASE event_type {_STATUS_OF_NODE} END AS status_by_type,
            sum(CASE WHEN event_type = '{EventType.INSTANCE_REOPENED}' THEN 1 ELSE 0 END)
                OVER (PARTITION BY instance_id ORDER BY seq) AS reopenings
        FROM workflow_instance_logs WHERE {{among_ids}}) AS followed
    WHERE generation <> reopenings AND (generation <> 0 OR {IS_ENDING})
       OR coalesce(node_status, '') <> coalesce(status_by_type, '')
    ORDER BY instance_id, seq LIMIT :limit
"""

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
    """The counter of ended runs of a workflow (0: it has none), and the number of stored runs that it should equal."""

    status: str
    counted: int
    stored: int


@dataclass(frozen=True, slots=True)
class DifferingRow:
    """A row of a log with a column that does not follow from the rest of the log."""

    instance_id: str
    seq: int
    message: str


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

    async def counted_workflow_after(self, before: tuple[str, str] | None) -> tuple[str, str] | None:
        """The next tenant and workflow that have runs or counters; None at the end. Uses
        ix_instance_listing_by_workflow.
        """
        tenant_id, workflow_id = before or ("", "00000000-0000-0000-0000-000000000000")
        asked = {"tenant_id": tenant_id, "after": workflow_id}
        row = await self.read(lambda connection: connection.execute(_COUNTED_WORKFLOW, asked).one_or_none())
        return None if row is None else (row.tenant_id, str(row.workflow_id))

    async def counters_of(self, tenant_id: str, workflow_id: str) -> list[CountedRuns]:
        """The counters of a workflow with the stored runs, from one snapshot. Scans its part of
        ix_instance_listing_by_workflow.
        """
        asked = {"tenant_id": tenant_id, "workflow_id": workflow_id}
        rows = await self.read(lambda connection: connection.execute(_COUNTS, asked).all())
        return [CountedRuns(row.status, int(row.counted), int(row.stored)) for row in rows]

    async def differing_rows(self, instance_ids: Sequence[str], *, limit: int) -> list[DifferingRow]:
        """Rows of the logs of these runs whose `generation` or `node_status` does not follow from the other columns.

        Uses the primary key.
        """
        asked = {"ids": self.dialect.ids(instance_ids), "limit": limit}
        query = text(_DIFFERING_ROWS.format(among_ids=self.dialect.among_ids))
        rows = await self.read(lambda connection: connection.execute(query, asked).all())
        return [DifferingRow(str(row.instance_id), row.seq, _difference(row)) for row in rows]

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


def _difference(row: Any) -> str:
    """What is wrong with the columns of a row of `_DIFFERING_ROWS`."""
    if row.node_status != row.status_by_type:
        return f"the row says node_status {row.node_status}, its type {row.status_by_type}"
    return f"the row says generation {row.generation}, and the run had been reopened {row.reopenings} times"


def _read_or_not(values: Sequence[Any]) -> InstanceRow | UnreadableRun:
    instance_id = str(values[INSTANCE_COLUMNS.index("instance_id")])
    try:
        row = instance_row(values)
    except RunUnreadable as unreadable:
        return UnreadableRun(instance_id, unreadable.message)
    company, crashes = (values[INSTANCE_COLUMNS.index(name)] for name in ("company", "crashes"))
    # SQLite keeps a text in a column of numbers.
    if isinstance(company, str) or isinstance(crashes, str) or (company is not None and company < 1) or crashes < 0:
        return UnreadableRun(instance_id, f"its row has the company {company} and {crashes} crashes")
    return row
