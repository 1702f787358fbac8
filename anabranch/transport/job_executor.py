"""The executor's side: takes jobs from the broker, executes them as a worker would, and reports.

It has no database. The task worker is the engine's own: slots, timeouts, heartbeat timeouts, threads, the sandbox and
the check of outputs are the same code as in a worker.

A job that comes twice while it is executed is executed once, and reported to the latest sender. One that comes again
after it has ended is answered with the kept result. A worker that takes runs over asks all executors for their jobs:
who has one reports to this worker from then on. So a repetition is only executed twice by two executors.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Protocol, cast

from anabranch.dataclass import dataclass
from anabranch.engine.clock import SystemClock
from anabranch.engine.console.lines import LineOrigin, Progress, prints_kept
from anabranch.engine.handler_contract import HandlerRegistry, HandlerResult
from anabranch.engine.pool_worker import bare_head
from anabranch.engine.queues import LocalTaskQueue
from anabranch.engine.queues.task_queue import CANCEL_PATIENCE_S
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.graph.plan import Body, PlanNode
from anabranch.engine.rules.shared.failures import failed_by
from anabranch.engine.rules.shared.retry import RetryPolicy
from anabranch.engine.rules.shared.run_state import Redone
from anabranch.engine.rules.stimuli import Completed, Failed, NodeResult
from anabranch.engine.task_worker import Execution, TaskWorker
from anabranch.errors import AnabranchError, RunError
from anabranch.grace import Grace
from anabranch.transport.executor_lines import JobLines
from anabranch.transport.executor_results import KeptResults
from anabranch.transport.executor_slots import ExecutorSlots
from anabranch.transport.job_configs import ConfigWithSecrets
from anabranch.transport.job_messages import JobReport, JobSearch, NodeJob, completed, failed
from anabranch.transport.transport_ports import ANSWER_S_MAX, JobDelivery, Transport, TransportUnavailable

logger = logging.getLogger("anabranch.transport")

# 10 s: a third of what a worker waits for a sign of life.
BEAT_S = 10.0

# 5 deliveries of a job whose executors died: it is more likely to have killed them than to have met five deaths.
DELIVERIES_MAX = 5

# 1,000 cancellations of jobs that may not have come yet: some minutes of a busy executor.
CANCELLED_MAX = 1_000

# 1 s until a report is tried again that the broker has not confirmed.
AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class CompleteJob:
    """A job as its handler gets it, with everything that the message only refers to."""

    config: Any
    secrets: Mapping[str, str]
    context: Mapping[str, Any]


class JobValues(Protocol):
    """Fetches what jobs refer to."""

    async def complete(self, job: NodeJob) -> CompleteJob:
        """The job with its large values and its secrets. Raises AnabranchError if it cannot be had; while there is no
        answer it waits."""

    async def stop(self) -> None:
        """Close the connections."""


@dataclass(slots=True, eq=False)
class RunningJob:
    """A job between its arrival and its result."""

    job: NodeJob
    done: asyncio.Future[JobReport | None]
    """Its result; None: it was cancelled, or nobody awaited it when it came."""
    forgotten: asyncio.Event = field(default_factory=asyncio.Event)
    goes_back: bool = False
    """This executor stops: another one is to have the job."""
    lines: JobLines = field(init=False)
    instance_id: str = field(init=False)
    tenant_id: str = field(init=False)
    node: PlanNode = field(init=False)
    begins: asyncio.Future[bool] = field(init=False)

    def __post_init__(self) -> None:
        """What `ExecutorSlots` reads."""
        self.instance_id, self.tenant_id, self.node = self.job.instance_id, self.job.tenant_id, _node_of(self.job)
        self.begins = asyncio.get_running_loop().create_future()
        self.lines = JobLines(self.job.job_id)

    @property
    def key(self) -> tuple[str, Dispatch]:
        """The key by which the task worker knows it."""
        return self.job.instance_id, Dispatch(self.job.node_id, self.job.scope, self.job.attempt)


class JobExecutor:
    """Executes the jobs of some pools. It is the console of its handlers, too: what they say goes to the worker."""

    def __init__(
        self,
        *,
        transport: Transport,
        handlers: HandlerRegistry,
        values: JobValues,
        pools: Sequence[str],
        concurrency: int,
        level: int = logging.INFO,
        beat_s: float = BEAT_S,
    ) -> None:
        """`handlers` take configs whose templates are resolved; lines below `level` are dropped."""
        self.level = level
        self.name = f"{socket.gethostname()[:40]}-{os.getpid()}"
        self._transport = transport
        self._values = values
        self._pools = pools
        self._concurrency = concurrency
        self._beat_s = beat_s
        self._tasks: LocalTaskQueue[Execution] = LocalTaskQueue()
        self._worker = TaskWorker(
            handlers=handlers, tasks=self._tasks, clock=SystemClock(), concurrency=concurrency, console=self
        )
        self._worker.report_to(self._receive)
        self._slots = ExecutorSlots(concurrency)
        self._running: dict[str, RunningJob] = {}
        self._by_key: dict[tuple[str, Dispatch], RunningJob] = {}
        self._ended = KeptResults()
        self._answering: set[asyncio.Task[bool]] = set()
        self._cancelled: OrderedDict[str, None] = OrderedDict()
        """Tickets that nobody awaits any more."""
        self._stopping = False
        """What comes now is not executed, and goes to others."""
        self._takes_no_more = asyncio.Event()
        """What is given back does not come here again."""
        self._lost_all = False
        """The broker gives all jobs of this executor to others, whether they are given back or not."""
        self._beating: asyncio.Task[None] | None = None

    async def run_until(self, asked: asyncio.Event, *, grace: Grace, ready: Callable[[str], None]) -> None:
        """Execute jobs until asked to stop; what executes then has the grace to end, the rest goes to others.

        What is left of the grace after the executions is for the broker to take results and what goes back. `ready` is
        called with the name of this executor after its first connection.
        """
        with prints_kept():
            await self._tasks.start()
            self._beating = asyncio.create_task(self._beat(), name="executor-beats")
            await self._transport.register_task_worker(
                self._accept,
                pools=self._pools,
                concurrency=self._concurrency,
                cancelled=self._cancel,
                sought=self._answer_search,
            )
            connected = asyncio.Event()
            self._transport.when_connected(connected.set)
            await self._transport.start()
            reporting = asyncio.create_task(_report_ready(connected, ready, self.name), name="executor-ready")
            await asked.wait()
            reporting.cancel()
            await self._leave(grace)
            self._beating.cancel()
            for answering in self._answering:
                answering.cancel()
            await self._transport.stop(patience_s=grace.closing_s(ANSWER_S_MAX))
            await self._tasks.stop(patience_s=grace.closing_s(CANCEL_PATIENCE_S))
            await self._values.stop()

    async def _leave(self, grace: Grace) -> None:
        """Take no more jobs, give back those that wait for a slot, and after the grace those that have not ended."""
        self._stopping = True
        try:
            async with asyncio.timeout(grace.engine_left_s()):
                await self._transport.stop_taking()
        except (TimeoutError, TransportUnavailable):
            logger.warning("the broker does not answer; other executors get the jobs of this one")
            self._lost_all = True
        self._takes_no_more.set()
        for running in list(self._running.values()):
            if not running.begins.done():
                self._give_back(running)
        under_way = [each.done for each in self._running.values()]
        if under_way:
            await asyncio.wait(under_way, timeout=grace.executions_left_s())
        late = [each for each in self._running.values() if not each.done.done()]
        if late:
            logger.warning("%d jobs have not ended; other executors get them", len(late))
        for running in late:
            self._give_back(running)
        if not self._transport.is_connected:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(min(ANSWER_S_MAX, grace.engine_left_s())):
                for running in list(self._running.values()):
                    await running.forgotten.wait()

    # -- jobs -----------------------------------------------------------------------------
    async def _accept(self, job: NodeJob, delivery: JobDelivery) -> None:
        """Execute a job and report its result; returns when it may be acknowledged.

        Raises TransportUnavailable if it is to go back, and the broker did not take it as a new message.
        """
        kept = self._ended.get(job.job_id)
        if kept is not None:
            await self._report(lambda: job.reply_to, kept)
            return
        while (running := self._running.get(job.job_id)) is not None:
            if not running.done.done():
                running.job = job  # its sender may be another one by now
            if await asyncio.shield(running.done) is not None:
                return
            await running.forgotten.wait()  # its sender did not await it any more; that of the repetition may
        if delivery.unacknowledged >= DELIVERIES_MAX:
            await self._report(lambda: job.reply_to, failed(job.job_id, _deadly(job, delivery.unacknowledged)))
            return
        if self._stopping:
            await self._queue_again(job, delivery)
            return
        running = RunningJob(job, asyncio.get_running_loop().create_future())
        self._running[job.job_id] = self._by_key[running.key] = running
        try:
            await self._execute(running)
            if running.goes_back:
                await self._queue_again(running.job, delivery)
        finally:
            self._forget(running)

    async def _queue_again(self, job: NodeJob, delivery: JobDelivery) -> None:
        """Let another executor have it, as a new message: the broker counts how many executors died with one.

        Raises TransportUnavailable; also where the broker gives the job to others, which would then be there twice.
        """
        await self._takes_no_more.wait()
        if self._lost_all or not delivery.is_open():
            raise TransportUnavailable("the broker gives the job to others by itself")
        if job.ticket not in self._cancelled:
            await self._transport.add_node_job(job)

    async def _execute(self, running: RunningJob) -> None:
        job = running.job
        if job.ticket in self._cancelled:
            return
        started = JobReport(job.job_id, "started", {"executor": self.name})
        if not await self._report(lambda: running.job.reply_to, started):
            return  # nobody awaits it: its worker is gone, and the next owner of the run sends it again
        if running.done.done() or running.job.ticket in self._cancelled:
            return
        sending = asyncio.create_task(
            running.lines.keep_sending(lambda report: self._transport.add_result(running.job.reply_to, report)),
            name="job-lines",
        )
        try:
            if self._stopping:
                self._give_back(running)
            else:
                self._slots.ask(running)
            if await running.begins and not running.done.done():
                await self._begin(running)
            result = await asyncio.shield(running.done)
            await running.lines.flush()
            if result is not None:
                await self._report(lambda: running.job.reply_to, result)
        finally:
            begins = running.begins
            if begins.done() and not begins.cancelled() and begins.result():
                self._slots.give_back()
            begins.cancel()
            sending.cancel()

    async def _begin(self, running: RunningJob) -> None:
        job, (instance_id, dispatch) = running.job, running.key
        node, context = running.node, job.context
        if job.parts or job.sealed is not None:
            fetching = asyncio.ensure_future(self._values.complete(job))
            try:
                awaited: set[asyncio.Future[Any]] = {fetching, running.done}
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                if running.done.done():
                    return
                complete = fetching.result()
            except AnabranchError as failure:
                self._end(running, failed(job.job_id, failed_by(failure, **_origin(job))))
                return
            finally:
                fetching.cancel()
            config = ConfigWithSecrets(complete.config, complete.secrets) if complete.secrets else complete.config
            node, context = replace(node, config=cast("Any", config)), complete.context
        redone = Redone(0, job.key_generation) if job.key_generation else None
        head = bare_head(instance_id, job.tenant_id, job.workflow_id, deadline_at=job.deadline_at)
        self._worker.execute(head, dispatch, node, context, redone=redone)

    def _receive(self, instance_id: str, result: NodeResult) -> None:
        running = self._by_key.get((instance_id, Dispatch(result.node_id, result.scope, result.attempt)))
        if running is None or running.done.done():
            return
        job_id, outcome = running.job.job_id, result.outcome
        if isinstance(outcome, Completed):
            completion = HandlerResult(
                outcome.output.value, next_handle=outcome.next_handle, queue_delay=outcome.queue_delay_ms
            )
            report = completed(job_id, completion)
        elif isinstance(outcome, Failed):
            report = failed(job_id, outcome)
        else:
            report = failed(job_id, _stays(running.job))
        self._end(running, report)

    def _end(self, running: RunningJob, report: JobReport) -> None:
        self._ended.add(report)
        running.done.set_result(report)

    def _cancel(self, ticket: str) -> None:
        """Nobody awaits the job any more; it may not have come yet."""
        self._cancelled[ticket] = None
        if len(self._cancelled) > CANCELLED_MAX:
            self._cancelled.popitem(last=False)
        for running in self._running.values():
            if running.job.ticket == ticket:
                self._abandon(running)

    def _give_back(self, running: RunningJob) -> None:
        """Let another executor have the job, unless it has ended."""
        if not running.done.done():
            running.goes_back = True
            self._abandon(running)

    def _abandon(self, running: RunningJob) -> None:
        """End the job without a result, unless it has ended."""
        if not running.done.done():
            self._worker.stop_job(*running.key)
            running.done.set_result(None)
            if not running.begins.done():
                running.begins.set_result(False)

    def _answer_search(self, search: JobSearch) -> None:
        """Report to the worker that asks what is executed here, or has ended, from now on."""
        for job_id in search.tickets:
            kept, running = self._ended.get(job_id), self._running.get(job_id)
            if running is not None and not (running.done.done() and kept is None):
                running.job = replace(running.job, reply_to=search.reply_to, ticket=search.tickets[job_id])
            if kept is not None:
                self._answer_later(search.reply_to, kept)
            elif running is not None and not running.done.done():
                self._answer_later(search.reply_to, JobReport(job_id, "started", {"executor": self.name}))

    def _answer_later(self, reply_to: str, report: JobReport) -> None:
        task = asyncio.create_task(self._report(lambda: reply_to, report), name="answer-search")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    def _forget(self, running: RunningJob) -> None:
        self._running.pop(running.job.job_id, None)
        self._by_key.pop(running.key, None)
        if not running.done.done():
            running.done.set_result(None)
        running.forgotten.set()

    # -- reports --------------------------------------------------------------------------
    async def _report(self, reply_to: Callable[[], str], report: JobReport) -> bool:
        """Report until the broker has it; False if nobody listens there. The listener may change meanwhile."""
        while True:
            try:
                return await self._transport.add_result(reply_to(), report)
            except TransportUnavailable:
                await asyncio.sleep(AGAIN_S)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._beat_s)
            for running in list(self._running.values()):
                running.lines.add(JobReport(running.job.job_id, "beat"))

    # -- the console of its handlers (`lines.Sink`) ---------------------------------------
    def take_line(self, origin: LineOrigin, level: int, text: str) -> None:
        """Report a line; thread-safe."""
        running = self._of(origin)
        if running is not None:
            running.lines.add_line(level, text)

    def take_progress(self, origin: LineOrigin, progress: Progress) -> None:
        """Report progress; thread-safe."""
        running = self._of(origin)
        if running is not None:
            running.lines.add(JobReport(running.job.job_id, "progress", progress.as_json()))

    def take_beginning(self, origin: LineOrigin) -> None:
        """Executors run no coded workflows."""

    def take_start(self, origin: LineOrigin, *, is_kept: bool) -> None:
        """The job has been reported as started."""

    def _of(self, origin: LineOrigin) -> RunningJob | None:
        return self._by_key.get((origin.instance_id, Dispatch(origin.node_id, origin.scope, origin.attempt)))


async def _report_ready(connected: asyncio.Event, ready: Callable[[str], None], name: str) -> None:
    await connected.wait()
    ready(name)


def _node_of(job: NodeJob) -> PlanNode:
    """The node as the task worker needs it: nothing of the graph around it."""
    return PlanNode(
        id=job.node_id,
        type=job.type,
        config=job.config,
        output_variable=None,
        join_any=False,
        error_handling="continue",
        retry=RetryPolicy(max_attempts=1),
        timeout_ms=job.timeout_ms,
        handles=frozenset(),
        exits=frozenset(),
        home=Body(loop=None),
        heartbeat_ms=job.heartbeat_ms,
        output_bytes_max=job.output_bytes_max,
        pool=job.pool,
        priority=job.priority,
    )


def _origin(job: NodeJob) -> dict[str, Any]:
    return {"node_id": job.node_id, "scope": job.scope, "attempt": job.attempt}


def _deadly(job: NodeJob, deliveries: int) -> Failed:
    message = f"{deliveries} executors of the pool {job.pool!r} ended while they had it"
    error = RunError("EXECUTOR_LOST", "ExecutorLost", message, job.node_id, job.scope, job.attempt)
    return Failed(error, retryable=False)


def _stays(job: NodeJob) -> Failed:
    message = f"a node of type {job.type!r} waits for the engine, which an executor does not have"
    error = RunError("NOT_IN_EXECUTOR", "NotInExecutor", message, job.node_id, job.scope, job.attempt)
    return Failed(error, retryable=False)
