"""The task worker: take a job, run its handler with a deadline, report one result.

Called by the orchestrator; its jobs go through the task queue. Whatever a
handler does, exactly one outcome comes of it, checked and encoded here, unless nobody awaits it
any more. Nothing of a handler's exception but its type and message leaves this module.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any

from anabranch.engine.failures import ends_us, failed_by, who_is
from anabranch.engine.handling import Handler, HandlerRegistry, HandlerResult, HandlerReturn, Helpers
from anabranch.engine.loop_watch import BLOCKED_AFTER_S
from anabranch.engine.ports import Clock
from anabranch.engine.queues import NodeJob, TaskQueue
from anabranch.engine.rules.coded.coded_plan import BODY_TYPE
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.duration import DURATION_MS_MAX
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.rules.stimuli import (
    AwaitsChild,
    AwaitsSignal,
    Completed,
    Failed,
    FunctionBlocked,
    FunctionSuspended,
    HandlerOutcome,
    NodeResult,
)
from anabranch.engine.rules.values import VALUE_BYTES_MAX, Payload
from anabranch.engine.threads import HandlerThreads
from anabranch.errors import NonRetryable, RunError

logger = logging.getLogger("anabranch.handlers")

# `start` repeats the input, which may be as large as any value, inside an object of its own.
START_OUTPUT_BYTES_MAX = VALUE_BYTES_MAX + 64


@dataclass(slots=True, eq=False)
class _Execution:
    """A job that is queued or under way."""

    job: NodeJob
    cancelled: asyncio.Event
    limit: asyncio.Timeout | None = None
    stopped: bool = False


class TaskWorker:
    """Runs handlers, at most `concurrency` at once."""

    def __init__(
        self,
        *,
        handlers: HandlerRegistry,
        functions: Handler | None = None,
        tasks: TaskQueue,
        clock: Clock,
        concurrency: int,
        threads: HandlerThreads | None = None,
    ) -> None:
        self._handlers = handlers
        self._functions = functions
        self._tasks = tasks
        self._report: Callable[[str, NodeResult], None] | None = None
        self._clock = clock
        self._threads = threads or HandlerThreads()
        self._executions: dict[str, dict[Dispatch, _Execution]] = {}
        tasks.register_task_worker(self._process, concurrency=concurrency)

    def report_to(self, receive: Callable[[str, NodeResult], None]) -> None:
        """Name the function that takes a result with its instance's id; it must not block. Before `start`."""
        self._report = receive

    def add_node_job(self, job: NodeJob) -> None:
        """Queue a job; the same attempt while it is queued or under way changes nothing."""
        of_instance = self._executions.get(job.instance_id)
        if of_instance is None:
            of_instance = self._executions[job.instance_id] = {}
        known = of_instance.get(job.dispatch)
        if known is None or known.stopped:
            of_instance[job.dispatch] = _Execution(job, asyncio.Event())
            self._tasks.add_node_job(job)

    def stop_job(self, instance_id: str, dispatch: Dispatch) -> None:
        """Tell a handler to stop: nobody awaits its result."""
        execution = self._executions.get(instance_id, {}).get(dispatch)
        if execution is not None:
            self._stop(execution)

    def stop_instance(self, instance_id: str) -> None:
        """Tell every handler of an instance to stop."""
        for execution in list(self._executions.get(instance_id, {}).values()):
            self._stop(execution)

    def executes(self, instance_id: str) -> bool:
        """Is a handler of this instance under way? A queued job is not."""
        return any(execution.limit is not None for execution in self._executions.get(instance_id, {}).values())

    def _stop(self, execution: _Execution) -> None:
        execution.stopped = True
        execution.cancelled.set()
        if execution.limit is None:
            self._forget(execution)  # it has not begun
        elif not execution.limit.expired():  # else it is being cancelled already, and may take its time over that
            execution.limit.reschedule(0)

    async def _process(self, job: NodeJob) -> None:
        of_instance = self._executions.get(job.instance_id)
        execution = None if of_instance is None else of_instance.get(job.dispatch)
        if execution is None or execution.job is not job:
            return  # stopped while it was queued
        try:
            outcome = await self._outcome(execution)
        finally:
            self._forget(execution)
        if not execution.stopped:
            assert self._report is not None, "report_to comes before jobs"
            self._report(job.instance_id, NodeResult(*job.dispatch, outcome))

    def _forget(self, execution: _Execution) -> None:
        of_instance = self._executions.get(execution.job.instance_id)
        if of_instance is not None and of_instance.get(execution.job.dispatch) is execution:
            del of_instance[execution.job.dispatch]
            if not of_instance:
                del self._executions[execution.job.instance_id]

    async def _outcome(self, execution: _Execution) -> HandlerOutcome:
        job, timeout_ms = execution.job, execution.job.node.timeout_ms
        helpers = Helpers(
            instance_id=job.instance_id,
            tenant_id=job.tenant_id,
            node_id=job.node.id,
            workflow_id=job.workflow_id,
            scope=job.dispatch.scope,
            attempt=job.dispatch.attempt,
            now_ms=self._clock.now(),
            context=job.context,
            log=logging.LoggerAdapter(logger, {"instance_id": job.instance_id, "node_id": job.node.id}),
            cancelled=execution.cancelled,
            threads=self._threads,
        )
        time = asyncio.get_running_loop().time
        started = _Started(outcome_of(self._handlers, job.node, helpers, functions=self._functions), time)
        if started.result is not None:
            if timeout_ms is not None and started.longest_s * 1000 > timeout_ms:
                return _late(helpers, timeout_ms, started.longest_s)
            return started.result
        execution.limit = asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)
        outcome: HandlerOutcome | None = None
        with suppress(TimeoutError):
            async with execution.limit:
                outcome = await started
        if outcome is None or execution.limit.expired():  # a handler that catches its cancellation is late all the same
            execution.cancelled.set()  # its thread, if it has one, goes on
            return _late(helpers, timeout_ms, started.longest_s)
        ends_at = execution.limit.when()
        if ends_at is not None and started.stepped_at < ends_at < time():
            return _late(helpers, timeout_ms, started.longest_s)  # it kept the loop from telling it that its time is up
        return outcome


