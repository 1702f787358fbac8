"""Time and order of the simulated world: an event loop without a clock, a selector or threads.

Called by `world`, which runs it callback by callback. One step is one callback. Which of the
ready callbacks runs next is the seed's choice, so everything that two tasks may do in either
order is done in both. Time stands still while anything is ready, apart from some microseconds
a step, and then jumps to the next timer. In worlds of coded runs (`in_order`) only the processes
race: within each, callbacks run in the order in which they were scheduled, as asyncio promises, and
functions of coded runs may count on that.

A callback belongs to the simulated process in whose context it was scheduled, and a context that names
no process (the engine makes empty ones) to the process that hands it in; only `outside` is nobody's. A
frozen owner's callbacks are held back; a dead owner's are dropped.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

# 20 µs: some 10,000 callbacks in a busy virtual second, the magnitude of the real engine; so
# clocks move while work is done, and leases are extended by busy workers too.
STEP_S = 0.000_02

_TRACE_FACTOR = 1_000_003
_TRACE_MASK = 2**64 - 1


class Owner:
    """Whoever callbacks belong to: a simulated process; `None` stands for the world around them."""

    __slots__ = ("context", "dead", "frozen", "held_back", "tasks")

    def __init__(self) -> None:
        self.frozen = False
        self.dead = False
        self.held_back: list[Callback] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = contextvars.copy_context()
        self.context.run(_OWNER.set, self)


_OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)


def outside() -> contextvars.Context:
    """A new context that belongs to no process, whoever hands it in."""
    context = contextvars.Context()
    context.run(_OWNER.set, None)
    return context


def _owned(context: contextvars.Context | None) -> contextvars.Context:
    """This context, or a copy of the present one; it belongs to whoever runs now, if to nobody yet."""
    if context is None:
        context = contextvars.copy_context()
    if _OWNER not in context:
        context.run(_OWNER.set, _OWNER.get())
    return context


class Callback:
    """A scheduled callback: the handle that asyncio asks for."""

    __slots__ = ("args", "callback", "cancelled_", "context", "owner", "when_")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context, when: float
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.owner = context[_OWNER]
        self.when_ = when
        self.cancelled_ = False

    def cancel(self) -> None:
        """Do not run it."""
        self.cancelled_ = True

    def cancelled(self) -> bool:
        """Was it cancelled?"""
        return self.cancelled_

    def when(self) -> float:
        """The time it was scheduled for."""
        return self.when_


class SimulatedLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in an order of the seed's choosing, in virtual time."""

    def __init__(self, *, seed: int, in_order: bool = False) -> None:
        self.steps = 0
        self.trace = seed & _TRACE_MASK
        """A digest of every choice so far: the same for the same seed, or something is not under control."""
        self._random = random.Random(seed).random
        self._in_order = in_order
        self._now = 0.0
        self._ready: list[Callback] = []
        self._timers: list[tuple[float, int, Callback]] = []
        self._timer_count = 0
        self._closed = False

    # -- running --------------------------------------------------------------------------
    @contextmanager
    def running(self) -> Iterator[None]:
        """Be the running loop."""
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(None)

    def step(self) -> bool:
        """Run one callback, moving time if none is ready; False if there is nothing left at all."""
        while True:
            ready = self._ready
            if not ready and not self._jump():
                return False
            count = len(ready)
            chosen = int(self._random() * count)
            callback = ready[chosen]
            if self._in_order:
                callback = self._take_oldest_of(callback.owner)
            else:
                last = ready.pop()
                if chosen < count - 1:
                    ready[chosen] = last
            owner = callback.owner
            if callback.cancelled_:
                continue
            if owner is not None and (owner.dead or owner.frozen):
                if owner.frozen and not owner.dead:
                    owner.held_back.append(callback)
                continue
            self.steps += 1
            self._now += STEP_S
            self.trace = (self.trace * _TRACE_FACTOR ^ (chosen << 16) ^ count) & _TRACE_MASK
            if self._timers and self._timers[0][0] <= self._now:
                self._collect_due()
            callback.context.run(callback.callback, *callback.args)
            return True

    def freeze(self, owner: Owner) -> None:
        """Hold back this owner's callbacks."""
        owner.frozen = True

    def thaw(self, owner: Owner) -> None:
        """Let it go on: what was held back is ready now."""
        owner.frozen = False
        self._ready.extend(owner.held_back)
        owner.held_back = []

    def kill(self, owner: Owner) -> None:
        """Let nothing of this owner run any more; its tasks are unwound with everything they do ignored."""
        owner.dead = True
        owner.held_back = []
        tasks, owner.tasks = owner.tasks, []
        for task in tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                owner.context.run(_unwind, task)

    def _take_oldest_of(self, owner: Owner | None) -> Callback:
        for number, callback in enumerate(self._ready):
            if callback.owner is owner:
                return self._ready.pop(number)
        raise AssertionError("the owner was taken from the list")

    def _jump(self) -> bool:
        while self._timers:
            when, _, callback = self._timers[0]
            if callback.cancelled_ or (callback.owner is not None and callback.owner.dead):
                heapq.heappop(self._timers)
                continue
            self._now = max(self._now, when)
            self._collect_due()
            return True
        return False

    def _collect_due(self) -> None:
        timers, now = self._timers, self._now
        while timers and timers[0][0] <= now:
            callback = heapq.heappop(timers)[2]
            if not callback.cancelled_:
                self._ready.append(callback)

    # -- what asyncio asks of a loop ------------------------------------------------------
    def time(self) -> float:
        """Virtual seconds since the world began."""
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Callback:
        """Schedule a callback behind nobody: order is the seed's."""
        scheduled = Callback(callback, args, _owned(context), 0.0)
        if scheduled.owner is None or not scheduled.owner.dead:
            self._ready.append(scheduled)
        return scheduled

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Callback:
        """Schedule a callback for so many virtual seconds from now."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Callback:
        """Schedule a callback for a virtual time."""
        scheduled = Callback(callback, args, _owned(context), when)
        if scheduled.owner is None or not scheduled.owner.dead:
            self._timer_count += 1
            heapq.heappush(self._timers, (when, self._timer_count, scheduled))
        return scheduled

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """No threads: it is done at once, and heard of later."""
        future = self.create_future()
        try:
            result = func(*args)
        except Exception as failure:  # noqa: BLE001 -- it is raised where it is awaited
            self.call_soon(_unless_done, future, future.set_exception, failure)
        else:
            self.call_soon(_unless_done, future, future.set_result, result)
        return future

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        """A task of this loop, remembered by its owner."""
        context = _owned(context)
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        owner = context[_OWNER]
        if owner is not None:
            tasks = owner.tasks
            tasks.append(task)
            if len(tasks) % 64 == 0:
                owner.tasks = [each for each in tasks if not each.done()]
        return task

    def get_debug(self) -> bool:
        """asyncio's own debugging reads real clocks."""
        return False

    def is_running(self) -> bool:
        """Only ever asked from inside."""
        return not self._closed

    def is_closed(self) -> bool:
        """True once the world has ended."""
        return self._closed

    def close(self) -> None:
        """Forget everything that was scheduled."""
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tasks that die are found by looking at them (`processes`), not by the garbage collector's leave."""


def _unwind(task: asyncio.Task[Any]) -> None:
    """Close a task's coroutine where it stands. The process is gone: whatever its `finally` does reaches nobody."""
    coroutine = task.get_coro()
    try:
        coroutine.close()  # type: ignore[union-attr]
    except BaseException:  # noqa: BLE001 - it may await or raise on the way out; there is nobody left to mind
        return


def _unless_done(future: asyncio.Future[Any], settle: Callable[[Any], None], value: Any) -> None:
    if not future.done():
        settle(value)
