"""Does a task only wait for what the journal will answer, or for something else as well?

asyncio does not say what a task waits for, so this looks: a future of ours, a task or a gather that
does nothing else, a TaskGroup or `asyncio.wait` over such. Anything unknown (a sleep of asyncio's, a
socket, an event) is something else: it keeps the body running, which is always safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

# 64 tasks that wait for each other in a row: deeper than any program, and the end of a circle.
DEPTH_MAX = 64


def rests(task: asyncio.Task[Any], ours: Collection[asyncio.Future[Any]], *, depth: int = 0) -> bool:
    """True if nothing but these futures can move the task."""
    waits_for = getattr(task, "_fut_waiter", None)
    if waits_for is None or waits_for.done() or task.done() or depth > DEPTH_MAX:
        return False  # it is about to run, or has ended
    if _is_answered_by(waits_for, ours, depth):
        return True
    return any(_all_answered_by(group, ours, depth) for group in _groups_awaited_by(task))


def _is_answered_by(future: asyncio.Future[Any], ours: Collection[asyncio.Future[Any]], depth: int) -> bool:
    if future.done():
        return False
    if future in ours:
        return True
    if isinstance(future, asyncio.Task):
        return rests(future, ours, depth=depth + 1)
    gathered = getattr(future, "_children", None)
    return gathered is not None and _all_answered_by(gathered, ours, depth)


def _all_answered_by(
    futures: Collection[asyncio.Future[Any]], ours: Collection[asyncio.Future[Any]], depth: int
) -> bool:
    open_ones = [future for future in futures if not future.done()]
    return bool(open_ones) and all(_is_answered_by(future, ours, depth + 1) for future in open_ones)


def _groups_awaited_by(task: asyncio.Task[Any]) -> list[Collection[asyncio.Future[Any]]]:
    """The tasks of a TaskGroup or an untimed `asyncio.wait` that the task is inside of, waiting for them."""
    coroutine: Any = task.get_coro()
    while getattr(coroutine, "cr_await", None) is not None and hasattr(coroutine.cr_await, "cr_frame"):
        coroutine = coroutine.cr_await
    frame = getattr(coroutine, "cr_frame", None)
    if frame is None:
        return []
    seen, name = frame.f_locals, frame.f_code.co_name
    if name == "__aexit__" and isinstance(seen.get("self"), asyncio.TaskGroup):
        return [getattr(seen["self"], "_tasks", ())]
    if name == "_wait" and frame.f_globals.get("__name__") == "asyncio.tasks" and seen.get("timeout") is None:
        return [seen.get("fs", ())]
    return []
