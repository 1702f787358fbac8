"""The limits of runs that wait to start, in all and per tenant, kept without counting them at every start.

Called by the façade before it makes a run that will be PENDING: one that is due later, or that
this process has no room for. A run that begins at once is never held up here.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from anabranch.engine.ports import Clock, Store
from anabranch.errors import TooManyPending

# 1 s: at the limit a count reads 100,000 entries of an index, which takes some milliseconds;
# once a second that is nothing. Who was refused hears a second later that there is room again.
COUNT_KEPT_S = 1.0


class PendingLimit:
    """Gives out places for PENDING runs: what was counted in the last second, and what was given since."""

    def __init__(self, *, store: Store, clock: Clock, runs_max: int, runs_per_tenant_max: int | None = None) -> None:
        """Without `runs_per_tenant_max` one tenant may have all the places."""
        self._store = store
        self._clock = clock
        self._runs_max = runs_max
        self._runs_per_tenant_max = runs_max if runs_per_tenant_max is None else runs_per_tenant_max
        self._pending: Counter[str] = Counter()
        self._counted_at: float | None = None
        self._counting = asyncio.Lock()

    async def take_place(self, tenant_id: str) -> None:
        """Return if one more run of this tenant may wait to start. Raises TooManyPending, StoreUnavailable.

        Several processes together may pass the limits by what the others start within a second;
        a place that no run was made for is given back at the next count.
        """
        async with self._counting:  # a thousand starts at once share one count
            now = self._clock.monotonic()
            if self._counted_at is None or now - self._counted_at >= COUNT_KEPT_S:
                self._pending = Counter(await self._store.count_pending(up_to=self._runs_max))
                self._counted_at = now
            if self._pending.total() >= self._runs_max:
                raise TooManyPending(f"{self._runs_max} runs wait to start already")
            if self._pending[tenant_id] >= self._runs_per_tenant_max:
                raise TooManyPending(
                    f"{self._runs_per_tenant_max} runs of tenant {tenant_id!r} wait to start already",
                    hint="Retry later; the operator may raise ANABRANCH_PENDING_MAX_PER_TENANT.",
                    details={"limit": self._runs_per_tenant_max, "scope": "tenant"},
                )
            self._pending[tenant_id] += 1
