"""Run counts: how many runs of each workflow are in each status, cached for two seconds.

Called by lists and details of workflows, which a page may request every second. The store keeps the counts of ended
runs; this module only caches the latest results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from typing import Generic, TypeAlias, TypeVar

from anabranch.engine.ports import Clock, OpenRuns, Store
from anabranch.engine.rules.events import Status
from anabranch.errors import StoreUnavailable
from anabranch.service.runs.shared_reads import SharedReads

# 2 s: with the read itself, counts lag less than the promised 5 s.
COUNTS_KEPT_S = 2.0

# 20 times as long as the count took, at most 30 s: then counting takes at most a twentieth of one connection's time,
# and with few open runs the count is almost current.
OPEN_KEPT_TIMES = 20
OPEN_KEPT_S_MAX = 30.0

# 2 s: a scrape that waits for an unavailable database would return no metrics at all.
OPEN_PATIENCE_S = 2.0

RunCountsOfTenant: TypeAlias = Mapping[str, Mapping[Status, int]]
"""By workflow id; a workflow without runs is not in it."""

RunCountsByVersion: TypeAlias = Mapping[int, Mapping[Status, int]]
"""By version; one without runs is not in it."""

Key = TypeVar("Key", bound=Hashable)
Counts = TypeVar("Counts")


class OpenRunCounts:
    """Counts of the open runs of all tenants; the longer a count takes, the less often it is repeated."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._counts: OpenRuns | None = None
        self.values = (0, 0)
        """How many large values are stored and their bytes, as of the last count."""
        self._kept_until = float("-inf")

    async def counts(self) -> OpenRuns | None:
        """The counts of open runs; None if the database does not answer in time."""
        asked_at = self._clock.monotonic()
        if asked_at >= self._kept_until:
            self._counts = None
            with suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(OPEN_PATIENCE_S):
                    self._counts = await self._store.count_open()
                    self.values = await self._store.count_values()
            answered_at = self._clock.monotonic()
            self._kept_until = answered_at + min(OPEN_KEPT_TIMES * (answered_at - asked_at), OPEN_KEPT_S_MAX)
        return self._counts


class RunCounts:
    """Counts by tenant, and by version of a workflow, each read at most every 2 s."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._of_tenant: _Kept[str, RunCountsOfTenant] = _Kept(self._read_tenant, clock)
        self._by_version: _Kept[tuple[str, str], RunCountsByVersion] = _Kept(self._read_versions, clock)

    async def of(self, tenant_id: str) -> RunCountsOfTenant:
        """How many runs of each workflow are in each status. Raises StoreUnavailable."""
        return await self._of_tenant.get(tenant_id)

    async def by_version(self, tenant_id: str, workflow_id: str) -> RunCountsByVersion:
        """How many runs of each version of a workflow are in each status. Raises StoreUnavailable."""
        return await self._by_version.get((tenant_id, workflow_id))

    async def _read_tenant(self, tenant_id: str) -> RunCountsOfTenant:
        return await self._store.count_runs(tenant_id=tenant_id)

    async def _read_versions(self, key: tuple[str, str]) -> RunCountsByVersion:
        tenant_id, workflow_id = key
        return await self._store.count_runs_by_version(tenant_id=tenant_id, workflow_id=workflow_id)


class _Kept(Generic[Key, Counts]):
    """Recent results by request."""

    def __init__(self, read: Callable[[Key], Awaitable[Counts]], clock: Clock) -> None:
        self._read_anew = read
        self._clock = clock
        self._kept: dict[Key, tuple[float, Counts]] = {}
        self._reads = SharedReads(self._read)

    async def get(self, key: Key) -> Counts:
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic() - kept[0] < COUNTS_KEPT_S:
            return kept[1]
        return await self._reads.get(key)

    async def _read(self, key: Key) -> Counts:
        asked_at = self._clock.monotonic()
        counts = await self._read_anew(key)
        # Expired entries are removed at the next read.
        self._kept = {of: kept for of, kept in self._kept.items() if asked_at - kept[0] < COUNTS_KEPT_S}
        self._kept[key] = (asked_at, counts)
        return counts
