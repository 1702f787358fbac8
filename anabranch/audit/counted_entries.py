"""Audit rows for events that unauthenticated callers cause: at most one row a second for each kind, with a count.

Called for each rejected key, and for each unauthenticated call of a webhook. An attack with thousands of requests
must be visible but must not fill the database.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

from anabranch.audit.audit_trail import AuditEntry, AuditRows
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.audit")

# 1 s between rows: a person sees an attack as it happens, and a day of it is 86,400 small rows.
ROW_PAUSE_S = 1.0

# 50 kinds at a time, such as webhooks that are tried; more are counted together.
KINDS_MAX = 50

Kind = tuple[str, str, str, str]
"""Tenant, action, target, and the reason; any of them may be empty."""


class CountedEntries:
    """Counts events, and writes the first at once, the following together."""

    def __init__(self, rows: AuditRows, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._rows = rows
        self._pause = pause
        self._uncounted: Counter[Kind] = Counter()
        self._writing: asyncio.Task[None] | None = None
        self._pausing: asyncio.Future[None] | None = None
        self._stopping = False

    def count(self, action: str, *, tenant_id: str = "", target: str = "", reason: str = "") -> None:
        """Count one more, without delaying the response."""
        kind = (tenant_id, action, target, reason)
        if kind not in self._uncounted and len(self._uncounted) >= KINDS_MAX:
            kind = ("", action, "", "")
        self._uncounted[kind] += 1
        if not self._stopping and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._write())

    async def stop(self) -> None:
        """Write what was counted; may be called twice."""
        self._stopping = True
        if self._pausing is not None:
            self._pausing.cancel()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._write_rows()

    async def _write(self) -> None:
        while self._uncounted:
            await self._write_rows()
            if not self._stopping:
                # A separate future: a stop ends the pause, never a write under way.
                self._pausing = asyncio.ensure_future(self._pause(ROW_PAUSE_S))
                await asyncio.wait([self._pausing])

    async def _write_rows(self) -> None:
        counted, self._uncounted = self._uncounted, Counter()
        for (tenant_id, action, target, reason), count in counted.items():
            entry = AuditEntry(tenant_id, "", action, target, {"count": count})
            if reason:
                entry = replace(entry, details={"count": count, "reason": reason})
            try:
                await self._rows.append(entry)
            except StoreUnavailable:
                logger.warning("%d times %s could not be written to the audit trail", count, action)
