"""Tasks that run up to their first wait when they are made, as with `eager_start` since Python 3.12.

Most steps end, or wait, without another turn of the worker's loop: `function_run` begins all of them so.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any


def begun_task(
    coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop, context: Context, name: str
) -> Any:
    """A task of the running loop that has run up to its first wait. Call it from a plain callback, not in a task."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, name=name, context=context, eager_start=True)
    # Python 3.11: a new task schedules its first step, which is run here instead.
    begin: list[Callable[[], object]] = []
    loop.call_soon = lambda step, **_: begin.append(step)  # type: ignore[method-assign,assignment]
    try:
        task = asyncio.Task(coroutine, loop=loop, name=name, context=context)
    finally:
        del loop.call_soon
    context.run(begin[0])
    return task
