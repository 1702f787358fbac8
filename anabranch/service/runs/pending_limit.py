"""Limits of PENDING runs, in total and per tenant, without counting at every start.

Called by the service before it creates a PENDING run: one that is due later, or that this process has no room for.
A run that starts at once is not limited here.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from anabranch.engine.ports import Clock, Store
from anabranch.errors import TooManyPending

# 1 s: at the limit a count reads 100,000 index entries, which takes some milliseconds. After a refusal, free room
# is seen a second later.
COUNT_KEPT_S = 1.0


class PendingLimit:
    """Counts PENDING runs: those found in the last second, and those admitted since."""

    def __init__(self, *, store: Store, clock: Clock, runs_max: int, runs_per_tenant_max: int | None = None) -> None:
        """Without `runs_per_tenant_max` one tenant may use the whole limit."""
        self._store = store
        self._clock = clock
        self._runs_max = runs_max
        self._runs_per_tenant_max = runs_max if runs_per_tenant_max is None else runs_per_tenant_max
        self._pending: Counter[str] = Counter()
        self._counted_at: float | None = None
        self._counting = asyncio.Lock()

    async def admit(self, tenant_id: str) -> None:
        """Admit one more PENDING run of this tenant. Raises TooManyPending, StoreUnavailable.

        Several processes together may exceed the limits by what the others start within a second. Room that was not
        used is free again at the next count.
        """
        async with self._counting:  # a thousand starts at once share one count
            now = self._clock.monotonic()
            if self._counted_at is None or now - self._counted_at >= COUNT_KEPT_S:
                self._pending = Counter(await self._store.count_pending(up_to=self._runs_max))
                self._counted_at = now
            if self._pending.total() >= self._runs_max:
                raise TooManyPending(f"{self._runs_max} runs are already waiting to start")
            if self._pending[tenant_id] >= self._runs_per_tenant_max:
                raise TooManyPending(
                    f"{self._runs_per_tenant_max} runs of tenant {tenant_id!r} are already waiting to start",
                    hint="Retry later; the operator may raise ANABRANCH_PENDING_MAX_PER_TENANT.",
                    details={"limit": self._runs_per_tenant_max, "scope": "tenant"},
                )
            self._pending[tenant_id] += 1
