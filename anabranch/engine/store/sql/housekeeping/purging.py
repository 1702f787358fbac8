"""Purging: remove ended runs and orphans now, before their retention is over, and free space.

The part of a store that `service/purge` calls; `store.SqlStore` inherits it. Like all housekeeping it holds the
watermark while it removes, so that counts stay right.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from anabranch.audit.audit_recording import record_audit_event
from anabranch.dataclass import dataclass
from anabranch.engine.rules.events import Status
from anabranch.engine.store.sql.housekeeping import housekeeping_statements as statements
from anabranch.engine.store.sql.housekeeping.sql_housekeeping import SqlHousekeeping
from anabranch.engine.store.sql.run_dead_letters import remove_letters_of
from anabranch.engine.store.value_table import remove_values_of

# 1,000 runs per transaction, like a sweep; up to 20,000 are scanned for them, in some ten milliseconds.
RUNS_AT_ONCE = 1_000
RUNS_LOOKED_AT = 20_000

# 10,000 runs per look for orphans: each takes an index lookup.
LOGS_LOOKED_AT = 10_000

_DAY_MS = 86_400_000

# Before every run.
FIRST_POSITION = (-1, "00000000-0000-0000-0000-000000000000")


@dataclass(frozen=True, slots=True)
class PurgeFilter:
    """A filter for the ended runs of a tenant to purge."""

    tenant_id: str
    ended_before: int
    """Milliseconds since the epoch."""
    workflow_id: str | None = None
    statuses: Sequence[Status] = ()
    """Empty: any status."""


@dataclass(frozen=True, slots=True)
class Purged:
    """The numbers that one step removed, or (a dry run) would remove."""

    runs: int
    events: int
    position: tuple[int, str] | None
    """Where to continue, in the order of creation; None at the end."""


class Purging(SqlHousekeeping):
    """The part of a store for `purge`."""

    async def purge_runs(
        self, wanted: PurgeFilter, *, after: tuple[int, str], dry_run: bool, actor: str
    ) -> Purged | None:
        """Remove some of the selected runs; None: another process is removing or counting."""

        def purge(connection: Connection) -> Purged | None:
            """Select, remove and record some runs, while no other process removes or counts."""
            with self._alone(connection) as counted_until:
                if counted_until is None:
                    return None
                look = {"tenant_id": wanted.tenant_id, "created_at": after[0], "instance_id": after[1]}
                end = connection.execute(statements.END_OF_LOOK, {**look, "looked_at": RUNS_LOOKED_AT}).one_or_none()
                found = connection.execute(
                    statements.purgeable(
                        self.dialect.row_lock,
                        by_workflow=wanted.workflow_id is not None,
                        statuses=len(wanted.statuses),
                        bounded=end is not None,
                    ),
                    {
                        **look,
                        **({} if end is None else {"end_created_at": end[0], "end_instance_id": str(end[1])}),
                        "until": wanted.ended_before,
                        "workflow_id": wanted.workflow_id,
                        "limit": RUNS_AT_ONCE,
                        **{f"status_{number}": status.value for number, status in enumerate(wanted.statuses)},
                    },
                ).all()
                to_cancel = self._few_enough(connection, found)
                if to_cancel and not dry_run:
                    self._remove(connection, to_cancel, counted_until)
                    record_audit_event(
                        connection,
                        actor,
                        "runs.purged",
                        tenant_id=wanted.tenant_id,
                        target=wanted.workflow_id or "",
                        details={"runs": len(to_cancel)},
                        now=self.dialect.now(connection),
                    )
                if len(to_cancel) < len(found) or len(found) == RUNS_AT_ONCE:
                    end = to_cancel[-1]
                return Purged(
                    len(to_cancel),
                    sum(row.last_seq for row in to_cancel),
                    None if end is None else (end.created_at, str(end.instance_id)),
                )

        return await self.write(purge)

    async def count_expired(self) -> Purged:
        """How many ended runs of all tenants a sweep would remove, and with how many events."""

        def count(connection: Connection) -> Purged:
            """Count for each retention separately: the index begins with it."""
            now, runs, events = self.dialect.now(connection), 0, 0
            for days in connection.execute(statements.RETENTIONS).scalars().all():
                asked = {"retention_days": days, "until": now - days * _DAY_MS}
                some, of_them = connection.execute(statements.COUNT_EXPIRED, asked).one()
                runs, events = runs + int(some), events + int(of_them)
            return Purged(runs, events, None)

        return await self.read(count)

    async def orphaned_logs(self, *, after: str) -> tuple[list[str], str | None]:
        """Which of the next runs with a log have no row, and where to continue (None at the end). The engine's own
        statements leave none.
        """
        look = {"after": after, "limit": LOGS_LOOKED_AT}
        found = await self.read(lambda connection: connection.execute(statements.LOGGED_RUNS, look).all())
        position = str(found[-1][0]) if len(found) == LOGS_LOOKED_AT else None
        return [str(instance_id) for instance_id, has_row in found if not has_row], position

    async def remove_logs(self, instance_ids: Sequence[str]) -> None:
        """Remove the logs of runs that have no row."""

        def remove(connection: Connection) -> None:
            with self.dialect.transaction(connection):
                ids = {"ids": self.dialect.ids(instance_ids)}
                connection.execute(statements.remove_logs(self.dialect.among_ids), ids)
                remove_letters_of(connection, instance_ids)
                remove_values_of(connection, self.dialect, instance_ids)

        await self.write(remove)

    async def remove_orphaned_versions(self, *, dry_run: bool) -> int:
        """Remove versions and run counts of missing workflows; returns the number of versions."""

        def remove(connection: Connection) -> int:
            """Count, and unless it is a dry run remove, in one transaction."""
            with self.dialect.transaction(connection):
                count = int(connection.execute(statements.COUNT_ORPHANED_VERSIONS).scalar_one())
                if not dry_run:
                    connection.execute(statements.ORPHANED_VERSIONS)
                    connection.execute(statements.ORPHANED_COUNTS)
                return count

        return await self.write(remove)

    async def compact(self) -> None:
        """Return all free space to the file system; commits may have to wait."""
        await self.write(self.dialect.compact)

    async def disk_bytes(self) -> int:
        """How much of the disk the database takes."""
        return await self.read(self.dialect.disk_bytes)
