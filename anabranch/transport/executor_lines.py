"""Executor lines: send lines, progress and signs of life of a job to the broker.

Called by `job_executor`. A handler may print faster than the broker takes lines, and for longer: what waits is
bounded: further lines are dropped, and a line of the run says so. A result does not wait for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from anabranch.transport.job_messages import LINE_CHARACTERS_MAX, JobReport
from anabranch.transport.transport_ports import TransportUnavailable

logger = logging.getLogger("anabranch.transport")

# 500 reports of a job that wait for the broker: as many as one message carries.
REPORTS_MAX = 500

# 5 s for the last lines before the result is reported without them: a broker that is well takes milliseconds.
LAST_LINES_S = 5.0


class JobLines:
    """The lines of one job, in their order."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[JobReport | asyncio.Future[None]] = deque()
        """Reports; and futures, which are done when everything before them has been sent."""
        self._arrived = asyncio.Event()
        self._drops = False
        self._has_warned = False

    def add_line(self, level: int, text: str) -> None:
        """Tell a line, cut as a worker cuts it; thread-safe."""
        if len(text) > LINE_CHARACTERS_MAX:
            text = text[: LINE_CHARACTERS_MAX - 1] + "…"
        self.add(JobReport(self._job_id, "line", {"level": level, "text": text}))

    def add(self, report: JobReport) -> None:
        """Tell something, unless too much waits; thread-safe."""
        if len(self._waiting) >= REPORTS_MAX:
            self._drops = True
            return
        self._waiting.append(report)
        self._loop.call_soon_threadsafe(self._arrived.set)

    async def keep_sending(self, send: Callable[[JobReport], Awaitable[object]]) -> None:
        """Tell what waits, together, until cancelled. What the broker does not take is lost."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
            reports = [each for each in taken if isinstance(each, JobReport)]
            if self._drops and not self._has_warned:
                self._has_warned = True
                text = f"lines are missing: more than {REPORTS_MAX} waited for the broker"
                reports.append(JobReport(self._job_id, "line", {"level": logging.WARNING, "text": text}))
            results = await asyncio.gather(*(send(each) for each in reports), return_exceptions=True)
            if any(isinstance(each, TransportUnavailable) for each in results):
                logger.debug("lines of job %s are lost: the broker is away", self._job_id)
            for each in taken:
                if not isinstance(each, JobReport) and not each.done():
                    each.set_result(None)

    async def flush(self) -> None:
        """Return when all that was added so far is sent, or has taken too long."""
        done = self._loop.create_future()
        self._waiting.append(done)
        self._arrived.set()
        await asyncio.wait([done], timeout=LAST_LINES_S)
