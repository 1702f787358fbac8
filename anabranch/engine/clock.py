"""The clock of the engine: monotonic, and corrected by the store's time.

The only place in the engine that reads a clock. The store's clock decides about leases, parked timers and due times, so
every commit returns its time and updates our offset. Our reading is always a little late (by the way of the response),
so no timer fires early. Responses arrive unevenly, which would make readings jump by milliseconds; `now` never goes
back, so a run never starts before it was created.
"""

from __future__ import annotations

import asyncio
import time

# 1 s back is the unevenness of answers' ways under load, and is waited out; more is a clock that somebody has set.
STEP_BACK_MS = 1_000


class SystemClock:
    """Milliseconds since the epoch from the event loop's monotonic time plus an offset."""

    def __init__(self) -> None:
        self._offset_ms: float | None = None
        self._told = 0
        """The latest time that was told: no later answer is earlier, unless the store's clock was set back."""

    def now(self) -> int:
        """Milliseconds since the epoch, as the store counts them; never earlier than before by its unevenness."""
        if self._offset_ms is None:
            self._offset_ms = time.time() * 1000 - self.monotonic() * 1000
        now = int(self.monotonic() * 1000 + self._offset_ms)
        if not now < self._told <= now + STEP_BACK_MS:
            self._told = now
        return self._told

    def monotonic(self) -> float:
        """Seconds that never go back (the event loop's time, so that a simulated loop brings its own)."""
        return asyncio.get_running_loop().time()

    def adjust(self, store_now: int) -> None:
        """Take the store's time from an answer that has just arrived."""
        self._offset_ms = store_now - self.monotonic() * 1000

    async def sleep(self, milliseconds: int) -> None:
        """Return after so long by the monotonic clock, wherever `now()` is moved meanwhile.

        What looks again and again (leases, recovery, external changes) must go on looking while the
        store's clock is set back by an hour.
        """
        await asyncio.sleep(milliseconds / 1000)
