"""Run counts without counting the table, and removal of runs whose retention is over.

`store.SqlStore` inherits it, `housekeeping` calls it, and lists ask it for counts. Ended runs are folded into counter
rows up to a watermark; a count adds what has ended since, and what is open. The row of the watermark is a lock: only
one process at a time folds or removes; the others skip their turn.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection

from anabranch.audit.audit_recording import record_audit_event, trim_trail
from anabranch.engine.ports import OpenRuns
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.console_table import remove_console_of
from anabranch.engine.store.sql.housekeeping import housekeeping_statements as statements
from anabranch.engine.store.sql.reading.reads import is_uuid
from anabranch.engine.store.sql.run_dead_letters import remove_letters_of, remove_old_letters
from anabranch.engine.store.sql.statements import DELETE_LOG
from anabranch.engine.store.value_table import remove_values_of, sizes_of_values
from anabranch.errors import NotFound, RunIsOpen, RunUnreadable

# 10,000 events per transaction: on SQLite every commit waits for it, some 50 ms. A run with a longer log is removed
# alone.
EVENTS_REMOVED_MAX = 10_000

# 32 MB of payloads per transaction, for the same reason.
BYTES_REMOVED_MAX = 32 * 1_048_576

# 30 days: a workflow that replaces another under its name takes over its schedules and subscriptions.
NAMED_KEPT_DAYS = 30

# A day's rows of the audit trail are removed together: each trim is itself recorded, and must not fill the trail.
AUDIT_CUT_EVERY_MS = 86_400_000

_DAY_MS = 86_400_000

# Later than every end: a clock that was set back must not hide a run from a count.
_END_OF_TIME = 2**62


class SqlHousekeeping(SqlComponent):
    """The part of `ports.Store` for counts and removal."""

    async def count_open(self) -> OpenRuns:
        """The open runs of all tenants, without test runs."""
        found = await self.read(lambda connection: connection.execute(statements.OPEN_OF_ALL).all())
        return {
            (name, kind, _status(status), None if reason is None else SuspendReason(reason)): runs
            for name, kind, status, reason, runs in found
        }

    async def count_unclaimed(self) -> int:
        """How many runs of all tenants a worker could claim now."""

        def count(connection: Connection) -> int:
            asked = {"now": self.dialect.now(connection)}
            return int(connection.execute(statements.UNCLAIMED, asked).scalar_one())

        return await self.read(count)

    async def count_runs(self, *, tenant_id: str) -> dict[str, dict[Status, int]]:
        """How many runs of each workflow are in each status; all from one snapshot."""

        def count(connection: Connection) -> dict[str, dict[Status, int]]:
            """Add counters, open runs, and runs that ended since the watermark, from one snapshot."""
            of_tenant = {"tenant_id": tenant_id}
            with self.dialect.snapshot(connection):
                after = connection.execute(statements.COUNTED_UNTIL).scalar_one_or_none() or 0
                found = [*connection.execute(statements.COUNTED_RUNS, of_tenant)]
                found += connection.execute(statements.OPEN_RUNS, of_tenant)
                stretch = {"after": after, "until": _END_OF_TIME}
                for days in _retentions(connection):
                    asked = {**of_tenant, **stretch, "retention_days": days}
                    found += connection.execute(statements.ENDED_RUNS, asked)
            counts: dict[str, dict[Status, int]] = defaultdict(lambda: defaultdict(int))
            for workflow_id, status, runs in found:
                counts[workflow_id][_status(status)] += runs
            return {workflow_id: dict(by_status) for workflow_id, by_status in counts.items()}

        return await self.read(count)

    async def count_ended(self, *, within_ms: int) -> dict[str, dict[str, dict[Status, int]]]:
        """How many runs ended in the last `within_ms`, by tenant, workflow and status."""

        def count(connection: Connection) -> dict[str, dict[str, dict[Status, int]]]:
            """Count for each retention separately: the index begins with it."""
            stretch = {"after": self.dialect.now(connection) - within_ms, "until": _END_OF_TIME}
            counts: dict[str, dict[str, dict[Status, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
            for days in _retentions(connection):
                asked = {**stretch, "retention_days": days}
                for tenant_id, workflow_id, status, runs in connection.execute(statements.ENDED_OF_ALL, asked):
                    counts[tenant_id][workflow_id][_status(status)] += runs
            return counts

        return await self.read(count)

    async def count_runs_by_version(self, *, tenant_id: str, workflow_id: str) -> dict[int, dict[Status, int]]:
        """How many runs of each version of a workflow are in each status; looks at each of its runs."""
        if not is_uuid(workflow_id):
            return {}
        asked = {"tenant_id": tenant_id, "workflow_id": workflow_id}
        found = await self.read(lambda connection: connection.execute(statements.RUNS_BY_VERSION, asked).all())
        counts: dict[int, dict[Status, int]] = defaultdict(dict)
        for version, status, runs in found:
            counts[version][_status(status)] = runs
        return dict(counts)

    async def fold_counts(self, *, limit: int) -> bool:
        """Fold about that many ended runs into the counters; True if more can be folded at once."""

        def fold(connection: Connection) -> bool:
            """Add the runs up to the end of a chunk of time to the counters, and move the watermark there."""
            with self._alone(connection) as after:
                if after is None:
                    return False
                settled = until = self.dialect.settled_until(connection)
                retentions = _retentions(connection)
                for days in retentions:
                    chunk = {"retention_days": days, "after": after, "until": until, "offset": limit - 1}
                    until = connection.execute(statements.END_OF_CHUNK, chunk).scalar_one_or_none() or until
                counted = 0
                for days in retentions:
                    stretch = {"retention_days": days, "after": after, "until": until}
                    counted += connection.execute(statements.COUNT_CHUNK, stretch).rowcount
                if counted or until < settled:
                    connection.execute(statements.MOVE_COUNTED_UNTIL, {"until": until})
                return until < settled

        return await self.write(fold)

    async def remove_expired(self, *, limit: int) -> int | None:
        """Remove at most `limit` ended runs past their retention, with their logs; returns how many.

        None: another process is removing or counting.
        """

        def remove(connection: Connection) -> int | None:
            """Remove while no other process removes or counts."""
            with self._alone(connection) as counted_until:
                if counted_until is None:
                    return None
                to_cancel = self._expired(connection, limit=limit)
                self._remove(connection, to_cancel, counted_until)
                return len(to_cancel)

        return await self.write(remove)

    async def delete_run(self, *, tenant_id: str, instance_id: str, actor: str | None = None) -> bool:
        """Remove an ended run of the tenant with its log; False while another process removes or counts."""

        def delete(connection: Connection) -> bool:
            """Check the run, remove it with all that belongs to it, and record that, in one transaction."""
            asked = {"instance_id": instance_id, "tenant_id": tenant_id}
            with self._alone(connection) as counted_until:
                if counted_until is None:
                    return False
                row = connection.execute(statements.RUN_TO_DELETE, asked).one_or_none()
                if row is None:
                    raise NotFound(f"there is no run {instance_id}")
                if row.completed_at is None:
                    raise RunIsOpen(f"run {instance_id} is {row.status}")
                if row.open_parent_id is not None:
                    message = f"run {instance_id} was started by run {row.open_parent_id}, which is open"
                    raise RunIsOpen(message, hint="Delete it once that run has ended.")
                connection.execute(statements.DELETE_ENDED_RUN, asked)
                connection.execute(DELETE_LOG, {"instance_id": instance_id})
                remove_console_of(connection, self.dialect, [instance_id])
                remove_letters_of(connection, [instance_id])
                remove_values_of(connection, self.dialect, [instance_id])
                if row.completed_at <= counted_until:
                    uncount(connection, [row])
                record_audit_event(
                    connection,
                    actor,
                    "run.deleted",
                    tenant_id=tenant_id,
                    target=instance_id,
                    details={"name": row.workflow_name, "version": row.workflow_version, "status": row.status},
                    now=self.dialect.now(connection),
                )
                return True

        if not is_uuid(instance_id):
            raise NotFound(f"there is no run {instance_id}")
        return await self.write(delete)

    async def remove_unused_workflows(self, *, limit: int) -> int | None:
        """Remove at most `limit` deleted workflows that no run needs, with their versions, schedules and
        subscriptions."""

        def remove(connection: Connection) -> int | None:
            """Remove the workflows, and what names them unless a live workflow has the name."""
            with self._alone(connection) as counted_until:
                if counted_until is None:
                    return None
                named_until = self.dialect.now(connection) - NAMED_KEPT_DAYS * _DAY_MS
                asked = {"limit": limit, "named_until": named_until}
                unused = connection.execute(statements.UNUSED_WORKFLOWS, asked).all()
                for workflow_id, tenant_id, name, is_replaced in unused:
                    named = {"tenant_id": tenant_id, "name": name, "workflow_id": workflow_id}
                    if not is_replaced:
                        connection.execute(statements.NAMING_WORKFLOW, named)
                    for statement in statements.OF_WORKFLOW:
                        connection.execute(statement, {"workflow_id": workflow_id})
                return len(unused)

        return await self.write(remove)

    async def trim_audit(self, *, retention_days: int, limit: int) -> int:
        """Remove at most `limit` older rows of the audit trail, and record where it was cut; and older dead letters."""

        def trim(connection: Connection) -> int:
            """Cut the trail while no other process removes or counts."""
            with self._alone(connection) as counted_until:
                if counted_until is None:
                    return 0
                now = self.dialect.now(connection)
                before = now - retention_days * _DAY_MS
                remove_old_letters(connection, before=before)
                return trim_trail(connection, before=before, every_ms=AUDIT_CUT_EVERY_MS, limit=limit, now=now)

        return await self.write(trim)

    async def give_back_space(self) -> bool:
        """Return some free space to the file system; True if there is more."""
        return await self.write(self.dialect.give_back_space)

    def _remove(self, connection: Connection, to_cancel: Sequence[Any], counted_until: int) -> None:
        """Remove these ended runs with their logs, and subtract them from the counters."""
        if to_cancel:
            instance_ids = [row.instance_id for row in to_cancel]
            ids = {"ids": self.dialect.ids(instance_ids)}
            connection.execute(statements.remove_runs(self.dialect.among_ids), ids)
            connection.execute(statements.remove_logs(self.dialect.among_ids), ids)
            remove_console_of(connection, self.dialect, instance_ids)
            remove_letters_of(connection, instance_ids)
            remove_values_of(connection, self.dialect, instance_ids)
            uncount(connection, [row for row in to_cancel if row.completed_at <= counted_until])

    @contextmanager
    def _alone(self, connection: Connection) -> Iterator[int | None]:
        """A transaction with the watermark locked: yields its time, or None if another process holds it."""
        with self.dialect.transaction(connection):
            if connection.execute(statements.COUNTED_UNTIL).first() is None:
                connection.execute(statements.BEGIN_COUNTING)
            lock = statements.lock_counting(self.dialect.row_lock)
            yield connection.execute(lock).scalar_one_or_none()

    def _expired(self, connection: Connection, *, limit: int) -> Sequence[Any]:
        """The rows to remove now: at most `limit`, and not many more events than EVENTS_REMOVED_MAX."""
        now = self.dialect.now(connection)
        found: list[Any] = []
        for days in _retentions(connection):
            asked = {"retention_days": days, "until": now - days * _DAY_MS, "limit": limit - len(found)}
            found += connection.execute(statements.expired(self.dialect.row_lock), asked)
            if len(found) >= limit:
                break
        return self._few_enough(connection, found)

    def _few_enough(self, connection: Connection, found: Sequence[Any]) -> Sequence[Any]:
        """The first of these runs, up to about the events and bytes that may be removed at once."""
        values = sizes_of_values(connection, self.dialect, [row.instance_id for row in found]) if found else {}
        events = size = 0
        for index, row in enumerate(found):
            events += row.last_seq
            size += row.log_bytes + values.get(row.instance_id, 0)
            if events >= EVENTS_REMOVED_MAX or size >= BYTES_REMOVED_MAX:
                return found[: index + 1]
        return found


def _retentions(connection: Connection) -> Sequence[int]:
    return connection.execute(statements.RETENTIONS).scalars().all()


def uncount(connection: Connection, removed: Sequence[Any]) -> None:
    """Subtract runs from the counters that have counted them."""
    counted = Counter(
        (row.tenant_id, row.workflow_id, row.status) for row in removed if row.workflow_id is not None and not row.test
    )
    for (tenant_id, workflow_id, status), runs in counted.items():
        counter = {"tenant_id": tenant_id, "workflow_id": workflow_id, "status": status}
        connection.execute(statements.UNCOUNT, {**counter, "runs": runs})
        connection.execute(statements.DROP_EMPTY_COUNT, counter)


def _status(stored: str) -> Status:
    try:
        return Status(stored)
    except ValueError:
        raise RunUnreadable(f"a run has the status {stored!r}, which no version writes") from None
