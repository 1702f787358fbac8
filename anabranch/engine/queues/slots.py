"""Slots: how many executions there may be at once, and who has lent his.

The body of a coded run holds its slot while it computes and while its steps execute. While it waits for
nothing but a commit it lends it: else each commit would hold the turns of as many bodies as there are
slots, a quarter of what fits. It gets it back before whatever has not begun yet.

Called by the task queue, whose consumers take one before the first of their jobs in a row, and by the
runner of coded workflows, which
finds that of its job in `present_slot`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar

# 1,000 bodies that wait for commits: both commits that may be in flight are full (256 turns each), and the
# next two as well. More of them would only take memory.
LENT_MAX = 1_000

present_slot: ContextVar[Slot] = ContextVar("present_slot")
"""The slot of the job that the present task executes."""


class Slots:
    """So many executions at once."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` is called when a slot is free for a further job."""
        self.concurrency = 0
        self._wake = wake
        self._taken = 0
        self._lent = 0
        self._returning: deque[Slot] = deque()

    @property
    def has_free(self) -> bool:
        """May a further job begin?"""
        return self._taken < self.concurrency and not self._returning

    @property
    def are_wanted_back(self) -> bool:
        """Does somebody who has lent his want it back?"""
        return bool(self._returning)

    @property
    def jobs_max(self) -> int:
        """How many jobs may be under way: those that execute, and those that have lent their slots."""
        return self.concurrency + self._lent

    def take(self) -> Slot:
        """A slot for a job; there is a free one."""
        self._taken += 1
        return Slot(self)

    # -- for slots ------------------------------------------------------------------------
    def free(self) -> None:
        """Somebody needs his slot no more, or not now: it goes to who wants his own back, else to a new job."""
        self._taken -= 1
        while self._returning and self._taken < self.concurrency:
            self._returning.popleft().granted()
        if self.has_free:
            self._wake()

    def lend(self) -> bool:
        """Count one more that is lent; False: there are enough."""
        if self._lent >= LENT_MAX:
            return False
        self._lent += 1
        self.free()
        return True

    def ask_back(self, slot: Slot) -> None:
        """Grant it, now or when one is free."""
        if self.has_free:
            slot.granted()
        else:
            self._returning.append(slot)

    def retake(self) -> None:
        """A lent one is taken again."""
        self._lent -= 1
        self._taken += 1

    def forget(self, slot: Slot) -> None:
        """A lent one is not wanted back."""
        self._lent -= 1
        if slot in self._returning:
            self._returning.remove(slot)


class Slot:
    """The right of one job, and of those that its consumer takes up after it, to execute, until `end`."""

    __slots__ = ("_is_lent", "_slots", "_then")

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._is_lent = False
        self._then: Callable[[], None] | None = None

    @property
    def is_kept(self) -> bool:
        """May the next job have it, too? Not if it is lent, nor while others wait for theirs."""
        return not self._is_lent and not self._slots.are_wanted_back

    def lend(self) -> None:
        """Let others use it while the job waits for the log alone."""
        if not self._is_lent:
            self._is_lent = self._slots.lend()

    def take_back(self, then: Callable[[], None]) -> None:
        """Call `then` when the job may execute: now, if it was not lent or one is free. The first call counts."""
        if not self._is_lent:
            then()
        elif self._then is None:
            self._then = then
            self._slots.ask_back(self)

    def granted(self) -> None:
        """It is the job's again."""
        then, self._then = self._then, None
        self._is_lent = False
        self._slots.retake()
        assert then is not None, "only who asks is granted one"
        then()

    def end(self) -> None:
        """No job needs it any more; it is not wanted back, and nobody may hold on to it."""
        self._then = None
        if self._is_lent:
            self._slots.forget(self)
        else:
            self._slots.free()
