"""The job queue of one process: which jobs wait, in which order, and how many execute at once.

The orchestrator adds jobs; consumers take them and call the task worker. Adding never waits and is never refused: the
queue is bounded by the outstanding work of owned instances, and back-pressure applies where instances are started and
claimed. Otherwise two full queues could wait for each other.

Tenants take turns. Within a tenant jobs are first in, first out, except that jobs of gated types have a queue of their
own: at a closed gate they wait without delaying others.

A slot is the right to execute. A workflow function keeps its slot while it computes and while its steps run. While it
waits only for a commit it lends the slot: otherwise a commit could hold no more transitions than there are slots, a
quarter of what fits. It gets the slot back before any job that has not begun. `docs/decisions/0013` says why.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Generic, Protocol, TypeVar

from anabranch.engine.ports import Gate
from anabranch.engine.rules.graph.plan import PlanNode

logger = logging.getLogger("anabranch.engine")

# 5 s for handlers to end after they were cancelled: time to close a connection. A handler that ignores it must not
# delay the handover of all other runs.
CANCEL_PATIENCE_S = 5.0

# A consumer gives way to the event loop after this many jobs in a row: handlers that never
# wait would otherwise keep the committer from running until the queue is empty.
JOBS_IN_A_ROW_MAX = 32

# 1,000 functions that wait for commits: both commits that may be in flight are full (256 transitions each), and the
# next two as well. More would only take memory.
LENT_MAX = 1_000

present_slot: ContextVar[Slot] = ContextVar("present_slot")
"""The slot of the job that the current task executes."""


class Job(Protocol):
    """One attempt to execute, as the queue sees it."""

    instance_id: str
    tenant_id: str
    node: PlanNode


AnyJob = TypeVar("AnyJob", bound=Job)


class LocalTaskQueue(Generic[AnyJob]):
    """Jobs, served to tenants in turn, by as many consumers as there are slots plus lent slots."""

    def __init__(self, gates: Mapping[str, Gate] | None = None) -> None:
        """`gates` limit node types, by type name."""
        self._gates = gates or {}
        self._jobs = FairJobs[AnyJob](self._gates)
        self._alone: str | None = None
        """Only jobs of this run begin; None: of all runs."""
        self._kept_back: list[AnyJob] = []
        """Jobs of other runs that wait until it is alone no more."""
        self._idlers: list[asyncio.Future[None]] = []
        """Consumers with nothing to do, each waiting to be woken."""
        self._about_to_look = 0
        """Consumers that have been woken, or begun, and have not looked for a job yet."""
        self._process: Callable[[AnyJob], Awaitable[None] | None] | None = None
        self._slots = Slots(self._wake_one)
        self._consumers: dict[asyncio.Task[None], None] = {}
        self._context = contextvars.Context()
        """What a consumer sees of context variables: never those of the function that happens to have one begun."""
        self._closed = False
        self._busy = self._busy_max = 0
        self._idle = asyncio.Event()
        self._idle.set()
        for gate in set((gates or {}).values()):
            gate.subscribe(self._wake_one)

    def register_task_worker(self, process: Callable[[AnyJob], Awaitable[None] | None], *, concurrency: int) -> None:
        """Set the function that executes a job, and the concurrency. Call it before `start`.

        The function returns an awaitable for the rest of the job, or None if the job is done.
        """
        self._process = process
        self._slots.concurrency = concurrency

    def add(self, job: AnyJob) -> None:
        """Queue a job. After `close` it is dropped; it stays outstanding, and the next owner performs it."""
        if self._closed:
            return
        if self._alone not in (None, job.instance_id):
            self._kept_back.append(job)
            return
        self._jobs.add(job)
        if not self._about_to_look:
            self._wake(1)

    def accepts(self, job: AnyJob) -> bool:
        """Whether a job may begin now: the queue is open, and no other run is left alone."""
        return not self._closed and self._alone in (None, job.instance_id)

    def leave_alone(self, instance_id: str | None) -> None:
        """Let only jobs of this run begin, or with None jobs of all runs; executions continue."""
        self._alone = instance_id
        jobs = [*self._jobs.take_all(), *self._kept_back]
        self._kept_back = []
        for job in jobs:
            self.add(job)

    def take_busy_max(self) -> int:
        """The maximum of concurrent executions since the last call."""
        busy_max, self._busy_max = self._busy_max, self._busy
        return busy_max

    @property
    def is_idle(self) -> bool:
        """Whether no execution is under way."""
        return self._idle.is_set()

    async def start(self) -> None:
        """Begin to consume, in the context of the caller."""
        self._context = contextvars.copy_context()
        for _ in range(self._slots.concurrency):
            self._add_consumer()

    def close(self) -> None:
        """Accept no further jobs and forget the queued ones; executions continue."""
        self._closed = True
        self._jobs.clear()
        self._kept_back.clear()

    async def drain(self) -> None:
        """Return when no execution is under way."""
        await self._idle.wait()

    async def stop(self, *, patience_s: float = CANCEL_PATIENCE_S) -> None:
        """Cancel the remaining executions; may be called twice, or before start.

        Waits for them at most `patience_s`, and never more than `CANCEL_PATIENCE_S`.
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
        if self._jobs.waiting:
            self._wake(1)

    def _wake(self, wanted: int) -> None:
        """Let so many consumers look for jobs, no more than jobs wait, those included that are about to look.

        Mostly one is enough: it executes one job after the other, and wakes others when one has to wait.
        """
        wanted = min(wanted, self._jobs.waiting)
        while self._about_to_look < wanted:
            if self._idlers:
                idler = self._idlers.pop()
                if not idler.done():
                    idler.set_result(None)
                    self._about_to_look += 1
            elif 0 < len(self._consumers) < self._slots.jobs_max:
                self._add_consumer()
            else:
                return  # the others execute, or have lent their slots

    def _add_consumer(self) -> None:
        consumer = asyncio.create_task(self._consume(), name="task-worker", context=self._context.copy())
        self._consumers[consumer] = None
        self._about_to_look += 1

    async def _consume(self) -> None:
        assert self._process is not None, "register_task_worker comes before start"
        me = asyncio.current_task()
        assert me is not None, "a consumer is a task"
        in_a_row = 0
        self._about_to_look -= 1
        slot: Slot | None = None  # kept from job to job: taking a new one each time would wake others for nothing
        try:
            while True:
                if slot is not None and not (self._jobs.waiting and slot.is_kept):
                    self._end(slot)
                    slot = None
                job = self._jobs.pop() if slot is not None or self._slots.has_free else None
                if job is None:
                    if slot is not None:
                        self._end(slot)
                        slot = None
                    if len(self._consumers) > self._slots.concurrency:
                        del self._consumers[me]  # it replaced one that had lent its slot
                        return
                    in_a_row = 0
                    idler = asyncio.get_running_loop().create_future()
                    self._idlers.append(idler)
                    await idler
                    self._about_to_look -= 1
                    continue
                if slot is None:
                    slot = self._slots.take()
                    present_slot.set(slot)
                    self._busy += 1
                    self._busy_max = max(self._busy, self._busy_max)
                    self._idle.clear()
                try:
                    rest = self._process(job)
                    if rest is not None:  # most executions never wait
                        self._wake(self._jobs.waiting)
                        await rest
                except Exception:
                    # Its lease will expire; this consumer must survive.
                    logger.exception("a job failed outside its handler", extra={"instance_id": job.instance_id})
                in_a_row += 1
                if in_a_row >= JOBS_IN_A_ROW_MAX:
                    in_a_row = 0
                    await asyncio.sleep(0)
        finally:
            if slot is not None:  # it is cancelled
                self._note_end()

    def _end(self, slot: Slot) -> None:
        slot.end()
        self._note_end()

    def _note_end(self) -> None:
        self._busy -= 1
        if self._busy == 0:
            self._idle.set()


