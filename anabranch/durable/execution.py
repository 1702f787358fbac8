"""One attempt of a step: call its function in a task or a thread, with a timeout, and return the outcome.

Called by `steps`. The result is checked and encoded here; of an exception, type, message and the author's lines of the
traceback are kept.

Attempts of one step run one after the other in this process. A thread cannot be stopped: after a timeout, or when the
run is given up here, its function continues. Another attempt of that step waits until it ends, in this call of the
workflow function or a later one.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from types import FunctionType
from typing import Any, TypeAlias

from anabranch.durable.step_error import qualified_name
from anabranch.engine.console.lines import present
from anabranch.engine.handler_contract import Helpers, ends_us
from anabranch.engine.rules.coded.names import scope_of_first_attempt
from anabranch.engine.rules.shared.failures import failed_by, silence
from anabranch.engine.rules.stimuli import Completed, Failed, StepOutcome
from anabranch.engine.rules.values import Payload
from anabranch.engine.tracebacks import lines_of_the_author
from anabranch.errors import RunError

logger = logging.getLogger("anabranch.durable")

# 256 threads for steps that are not async: they mostly wait for other systems, and one that hangs cannot be stopped but
# must not delay the others.
THREADS_MAX = 256

Returned: TypeAlias = tuple[Any, BaseException | None]
"""The result or the exception of a function."""

CalledWith: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""The function of a step, with what it is called with."""

StepKey: TypeAlias = tuple[str, str, str]
"""Run, name and scope of a step, whatever the attempt of its workflow."""


class StepOrigin:
    """The attempt of a step that lines and progress belong to."""

    __slots__ = (
        "attempt",
        "beat",
        "console",
        "dispatch",
        "instance_id",
        "is_first_call",
        "lines_logged",
        "mask",
        "node_id",
        "scope",
        "tenant_id",
    )

    is_function = False
    is_step = True
    began_at_ms: int | None = None
    """Its row says it."""

    def __init__(self, run: Helpers, name: str, scope: str, attempt: int) -> None:
        self.tenant_id = run.tenant_id
        self.instance_id = run.instance_id
        self.console = run.console
        self.dispatch = self.node_id, self.scope, self.attempt = name, scope, attempt
        self.mask: Callable[[str], str] = str
        self.lines_logged = 0
        self.is_first_call = False
        self.beat: Callable[[], None] = _nothing

    @property
    def key(self) -> StepKey:
        """The key of its step, the same in every attempt."""
        return self.instance_id, self.node_id, scope_of_first_attempt(self.scope)


class StepThreads:
    """The threads of one process."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="coded-step")
        self.left_behind: dict[StepKey, Future[Returned]] = {}
        """Functions that still run although their result is no longer awaited. Their threads remove them."""

    def stop(self) -> None:
        """Start no more threads; running ones are abandoned."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def earlier_attempt_ended(self, key: StepKey) -> None:
        """Wait until no attempt of this step runs in an abandoned thread."""
        while (earlier := self.left_behind.get(key)) is not None:
            logger.warning(
                "step %s%s of run %s waits for an earlier attempt, whose thread is still running",
                key[1],
                key[2],
                key[0],
                extra={"instance_id": key[0], "node_id": key[1]},
            )
            await asyncio.wait({asyncio.wrap_future(earlier)})

    async def call(self, key: StepKey, function: Callable[[], Any]) -> Returned:
        """Call a function in a thread, in a copy of the present context."""
        future = self._threads.submit(copy_context().run, _outcome, function)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.cancel():
                self.left_behind[key] = future
                future.add_done_callback(partial(self._forget, key))
            raise

    def _forget(self, key: StepKey, ended: Future[Returned]) -> None:
        """Called by the thread itself."""
        if self.left_behind.get(key) is ended:
            del self.left_behind[key]


