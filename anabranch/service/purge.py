"""Purge: delete ended runs, and workflows that no run needs, and free the space.

Called by the command line. It does at once what housekeeping does in small steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from anabranch.dataclass import dataclass
from anabranch.engine.rules.events import Status
from anabranch.engine.store.sql.housekeeping.purging import FIRST_POSITION, RUNS_AT_ONCE, Purged, PurgeFilter
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import InvalidRequest, NotFound, StoreUnavailable
from anabranch.run_requests import is_run_id

# 30 s, with five attempts a second, to wait for another process that removes or counts runs, which takes some 50 ms.
PATIENCE_S = 30.0
PAUSE_S = 0.2

WORKFLOWS_AT_ONCE = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """The numbers that a purge removed, or (a dry run) would remove."""

    runs: int
    events: int
    workflows: int
    """Deleted workflows that no run needs any more; 0 in a dry run, because runs may go with it."""
    orphaned_logs: int
    orphaned_versions: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeConditions:
    """Conditions for runs to remove, whatever their retention; without conditions those whose retention is over."""

    older_than_ms: int | None = None
    """Ended at least this long ago."""
    statuses: Sequence[Status] = ()
    """With one of these statuses; empty: any."""
    workflow: str | None = None
    """Name or id of the workflow; of a deleted one the id."""


RETENTION_OVER = PurgeConditions()


class Purge:
    """Purges one database."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    async def purge(
        self, conditions: PurgeConditions = RETENTION_OVER, *, tenant_id: str, actor: str, dry_run: bool = False
    ) -> PurgeReport:
        """Remove ended runs.

        Then orphans and deleted workflows that no run needs. Raises InvalidRequest, NotFound, StoreUnavailable.
        """
        store, workflow = self._store, conditions.workflow
        still_open = [status.value for status in conditions.statuses if not status.is_terminal]
        if still_open:
            raise InvalidRequest(
                f"only ended runs can be purged; {still_open[0]} is not an end status",
                hint="Use COMPLETED, FAILED, CANCELLED.",
            )
        before = await store.disk_bytes()
        if conditions == RETENTION_OVER:
            runs = await self._expired(dry_run=dry_run)
        else:
            wanted = PurgeFilter(
                tenant_id=tenant_id,
                ended_before=await store.now() - (conditions.older_than_ms or 0),
                workflow_id=None if workflow is None else await self._workflow_id(tenant_id, workflow),
                statuses=tuple(dict.fromkeys(conditions.statuses)),
            )
            runs = await self._matching(wanted, dry_run=dry_run, actor=actor)
        logs = await self._orphaned_logs(dry_run=dry_run)
        versions = await store.remove_orphaned_versions(dry_run=dry_run)
        workflows = 0 if dry_run else await self._unused_workflows()
        if not dry_run:
            await store.compact()
        return PurgeReport(runs.runs, runs.events, workflows, logs, versions, before, await store.disk_bytes())

    async def _matching(self, wanted: PurgeFilter, *, dry_run: bool, actor: str) -> Purged:
        runs = events = 0
        position: tuple[int, str] | None = FIRST_POSITION
        while position is not None:
            step = partial(self._store.purge_runs, wanted, after=position, dry_run=dry_run, actor=actor)
            some = await _patiently(step)
            runs, events, position = runs + some.runs, events + some.events, some.position
        return Purged(runs, events, None)

    async def _expired(self, *, dry_run: bool) -> Purged:
        expired = await self._store.count_expired()
        if dry_run:
            return expired
        runs = 0
        while some := await _patiently(lambda: self._store.remove_expired(limit=1_000)):
            runs += some
        return Purged(runs, expired.events if runs else 0, None)

    async def _unused_workflows(self) -> int:
        removed = 0
        while some := await _patiently(lambda: self._store.remove_unused_workflows(limit=WORKFLOWS_AT_ONCE)):
            removed += some
        return removed

    async def _orphaned_logs(self, *, dry_run: bool) -> int:
        count = 0
        position: str | None = FIRST_POSITION[1]
        while position is not None:
            rejected, position = await self._store.orphaned_logs(after=position)
            count += len(rejected)
            if not dry_run:
                for start in range(0, len(rejected), RUNS_AT_ONCE):
                    await self._store.remove_logs(rejected[start : start + RUNS_AT_ONCE])
        # What is begun meanwhile keeps its values: they are looked at once more when they are locked.
        while not dry_run and await self._store.remove_orphaned_values(limit=RUNS_AT_ONCE) == RUNS_AT_ONCE:
            pass
        return count

    async def _workflow_id(self, tenant_id: str, workflow: str) -> str:
        found = await self._store.get_workflow(tenant_id=tenant_id, workflow=workflow)
        if found is not None:
            return found.workflow_id
        if is_run_id(workflow):
            return workflow  # of a deleted one: its runs are found by the id alone
        raise NotFound(f"there is no workflow {workflow}", hint="Name a deleted workflow by its id.")


async def _patiently(ask: Callable[[], Awaitable[T | None]]) -> T:
    """The result, once no other process removes or counts. Raises StoreUnavailable if that takes too long."""
    for _ in range(int(PATIENCE_S / PAUSE_S)):
        answer = await ask()
        if answer is not None:
            return answer
        await asyncio.sleep(PAUSE_S)
    raise StoreUnavailable("another process is counting or removing runs", hint="Try again in a moment.")
