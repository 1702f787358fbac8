"""One try of a step's function: called in the body's task or in a thread, with a time limit, to one outcome.

Called by `steps`. What the function returns is checked and encoded here; of what it raises, type,
message and the author's own lines of the traceback are kept.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from typing import Any

from anabranch.durable.step_error import qualified_name
from anabranch.engine.failures import ends_us, failed_by
from anabranch.engine.rules.stimuli import Completed, Failed, StepOutcome
from anabranch.engine.rules.values import Payload
from anabranch.errors import RunError

# 20 frames: enough to find the line, and a recursion does not fill the log.
FRAMES_MAX = 20

_OUR_FILES = str(Path(__file__).parents[1])
_ASYNCIO_FILES = str(Path(asyncio.__file__).parent)

inside_step: ContextVar[str | None] = ContextVar("inside_step", default=None)
"""The name of the step whose function is running: it may not ask for others."""


async def tried(
    name: str, scope: str, attempt: int, work: Callable[[], Awaitable[StepOutcome]], timeout_ms: int | None = None
) -> tuple[StepOutcome, BaseException | None]:
    """Do it once: its outcome, and the exception that it failed with."""
    limit = asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)
    task = asyncio.current_task()
    try:
        if timeout_ms is None:
            return await work(), None  # most steps have none, and to enter one that never comes is not free
        async with limit:
            return await work(), None
    except TimeoutError as late:
        if not limit.expired():
            return _failed(late, name, scope, attempt), late
        message = f"the step did not return within its timeout of {timeout_ms} ms"
        return Failed(RunError("NODE_TIMEOUT", "NodeTimeout", message, name, scope, attempt), retryable=True), late
    except BaseException as failure:  # whatever a step raises is its outcome, sys.exit() too
        if ends_us(failure, task):
            raise
        return _failed(failure, name, scope, attempt), failure


async def called(name: str, function: Callable[[], Any], threads: Executor) -> Completed:
    """What the function of a step returns. One that is not async runs in a thread, which cannot be stopped."""
    token = inside_step.set(name)
    try:
        if _is_asynchronous(function):
            return Completed(Payload.of(await function()))
        in_thread = partial(copy_context().run, _outcome_in_thread, function)
        returned, failure = await asyncio.get_running_loop().run_in_executor(threads, in_thread)
        if failure is not None:
            # Not by the future: it cannot carry a StopIteration, and would close us with a GeneratorExit.
            raise failure
        return Completed(Payload.of(await returned if inspect.isawaitable(returned) else returned))
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


def _outcome_in_thread(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except BaseException as failure:  # noqa: BLE001 -- it is raised again where it is awaited
        return None, failure


def _failed(failure: BaseException, name: str, scope: str, attempt: int) -> Failed:
    where = lines_of_the_author(failure)
    return failed_by(failure, node_id=name, scope=scope, attempt=attempt, name_of=qualified_name, traceback=where)