async def run_attempt(
    origin: StepOrigin,
    work: Awaitable[StepOutcome],
    timeout_ms: int | None = None,
    heartbeat: Heartbeat | None = None,
) -> tuple[StepOutcome, BaseException | None]:
    """Do the work of an attempt once; returns its outcome, and the exception if it failed."""
    if heartbeat is not None:
        return await heartbeat.run_attempt(work, timeout_ms)
    limit = None if timeout_ms is None else asyncio.timeout(timeout_ms / 1000)
    task = asyncio.current_task()
    try:
        if limit is None:
            return await work, None  # most steps have no timeout, which has a cost
        async with limit:
            return await work, None
    except TimeoutError as late:
        if limit is None or not limit.expired():
            return _failed(late, origin), late
        message = f"the step did not return within its timeout of {timeout_ms} ms"
        error = RunError("NODE_TIMEOUT", "NodeTimeout", message, origin.node_id, origin.scope, origin.attempt)
        return Failed(error, retryable=True), late
    except _HeartbeatMissed:
        raise
    except BaseException as failure:  # any exception of a step is its outcome, including sys.exit()
        if ends_us(failure, task):
            raise
        return _failed(failure, origin), failure


class Heartbeat:
    """The heartbeat timeout of an attempt: each reported progress restarts it."""

    def __init__(self, origin: StepOrigin, silence_ms: int) -> None:
        self._origin = origin
        self._silence_ms = silence_ms
        self._loop = asyncio.get_running_loop()
        self._limit: asyncio.Timeout | None = None
        origin.beat = self._beat

    async def run_attempt(
        self, work: Awaitable[StepOutcome], timeout_ms: int | None
    ) -> tuple[StepOutcome, BaseException | None]:
        """The same as `run_attempt`, with the bound."""
        origin = self._origin
        try:
            return await run_attempt(origin, self._bounded(work), timeout_ms)
        except _HeartbeatMissed as silent:
            message = f"the step reported no progress within its heartbeat_timeout of {self._silence_ms} ms"
            return silence(message, origin), silent.__cause__

    async def _bounded(self, work: Awaitable[StepOutcome]) -> StepOutcome:
        self._limit = asyncio.timeout(self._silence_ms / 1000)
        try:
            async with self._limit:
                return await work
        except TimeoutError as late:
            if self._limit.expired():
                raise _HeartbeatMissed from late
            raise
        finally:
            self._limit = None

    def _beat(self) -> None:
        self._loop.call_soon_threadsafe(self._beaten)

    def _beaten(self) -> None:
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(self._loop.time() + self._silence_ms / 1000)


class _HeartbeatMissed(BaseException):
    """An attempt missed its heartbeat timeout."""


async def called(origin: StepOrigin, called_with: CalledWith, threads: StepThreads) -> Completed:
    """What the function of a step returns, encoded. One that is not async runs in a thread, which cannot be stopped."""
    present.set(origin)  # each step has a context of its own
    function, args, kwargs = called_with
    if _is_asynchronous(function):
        returned = await function(*args, **kwargs)
    else:
        returned, failure = await threads.call(origin.key, partial(function, *args, **kwargs))
        if failure is not None:
            raise failure
        if inspect.isawaitable(returned):
            returned = await returned
    return Completed(Payload.of(returned))


def _is_asynchronous(function: Any) -> bool:
    if type(function) is FunctionType and function.__code__.co_flags & inspect.CO_COROUTINE:
        return True  # as most are; the general question takes longer than the call
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _failed(failure: BaseException, origin: StepOrigin) -> Failed:
    return failed_by(
        failure,
        node_id=origin.node_id,
        scope=origin.scope,
        attempt=origin.attempt,
        name_of=qualified_name,
        traceback=lines_of_the_author(failure),
        who=f"step {origin.node_id}{origin.scope} of run {origin.instance_id}",
    )


def _outcome(function: Callable[[], Any]) -> Returned:
    # Not through the future: it cannot carry a StopIteration, and a GeneratorExit would close the awaiting coroutine.
    try:
        return function(), None
    except BaseException as failure:  # noqa: BLE001 -- it is raised again where it is awaited
        return None, failure


def _nothing() -> None:
    """A step without a heartbeat timeout."""


def begun_task(
    coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, context: Context, name: str
) -> Any:
    """A task of the running loop that has run up to its first wait, as with `eager_start` since Python 3.12.

    Most attempts end, or wait, without another turn of the loop. Call it from a plain callback, not in a task.
    """
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, name=name, context=context, eager_start=True)
    # Python 3.11: a new task schedules its first step, which is run here instead.
    begin: list[Callable[[], object]] = []
    loop.call_soon = lambda step, context: begin.append(step)  # type: ignore[method-assign,assignment,misc]
    try:
        task = asyncio.Task(coroutine, loop=loop, name=name, context=context)
    finally:
        del loop.call_soon
    context.run(begin[0])
    return task
