"""The task worker: take a job, run its handler with a timeout, report one result.

Jobs come through the task queue. Whatever a handler does, it leads to exactly one outcome, checked and encoded here,
unless the result is no longer awaited. Of an exception, only type, message and the author's frames leave this module.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from anabranch.engine.console.lines import Sink, present
from anabranch.engine.handler_contract import Handler, HandlerRegistry, HandlerResult, HandlerReturn, Helpers, ends_us
from anabranch.engine.loop_watch import BLOCKED_AFTER_S
from anabranch.engine.ports import CallbackSigner, Clock
from anabranch.engine.queues import LocalTaskQueue
from anabranch.engine.rules.callbacks import CALLBACKS_NAME, callback_event
from anabranch.engine.rules.coded.coded_plan import FUNCTION_TYPE
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot
from anabranch.engine.rules.duration import DURATION_MS_MAX
from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.rules.shared.failures import failed_by, silence, who_is
from anabranch.engine.rules.shared.run_state import InstanceHead, Redone
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
from anabranch.engine.rules.values import Payload
from anabranch.engine.threads import HandlerThreads
from anabranch.engine.tracebacks import lines_of_the_author
from anabranch.errors import NonRetryable, RunError, SecretKeyMissing

# 1 s in the queue, or of execution: from then on it is kept when an attempt began. Most take less, and cost nothing.
START_KEPT_AFTER_S = 1.0


class Execution(Helpers):
    """One attempt: its job while queued, then the helpers of its handler, and its progress.

    It runs in its own context (`contextvars`). Most handlers never wait, so they need neither timer nor task; only a
    handler that waits is awaited, within its time limit.
    """

    __slots__ = (
        "_began_at_ms",
        "_clock",
        "_ends_at",
        "_loop",
        "_rest",
        "_time",
        "began_at",
        "limit",
        "longest_s",
        "node",
        "queued_at",
        "stepped_at",
        "stopped",
    )

    def __init__(
        self,
        head: InstanceHead,
        dispatch: Dispatch,
        node: PlanNode,
        context: Mapping[str, Any],
        clock: Clock,
        threads: HandlerThreads,
        console: Sink | None,
        redone: Redone | None = None,
    ) -> None:
        # Arguments are given by position on the way of every node: by name a class costs three times as much to call.
        # The same as `Helpers.__init__`, without the cost of a call with so many keywords.
        self.instance_id = head.instance_id
        self.tenant_id = head.tenant_id
        self.workflow_id = head.workflow_id
        self.node_id, self.scope, self.attempt = dispatch
        self.context = context
        self.threads = threads
        self.console = console
        self.lines_logged = 0
        self.is_first_call = False
        self.mask = str
        self.redone = redone
        self.waits_for = ""
        self.is_cancelled = False
        self._began_at_ms: int | None = None
        self._log = self._cancelled = None
        self.dispatch = dispatch
        self.node = node
        self._rest: tuple[Any, Coroutine[Any, Any, HandlerOutcome], Context] | None = None
        """What it waits for, and how it continues then."""
        self.limit: asyncio.Timeout | None = None
        """Of a handler that waits."""
        self.stopped = False
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self.queued_at = 0.0
        """By the event loop's time."""

    def begin(self, coroutine: Coroutine[Any, Any, HandlerOutcome], time: Callable[[], float]) -> HandlerOutcome | None:
        """Run the handler up to its first wait. Returns its result, or None if it waits.

        The time that it occupies the event loop is measured.
        """
        context = copy_context()
        context.run(present.set, self)
        self._time = time
        self.began_at = self.stepped_at = time()
        """When it began, and when its last step, from one wait to the next, did."""
        result: HandlerOutcome | None = None
        try:
            self._rest = context.run(coroutine.send, None), coroutine, context
        except StopIteration as returned:
            result = returned.value
        self.longest_s = time() - self.stepped_at
        """How long its longest step took; nothing else ran meanwhile."""
        return result

    def __await__(self) -> Generator[Any, Any, HandlerOutcome]:
        """Like `yield from`, after the first step, which `begin` has taken."""
        assert self._rest is not None, "it waits"
        waits_for, coroutine, context = self._rest
        while True:
            try:
                answer = yield waits_for
            except BaseException as thrown:  # noqa: BLE001 -- cancellation too belongs to the coroutine
                step = partial(coroutine.throw, thrown)
            else:
                step = partial(coroutine.send, answer)
            self.stepped_at = self._time()
            try:
                waits_for = context.run(step)
            except StopIteration as returned:
                outcome: HandlerOutcome = returned.value
                return outcome
            finally:
                self.longest_s = max(self.longest_s, self._time() - self.stepped_at)

    def limited(self, timeout_ms: int | None) -> asyncio.Timeout:
        """A context that bounds the rest of it: by its timeout and its heartbeat timeout."""
        heartbeat_ms = self.node.heartbeat_ms
        if heartbeat_ms is None:
            self.limit = asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)
            return self.limit
        self._loop = asyncio.get_running_loop()
        self._ends_at = math.inf if timeout_ms is None else self._time() + timeout_ms / 1000
        self.limit = asyncio.timeout_at(min(self._ends_at, self._time() + heartbeat_ms / 1000))
        return self.limit

    @property
    def was_silent(self) -> bool:
        """Whether its heartbeat timeout has passed."""
        ends_at = None if self.limit is None else self.limit.when()
        return self._loop is not None and ends_at is not None and ends_at < self._ends_at

    def beat(self) -> None:
        """Restart the heartbeat timeout; thread-safe."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._beaten)

    def _beaten(self) -> None:
        heartbeat_ms, limit = self.node.heartbeat_ms, self.limit
        if heartbeat_ms is None or limit is None or self._loop is None or self.stopped:
            return
        if not limit.expired():
            limit.reschedule(min(self._ends_at, self._time() + heartbeat_ms / 1000))

    def ended(self) -> None:
        """Remove its bounds, and what refers back to it: so it is freed at once, without the garbage collector."""
        self._loop = self._log = self._rest = None

    def note_began(self) -> None:
        """It has begun in another process just now."""
        self._began_at_ms = self._clock.now()

    @property
    def now_ms(self) -> int:
        """Milliseconds since the epoch by the store's clock, when the attempt began; computed on first use."""
        if self._began_at_ms is None:
            self._began_at_ms = self._clock.now() - int((self._time() - self.began_at) * 1000)
        return self._began_at_ms

    @property
    def began_at_ms(self) -> int | None:
        """The same once it is known: a thread of the handler may ask, and cannot read the clock."""
        return self._began_at_ms


