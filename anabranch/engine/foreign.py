"""Foreign changes: notice within half a second that another process wrote to an instance we hold.

A cancel or signal from elsewhere raises the version without asking us. Our next commit would
lose and find out; this look makes sure that an instance without a next commit does, too.
"""

from __future__ import annotations

import asyncio
import logging

from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.ports import Clock, Store
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# With a commit after it, a foreign signal or cancel takes effect within the promised second.
LOOK_MS = 500


class ForeignWatch:
    """Compares the versions of all held instances with the store's, in one statement."""

    def __init__(self, *, store: Store, orchestrator: Orchestrator, clock: Clock) -> None:
        self._store = store
        self._orchestrator = orchestrator
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._look_forever(), name="foreign-watch")

    async def stop(self) -> None:
        """Look no more; may be called twice, or before start."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def look(self) -> None:
        """Refresh every held instance whose version is not the one we know."""
        known = {instance_id: version for instance_id, version, _, _ in self._orchestrator.settled_leases()}
        if not known or not await self._store.foreign_changes_possible():
            return
        stored = await self._store.versions(list(known))
        changed = [
            instance_id
            for instance_id, version, _, _ in self._orchestrator.settled_leases()
            if known.get(instance_id) == version
            and stored.get(instance_id, (None, None)) != (version, self._orchestrator.worker_id)
        ]
        if changed:
            await self._orchestrator.refresh(changed)

    async def _look_forever(self) -> None:
        while True:
            await self._clock.sleep(LOOK_MS)
            try:
                await self.look()
            except StoreUnavailable as failure:
                self._orchestrator.note_failure(failure)
            except Exception:
                logger.exception("looking for foreign changes went wrong; tried again")