class _Round(Generic[AnyJob]):
    """Tenants in the order of service, each with its jobs."""

    __slots__ = ("jobs", "tenants")

    def __init__(self) -> None:
        self.jobs: dict[str, deque[AnyJob]] = {}
        self.tenants: deque[str] = deque()

    def begin(self, job: AnyJob) -> None:
        """Queue the first job of a tenant, which is served last."""
        self.jobs[job.tenant_id] = deque((job,))
        self.tenants.append(job.tenant_id)

    def pop(self, admits: Callable[[str], bool]) -> AnyJob | None:
        """The job of the next admitted tenant; None if no job of an admitted tenant waits."""
        tenants = self.tenants
        for _ in range(len(tenants)):
            tenant_id = tenants.popleft()
            jobs = self.jobs[tenant_id]
            job = jobs.popleft() if jobs and admits(tenant_id) else None
            if jobs:
                tenants.append(tenant_id)
            else:
                del self.jobs[tenant_id]
            if job is not None:
                return job
        return None


def _everybody(tenant_id: str) -> bool:
    return True


class FairJobs(Generic[AnyJob]):
    """Jobs that wait for a slot."""

    __slots__ = ("_gated", "_gates", "_round_of", "_ungated", "waiting")

    def __init__(self, gates: Mapping[str, Gate]) -> None:
        """`gates` are those of gated node types, by the type's name."""
        self._gates = gates
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self.waiting = 0
        """How many jobs wait, also at closed gates."""
        self._ungated = _Round[AnyJob]()
        self._gated: dict[Gate, _Round[AnyJob]] = {gate: _Round() for gate in self._gates.values()}
        self._round_of = {type_name: self._gated[gate] for type_name, gate in self._gates.items()}

    def take_all(self) -> list[AnyJob]:
        """Remove and return all jobs, those of each tenant in order."""
        rounds = [self._ungated, *self._gated.values()]
        jobs = [job for each in rounds for of_tenant in each.jobs.values() for job in of_tenant]
        self.clear()
        return jobs

    def add(self, job: AnyJob) -> None:
        """Queue a job behind those of its tenant."""
        of = self._round_of.get(job.node.type, self._ungated)
        jobs = of.jobs.get(job.tenant_id)
        if jobs is None:
            of.begin(job)
        else:
            jobs.append(job)
        self.waiting += 1

    def pop(self) -> AnyJob | None:
        """The next job that may begin now; None if there is none. Gated jobs come first; they cannot delay the others,
        because a gate admits few at a time.
        """
        if not self.waiting:
            return None
        job = self._pop_gated() if self._gated else None
        if job is None:
            tenants, jobs = self._ungated.tenants, self._ungated.jobs
            if len(tenants) != 1:
                job = self._ungated.pop(_everybody)
            elif left := jobs[tenants[0]]:  # a single tenant keeps its place: the next job is usually its own
                job = left.popleft()
        if job is not None:
            self.waiting -= 1
        return job

    def _pop_gated(self) -> AnyJob | None:
        for gate, of in self._gated.items():
            if of.tenants and gate.is_open() and (job := of.pop(gate.admits)) is not None:
                return job
        return None


