"""The slots of an executor: which of the jobs that it has taken begin.

Called by `job_executor`. An executor takes more jobs than it executes, from each queue as many as it has slots. Jobs
of high priority begin first, and within a priority tenants take turns.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from anabranch.engine.queues.task_queue import FairJobs, Job
from anabranch.engine.rules.graph.priorities import HIGH, PRIORITIES

# 10 jobs of high priority in a row, then one of normal priority has its turn: a steady stream of the first delays the
# others, and never stops them.
HIGH_IN_A_ROW_MAX = 10


class WaitingJob(Job, Protocol):
    """A job that waits for a slot."""

    begins: asyncio.Future[bool]
    """Done when it need not wait any more: with True if it has a slot, which is given back after it."""


class ExecutorSlots:
    """As many as jobs may execute at once."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: dict[str, FairJobs[WaitingJob]] = {priority: FairJobs({}) for priority in PRIORITIES}
        self._high_in_a_row = 0

    def ask(self, job: WaitingJob) -> None:
        """Give the job a slot, now or later. One whose `begins` is done meanwhile gets none."""
        self._waiting[job.node.priority].add(job)
        self._hand_out()

    def give_back(self) -> None:
        """A job has ended that had a slot."""
        self._free += 1
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free and (job := self._next()) is not None:
            self._free -= 1
            job.begins.set_result(True)

    def _next(self) -> WaitingJob | None:
        is_turn_of_others = self._high_in_a_row >= HIGH_IN_A_ROW_MAX
        for priority in sorted(PRIORITIES, key=lambda each: (each == HIGH) is is_turn_of_others):
            waiting = self._waiting[priority]
            while (job := waiting.pop()) is not None:
                if not job.begins.done():
                    self._high_in_a_row = self._high_in_a_row + 1 if priority == HIGH else 0
                    return job
        return None
