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

# 20 times as long as a count took: then counting takes at most a twentieth of one connection's time, and what takes no
# time is almost current.
KEPT_TIMES = 20
OPEN_KEPT_S_MAX = 30.0

# 2 s: a scrape that waits for an unavailable database would return no metrics at all.
OPEN_PATIENCE_S = 2.0

DAY_MS = 86_400_000

# 5 min: where so many runs end that counting those of a day takes 15 s, the counts are that old.
LAST_DAY_KEPT_S_MAX = 300.0

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
        self.unclaimed = 0
        """How many runs a worker could claim, as of the last count."""
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
                    self.unclaimed = await self._store.count_unclaimed()
            answered_at = self._clock.monotonic()
            self._kept_until = answered_at + min(KEPT_TIMES * (answered_at - asked_at), OPEN_KEPT_S_MAX)
        return self._counts


class RunCounts:
    """Counts by tenant, and by version of a workflow, each read at most every 2 s."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._of_tenant: _Kept[str, RunCountsOfTenant] = _Kept(
            lambda tenant_id: store.count_runs(tenant_id=tenant_id), clock
        )
        self._by_version: _Kept[tuple[str, str], RunCountsByVersion] = _Kept(
            lambda key: store.count_runs_by_version(tenant_id=key[0], workflow_id=key[1]), clock
        )
        self._ended: _Kept[int, Mapping[str, RunCountsOfTenant]] = _Kept(
            lambda within_ms: store.count_ended(within_ms=within_ms), clock, LAST_DAY_KEPT_S_MAX
        )

    async def of(self, tenant_id: str) -> RunCountsOfTenant:
        """How many runs of each workflow are in each status. Raises StoreUnavailable."""
        return await self._of_tenant.get(tenant_id)

    async def of_last_day(self, tenant_id: str) -> RunCountsOfTenant:
        """The same, but of ended runs only those that ended in the last 24 hours. Raises StoreUnavailable.

        These are counted for all tenants together; the longer that takes, the less often it is repeated.
        """
        counts = await self.of(tenant_id)
        ended = (await self._ended.get(DAY_MS)).get(tenant_id, {})
        return {
            workflow_id: {
                **{status: runs for status, runs in counts.get(workflow_id, {}).items() if not status.is_terminal},
                **ended.get(workflow_id, {}),
            }
            for workflow_id in {*counts, *ended}
        }

    async def by_version(self, tenant_id: str, workflow_id: str) -> RunCountsByVersion:
        """How many runs of each version of a workflow are in each status. Raises StoreUnavailable."""
        return await self._by_version.get((tenant_id, workflow_id))


class _Kept(Generic[Key, Counts]):
    """Recent results by request."""

    def __init__(
        self, read: Callable[[Key], Awaitable[Counts]], clock: Clock, kept_s_max: float = COUNTS_KEPT_S
    ) -> None:
        """Results are kept 2 s, or up to `kept_s_max` where reading them takes long."""
        self._read_anew = read
        self._clock = clock
        self._kept_s_max = kept_s_max
        self._kept: dict[Key, tuple[float, Counts]] = {}
        self._reads = SharedReads(self._read)

    async def get(self, key: Key) -> Counts:
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic() < kept[0]:
            return kept[1]
        return await self._reads.get(key)

    async def _read(self, key: Key) -> Counts:
        asked_at = self._clock.monotonic()
        counts = await self._read_anew(key)
        took = self._clock.monotonic() - asked_at
        kept_s = max(COUNTS_KEPT_S, min(KEPT_TIMES * took, self._kept_s_max))
        # Expired entries are removed at the next read.
        self._kept = {of: kept for of, kept in self._kept.items() if asked_at < kept[0]}
        self._kept[key] = (asked_at + kept_s, counts)
        return counts
