"""A look that follows soon after it is asked for, one at a time, and not too often.

Called by `lifecycle` and `hints`: whatever a hint leads to goes through here, so that no flood of
hints becomes a flood of statements.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from anabranch.engine.ports import Clock
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# 50 ms between two looks: what comes meanwhile waits a moment that nobody notices, and however
# many hints there are, they cost twenty statements a second at most.
PAUSE_MS = 50


class Prompt:
    """Calls `look` after each `give`, at once if the last call is long enough ago. Nothing runs before the first."""

    def __init__(self, look: Callable[[], Awaitable[None]], *, clock: Clock, name: str) -> None:
        self._look = look
        self._clock = clock
        self._name = name
        self._wanted = False
        self._stopped = False
        self._task: asyncio.Task[None] | None = None

    def give(self) -> None:
        """Look soon; nothing happens after `stop`."""
        if self._stopped:
            return
        self._wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look_while_wanted(), name=self._name)

    async def finish(self) -> None:
        """Look no more after the looks that were asked for."""
        self._stopped = True
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Look no more, now; may be called twice, or before the first `give`."""
        self._stopped = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _look_while_wanted(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                await self._look()
            except StoreUnavailable as failure:
                logger.debug("%s: %s; the next poll looks again", self._name, failure.message)
            except Exception:
                logger.exception("%s went wrong; the next poll looks again", self._name)
            if not self._stopped:
                await self._clock.sleep(PAUSE_MS)