class Slots:
    """The limit of concurrent executions."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called when a slot is free for a further job."""
        self.concurrency = 0
        self._wake = wake
        self._taken = 0
        self._lent = 0
        self.returning: deque[Slot] = deque()
        """Lent slots that their jobs want back."""

    @property
    def has_free(self) -> bool:
        """Whether a further job may begin."""
        return self._taken < self.concurrency and not self.returning

    @property
    def jobs_max(self) -> int:
        """The maximum of jobs under way: executing ones, and those that lent their slots."""
        return self.concurrency + self._lent

    def take(self) -> Slot:
        """Take a free slot for a job; the caller has checked that there is one."""
        self._taken += 1
        return Slot(self)

    # -- for slots ------------------------------------------------------------------------
    def free(self) -> None:
        """Free a slot: it goes to a job that wants its own back, else to a new job."""
        self._taken -= 1
        while self.returning and self._taken < self.concurrency:
            self.returning.popleft().granted()
        if self._taken < self.concurrency:
            self._wake()

    def lend(self) -> bool:
        """Count a lent slot; False if too many are lent."""
        if self._lent >= LENT_MAX:
            return False
        self._lent += 1
        self.free()
        return True

    def retake_free(self) -> bool:
        """Count a lent slot as taken again if one is free; False: wait for it in `returning`."""
        if self._taken >= self.concurrency or self.returning:
            return False
        self.retake()
        return True

    def retake(self) -> None:
        """Count a lent slot as taken again."""
        self._lent -= 1
        self._taken += 1

    def forget(self, slot: Slot) -> None:
        """Drop a lent slot that is no longer wanted."""
        self._lent -= 1
        if slot in self.returning:
            self.returning.remove(slot)


class Slot:
    """The right of a job, and of the consumer's following jobs, to execute, until `end`."""

    __slots__ = ("_has_ended", "_is_lent", "_slots", "_then")

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._is_lent = False
        self._has_ended = False
        self._then: Callable[[], None] | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the next job may keep it: not if it is lent, nor while others wait for theirs."""
        return not self._is_lent and not self._slots.returning

    def lend(self) -> None:
        """Let others use it while the job only waits for a commit; after the end nothing."""
        if not (self._is_lent or self._has_ended):
            self._is_lent = self._slots.lend()

    def take_back(self, then: Callable[[], None]) -> bool:
        """Whether the job may execute now: the slot was not lent, or one is free. Otherwise `then` is called when it
        may; only the first call counts. After the end it may not, and `then` is never called."""
        if not self._is_lent:
            return not self._has_ended
        if self._slots.retake_free():
            self._is_lent = False
            return True
        if self._then is None:
            self._then = then
            self._slots.returning.append(self)
        return False

    def granted(self) -> None:
        """Return the slot to the job."""
        then, self._then = self._then, None
        self._is_lent = False
        self._slots.retake()
        assert then is not None, "only who asks is granted one"
        then()

    def end(self) -> None:
        """End its use: it is freed, or dropped if lent. Late calls change nothing."""
        was_lent, self._is_lent = self._is_lent, False
        self._has_ended = True
        self._then = None
        if was_lent:
            self._slots.forget(self)
        else:
            self._slots.free()
