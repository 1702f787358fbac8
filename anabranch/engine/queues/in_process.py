"""Task and result queues inside one process.

The orchestrator adds node jobs, task workers take them and add results, the orchestrator is
told of those. Nothing here is awaited by a producer and nothing is ever refused: the queues
are bounded by the outstanding work of held instances, and back-pressure acts where instances
are started and claimed. Otherwise two full queues would wait for each other.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Mapping

from anabranch.engine.ports import Gate
from anabranch.engine.queues.jobs import FairJobs, NodeJob
from anabranch.engine.queues.slots import Slot, Slots, present_slot
from anabranch.engine.rules.stimuli import NodeResult

logger = logging.getLogger("anabranch.engine")

# 5 s for handlers to end after they were cancelled: time to close a connection. One that ignores
# its cancellation must not keep all the other runs' leases from being handed over.
CANCEL_PATIENCE_S = 5.0

# A consumer gives way to the event loop after this many jobs in a row: handlers that never
# wait would otherwise keep the committer from running until the queue is empty.
JOBS_IN_A_ROW_MAX = 32


class TaskQueue:
    """Node jobs, tenants in turn, taken by as many concurrent consumers as there are slots and lent ones."""

    def __init__(self, gates: Mapping[str, Gate] | None = None) -> None:
        """`gates` are those of node types whose jobs have to be admitted, by the type's name."""
        self._jobs = FairJobs(gates or {})
        self._idlers: list[asyncio.Future[None]] = []
        """Consumers with nothing to do, each waiting to be woken for one job."""
        self._process: Callable[[NodeJob], Awaitable[None]] | None = None
        self._slots = Slots(self._wake_one)
        self._consumers: dict[asyncio.Task[None], None] = {}
        self._context = contextvars.Context()
        """What a consumer sees of context variables: never those of the body that happens to have one begun."""
        self._closed = False
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()
        for gate in set((gates or {}).values()):
            gate.subscribe(self._wake_one)

    def register_task_worker(self, process: Callable[[NodeJob], Awaitable[None]], *, concurrency: int) -> None:
        """Name the function that executes a job, and how many run at once. Before `start`."""
        self._process = process
        self._slots.concurrency = concurrency

    def add_node_job(self, job: NodeJob) -> None:
        """Queue a job; after `close` it is dropped (the log still owes it, the next owner performs it)."""
        if not self._closed:
            self._jobs.add(job)
            self._wake_one()

    @property
    def is_idle(self) -> bool:
        """Is no execution under way?"""
        return self._idle.is_set()

    async def start(self) -> None:
        """Begin to consume, in the context of the caller."""
        self._context = contextvars.copy_context()
        for _ in range(self._slots.concurrency):
            self._add_consumer()

    def close(self) -> None:
        """Take no further jobs and forget the queued ones; executions under way go on."""
        self._closed = True
        self._jobs.clear()

    async def drain(self) -> None:
        """Return when no execution is under way."""
        await self._idle.wait()

    async def stop(self, *, patience_s: float = CANCEL_PATIENCE_S) -> None:
        """Cancel what still executes, and leave alone what does not heed it; may be called twice, or before start.

        That takes `patience_s` at most, and never more than `CANCEL_PATIENCE_S`.
        """
        self.close()
        consumers = list(self._consumers)
        self._consumers.clear()
        for consumer in consumers:
            consumer.cancel()
        if consumers:
            _, deaf = await asyncio.wait(consumers, timeout=min(patience_s, CANCEL_PATIENCE_S))
            if deaf:
                logger.warning("%d handlers do not end although they were cancelled; they are left behind", len(deaf))

    def _wake_one(self) -> None:
        if not self._jobs.waiting:
            return
        while self._idlers:
            idler = self._idlers.pop()
            if not idler.done():
                idler.set_result(None)
                return
        if 0 < len(self._consumers) < self._slots.jobs_max:
            self._add_consumer()  # the others execute, have lent their slots, or are about to look for a job

    def _add_consumer(self) -> None:
        consumer = asyncio.create_task(self._consume(), name="task-worker", context=self._context.copy())
        self._consumers[consumer] = None

    async def _consume(self) -> None:
        assert self._process is not None, "register_task_worker comes before start"
        me = asyncio.current_task()
        assert me is not None, "a consumer is a task"
        in_a_row = 0
        slot: Slot | None = None  # kept from job to job: taking one for each would wake others for nothing
        while True:
            if slot is not None and not (self._jobs.waiting and slot.is_kept):
                slot.end()
                slot = None
            job = self._jobs.pop() if slot is not None or self._slots.has_free else None
            if job is None:
                if slot is not None:
                    slot.end()
                    slot = None
                if len(self._consumers) > self._slots.concurrency:
                    del self._consumers[me]  # it stood in for one that had lent its slot
                    return
                in_a_row = 0
                idler = asyncio.get_running_loop().create_future()
                self._idlers.append(idler)
                await idler
                continue
            if slot is None:
                slot = self._slots.take()
                present_slot.set(slot)
            self._busy += 1
            self._idle.clear()
            try:
                await self._process(job)
            except Exception:
                # Its lease lapses in the end; this consumer must not be lost with it.
                logger.exception("a job went wrong outside its handler", extra={"instance_id": job.instance_id})
            finally:
                self._busy -= 1
                if self._busy == 0:
                    self._idle.set()
            in_a_row += 1
            if in_a_row >= JOBS_IN_A_ROW_MAX:
                in_a_row = 0
                await asyncio.sleep(0)


class ResultQueue:
    """Results on their way to the orchestrator."""

    def __init__(self) -> None:
        self._receive: Callable[[str, NodeResult], None] | None = None

    def register_results_worker(self, receive: Callable[[str, NodeResult], None]) -> None:
        """Name the function that takes a result; it must not block."""
        self._receive = receive

    def add_result(self, instance_id: str, result: NodeResult) -> None:
        """Hand over a result. Duplicates and strays are harmless: `decide` ignores them."""
        assert self._receive is not None, "register_results_worker comes first"
        self._receive(instance_id, result)
