"""One attempt of a step: call its function in a task or a thread, with a timeout, and return the outcome.

Called by `steps`. What the function returns is checked and encoded here; of what it raises, type,
message and the author's own lines of the traceback are kept.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeAlias

from anabranch.durable.step_error import qualified_name
from anabranch.engine.handling import ends_us
from anabranch.engine.rules.shared.failures import failed_by
from anabranch.engine.rules.stimuli import Failed, StepOutcome
from anabranch.engine.tracebacks import lines_of_the_author
from anabranch.errors import RunError

InThread: TypeAlias = Callable[[Callable[[], Any]], Awaitable[tuple[Any, BaseException | None]]]
"""Calls a function in a thread: what it returned, or what it raised."""

inside_step: ContextVar[str | None] = ContextVar("inside_step", default=None)
"""The name of the step whose function is running: it may not ask for others."""


async def tried(
    name: str,
    scope: str,
    attempt: int,
    work: Callable[[], Awaitable[StepOutcome]],
    timeout_ms: int | None = None,
    *,
    who: str = "",
) -> tuple[StepOutcome, BaseException | None]:
    """Do it once: its outcome, and the exception that it failed with. `who` is the step, for messages."""
    limit = asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)
    task = asyncio.current_task()
    try:
        if timeout_ms is None:
            return await work(), None  # most steps have none, and to enter one that never comes is not free
        async with limit:
            return await work(), None
    except TimeoutError as late:
        if not limit.expired():
            return _failed(late, name, scope, attempt, who), late
        message = f"the step did not return within its timeout of {timeout_ms} ms"
        return Failed(RunError("NODE_TIMEOUT", "NodeTimeout", message, name, scope, attempt), retryable=True), late
    except BaseException as failure:  # whatever a step raises is its outcome, sys.exit() too
        if ends_us(failure, task):
            raise
        return _failed(failure, name, scope, attempt, who), failure


async def called(name: str, function: Callable[[], Any], in_thread: InThread) -> Any:
    """What the function of a step returns. One that is not async runs in a thread, which cannot be stopped."""
    token = inside_step.set(name)
    try:
        if _is_asynchronous(function):
            return await function()
        returned, failure = await in_thread(function)
        if failure is not None:
            raise failure
        return await returned if inspect.isawaitable(returned) else returned
    finally:
        inside_step.reset(token)


def _is_asynchronous(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _failed(failure: BaseException, name: str, scope: str, attempt: int, who: str) -> Failed:
    where = lines_of_the_author(failure)
    return failed_by(
        failure, node_id=name, scope=scope, attempt=attempt, name_of=qualified_name, traceback=where, who=who
    )
