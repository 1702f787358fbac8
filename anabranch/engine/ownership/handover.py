"""Handover: give the runs of a stopping process to other workers at once.

Called by `lifecycle` during a stop. A run with a handler under way keeps its lease and its grace. All others, and each
of those when its handler has ended, can be claimed by another worker immediately. Without this, one slow handler would
delay ten thousand runs.
"""

from __future__ import annotations

import asyncio
import logging

from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.ports import Store
from anabranch.engine.queues import LocalTaskQueue
from anabranch.engine.task_worker import Execution, TaskWorker
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# 100 ms between two looks for runs whose handlers have ended.
LOOK_S = 0.1


class Handover:
    """Releases idle runs while executions end."""

    def __init__(
        self, *, store: Store, orchestrator: Orchestrator, task_worker: TaskWorker, tasks: LocalTaskQueue[Execution]
    ) -> None:
        self._store = store
        self._orchestrator = orchestrator
        self._task_worker = task_worker
        self._tasks = tasks

    async def finish(self, grace_s: float) -> None:
        """Return when no execution is under way, or after `grace_s`. The queue takes no more jobs."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + grace_s
        draining = loop.create_task(self._tasks.drain(), name="handover-drain")
        try:
            async with asyncio.timeout_at(give_up_at):
                while not draining.done():
                    await self.release_idle()  # as long as the database takes, which may be too long
                    await asyncio.wait({draining}, timeout=LOOK_S)
        except TimeoutError:
            pass
        finally:
            draining.cancel()
        if not self._tasks.is_idle:
            logger.warning(
                "some handlers did not end within the grace of %.1f s; other workers run them again", grace_s
            )

    async def release_idle(self) -> None:
        """Hand over every owned run without a decision, commit or execution under way."""
        owned = self._orchestrator.owned
        idle = [each for each in owned.idle_ids() if not self._task_worker.executes(each)]
        for instance_id in idle:
            owned.release(instance_id)
        if idle:
            try:
                await self._store.release(worker_id=self._orchestrator.worker_id, instance_ids=idle)
            except StoreUnavailable as failure:
                self._orchestrator.note_failure(failure)  # handed over with the rest, or when their leases expire
