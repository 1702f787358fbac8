"""Failed logins in the audit trail: at most one row a second, with their number.

Called by `access` for each rejected key. An attack with thousands of keys must be visible but must not fill the
database.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from anabranch.audit.audit_trail import AuditEntry, AuditRows
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.access")

# 1 s between rows: a person sees an attack as it happens, and a day of it is 86,400 small rows.
ROW_PAUSE_S = 1.0


class FailedLogins:
    """Counts refusals, and writes the first at once, the following together."""

    def __init__(self, rows: AuditRows, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._rows = rows
        self._pause = pause
        self._uncounted = 0
        self._writing: asyncio.Task[None] | None = None
        self._pausing: asyncio.Future[None] | None = None
        self._stopping = False

    def count(self) -> None:
        """Count one more, without delaying the response."""
        self._uncounted += 1
        if not self._stopping and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write())

    async def stop(self) -> None:
        """Write what was counted; may be called twice."""
        self._stopping = True
        if self._pausing is not None:
            self._pausing.cancel()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._write_row()

    async def _write(self) -> None:
        while self._uncounted:
            await self._write_row()
            if not self._stopping:
                # A separate future: a stop ends the pause, never a write under way.
                self._pausing = asyncio.ensure_future(self._pause(ROW_PAUSE_S))
                await asyncio.wait([self._pausing])

    async def _write_row(self) -> None:
        counted, self._uncounted = self._uncounted, 0
        if not counted:
            return
        try:
            await self._rows.append(AuditEntry("", "", "login.failed", "", {"count": counted}))
        except StoreUnavailable:
            logger.warning("%d failed logins could not be written to the audit trail", counted)
