"""Process reports: record that this process runs, with its release and schema, so that migrations can check it."""

from __future__ import annotations

import asyncio
import logging

from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import Clock
from anabranch.engine.store.sql.processes import REPORTS_EVERY_MS
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.store")


class ProcessReports(Poller):
    """Reports while the process runs."""

    def __init__(self, store: SqlStore, *, process_id: str, release: str, clock: Clock) -> None:
        super().__init__(self.report, name="reporting this process", every_ms=REPORTS_EVERY_MS, sleep=clock.sleep)
        self._store = store
        self._process_id = process_id
        self._release = release

    async def start(self) -> None:
        """Write the first report. Raises StoreUnavailable."""
        await self.report()
        await super().start()

    async def report(self) -> None:
        """Write a report. Raises StoreUnavailable."""
        await self._store.report_process(process_id=self._process_id, release=self._release)

    async def end(self, *, patience_s: float) -> None:
        """Stop, and remove the report unless the database does not answer in time."""
        await self.stop()
        try:
            async with asyncio.timeout(patience_s):
                await self._store.forget_process(self._process_id)
        except (StoreUnavailable, TimeoutError):
            # It does no harm but that a migration may have to wait until it is outdated.
            logger.debug("the report of this process stays in the database")
