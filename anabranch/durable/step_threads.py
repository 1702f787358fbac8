"""Threads for the plain functions of steps: tries of one step run one after the other, in this process.

Used by `steps`. A thread cannot be stopped: a try that timed out, or whose run was given up here, leaves its
function running. Another try of that step, of this call of the workflow function or a later one, waits for its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeAlias

logger = logging.getLogger("anabranch.durable")

# 256 threads for steps that are not async: they wait for others for most of their time, and one
# that hangs, and cannot be stopped, must not keep the rest from their turn.
THREADS_MAX = 256

Returned: TypeAlias = tuple[Any, BaseException | None]
"""What a function returned, or what it raised."""

StepKey: TypeAlias = tuple[str, str, str]
"""Run, name and scope of a step, whatever the attempt of its workflow."""


class StepThreads:
    """The threads of one process."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="coded-step")
        self._left_behind: dict[StepKey, Future[Returned]] = {}
        """Functions that go on although nobody awaits what they return."""

    def stop(self) -> None:
        """Take no more threads; those that still run are left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def earlier_try_ended(self, key: StepKey) -> None:
        """Return when no try of this step runs in a thread that was left behind."""
        while (earlier := self._left_behind.get(key)) is not None:
            logger.warning(
                "step %s%s of run %s waits for an earlier try of it, which goes on in its thread",
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
                self._left_behind[key] = future
                future.add_done_callback(partial(self._forget, key))
            raise

    def _forget(self, key: StepKey, ended: Future[Returned]) -> None:
        """Called by the thread itself."""
        if self._left_behind.get(key) is ended:
            del self._left_behind[key]


def _outcome(function: Callable[[], Any]) -> Returned:
    # Not by the future: it cannot carry a StopIteration, and would close who awaits it with a GeneratorExit.
    try:
        return function(), None
    except BaseException as failure:  # noqa: BLE001 -- it is raised again where it is awaited
        return None, failure
