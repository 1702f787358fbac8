"""Which task of a body knows what: so that the graph that a run traces shows what followed from what.

A body that gathers runs in several tasks. Each is a branch; it knows what the branch that began it
knew then, and what it was answered itself; when it ends, the branch that began it knows that too.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar


class Branch:
    """One task of a body, and the last row of the log that it knows."""

    __slots__ = ("parent", "seen", "task")

    def __init__(self, task: asyncio.Task[object] | None, seen: int, parent: Branch | None) -> None:
        self.task = task
        self.seen = seen
        self.parent = parent

    def saw(self, seq: int) -> None:
        """It was answered from this row."""
        self.seen = max(self.seen, seq)


_branch: ContextVar[Branch] = ContextVar("branch")


def begin(seen: int) -> None:
    """The present task is the first branch of a body."""
    _branch.set(Branch(asyncio.current_task(), seen, None))


def present() -> Branch:
    """The branch that calls; a task that was begun since has its own."""
    branch = _branch.get()
    task = asyncio.current_task()
    if branch.task is not task and task is not None:
        parent = branch
        branch = Branch(task, parent.seen, parent)
        _branch.set(branch)
        task.add_done_callback(lambda _: parent.saw(branch.seen))
    return branch
