"""What a body has to be told again, in which order, and what it has to ask for before anything new is done.

Made by `body` for each call of a body, from the journal as it is committed then. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from anabranch.engine.rules.coded.state import Step

Place = tuple[str, str]


class Replay:
    """The steps that had rows when the body was called, in its attempt of the workflow."""

    def __init__(self, steps: Iterable[Step], *, attempt: int) -> None:
        known = list(steps)
        self._unasked = {step.place for step in known if step.born_in == attempt}
        ended = [step for step in known if step.has_ended and not _runs_anew(step, attempt)]
        self._order = deque(step.place for step in sorted(ended, key=lambda step: step.ended_seq))
        self._untold = set(self._order)

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
    def is_untold(self, place: Place) -> bool:
        """Had it ended before this call, and is still to be told?"""
        return place in self._untold

    def is_next(self, place: Place) -> bool:
        """Is it the first of what is still to be told?"""
        while self._order and self._order[0] not in self._untold:
            self._order.popleft()
        return bool(self._order) and self._order[0] == place

    def tell(self, place: Place) -> None:
        """It is told now."""
        self._untold.discard(place)


def _runs_anew(step: Step, attempt: int) -> bool:
    """A failure of an earlier attempt is not told: the step is run again, under a scope of this one."""
    return step.error is not None and step.failed_in < attempt
