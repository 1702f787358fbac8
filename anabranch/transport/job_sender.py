"""The worker's side: sends jobs to the broker, sends them again while no reports come, and takes reports.

Implements `engine.pool_worker.RemoteExecution`. A job is the worker's as long as its run is: nothing of it is stored.
After a crash the next owner of the run dispatches it again, with the same job id, idempotency key and attempt.

Jobs wait here, tenants in turn, while `QUEUED_MAX` of a pool and priority are with the broker and not begun: so a
tenant with ten thousand jobs does not delay another one, and the broker's queues stay short.

Jobs of a run that was taken over may be executing. Executors are asked for them first; what none of them has is sent.
So are all jobs when the queue of reports was gone with the connection: executors drop a job that nobody awaits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from secrets import token_hex
from typing import Any, Protocol, TypeAlias, cast

from anabranch.dataclass import dataclass
from anabranch.dead_letters.dead_letters import DeadLetterRows
from anabranch.engine.clock import SystemClock
from anabranch.engine.console.lines import Sink, read_progress
from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.pool_worker import PoolTaskWorker, RemoteJob, bare_head
from anabranch.engine.queues.task_queue import FairJobs
from anabranch.engine.rules.code_reads import names_read
from anabranch.engine.rules.coded.coded_plan import FUNCTION_TYPE
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.rules.graph.pools import EVERY_POOL
from anabranch.engine.rules.graph.priorities import HIGH, NORMAL, Priority
from anabranch.engine.rules.shared.failures import failed_by, storable, who_is
from anabranch.engine.rules.shared.run_state import Redone
from anabranch.engine.rules.stimuli import Failed, HandlerOutcome
from anabranch.engine.task_worker import Execution, checked_outcome
from anabranch.errors import AnabranchError, StoreUnavailable
from anabranch.transport.job_messages import (
    LINE_CHARACTERS_MAX,
    BadMessage,
    DeadMessage,
    JobReport,
    JobSearch,
    NodeJob,
    outcome_in,
)
from anabranch.transport.job_parts import StoredReferences, divide_job
from anabranch.transport.transport_ports import Transport, TransportUnavailable

logger = logging.getLogger("anabranch.transport")

# 1,000 jobs of a pool and priority with the broker: enough for a hundred executors of eight until the next ones arrive.
QUEUED_MAX = 1_000

# 64 publications that wait for their confirmation at once: a round trip is a millisecond.
PUBLISHERS = 64

# 30 s without a report of an executor that sends one every 10 s: it is gone, or cut off.
SILENT_S = 30.0

# 60 s in the queue of a pool, then twice as long each time: the job may be lost, but more likely the pool is busy.
RESEND_S = 60.0
RESEND_S_MAX = 3_600.0

# 30 doublings lead from any time to the longest one, and no number of silences leads out of what a float can be.
DOUBLINGS_MAX = 30

# 1 s to leave the broker: it notices the end of a connection by itself.
PATIENCE_S = 1.0

# 1 s for executors to say that they have a job: they answer within milliseconds, and an answer that comes later is
# taken too, while a second executor may have begun the job.
SEARCH_S = 1.0

# 500 jobs in one search: 50 kB.
SOUGHT_AT_ONCE = 500

# How often that is looked at.
LOOK_S = 1.0

STAYING = frozenset(
    {
        FUNCTION_TYPE,
        "cursor",
        "dataQuery",
        "delay",
        "readVariables",
        "respond",
        "waitForEvent",
        "waitForWebhook",
        "workflow",
        "writeVariables",
    }
)
"""Types that need the database or the clock of the worker: they are executed there, whatever their pool is."""

CODE_LANGUAGES = frozenset({"javascript", "python"})


_Queue: TypeAlias = tuple[str, str]
"""Pool and priority."""


class Resolver(Protocol):
    """Makes the config of a job: templates resolved, secrets sealed."""

    async def resolve(self, node: PlanNode, execution: Execution, job_id: str) -> tuple[Any, str | None]:
        """The resolved config, or None and its sealed form if it has secrets. Raises what the handler would raise."""


@dataclass(slots=True, eq=False)
class _Sent:
    """A job that is outstanding at executors."""

    execution: Execution
    ticket: str
    job: NodeJob | None = None
    """None: not resolved yet."""
    last_sign_at: float = 0.0
    """When it was sent, or an executor last reported about it."""
    is_queued: bool = False
    """The broker has it, and no executor has reported that it has begun."""
    has_begun: bool = False
    is_over: bool = False
    is_announced: bool = False
    """Executors may know its ticket."""
    sending: int = 1
    silences: int = 0
    """How often no report came for too long, on the present connection."""
    instance_id: str = field(init=False)
    tenant_id: str = field(init=False)
    node: PlanNode = field(init=False)
    queue: _Queue = field(init=False)

    def __post_init__(self) -> None:
        """What the queue of waiting jobs reads."""
        execution = self.execution
        self.instance_id, self.tenant_id, self.node = execution.instance_id, execution.tenant_id, execution.node
        self.queue = self.node.pool, self.node.priority


class JobSender:
    """Has jobs of other pools executed elsewhere."""

    def __init__(
        self,
        *,
        transport: Transport,
        resolver: Resolver,
        stored: StoredReferences,
        letters: DeadLetterRows,
        pools: Collection[str],
        name: str,
        silent_s: float = SILENT_S,
        resend_s: float = RESEND_S,
        search_s: float = SEARCH_S,
    ) -> None:
        """`pools` are those that this worker serves itself; `name` is where reports go to."""
        self._transport = transport
        self._resolver = resolver
        self._stored = stored
        self._letters = letters
        self._pools = frozenset(pools)
        self._name = name
        self._console: Sink | None = None
        self._silent_s, self._resend_s, self._search_s = silent_s, resend_s, search_s
        self._worker: PoolTaskWorker | None = None
        self._sent: dict[str, _Sent] = {}
        self._sent_max = 0
        self._sought: dict[str, _Sent] = {}
        """Jobs that executors are to be asked for, by their ids."""
        self._waiting: dict[_Queue, FairJobs[_Sent]] = {}
        self._queued: Counter[_Queue] = Counter()
        self._has_capacity = asyncio.Event()
        self._has_missed = False
        """Reports, before the next connection: their queue was gone."""
        self._is_leaving = False
        self._tasks: list[asyncio.Task[None]] = []
        sleep = SystemClock().sleep
        self._pollers = (
            Poller(self._send_silent, name="silent-jobs", every_ms=round(min(LOOK_S, silent_s) * 1000), sleep=sleep),
            # Runs are taken over many at a time.
            Poller(self._search, name="search-jobs", every_ms=round(LOOK_S * 100), sleep=sleep),
        )

    # -- for the engine -------------------------------------------------------------------
    def connect(self, worker: PoolTaskWorker) -> None:
        """Set the worker that awaits outcomes, and keeps lines and progress."""
        self._worker, self._console = worker, worker.console

    def takes(self, node: PlanNode) -> bool:
        """Jobs of pools that this process does not serve."""
        return not self._serves(node.pool) and node.type not in STAYING

    def send(self, execution: Execution, *, may_run: bool) -> None:
        """Queue the job for the broker; one that `may_run` already after executors were asked for it."""
        sent = _Sent(execution, token_hex(8))
        job_id = job_id_of(execution)
        self._sent[job_id] = sent
        self._sent_max = max(self._sent_max, len(self._sent))
        if may_run:
            self._sought[job_id] = sent
            self._has_capacity.set()
        else:
            self._wait(sent)

    def cancel(self, execution: Execution) -> None:
        """Forget the job, and tell executors."""
        job_id = job_id_of(execution)
        sent = self._sent.get(job_id)
        if sent is None or sent.execution is not execution:
            return
        self._end(job_id, sent)
        if sent.is_announced and not self._is_leaving:
            self._withdraw(sent)

    def has_begun(self, execution: Execution) -> bool:
        """Whether an executor has reported that it executes the job."""
        sent = self._sent.get(job_id_of(execution))
        return sent is not None and sent.execution is execution and sent.has_begun

    def take_outstanding_max(self) -> int:
        """The maximum of outstanding jobs since the last call."""
        sent_max, self._sent_max = self._sent_max, len(self._sent)
        return sent_max

    async def run_step(
        self, run: Helpers, node: PlanNode, step_attempt: tuple[str, int], *, redone: Redone | None, may_run: bool
    ) -> HandlerOutcome:
        """Have one attempt of a step of this run executed. One that `may_run` already is looked for first."""
        assert self._worker is not None, "connected before the first run"
        head = bare_head(run.instance_id, run.tenant_id, run.workflow_id)
        dispatch = Dispatch(node.id, *step_attempt)
        return await self._worker.run_step(head, dispatch, node, redone=redone, may_run=may_run)

    def jobs_of(self, instance_id: str) -> Sequence[RemoteJob]:
        """The outstanding jobs of a run."""
        of_run = [each for each in self._sent.values() if each.instance_id == instance_id]
        return [
            RemoteJob(
                each.execution.node_id, each.execution.scope, each.execution.attempt, each.node.pool, each.has_begun
            )
            for each in of_run
        ]

    def why_waiting(self, pool: str) -> str | None:
        """Why jobs of this pool are not sent now; None: they are, or they are executed here."""
        if self._serves(pool) or self._transport.is_connected:
            return None
        return "the broker cannot be reached"

    def _serves(self, pool: str) -> bool:
        return pool in self._pools or EVERY_POOL in self._pools

    # -- life -----------------------------------------------------------------------------
    async def start(self) -> None:
        """Begin to send and to receive; the broker need not be there."""
        # First: no job is sent before executors find somebody who awaits it.
        await self._transport.register_results_worker(self._name, self._receive, missed=self._note_missed)
        await self._transport.register_dead_letters(self._keep_dead)
        self._transport.when_connected(self._take_up)
        self._tasks += [asyncio.create_task(self._publish(), name=f"job-publisher-{n}") for n in range(PUBLISHERS)]
        for poller in self._pollers:
            await poller.start()
        await self._transport.start()

    def leave(self) -> None:
        """This process begins to stop: executors keep what they have begun, and answer the next owners of the runs."""
        self._is_leaving = True

    async def stop(self, *, patience_s: float = PATIENCE_S) -> None:
        """Send and receive nothing more. What is outstanding, the next owners of the runs send again.

        A broker that does not answer is left after `patience_s`.
        """
        for poller in self._pollers:
            await poller.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._transport.stop(patience_s=patience_s)

    def _note_missed(self) -> None:
        self._has_missed = True

    def _take_up(self) -> None:
        """Go on with a new connection: silence before it tells nothing of a job.

        If reports were missed, executors are asked for all jobs: who got one while nobody awaited it has dropped it.
        """
        now = asyncio.get_running_loop().time()
        for job_id, sent in self._sent.items():
            if sent.is_queued or sent.has_begun:
                sent.last_sign_at, sent.silences = now, 0
                if self._has_missed:
                    self._sought[job_id] = sent
        self._has_missed = False
        self._has_capacity.set()

    # -- sending --------------------------------------------------------------------------
    def _wait(self, sent: _Sent) -> None:
        self._waiting.setdefault(sent.queue, FairJobs({})).add(sent)
        self._has_capacity.set()

    def _next(self) -> _Sent | None:
        """The next job, of a queue with room; those of high priority first, tenants in turn."""
        if not self._transport.is_connected:
            return None
        for priority in (HIGH, NORMAL):
            for queue, waiting in self._waiting.items():
                while queue[1] == priority and waiting.waiting and self._queued[queue] < QUEUED_MAX:
                    sent = waiting.pop()
                    if sent is not None and not sent.is_over:
                        return sent
        return None

    async def _publish(self) -> None:
        while True:
            sent = self._next()
            if sent is None:
                self._has_capacity.clear()
                await self._has_capacity.wait()
                continue
            try:
                await self._publish_one(sent)
            except (TransportUnavailable, StoreUnavailable):  # whatever it is that does not answer, the node waits
                self._note_queued(sent, is_queued=False)
                if not sent.is_over:
                    self._wait(sent)
                await asyncio.sleep(LOOK_S)
            except Exception as failure:  # noqa: BLE001 -- config that does not resolve, secrets that are missing
                self._fail(sent, failure)

    async def _publish_one(self, sent: _Sent) -> None:
        if sent.job is None:
            sent.job = await self._job(sent)
        if sent.is_over:
            return
        sent.is_announced = True
        self._note_queued(sent, is_queued=True)
        sent.last_sign_at = asyncio.get_running_loop().time()
        await self._transport.add_node_job(replace(sent.job, sending=sent.sending))

    async def _search(self) -> None:
        """Ask executors for jobs that they may have; those that nobody has are sent."""
        if not self._sought or not self._transport.is_connected:
            return
        asked = {job_id: self._sought[job_id] for job_id in list(self._sought)[:SOUGHT_AT_ONCE]}
        for sent in asked.values():
            sent.is_announced = True
        try:
            await self._transport.search(JobSearch(self._name, {each: sent.ticket for each, sent in asked.items()}))
        except TransportUnavailable:
            return  # the next look asks again
        for job_id, sent in asked.items():
            if self._sought.get(job_id) is sent:
                del self._sought[job_id]
            if sent.is_over:
                self._withdraw(sent)  # it was stopped before it could be asked for
        asyncio.get_running_loop().call_later(self._search_s, self._send_unclaimed, list(asked.values()))

    def _send_unclaimed(self, asked: Sequence[_Sent]) -> None:
        for sent in asked:
            if sent.is_over or sent.has_begun:
                continue
            if sent.job is None:
                self._wait(sent)
            elif sent.is_queued:
                self._send_again(sent)

    def _send_again(self, sent: _Sent) -> None:
        sent.sending += 1
        sent.has_begun = False
        self._note_queued(sent, is_queued=False)
        self._wait(sent)

    async def _job(self, sent: _Sent) -> NodeJob:
        execution, node = sent.execution, sent.node
        job_id = job_id_of(execution)
        config, sealed = await self._resolver.resolve(node, execution, job_id)
        context = _context_of(node, execution.context)
        divided = await divide_job(self._stored, execution.instance_id, config, context)
        job = NodeJob(
            job_id=job_id,
            instance_id=execution.instance_id,
            tenant_id=execution.tenant_id,
            workflow_id=execution.workflow_id,
            node_id=execution.node_id,
            scope=execution.scope,
            attempt=execution.attempt,
            type=node.type,
            pool=node.pool,
            priority=cast("Priority", node.priority),
            config=divided.config,
            sealed=sealed,
            context=divided.context,
            parts=divided.parts,
            idempotency_key=execution.idempotency_key,
            key_generation=0 if execution.redone is None else execution.redone.key_generation,
            timeout_ms=node.timeout_ms,
            heartbeat_ms=node.heartbeat_ms,
            output_bytes_max=node.output_bytes_max,
            reply_to=self._name,
            ticket=sent.ticket,
        )
        job.to_json()  # too large: the node fails, once, with the reason
        return job

    def _note_queued(self, sent: _Sent, *, is_queued: bool) -> None:
        if sent.is_queued != is_queued:
            sent.is_queued = is_queued
            self._queued[sent.queue] += 1 if is_queued else -1
            if not is_queued:
                self._has_capacity.set()

    def _withdraw(self, sent: _Sent) -> None:
        """Tell executors that nobody awaits the job any more."""
        task = asyncio.create_task(self._send_cancelled(sent.ticket), name="cancel-job")
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _send_cancelled(self, ticket: str) -> None:
        try:
            await self._transport.cancel(ticket)
        except TransportUnavailable:
            logger.debug("the cancellation of %s was not sent; its result will be discarded", ticket)

    async def _send_silent(self) -> None:
        """Send jobs again about which no report came for long, although the broker is there."""
        if not self._transport.is_connected:
            return
        now = asyncio.get_running_loop().time()
        for sent in list(self._sent.values()):
            if not (sent.is_queued or sent.has_begun):
                continue
            resend_s = min(self._resend_s * 2 ** min(sent.silences, DOUBLINGS_MAX), RESEND_S_MAX)
            if now - sent.last_sign_at > (self._silent_s if sent.has_begun else resend_s):
                logger.warning(
                    "%s: nothing was heard of it from the pool %s; it is sent again",
                    who_is(sent.instance_id, sent.execution.node_id, sent.execution.scope),
                    sent.node.pool,
                    extra={"instance_id": sent.instance_id},
                )
                sent.silences += 1
                self._send_again(sent)

    async def _keep_dead(self, dead: DeadMessage) -> None:
        letter = dead.as_letter()
        logger.error("a job of the queue %s is a dead letter: %s", letter.queue, letter.reason)
        await self._letters.add_letter(letter)

    # -- receiving ------------------------------------------------------------------------
    def _receive(self, report: JobReport) -> None:
        sent = self._sent.get(report.job_id)
        if sent is None:
            return  # late, or double
        execution = sent.execution
        sent.last_sign_at = asyncio.get_running_loop().time()
        if not sent.has_begun:
            sent.has_begun = True
            self._note_queued(sent, is_queued=False)
            execution.note_began()
            if self._console is not None:
                self._console.take_start(execution, is_kept=True)
        try:
            match report.kind:
                case "progress" if self._console is not None:
                    body = report.body
                    progress = read_progress(body.get("done", 0), body.get("total"), str(body.get("text") or ""))
                    self._console.take_progress(execution, progress)
                case "line" if self._console is not None:
                    level = report.body.get("level")
                    text = storable(str(report.body.get("text", "")), LINE_CHARACTERS_MAX)
                    self._console.take_line(execution, level if isinstance(level, int) else logging.INFO, text)
                case "result":
                    self._take_result(sent, report)
        except (BadMessage, ValueError) as refusal:
            logger.warning("a report about job %s is dropped: %s", report.job_id, refusal)

    def _take_result(self, sent: _Sent, report: JobReport) -> None:
        execution = sent.execution
        found = outcome_in(report, node_id=execution.node_id, scope=execution.scope, attempt=execution.attempt)
        outcome: HandlerOutcome
        if isinstance(found, HandlerResult):
            try:
                outcome = checked_outcome(found, execution.node.output_bytes_max)
            except AnabranchError as refusal:
                outcome = self._failure(execution, refusal)
        else:
            outcome = found
        self._answer(report.job_id, sent, outcome)

    def _answer(self, job_id: str, sent: _Sent, outcome: HandlerOutcome) -> None:
        self._end(job_id, sent)
        if sent.sending > 1:  # copies may still wait in the pool
            self._withdraw(sent)
        assert self._worker is not None, "connected before the first job"
        self._worker.answer(sent.execution, outcome)

    def _fail(self, sent: _Sent, failure: Exception) -> None:
        if not sent.is_over:
            self._answer(job_id_of(sent.execution), sent, self._failure(sent.execution, failure))

    def _failure(self, execution: Execution, failure: Exception) -> Failed:
        return failed_by(
            failure,
            node_id=execution.node_id,
            scope=execution.scope,
            attempt=execution.attempt,
            who=who_is(execution.instance_id, execution.node_id, execution.scope),
        )

    def _end(self, job_id: str, sent: _Sent) -> None:
        sent.is_over = True
        self._note_queued(sent, is_queued=False)
        if self._sent.get(job_id) is sent:
            del self._sent[job_id]


def job_id_of(execution: Execution) -> str:
    """The id of a job: the same for every owner of the run and every sending."""
    return f"{execution.idempotency_key}-{execution.attempt}"


def _context_of(node: PlanNode, context: Mapping[str, Any]) -> dict[str, Any]:
    """The context that the handler may read; for code that names what it reads only that."""
    names = names_read(node.config.get("code", ""), node.type) if node.type in CODE_LANGUAGES else None
    return {name: context[name] for name in context if names is None or name in names}
