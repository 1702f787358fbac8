"""Delay queue: due times of all instances on one heap, with one sleeping task.

Calls the orchestrator when the next timer of an instance is due. The heap is only a copy: due times are in the log, so
a crash loses nothing.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from contextlib import suppress

from anabranch.engine.ports import Clock

# 500 ms: if the store's clock is set forward during a sleep, a timer is at most half a second late.
SLEEP_MS_MAX = 500

# The heap is rebuilt when replaced entries outnumber the live ones by this many: deadlines of a
# month would otherwise stay in it for a month after their runs have ended.
STALE_ENTRIES_MAX = 1_000


class DelayQueue:
    """Calls `on_due(instance_id)` at or after the scheduled time. A new time replaces the old one."""

    def __init__(self, clock: Clock, on_due: Callable[[str], None]) -> None:
        self._clock = clock
        self._on_due = on_due
        self._heap: list[tuple[int, str]] = []
        self._due_at: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; may be started once."""
        self._task = asyncio.create_task(self._run(), name="delays")

    async def stop(self) -> None:
        """Stop; may be called twice, or before start."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def schedule(self, instance_id: str, due_at: int | None) -> None:
        """Set, or with None clear, the due time of this instance."""
        if due_at is None:
            self._due_at.pop(instance_id, None)
        elif self._due_at.get(instance_id) != due_at:
            self._due_at[instance_id] = due_at
            heapq.heappush(self._heap, (due_at, instance_id))
            if len(self._heap) > 2 * len(self._due_at) + STALE_ENTRIES_MAX:
                self._heap = [(due_at, instance_id) for instance_id, due_at in self._due_at.items()]
                heapq.heapify(self._heap)
            if self._heap[0] == (due_at, instance_id):
                self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            now = self._clock.now()
            while self._heap and self._heap[0][0] <= now:
                due_at, instance_id = heapq.heappop(self._heap)
                if self._due_at.get(instance_id) == due_at:
                    del self._due_at[instance_id]
                    self._on_due(instance_id)
            wait_s = min(self._heap[0][0] - now, SLEEP_MS_MAX) / 1000 if self._heap else None
            # Not wait_for: up to Python 3.11 it swallows a cancel that comes with the event, and a
            # stop would wait for this task for ever, with every lease kept alive.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
