"""Track which task of a workflow function knows which rows, for the edges of the traced graph.

A function that gathers runs in several tasks. Each is a branch; it knows what the branch that began it
knew then, and what it was answered since; when it ends, the branch that began it knows that too.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from anabranch.engine.rules.coded.names import Rows


class Branch:
    """One task of a workflow function, and the latest rows that it knows: several where branches have joined."""

    __slots__ = ("inherited", "known", "task")

    def __init__(self, task: asyncio.Task[object] | None, known: Rows) -> None:
        self.task = task
        self.inherited = known
        self.known = known

    def saw(self, seq: int) -> None:
        """It was answered from this row; whatever it knew before led there."""
        self.known = frozenset((seq,))

    def meet(self, ended: Branch) -> None:
        """A branch that it has begun has ended."""
        if ended.known != ended.inherited:
            self.known = self.known - ended.inherited | ended.known


_branch: ContextVar[Branch] = ContextVar("branch")


def begin(task: asyncio.Task[object], seq: int) -> None:
    """This task is the first branch of a function that was dispatched by this row; call it in the task's context."""
    _branch.set(Branch(task, frozenset((seq,))))


def present(began_seq: int) -> Branch:
    """The branch that calls; a task that was begun since has its own. `began_seq` is the row of the first one."""
    task = asyncio.current_task()
    branch = _branch.get(None)
    if branch is None:  # somebody has given the task a context without it
        branch = Branch(None, frozenset((began_seq,)))
    if branch.task is not task and task is not None:
        parent = branch
        branch = Branch(task, parent.known)
        _branch.set(branch)
        task.add_done_callback(lambda _: parent.meet(branch))
    return branch
