"""Threads for handlers that are plain functions: bounded, and counted as overrun when their attempt is over.

Called through `Helpers.in_thread`. A thread cannot be stopped. When its attempt is over (timeout, cancelled run), the
thread continues, its result is discarded, and it counts as overrun until it ends. The next attempt of the same
activation waits for that: a process never runs both at once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

# 256 threads: four times the default concurrency, so that overrun ones rarely delay others.
THREADS_MAX = 256


class _Call:
    """A function in its thread."""

    __slots__ = ("answer", "is_overrun")

    def __init__(self, answer: asyncio.Future[tuple[Any, BaseException | None]]) -> None:
        self.answer = answer
        self.is_overrun = False


class HandlerThreads:
    """The threads of one process. Used from the event loop's thread only."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._threads_max = threads_max
        self._calls: dict[str, _Call] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self.overrun = 0
        """Threads that still run although their attempts are over."""

    @property
    def running(self) -> int:
        """Threads that run, overrun ones included."""
        return len(self._calls)

    async def run(
        self,
        key: str,
        function: Callable[..., Any],
        *args: Any,
        what: str,
        waits: Callable[[str], None],
        log: Callable[[], logging.Logger],
    ) -> Any:
        """Call the function in a thread with the caller's context variables; return its result or raise its exception.

        `key` identifies the activation, `what` names the attempt, `waits` is called with the reason of a wait ("" when
        it is over). If cancelled, this returns at once while the function continues.
        """
        while reason := self._why_not_now(key):
            waits(reason)
            await self._next_end()
        waits("")
        loop, context = asyncio.get_running_loop(), copy_context()
        call = _Call(loop.create_future())

        def work() -> None:
            returned, raised = None, None
            try:
                returned = context.run(function, *args)
            except BaseException as failure:  # noqa: BLE001 -- the awaiting caller gets it
                raised = failure
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._ended, key, call, returned, raised)

        # A daemon thread: if it never ends, it delays neither a pool nor the end of the process.
        threading.Thread(target=work, name="handler", daemon=True).start()
        self._calls[key] = call
        try:
            returned, raised = await call.answer
        except asyncio.CancelledError:
            if key in self._calls and self._calls[key] is call:
                call.is_overrun = True
                self.overrun += 1
                log().warning(
                    "%s is over, but its function is still running in a thread; its result will be discarded", what
                )
            raise
        if raised is not None:
            raise raised
        return returned

    def _why_not_now(self, key: str) -> str:
        if key in self._calls:
            return "an earlier attempt of it still runs in its thread, which cannot be stopped"
        if len(self._calls) >= self._threads_max:
            return f"all {self._threads_max} threads for handlers are taken, {self.overrun} by attempts that are over"
        return ""

    async def _next_end(self) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(ended)
        await ended

    def _ended(self, key: str, call: _Call, returned: Any, raised: BaseException | None) -> None:
        del self._calls[key]
        if call.is_overrun:
            self.overrun -= 1
        if not call.answer.done():
            call.answer.set_result((returned, raised))
        waiting, self._waiting = self._waiting, []
        for ended in waiting:
            if not ended.done():
                ended.set_result(None)
