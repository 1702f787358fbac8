"""The event loop of a workflow function: deterministic, one per call, driven by `function_run`.

It runs ready callbacks first in, first out. Nothing comes from outside: no sockets, no threads, no clock. What depends
on chance in asyncio is fixed here: tasks and futures hash by creation order, so that sets of them iterate alike; task
names are numbers; time is that of the log. So a function that is called again and gets the same results makes the same
calls, whatever it uses of asyncio.

Called from plain callbacks of the worker's loop: since Python 3.14 a thread has only one current task.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import sys
from asyncio import events, tasks
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

from anabranch.durable.step_error import Suspended
from anabranch.engine.rules.duration import DURATION_MS_MAX
from anabranch.errors import NotInWorkflow

logger = logging.getLogger("anabranch.durable")

# 50: a `finally` with as many awaits in it is longer than any; what still awaits something is endless.
THROWS_MAX = 50

# 1,000 generators are kept before those that have ended are forgotten.
GENERATORS_MAX = 1_000

# Five frames: from `create_task` to `as_completed`, whatever the version of Python.
_FRAMES_LOOKED_AT = 5

_ASYNCIO = str(Path(asyncio.__file__).parent)
_OURS = str(Path(__file__).parents[1])

Result = TypeVar("Result")

_never_ended: list[Coroutine[Any, Any, Any]] = []
"""Coroutines that could not be unwound: collecting them would run their code at any time, in any thread."""


class WorkflowFuture(asyncio.Future[Result]):
    """A future with a hash that does not depend on its address."""

    number: int

    def __hash__(self) -> int:
        return self.number


class WorkflowTask(asyncio.Task[Result]):
    """A task with a hash that does not depend on its address."""

    number: int

    def __hash__(self) -> int:
        return self.number


class _Ready(asyncio.Handle):
    """A callback that is ready to run."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: WorkflowLoop,
        context: contextvars.Context | None,
    ) -> None:
        # The same as `Handle.__init__`, which asks its loop each time whether it debugs.
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None


class WorkflowTimer(asyncio.TimerHandle):
    """A call at a time. `due_ms` counts from the beginning of the attempt, `number` those with the same due time."""

    __slots__ = ("due_ms", "number", "owner")

    due_ms: int
    number: int
    owner: Any
    """Its call in the log, until it has fired or was cancelled; None: it never fires."""


