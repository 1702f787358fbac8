"""Poller: a task that repeats a poll at an interval, soon on request, and with growing pauses while it fails.

Used by leases, claims, hints and housekeeping. It knows neither store nor clock: the poll (`look`) and the sleep are
arguments, so that simulation and tests use their own time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# A requested look adds a pause of four times its duration, at least 1 ms and at most 50 ms: however many requests
# follow, looks take at most a fifth of the time, and a slow database is queried at most twenty times a second. The
# pause is made only once 50 ms have added up, so that a few requests are served at once: runs started one after the
# other need a look every few milliseconds. A look that found something adds no more than its own duration.
REST_PER_LOOK = 4.0
REST_PER_FIND = 1.0
APART_MS = 50
APART_MS_MIN = 1
OWED_MS_MAX = 50

# A failed look is repeated after the interval or 250 ms, then after twice as long each time, up to 2 s: a recovered
# database is noticed soon, an unavailable one is rarely queried.
RETRY_FIRST_MS = 250
RETRY_LAST_MS = 2_000

# 1 s for a cancelled look to end; a stopping process does not wait longer.
STOP_S = 1.0


class Poller:
    """Calls `look` every `every_ms` milliseconds, and soon after each `soon`; one call at a time.

    If a look returns True, there is more to do and the next follows at once. If it raises, that is logged, once until a
    look succeeds or fails differently, and it is repeated with growing pauses.
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
        only_on_request: Callable[[], bool] | None = None,
        unavailable: Callable[[StoreUnavailable], None] | None = None,
    ) -> None:
        """`every_ms` may be a function, which is called before each pause; None: only on request. `sleep` takes
        milliseconds. A pause before which `only_on_request` returns True has no end but `soon`.

        A look adds a pause of `REST_PER_LOOK` times its duration (`REST_PER_FIND` if it `found` something), `apart_ms`
        at most, before the next look that `soon` requests; up to `OWED_MS_MAX` of pauses are postponed. Pauses after
        failures grow up to `retry_last_ms`, or stay at `every_ms` if that is longer. `unavailable` is called with each
        StoreUnavailable instead of logging it.
        """
        self._look = look
        self.name = name
        self._every_ms = every_ms
        self._only_on_request = only_on_request
        self._sleep = sleep
        self._apart_ms = apart_ms
        self._retry_first_ms = every_ms if isinstance(every_ms, int) else RETRY_FIRST_MS
        self._retry_last_ms = max(retry_last_ms, self._retry_first_ms)
        self._unavailable = unavailable or self._log_unavailable
        self._task: asyncio.Task[None] | None = None
        self._pause: asyncio.Future[None] | None = None
        """The pause that `soon` ends; None while it looks, or must wait."""
        self._wanted = self._finishing = False
        self.found = False
        """Was the last look worth it? Said by a look that knows."""
        self.succeeded = 0
        """How many looks have not failed."""
        self._failures = 0
        self._reported: str | None = None
        """The trouble that the log has; None once a look has succeeded."""

    @property
    def fails(self) -> bool:
        """Did the last look fail?"""
        return self._failures > 0

    @property
    def interval_ms(self) -> int | None:
        """The present interval of polls without a request; None: there are none."""
        return self._every_ms() if callable(self._every_ms) else self._every_ms

    async def start(self) -> None:
        """Begin, with a pause first unless a look was requested; returns at once. May be started once."""
        self._task = asyncio.create_task(self._poll(), name=self.name)

    def soon(self) -> None:
        """Request a look: at once, if the last one is long enough ago. Before `start` it is remembered, after `stop`
        ignored."""
        self._wanted = True
        if self._pause is not None:
            self._pause.cancel()

    async def finish(self) -> None:
        """Return when all requested looks are done, or have failed once more; then stop."""
        self._finishing = True
        if self._task is not None:
            if self._pause is not None:
                self._pause.cancel()
            await self._task

    async def stop(self) -> None:
        """Stop now; returns within `STOP_S`. May be called twice, or before `start`."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            if (await asyncio.wait([task], timeout=STOP_S))[1]:
                logger.warning("%s does not stop, and is left behind", self.name)

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        await self._rest()
        paid_at = loop.time()  # when no postponed pause would be left
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
                await asyncio.sleep(0)  # a look that need not wait must still let other tasks run
            else:
                await self._rest()

    def _pause_after(self, took_s: float) -> float:
        """How long requested looks must wait after a look of this duration, in seconds."""
        rest = REST_PER_FIND if self.found else REST_PER_LOOK
        return min(max(rest * took_s * 1000, APART_MS_MIN), self._apart_ms) / 1000

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
                logger.exception("%s failed; retrying", self.name)
            return False
        self._failures, self._reported = 0, None
        self.succeeded += 1
        return bool(has_more)

    async def _back_off(self) -> None:
        """Requests do not shorten this pause, so that an unavailable database is not queried more often."""
        if not self._finishing:
            longest_doubling = 16  # beyond that every pause is the longest
            pause_ms = self._retry_first_ms << min(self._failures - 1, longest_doubling)
            await self._sleep(min(pause_ms, self._retry_last_ms))

    async def _rest(self) -> None:
        if self._wanted or self._finishing:
            return
        milliseconds = self._pause_ms()
        # A separate future: a request ends the pause, never a look.
        forever = asyncio.get_running_loop().create_future
        self._pause = forever() if milliseconds is None else asyncio.ensure_future(self._sleep(milliseconds))
        try:
            await asyncio.wait([self._pause])
        finally:
            self._pause.cancel()
            self._pause = None

    def _pause_ms(self) -> int | None:
        """The pause until the next poll without a request; None: there is none."""
        if self._only_on_request is not None and self._only_on_request():
            return None
        return self.interval_ms

    def _log_unavailable(self, failure: StoreUnavailable) -> None:
        if self._is_news(failure.code):
            logger.warning("%s waits for the database: %s", self.name, failure.message)

    def _is_news(self, trouble: str) -> bool:
        """Whether this failure differs from the last one."""
        before, self._reported = self._reported, trouble
        return before != trouble