class TaskWorker:
    """Runs handlers, at most `concurrency` at once."""

    def __init__(
        self,
        *,
        handlers: HandlerRegistry,
        functions: Handler | None = None,
        tasks: LocalTaskQueue[Execution],
        clock: Clock,
        concurrency: int,
        threads: HandlerThreads | None = None,
        console: Sink | None = None,
        callbacks: CallbackSigner | None = None,
    ) -> None:
        self._handlers = handlers
        self._callbacks = callbacks
        self._console = console
        self._functions = functions
        self._tasks = tasks
        self._report: Callable[[str, NodeResult], None] | None = None
        self._clock = clock
        self._threads = threads or HandlerThreads()
        self._executions: dict[str, dict[Dispatch, Execution]] = {}
        tasks.register_task_worker(self._process, concurrency=concurrency)

    def report_to(self, receive: Callable[[str, NodeResult], None]) -> None:
        """Set the function that receives results with the instance's id; it must not block. Call it before `start`."""
        self._report = receive

    def leave_alone(self, instance_id: str | None) -> None:
        """Let only jobs of this run begin, or with None jobs of all runs; executions continue."""
        self._tasks.leave_alone(instance_id)

    def execute(
        self,
        head: InstanceHead,
        dispatch: Dispatch,
        node: PlanNode,
        context: Mapping[str, Any],
        redone: Redone | None = None,
    ) -> None:
        """Queue an attempt. Does nothing if it is queued or under way."""
        of_instance = self._executions.get(head.instance_id)
        if of_instance is None:
            of_instance = self._executions[head.instance_id] = {}
        known = of_instance.get(dispatch)
        if known is None or known.stopped:
            if node.callbacks:
                context = self._with_callbacks(head, dispatch, node, context)
            execution = Execution(head, dispatch, node, context, self._clock, self._threads, self._console, redone)
            execution.queued_at = asyncio.get_running_loop().time()
            of_instance[dispatch] = execution
            self._tasks.add(execution)

    def _with_callbacks(
        self, head: InstanceHead, dispatch: Dispatch, node: PlanNode, context: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The context with the addresses that the node can send. Without a key there are none, and the node that waits
        says why; a variable of the workflow with that name stays what it is."""
        if self._callbacks is None or CALLBACKS_NAME in context:
            return context
        assert isinstance(context, ContextSnapshot), "only nodes of drawn runs read addresses"
        now = self._clock.now() if context.facts is None else context.facts.now_ms
        addresses = {}
        try:
            for each in node.callbacks:
                event = callback_event(head.instance_id, each.node_id, each.scope_of(dispatch.scope))
                addresses[each.node_id] = self._callbacks.address(
                    head.instance_id, event, tenant_id=head.tenant_id, expires_at=now + each.timeout_ms
                )
        except SecretKeyMissing:
            return context
        return context.within({CALLBACKS_NAME: addresses})

    def note_dispatched_before(self, instance_id: str, dispatches: Collection[Dispatch]) -> None:
        """These attempts, which are executed next, were dispatched before the run came here."""

    def stop_job(self, instance_id: str, dispatch: Dispatch) -> None:
        """Stop a handler whose result is no longer awaited."""
        execution = self._executions.get(instance_id, {}).get(dispatch)
        if execution is not None:
            self._stop(execution)

    def stop_instance(self, instance_id: str) -> None:
        """Stop all handlers of an instance."""
        for execution in list(self._executions.get(instance_id, {}).values()):
            self._stop(execution)

    def executes(self, instance_id: str) -> bool:
        """Whether a handler of this instance is under way; queued jobs do not count."""
        return any(execution.limit is not None for execution in self._executions.get(instance_id, {}).values())

    def withdraw(self, instance_id: str) -> list[Dispatch]:
        """Withdraw the attempts of an instance that have not begun; returns them."""
        queued = [each for each in self._executions.get(instance_id, {}).values() if each.limit is None]
        for execution in queued:
            self._stop(execution)
        return [execution.dispatch for execution in queued]

    def _stop(self, execution: Execution) -> None:
        execution.stopped = True
        execution.cancel()
        if execution.limit is None:
            self._forget(execution)  # it has not begun
        elif not execution.limit.expired():  # otherwise it is being cancelled already, which may take time
            execution.limit.reschedule(0)

    def _process(self, execution: Execution) -> Awaitable[None] | None:
        of_instance = self._executions.get(execution.instance_id)
        if of_instance is None or of_instance.get(execution.dispatch) is not execution:
            return None  # stopped while it was queued
        timeout_ms = execution.node.timeout_ms
        try:
            outcome = execution.begin(
                outcome_of(self._handlers, execution.node, execution, functions=self._functions),
                asyncio.get_running_loop().time,
            )
        except BaseException:
            self._forget(execution)
            raise
        if self._console is not None and execution.began_at - execution.queued_at >= START_KEPT_AFTER_S:
            self._take_start(execution, is_kept=True)
        if outcome is None:
            return self._wait(execution, timeout_ms)
        if timeout_ms is not None and execution.longest_s * 1000 > timeout_ms:
            outcome = _late(execution, timeout_ms, execution.longest_s)
        self._forget(execution)
        self._deliver(execution, outcome)
        return None

    async def _wait(self, execution: Execution, timeout_ms: int | None) -> None:
        """Await an execution that waits, within its time limit."""
        started = self._announce_start(execution)
        try:
            outcome = await self._outcome(execution, timeout_ms)
        finally:
            if started is not None:
                started.cancel()
            self._forget(execution)
        self._deliver(execution, outcome)

    def _announce_start(self, execution: Execution) -> asyncio.TimerHandle | None:
        """Announce at once that it executes; the beginning of a long execution is also stored, for later watchers."""
        if self._console is None or execution.is_function:
            return None
        self._take_start(execution, is_kept=False)
        keep = partial(self._take_start, execution, is_kept=True)
        return asyncio.get_running_loop().call_later(START_KEPT_AFTER_S, keep)

    def _take_start(self, execution: Execution, *, is_kept: bool) -> None:
        assert self._console is not None and execution.now_ms, "reckoned here, on the event loop's thread"
        self._console.take_start(execution, is_kept=is_kept)

    async def _outcome(self, execution: Execution, timeout_ms: int | None) -> HandlerOutcome:
        limit = execution.limited(timeout_ms)
        outcome: HandlerOutcome | None = None
        with suppress(TimeoutError):
            async with limit:
                outcome = await execution
        was_silent = execution.was_silent
        if outcome is None or limit.expired():  # a handler that catches its cancellation has still timed out
            execution.cancel()  # its thread, if any, continues
            return _silent(execution) if was_silent else _late(execution, timeout_ms, execution.longest_s)
        ends_at = limit.when()
        if ends_at is not None and execution.stepped_at < ends_at < asyncio.get_running_loop().time():
            # It blocked the loop, so its timeout could not fire in time.
            if was_silent:
                return _silent(execution)
            return _late(execution, timeout_ms, execution.longest_s)
        return outcome

    def _deliver(self, execution: Execution, outcome: HandlerOutcome) -> None:
        if not execution.stopped:
            assert self._report is not None, "report_to comes before jobs"
            result = NodeResult(execution.node_id, execution.scope, execution.attempt, outcome)
            self._report(execution.instance_id, result)

    def _forget(self, execution: Execution) -> None:
        execution.ended()
        of_instance = self._executions.get(execution.instance_id)
        if of_instance is not None and of_instance.get(execution.dispatch) is execution:
            del of_instance[execution.dispatch]
            if not of_instance:
                del self._executions[execution.instance_id]


async def outcome_of(
    handlers: HandlerRegistry, node: PlanNode, helpers: Helpers, *, functions: Handler | None = None
) -> HandlerOutcome:
    """Execute a node's handler once, without a time limit. Returns its checked result or its failure.

    `functions` executes workflow functions.
    """
    task = asyncio.current_task()
    try:
        handler = functions if node.type == FUNCTION_TYPE else handlers.handler(node.type)
        if handler is None and node.type == FUNCTION_TYPE:
            return FunctionBlocked(SuspendReason.UNKNOWN_WORKFLOW, "this worker runs no coded workflows")
        if handler is None:
            raise NonRetryable(f"no handler for node type {node.type!r} is installed here", code="UNKNOWN_NODE_TYPE")
        return checked_outcome(await handler.execute(node.config, helpers.context, helpers), node.output_bytes_max)
    except BaseException as failure:  # any exception of a handler is its outcome, including sys.exit()
        if ends_us(failure, task):
            raise
        return _failed(helpers, failure)


def checked_outcome(returned: HandlerReturn, bytes_max: int) -> HandlerOutcome:
    """A handler's result as an outcome for the log. Raises if it cannot be stored."""
    if not isinstance(returned, HandlerResult):
        if isinstance(returned, AwaitsSignal | AwaitsChild | FunctionSuspended | FunctionBlocked | Failed):
            return returned
        raise NonRetryable(f"the handler returned a {type(returned).__name__}, not a HandlerResult")
    if returned.next_handle is not None and not isinstance(returned.next_handle, str):
        raise NonRetryable(f"next_handle is a {type(returned.next_handle).__name__}, not text", code="UNKNOWN_HANDLE")
    delay_ms = returned.queue_delay
    if delay_ms is not None and not (math.isfinite(delay_ms) and 0 <= delay_ms <= DURATION_MS_MAX):
        raise NonRetryable(
            f"queue_delay is {delay_ms}; it goes from 0 to {DURATION_MS_MAX} ms", code="NODE_CONFIG_INVALID"
        )
    return Completed(
        Payload.of(returned.output, bytes_max),
        returned.next_handle,
        None if delay_ms is None else math.ceil(delay_ms),
    )


def _late(helpers: Helpers, timeout_ms: int | None, longest_step_s: float) -> Failed:
    """The outcome of an attempt that timed out, with the reason if known."""
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


def _silent(execution: Execution) -> Failed:
    """The outcome of an attempt that missed its heartbeat timeout."""
    message = f"the handler reported no progress within its heartbeatTimeout of {execution.node.heartbeat_ms} ms"
    return silence(message, execution)


def _failed(helpers: Helpers, failure: BaseException) -> Failed:
    return failed_by(
        failure,
        node_id=helpers.node_id,
        scope=helpers.scope,
        attempt=helpers.attempt,
        traceback=lines_of_the_author(failure, mask=helpers.mask),
        who=who_is(helpers.instance_id, helpers.node_id, helpers.scope),
    )