class _Started:
    """A coroutine run up to its first wait, in a context of its own: what it sets there, no other job sees.

    Most handlers never wait: they need no timer, and no task. `result` is what it returned, None while it
    waits; then the rest of it is awaited. How long it kept the event loop is measured by the loop's `time`.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, HandlerOutcome], time: Callable[[], float]) -> None:
        self._coroutine = coroutine
        self._context = copy_context()
        self._time = time
        self._first: Any = None
        self.result: HandlerOutcome | None = None
        self.stepped_at = time()
        """When its last step, from one wait to the next, began."""
        try:
            self._first = self._context.run(coroutine.send, None)
        except StopIteration as returned:
            self.result = returned.value
        self.longest_s = time() - self.stepped_at
        """How long its longest step took; nothing else ran meanwhile."""

    def __await__(self) -> Generator[Any, Any, HandlerOutcome]:
        """What `yield from` does, but for the first step, which has been taken."""
        waits_for = self._first
        while True:
            try:
                answer = yield waits_for
            except BaseException as thrown:  # noqa: BLE001 -- cancellation too belongs to the coroutine
                step = partial(self._coroutine.throw, thrown)
            else:
                step = partial(self._coroutine.send, answer)
            self.stepped_at = self._time()
            try:
                waits_for = self._context.run(step)
            except StopIteration as returned:
                outcome: HandlerOutcome = returned.value
                return outcome
            finally:
                self.longest_s = max(self.longest_s, self._time() - self.stepped_at)


async def outcome_of(
    handlers: HandlerRegistry, node: PlanNode, helpers: Helpers, *, functions: Handler | None = None
) -> HandlerOutcome:
    """Execute a node's handler once, without a time limit: what it returned, checked, or why it failed.

    `functions` handles the function of a coded workflow.
    """
    task = asyncio.current_task()
    try:
        handler = functions if node.type == BODY_TYPE else handlers.handler(node.type)
        if handler is None and node.type == BODY_TYPE:
            return FunctionBlocked("UNKNOWN_WORKFLOW", "this worker runs no coded workflows")
        if handler is None:
            raise NonRetryable(f"no handler for node type {node.type!r} is installed here", code="UNKNOWN_NODE_TYPE")
        bytes_max = START_OUTPUT_BYTES_MAX if node.type == "start" else VALUE_BYTES_MAX
        return _checked(await handler.execute(node.config, helpers.context, helpers), bytes_max)
    except BaseException as failure:  # whatever a handler raises is its outcome, sys.exit() too
        if ends_us(failure, task):
            raise
        return _failed(helpers, failure)


def _checked(returned: HandlerReturn, bytes_max: int) -> HandlerOutcome:
    """What a handler returned, as a value that may enter the log. Raises what makes it unfit."""
    if isinstance(returned, AwaitsSignal | AwaitsChild | FunctionSuspended | FunctionBlocked | Failed):
        return returned
    if not isinstance(returned, HandlerResult):
        raise NonRetryable(f"the handler returned a {type(returned).__name__}, not a HandlerResult")
    if not isinstance(returned.next_handle, str | None):
        raise NonRetryable(f"next_handle is a {type(returned.next_handle).__name__}, not text", code="UNKNOWN_HANDLE")
    delay_ms = returned.queue_delay
    if delay_ms is not None and not (math.isfinite(delay_ms) and 0 <= delay_ms <= DURATION_MS_MAX):
        raise NonRetryable(
            f"queue_delay is {delay_ms}; it goes from 0 to {DURATION_MS_MAX} ms", code="NODE_CONFIG_INVALID"
        )
    return Completed(
        Payload.of(returned.output, bytes_max=bytes_max),
        returned.next_handle,
        None if delay_ms is None else math.ceil(delay_ms),
    )


def _late(helpers: Helpers, timeout_ms: int | None, longest_step_s: float) -> Failed:
    """Its time is up; why, as far as we know."""
    message = f"the handler did not return within its timeout of {timeout_ms} ms"
    if longest_step_s >= BLOCKED_AFTER_S or (timeout_ms is not None and longest_step_s * 1000 > timeout_ms):
        message += (
            f": it blocked the event loop for {longest_step_s:.1f} s, and nothing else ran meanwhile."
            " A plain `def execute` runs in a thread"
        )
    elif helpers.waits_for:
        message += f": {helpers.waits_for}"
    error = RunError("NODE_TIMEOUT", "NodeTimeout", message, helpers.node_id, helpers.scope, helpers.attempt)
    return Failed(error, retryable=True)


def _failed(helpers: Helpers, failure: BaseException) -> Failed:
    return failed_by(
        failure,
        node_id=helpers.node_id,
        scope=helpers.scope,
        attempt=helpers.attempt,
        who=who_is(helpers.instance_id, helpers.node_id, helpers.scope),
    )
