"""What the log has of the calls of one body, and how much of that is committed. Known to `body` alone."""

from __future__ import annotations

from anabranch.durable.calls import Call
from anabranch.durable.step_error import Suspended
from anabranch.engine.desk import Desk
from anabranch.engine.rules.coded.state import CodedState, Step
from anabranch.engine.rules.run_state import Phase


class Records:
    """The rows of a body's calls, until the body leaves or its run is not advanced here any more.

    Each look at them raises Suspended after that.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._closed = False

    def close(self) -> None:
        """The body leaves: what it still asks for is not answered."""
        self._closed = True

    @property
    def journal(self) -> CodedState:
        """What is known of the run, and what is about to be committed."""
        journal = self._desk.journal
        if self._closed or journal is None:
            raise Suspended
        return journal

    def of(self, call: Call) -> Step | None:
        """The step as its latest row left it; None: it has no row."""
        return self.journal.steps.get(call.place)

    def seq_of(self, call: Call) -> int:
        """Its latest row; 0: it has none."""
        step = self.of(call)
        return 0 if step is None else step.seq

    def is_settled(self, step: Step) -> bool:
        """Is its latest row committed?"""
        return step.seq <= self._desk.settled_seq

    def has_settled(self, call: Call, *, after: int = -1) -> bool:
        """Is all that the log has of it committed, and something of that later than this row?"""
        return after < self.seq_of(call) <= self._desk.settled_seq

    def is_over(self, call: Call) -> bool:
        """Has the wait ended, or has the next try begun?"""
        step = self.of(call)
        return step is not None and self.is_settled(step) and (step.has_ended or step.phase is Phase.DISPATCHED)
