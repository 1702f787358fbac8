"""The clock and timers of rooms, from the running event loop. Tests use their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class LoopTimer:
    """Seconds of the event loop's clock."""

    def now(self) -> float:
        """The time."""
        return asyncio.get_running_loop().time()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Call this once, from the event loop."""
        asyncio.get_running_loop().call_later(delay_s, callback)

    async def sleep(self, delay_s: float) -> None:
        """Return after so long."""
        await asyncio.sleep(delay_s)
