"""Replay: which calls a workflow function must repeat before anything new is done, and the order of the answers.

Created by `function_run` for each call of a function, from the journal as it is committed then. Pure.

The order of the log decides: an end is told when all that stands before it was told, live as on replay. So a function
has asked, when an end is told, for everything whose first row stands before that end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from anabranch.engine.rules.coded.coded_state import Step

Place = tuple[str, str]


class Replay:
    """The steps that had rows when the function was called, and the ends that are to be told."""

    def __init__(self, steps: Iterable[Step], *, attempt: int) -> None:
        """`attempt` is that of the workflow: of earlier ones, nothing must be asked for again."""
        asked = sorted((step.first_seq, step.place) for step in steps if step.created_in == attempt)
        self._unasked = {place for _, place in asked}
        self._first_rows = deque(asked)
        """Of those that were not asked for yet, and of some others."""
        self._met = 0
        """How many ends of the log have had their turn."""
        self._late: list[tuple[int, Place]] = []
        """Ends whose turn was over when they were asked for: they come first."""

    @property
    def is_complete(self) -> bool:
        """True once the function has asked for all that the log has of this attempt."""
        return not self._unasked

    def ask(self, *places: Place) -> None:
        """The function has asked for these."""
        self._unasked.difference_update(places)

    def asked_late(self, ended: Step) -> None:
        """It has asked for something that ended before its last answer, in an earlier attempt of the workflow."""
        heappush(self._late, (ended.ended_seq, ended.place))

    def has_met(self, ended: Step, endings: Sequence[Step]) -> bool:
        """Has this end had its turn?"""
        return self._met > 0 and ended.ended_seq <= endings[self._met - 1].ended_seq

    def next(self, endings: Sequence[Step], *, settled_seq: int) -> tuple[int, Place] | None:
        """Row and place of the end whose turn it is; None: there is none that is committed."""
        if self._late:
            return self._late[0]
        if self._met < len(endings) and endings[self._met].ended_seq <= settled_seq:
            return endings[self._met].ended_seq, endings[self._met].place
        return None

    def pass_on(self) -> None:
        """The end whose turn it was has had it."""
        if self._late:
            heappop(self._late)
        else:
            self._met += 1

    def missing(self, *, before: int | None = None) -> tuple[int, Place] | None:
        """What the function should have asked for when the end at row `before` is told (None: by now): that, too."""
        rows = self._first_rows
        while rows and rows[0][1] not in self._unasked:
            rows.popleft()
        return rows[0] if rows and (before is None or rows[0][0] <= before) else None
