"""What a body has to be told again, in which order, and what it has to ask for before anything new is done.

Made by `body` for each call of a body, from the journal as it is committed then. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from anabranch.engine.rules.coded.state import Step

Place = tuple[str, str]


class Replay:
    """The steps that had rows when the body was called, and what ended since.

    `attempt` is the body's, of the workflow, and began with the row `began_seq`.
    """

    def __init__(self, steps: Iterable[Step], *, attempt: int, began_seq: int) -> None:
        known = list(steps)
        asked = [step for step in known if step.born_in == attempt]
        self._unasked = {step.place for step in asked}
        self._first_rows = deque(sorted((step.first_seq, step.place) for step in asked))
        """Of those that were not asked for yet, and of some others."""
        told = (step for step in known if step.has_ended and not step.given_up)
        ended = sorted(told, key=lambda step: step.ended_seq)
        self._free = {step.place for step in ended if step.ended_seq < began_seq}
        """What ended in earlier attempts: it was known before anything of this one, which may never ask for it."""
        self._order = deque(step.place for step in ended if step.place not in self._free)
        self._ended_seqs = {step.place: step.ended_seq for step in ended}
        self._untold = set(self._order)
        self._told: set[Place] = set()

    # -- what must be asked for -----------------------------------------------------------
    @property
    def is_complete(self) -> bool:
        """True once the body has asked for all that the log has of this attempt."""
        return not self._unasked

    @property
    def missing(self) -> str:
        """Something that it has not asked for, as people see it."""
        name, scope = min(self._unasked)
        return f"{name}{scope}"

    def ask(self, *places: Place) -> None:
        """The body has asked for these."""
        self._unasked.difference_update(places)

    # -- what is told, in the order of the log --------------------------------------------
    def ended(self, place: Place) -> None:
        """It has ended while the body is called, after all that is known to have ended: it is told after them."""
        if place not in self._untold and place not in self._told and place not in self._free:
            self._order.append(place)
            self._untold.add(place)

    @property
    def next(self) -> Place | None:
        """What is to be told first; None: everything is told."""
        while self._order and self._order[0] not in self._untold:
            self._order.popleft()
        return self._order[0] if self._order else None

    def may_tell(self, place: Place) -> bool:
        """Stands nothing before it that the body is going to be told, or had asked for when it ended?

        What is in the log above the end of a step was asked for before the body was told of that: by a task, perhaps,
        that has not begun yet this time, and that the body is going to cancel when it is told.
        """
        if place in self._free:
            return True
        return self.next == place and not self._is_asked_for_above(place)

    def tell(self, place: Place) -> None:
        """It is told now."""
        self._untold.discard(place)
        self._told.add(place)

    def was_told(self, place: Place) -> bool:
        """Is the body told already?"""
        return place in self._told

    def _is_asked_for_above(self, place: Place) -> bool:
        """Has something that the body has not asked for yet a row above the end of this step?"""
        rows = self._first_rows
        while rows and rows[0][1] not in self._unasked:
            rows.popleft()
        # What ends while the body is called ends below all that was known then.
        return bool(rows) and (place not in self._ended_seqs or rows[0][0] < self._ended_seqs[place])