class WorkflowLoop(asyncio.AbstractEventLoop):
    """`asyncio.get_running_loop()` of a workflow function."""

    def __init__(
        self,
        *,
        seed: int,
        timer_set: Callable[[WorkflowTimer], Any],
        timer_cancelled: Callable[[WorkflowTimer], None],
        described: str,
    ) -> None:
        """`timer_set` gives what stands for a timer; `described` names the run, for lines of the log."""
        self._made = seed
        self._timer_set = timer_set
        self._timer_cancelled = timer_cancelled
        self._described = described
        self._ready: deque[asyncio.Handle] = deque()
        self._tasks: dict[int, tuple[WorkflowTask[Any], Coroutine[Any, Any, Any], contextvars.Context]] = {}
        self._generators: list[AsyncGenerator[Any, Any]] = []
        self._same_due: dict[int, int] = {}
        self._is_open = False
        """True while callbacks may be added: while it runs, and while an answer is given to it."""
        self._is_leaving = False
        self.elapsed_ms = 0
        """From the start of the attempt to the last delivered row."""

    # -- driving ------------------------------------------------------------------------------
    def begin(self, function: Coroutine[Any, Any, Result], context: contextvars.Context) -> WorkflowTask[Result]:
        """The first task, ready to run."""
        self._is_open = True
        try:
            return self._task(function, "main", context)
        finally:
            self._is_open = False

    def answer(self, future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
        """Give a future its result, unless it is cancelled; what awaits it runs in the next drain."""
        if future.done():
            return
        self._is_open = True
        try:
            if failure is not None:
                future.set_exception(failure)
                future._log_traceback = False  # avoid asyncio's warning: it is in the log
            else:
                future.set_result(result)
        finally:
            self._is_open = False

    def fire(self, timer: WorkflowTimer) -> None:
        """Fire a timer whose end is in the log; it runs in the next drain."""
        timer.owner = None
        if not timer.cancelled():
            self._ready.append(timer)

    def drain(self) -> None:
        """Run ready callbacks until none is left. Raises KeyboardInterrupt."""
        if not self._ready:
            return
        before, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(self._generator_begins, None)
        self._is_open = True
        ready = self._ready
        handle: asyncio.Handle | None = None
        try:
            while ready:
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                try:
                    handle._run()
                except SystemExit:
                    continue  # its task has failed with it, as with any other exception
        finally:
            handle = None  # tracebacks keep this frame, which must not keep the failed task alive
            self._is_open = False
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(before)

    @property
    def pending(self) -> list[WorkflowTask[Any]]:
        """The tasks that have not ended, the oldest first."""
        return [task for task, _, _ in self._tasks.values()]

    def unwind(self) -> list[str]:
        """End all tasks by throwing Suspended into them, the newest first; returns the names of those that continued.

        No task is resumed with a result, not even one that awaits an unwound task.
        """
        self._is_leaving = True
        del self._timer_set, self._timer_cancelled  # not called any more, and they refer back to the loop
        if not self._tasks and not self._generators:
            self._ready.clear()
            return []  # as for most functions that have ended
        before = events._get_running_loop()
        events._set_running_loop(self)
        swallowed = []
        try:
            for number in sorted(self._tasks, reverse=True):
                task, coroutine, context = self._tasks[number]
                tasks._enter_task(self, task)
                try:
                    if not _unwound(coroutine, context):
                        swallowed.append(task.get_name())
                finally:
                    tasks._leave_task(self, task)
            for generator in reversed(self._generators):
                _close(generator)
        finally:
            events._set_running_loop(before)
            self._ready.clear()
            self._tasks.clear()
            self._generators.clear()
        return swallowed

    # -- scheduling ---------------------------------------------------------------------------
    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run it in this drain, after all that is ready."""
        if not self._is_open:
            if self._is_leaving:
                return _Ready(callback, args, self, context)  # dropped: nothing runs any more
            raise NotInWorkflow(
                f"{self._described}: a step, a thread or another run has touched what the function waits for, such as"
                " an Event, a Queue or a Future; pass it on as the result of a step"
            )
        handle = _Ready(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        """Run the callback after this many seconds by the time of the log."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        """Run it at that time of `time()`; more than five years ahead is never."""
        if math.isnan(when):
            raise ValueError("a time is a number")
        if when <= self.time():
            return self.call_soon(callback, *args, context=context)
        timer = WorkflowTimer(when, callback, args, self, context)
        timer._scheduled = True  # type: ignore[attr-defined]  # else nobody is told that it was cancelled
        timer.owner = None
        if (when - self.time()) * 1000 <= DURATION_MS_MAX and not self._is_leaving:
            timer.due_ms = max(math.ceil(when * 1000 - 1e-3), self.elapsed_ms + 1)
            timer.number = self._same_due[timer.due_ms] = self._same_due.get(timer.due_ms, 0) + 1
            timer.owner = self._timer_set(timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        assert isinstance(handle, WorkflowTimer), "this loop makes no others"
        if handle.owner is not None and not self._is_leaving:
            self._timer_cancelled(handle)
            handle.owner = None

    def time(self) -> float:
        """Seconds from the beginning of the attempt to the last delivered row; advances only with results."""
        return self.elapsed_ms / 1000

    # -- making -------------------------------------------------------------------------------
    def create_future(self) -> WorkflowFuture[Any]:
        """A future of this loop."""
        future: WorkflowFuture[Any] = WorkflowFuture(loop=self)
        future.number = self._number()
        return future

    def create_answer(self) -> asyncio.Future[Any]:
        """A future that one call of a step awaits, numbered like any other.

        Of asyncio's own class, which tasks await faster than a subclass. Nobody else sees it, so its hash does
        not matter.
        """
        self._made += 1
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> WorkflowTask[Any]:
        """Create a task of this loop. Refuses `as_completed`, which creates tasks in the order of memory addresses."""
        frame = sys._getframe(1)
        if _is_made_by_as_completed(frame):
            coro.close()
            raise NotInWorkflow(
                f"{self._described}: asyncio.as_completed begins coroutines in another order each time; give it tasks:"
                f" [asyncio.create_task(each) for each in …]{_line_of_the_author(frame)}"
            )
        return self._task(coro, name, contextvars.copy_context() if context is None else context, **options)

    def _task(
        self, coroutine: Any, name: str | None, context: contextvars.Context, **options: Any
    ) -> WorkflowTask[Any]:
        if self._is_leaving:
            coroutine.close()
            raise Suspended
        number = self._number()
        task: WorkflowTask[Any] = WorkflowTask.__new__(WorkflowTask)
        task.number = number  # it is hashed during its creation
        task.__init__(coroutine, loop=self, name=name or f"task-{number}", context=context, **options)  # type: ignore[misc]
        # Kept until it has ended, or until the whole loop is dropped.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        if not task.done():
            self._tasks[number] = (task, coroutine, context)
            task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: Any) -> None:
        self._tasks.pop(task.number, None)

    def _number(self) -> int:
        self._made += 1
        return self._made

    def _generator_begins(self, generator: AsyncGenerator[Any, Any]) -> None:
        # Kept until the end: what the garbage collector closes would run its `finally` at any time, in any thread.
        if len(self._generators) >= GENERATORS_MAX:
            self._generators = [each for each in self._generators if getattr(each, "ag_frame", None)]
        self._generators.append(generator)

    # -- asking -------------------------------------------------------------------------------
    def get_debug(self) -> bool:
        """False."""
        return False

    def is_running(self) -> bool:
        """True while the function runs."""
        return self._is_open

    def is_closed(self) -> bool:
        """True once the function is unwound."""
        return self._is_leaving

    def get_task_factory(self) -> None:
        """There is none."""
        return

    def get_exception_handler(self) -> None:
        """There is none."""
        return

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """The same as `call_exception_handler`."""
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log an exception that was never retrieved; this changes nothing."""
        if not self._is_leaving:
            failure = context.get("exception")
            logger.warning("%s: %s", self._described, context.get("message"), exc_info=failure)


def line_of_task(task: asyncio.Task[Any]) -> str:
    """Name and line of what a task awaits, for people."""
    line = ""
    coroutine: Any = task.get_coro()
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith((_ASYNCIO, _OURS)):
            line = f" ({frame.f_code.co_filename}, line {frame.f_lineno})"
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
    return f"{task.get_name()}{line}"


def _unwound(coroutine: Coroutine[Any, Any, Any], context: contextvars.Context) -> bool:
    """Throw Suspended into a coroutine until it has ended; True if it let itself be unwound."""
    for _ in range(THROWS_MAX):
        try:
            context.run(coroutine.throw, Suspended())
        except Suspended:
            return True
        except StopIteration:
            return False  # it returned
        except BaseExceptionGroup as group:
            return group.split(Suspended)[1] is None
        except BaseException:  # noqa: BLE001 -- whatever it raises instead, nobody hears of it
            return False
    _never_ended.append(coroutine)
    logger.warning(
        "a task could not be unwound, because it always awaits something again; %d such tasks are kept in memory",
        len(_never_ended),
    )
    return False


def _close(generator: AsyncGenerator[Any, Any]) -> None:
    closing = generator.aclose()
    try:
        closing.send(None)
        for _ in range(THROWS_MAX):
            closing.throw(Suspended())
    except BaseException:  # noqa: BLE001 -- it has ended, one way or another
        return


def _is_made_by_as_completed(frame: FrameType | None) -> bool:
    if frame is None or frame.f_code.co_filename != tasks.__file__:
        return False
    for _ in range(_FRAMES_LOOKED_AT):
        if frame is None:
            return False
        if frame.f_code.co_name == "as_completed":
            return True
        frame = frame.f_back
    return False


def _line_of_the_author(frame: FrameType | None) -> str:
    """Where this was asked for, for people."""
    while frame is not None and frame.f_code.co_filename.startswith((_ASYNCIO, _OURS)):
        frame = frame.f_back
    return "" if frame is None else f" ({frame.f_code.co_filename}, line {frame.f_lineno})"


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: WorkflowLoop, *args: Any, **kwargs: Any) -> NoReturn:
        for each in args:
            if asyncio.iscoroutine(each):
                each.close()
        where = _line_of_the_author(sys._getframe(1))
        raise NotInWorkflow(f"{self._described}: loop.{name} needs the outside world: do it in a step{where}")

    refuse.__name__ = name
    return refuse


for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in WorkflowLoop.__dict__:
        setattr(WorkflowLoop, _name, _refusal(_name))
