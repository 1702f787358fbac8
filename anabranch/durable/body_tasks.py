"""The tasks of one body: its first branch, and every other one that has asked for something. Known to `body`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from anabranch.durable import branches
from anabranch.durable.step_error import qualified_name
from anabranch.engine.failures import failed_by

# 10 s for `finally` blocks to end when the body is unwound: time to close a connection.
UNWIND_PATIENCE_S = 10.0


class Interrupted(Exception):
    """The process is to end; raised by whoever called the body, and not by one of its tasks."""

    def __init__(self, interrupt: KeyboardInterrupt) -> None:
        super().__init__()
        self.interrupt = interrupt


class BodyTasks:
    """Tasks of a body; its first branch is `main`, once it has begun."""

    def __init__(self) -> None:
        self.main: asyncio.Task[Any] | None = None
        self._asking: dict[asyncio.Task[Any], None] = {}
        """Those that have asked for something, in the order in which they first did."""

    def begin(self, body: Coroutine[Any, Any, Any], *, began_seq: int) -> asyncio.Task[Any]:
        """Begin the body, which the row `began_seq` has dispatched."""
        self.main = asyncio.create_task(_first_branch(body, began_seq), name="coded-body")
        return self.main

    def note_present(self) -> None:
        """The present task asks for something."""
        task = asyncio.current_task()
        assert task is not None, "the body runs in a task"
        if task not in self._asking:
            self._asking[task] = None
            task.add_done_callback(lambda ended: self._asking.pop(ended, None))

    @property
    def are_several(self) -> bool:
        """Has another branch than the first asked for something, and not ended?"""
        return len(self._asking) > (self.main in self._asking)

    @property
    def is_first_present(self) -> bool:
        """Is the present task the first branch?"""
        return asyncio.current_task() is self.main

    async def unwind(self) -> None:
        """Cancel all that have not ended, and wait for their ends as long as it is reasonable."""
        tasks = [task for task in dict.fromkeys((self.main, *self._asking)) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=UNWIND_PATIENCE_S)


def how_it_ended(main: asyncio.Task[Any]) -> str:
    """How a first branch came to its end, as people are told."""
    failure = None if main.cancelled() else main.exception()
    if failure is None:
        return "it ended"
    error = failed_by(failure, node_id="", scope="", attempt=0, name_of=qualified_name).error
    return f"it raised {error.type} ({error.message})"


async def _first_branch(body: Coroutine[Any, Any, Any], began_seq: int) -> Any:
    branches.begin(began_seq)
    try:
        return await body
    except SystemExit as exit_:
        # A task that ends so would end the event loop, and all other runs with it.
        raise RuntimeError("the body ended with SystemExit") from exit_
    except KeyboardInterrupt as interrupt:
        raise Interrupted(interrupt) from None
