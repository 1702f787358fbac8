"""One attempt of a step: call its function in a task or a thread, with a timeout, and return the outcome.

Called by `steps`. What the function returns is checked and encoded here; of what it raises, type,
message and the author's own lines of the traceback are kept.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from anabranch.durable.step_error import qualified_name
from anabranch.engine.handling import ends_us
from anabranch.engine.rules.shared.failures import failed_by
from anabranch.engine.rules.stimuli import Failed, StepOutcome
from anabranch.errors import RunError

# 20 frames: enough to find the line, and a recursion does not fill the log.
FRAMES_MAX = 20

_OUR_FILES = str(Path(__file__).parents[1])
_ASYNCIO_FILES = str(Path(asyncio.__file__).parent)

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


def lines_of_the_author(failure: BaseException) -> str:
    """The traceback without our own frames and those of asyncio, the innermost ones last.

    What Python itself made of another exception, as of a StopIteration, has none: then those of that one.
    """
    frames = _frames_of_the_author(failure)
    if not frames and failure.__cause__ is not None:
        frames = _frames_of_the_author(failure.__cause__)
    return "".join(traceback.format_list(frames[-FRAMES_MAX:]))


def _frames_of_the_author(failure: BaseException) -> list[traceback.FrameSummary]:
    return [
        frame
        for frame in traceback.extract_tb(failure.__traceback__)
        if not frame.filename.startswith((_OUR_FILES, _ASYNCIO_FILES)) and "concurrent/futures" not in frame.filename
    ]


def _is_asynchronous(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _failed(failure: BaseException, name: str, scope: str, attempt: int, who: str) -> Failed:
    where = lines_of_the_author(failure)
    return failed_by(
        failure, node_id=name, scope=scope, attempt=attempt, name_of=qualified_name, traceback=where, who=who
    )
