"""Counts of runs as lists show them: at most a moment old, and read once for all who ask.

Called by the façade. The store's answer costs what is open and what has just ended, so a page
that many people look at must not ask for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from anabranch.engine.ports import Clock, Store
from anabranch.engine.rules.events import Status
from anabranch.service.shared_reads import SharedReads

# 2 s: with the read itself, counts lag less than the promised 5 s.
COUNTS_KEPT_S = 2.0

RunCountsOfTenant: TypeAlias = Mapping[str, Mapping[Status, int]]
"""By workflow id; a workflow without runs is not in it."""


class RunCounts:
    """Counts by tenant, each read at most every 2 s."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._kept: dict[str, tuple[float, RunCountsOfTenant]] = {}
        self._reads = SharedReads(self._read)

    async def of(self, tenant_id: str) -> RunCountsOfTenant:
        """How many runs of each workflow are in each status. Raises StoreUnavailable."""
        kept = self._kept.get(tenant_id)
        if kept is not None and self._clock.monotonic() - kept[0] < COUNTS_KEPT_S:
            return kept[1]
        return await self._reads.get(tenant_id)

    async def _read(self, tenant_id: str) -> RunCountsOfTenant:
        asked_at = self._clock.monotonic()
        counts = await self._store.count_runs(tenant_id=tenant_id)
        # Tenants that nobody asks for any more are forgotten with the next read for any other.
        self._kept = {of: kept for of, kept in self._kept.items() if asked_at - kept[0] < COUNTS_KEPT_S}
        self._kept[tenant_id] = (asked_at, counts)
        return counts
