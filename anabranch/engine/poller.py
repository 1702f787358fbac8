"""Poller: a task that looks again at an interval, or soon when asked, and later and later while it fails.

Used by leases, recovery, hints and housekeeping. It knows neither store nor clock: its function and its way to sleep
are arguments, so that simulation and tests bring their own time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# A look that was asked for owes a pause of four times what it took, 50 ms at most and 1 ms at least: however many
# requests follow, looking takes a fifth of the time. A database that is slow to answer is asked at most twenty times a
# second. Pauses of 50 ms may be owed before one is made, so that a few requests are answered at once: one run after
# the other, each started when the last has ended, is a look every few milliseconds.
REST_PER_LOOK = 4.0
APART_MS = 50
APART_MS_MIN = 1
OWED_MS_MAX = 50

# A look that failed is tried again as it would have been anyway, or after 250 ms; then twice as long each time, up to
# 2 s: a database that is back is noticed soon, one that stays away is hardly asked.
RETRY_FIRST_MS = 250
RETRY_LAST_MS = 2_000

# 1 s for a look that is cancelled: it only has to give way. A process that stops does not wait longer for it.
STOP_S = 1.0


class Poller:
    """Calls `look` every `every_ms` milliseconds, and soon after each `soon`; one call at a time.

    A look that answers True has left something to do: the next follows at once. One that raises is told in the log,
    once until another one succeeds or fails otherwise, and is tried again later and later.
    """

    def __init__(
        self,
        look: Callable[[], Awaitable[bool | None]],
        *,
        name: str,
        every_ms: int | Callable[[], int | None] | None,
        sleep: Callable[[int], Awaitable[None]],
        apart_ms: int = APART_MS,
        retry_last_ms: int = RETRY_LAST_MS,
        unavailable: Callable[[StoreUnavailable], None] | None = None,
    ) -> None:
        """`every_ms` None: only when asked; a function is asked before each pause. `sleep` takes milliseconds.

        A look owes a pause of `REST_PER_LOOK` times what it took, `apart_ms` at most, before the next one that `soon`
        asks for; `OWED_MS_MAX` of pauses may be owed. Pauses after failures grow up to `retry_last_ms`, or stay at
        `every_ms` where that is longer. `unavailable` is told of each StoreUnavailable, in place of the log.
        """
        self._look = look
        self._name = name
        self._every_ms = every_ms
        self._sleep = sleep
        self._apart_ms = apart_ms
        self._retry_first_ms = every_ms if isinstance(every_ms, int) else RETRY_FIRST_MS
        self._retry_last_ms = max(retry_last_ms, self._retry_first_ms)
        self._unavailable = unavailable or self._tell_unavailable
        self._task: asyncio.Task[None] | None = None
        self._pause: asyncio.Future[None] | None = None
        """The pause that `soon` ends; None while it looks, or must wait."""
        self._wanted = self._finishing = False
        self._failures = 0
        self._told: str | None = None
        """The trouble that the log has; None once a look has succeeded."""

    async def start(self) -> None:
        """Begin, with a pause unless somebody has asked by now; returns at once. May be started once."""
        self._task = asyncio.create_task(self._poll(), name=self._name)

    def soon(self) -> None:
        """Look soon: now, if the last look is long enough ago. Before `start` it is kept, after `stop` ignored."""
        self._wanted = True
        if self._pause is not None:
            self._pause.cancel()

    async def finish(self) -> None:
        """Return when everything that was asked for is looked at, or has failed once more; then look no more."""
        self._finishing = True
        if self._task is not None:
            if self._pause is not None:
                self._pause.cancel()
            await self._task

    async def stop(self) -> None:
        """Look no more, now; returns within `STOP_S`. May be called twice, or before `start`."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            if (await asyncio.wait([task], timeout=STOP_S))[1]:
                logger.warning("%s does not stop, and is left behind", self._name)

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        await self._rest()
        paid_at = loop.time()  # when no pause would be owed any more
        while self._wanted or not self._finishing:
            owed_ms = (paid_at - loop.time()) * 1000
            if self._wanted and not self._finishing and owed_ms > OWED_MS_MAX:
                await self._sleep(round(owed_ms - OWED_MS_MAX))
            self._wanted = False
            began = loop.time()
            has_more = await self._look_once()
            took_s = loop.time() - began
            paid_at = max(paid_at, began) + took_s + self._pause_after(took_s)
            if self._failures:
                await self._back_off()
            elif has_more:
                await asyncio.sleep(0)  # a look that need not wait must not keep others from their turn
            else:
                await self._rest()

    def _pause_after(self, took_s: float) -> float:
        """How long a look that took so long is followed by no other that is only asked for, in seconds."""
        return min(max(REST_PER_LOOK * took_s * 1000, APART_MS_MIN), self._apart_ms) / 1000

    async def _look_once(self) -> bool:
        try:
            has_more = await self._look()
        except StoreUnavailable as failure:
            self._failures += 1
            self._unavailable(failure)
            return False
        except Exception as fault:
            self._failures += 1
            if self._is_news(repr(fault)):
                logger.exception("%s failed; it is tried again", self._name)
            return False
        self._failures, self._told = 0, None
        return bool(has_more)

    async def _back_off(self) -> None:
        """Asking for it does not shorten this pause: a database that is away must not be asked more often for it."""
        if not self._finishing:
            longest_doubling = 16  # beyond that every pause is the longest
            pause_ms = self._retry_first_ms << min(self._failures - 1, longest_doubling)
            await self._sleep(min(pause_ms, self._retry_last_ms))

    async def _rest(self) -> None:
        if self._wanted or self._finishing:
            return
        milliseconds = self._every_ms() if callable(self._every_ms) else self._every_ms
        # A future of its own: asking ends the pause, never a look.
        forever = asyncio.get_running_loop().create_future
        self._pause = forever() if milliseconds is None else asyncio.ensure_future(self._sleep(milliseconds))
        try:
            await asyncio.wait([self._pause])
        finally:
            self._pause.cancel()
            self._pause = None

    def _tell_unavailable(self, failure: StoreUnavailable) -> None:
        if self._is_news(failure.code):
            logger.warning("%s waits for the database: %s", self._name, failure.message)

    def _is_news(self, trouble: str) -> bool:
        """Is this trouble another one than the last?"""
        told, self._told = self._told, trouble
        return told != trouble
