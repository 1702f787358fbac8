"""The clock of the engine: monotonic, and corrected by the store's time.

The only place in the engine that reads a clock. Leases, parked timers and due times use the store's clock, so every
commit returns the store's time and updates our offset. Our reading is always slightly late (by the response time), so
no timer fires early. Response times vary, which would make readings jump by milliseconds; `now` never goes back by
that, so a run never starts before it was created. What a process that stood still finds when it goes on is seconds
old: such a response only corrects an offset that it contradicts.
"""

from __future__ import annotations

import asyncio
import time

# Up to 1 s back is the variation of response times under load: `now` stands still until it has caught up. More means
# that the clock was set back.
STEP_BACK_MS = 1_000

# 1 s: our own offset is nearer to the store's time than a response that took longer, which may have lain here unread.
SLOW_S = 1.0


class SystemClock:
    """Milliseconds since the epoch from the event loop's monotonic time plus an offset."""

    def __init__(self) -> None:
        self._offset_ms: float | None = None
        self._latest = 0
        """The latest time that `now` returned: it never returns an earlier one, unless the store's clock was set
        back."""

    def now(self) -> int:
        """Milliseconds since the epoch by the store's clock; never goes back because of varying response times."""
        if self._offset_ms is None:
            self._offset_ms = time.time() * 1000 - self.monotonic() * 1000
        now = int(self.monotonic() * 1000 + self._offset_ms)
        if not now < self._latest <= now + STEP_BACK_MS:
            self._latest = now
        return self._latest

    def monotonic(self) -> float:
        """Seconds that never go back (the event loop's time, so that a simulated loop brings its own)."""
        return asyncio.get_running_loop().time()

    def adjust(self, store_now: int, *, asked_at: float | None = None) -> None:
        """Update the clock offset from a store response that has just arrived, to what was asked at `asked_at` (by
        `monotonic`; None: now)."""
        now = self.monotonic()
        asked_at = now if asked_at is None else asked_at
        least, most = store_now - now * 1000, store_now - asked_at * 1000
        if now - asked_at > SLOW_S and self._offset_ms is not None and least <= self._offset_ms <= most:
            return
        self._offset_ms = least

    async def sleep(self, milliseconds: int) -> None:
        """Sleep by the monotonic clock, whatever happens to `now()` meanwhile.

        Pollers (leases, claims, external changes) must continue while the store's clock is set back by an hour.
        """
        await asyncio.sleep(milliseconds / 1000)
