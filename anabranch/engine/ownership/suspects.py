"""Suspects: runs that may have crashed their process, and how many of them this process may own at once.

`owned` reports suspects as they come and go, `recovery` asks how many more may be claimed. The store decides which runs
are suspects (`rules.shared.blame`). A process owns at most as many suspects as the smallest company among them. While
it owns one with company 1, it starts no other handler for `ALONE_MS` and claims nothing: if it dies then, the culprit
is known. Executions under way continue.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch.engine.ports import Clock
from anabranch.engine.rules.shared.blame import ALONE_MS, Blame, SuspectRoom


class Suspects:
    """Owned runs under suspicion."""

    def __init__(self, clock: Clock, leave_alone: Callable[[str | None], None]) -> None:
        """`leave_alone` lets only jobs of one run begin; with None, jobs of all runs."""
        self._clock = clock
        self._leave_alone = leave_alone
        self._companies: dict[str, int] = {}
        self._alone: str | None = None
        """The run that others are kept back for."""
        self._alone_since = 0.0
        self._not_before = 0.0
        """Monotonic seconds before which no other run is left alone: others have had as much time by then."""

    def note(self, instance_id: str, blame: Blame | None) -> None:
        """Record the suspicion against an owned run; None if it was cleared or is no longer owned."""
        if blame is None:
            self._companies.pop(instance_id, None)
            if instance_id == self._alone:
                self._end_alone()
            return
        self._companies[instance_id] = blame.company
        if blame.company == 1 and self._alone is None:
            self._alone, self._alone_since = instance_id, self._clock.monotonic()
            self._leave_alone(instance_id)

    @property
    def keeps_others_back(self) -> bool:
        """Whether a suspect runs alone at this moment. Ends that if it has lasted long enough."""
        if self._alone is not None and self._clock.monotonic() - self._alone_since >= ALONE_MS / 1000:
            self._end_alone()
        return self._alone is not None

    @property
    def room(self) -> SuspectRoom:
        """How many more suspects may be taken."""
        may_be_alone = not self._companies and self._clock.monotonic() >= self._not_before
        return SuspectRoom(len(self._companies), min(self._companies.values(), default=None), alone=may_be_alone)

    def _end_alone(self) -> None:
        now = self._clock.monotonic()
        self._alone = None
        self._not_before = 2 * now - self._alone_since  # suspects run alone for at most half of the time
        self._leave_alone(None)
