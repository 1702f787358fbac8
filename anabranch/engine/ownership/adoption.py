"""A claimed run on its way into memory: its log is folded page by page as it is read.

Made by the orchestrator, fed by `recovery`. Nothing of it is held before its whole log is folded.
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.engine.ports import Claimed
from anabranch.engine.rules.events import Event
from anabranch.engine.rules.evolve import AnyState, evolve
from anabranch.engine.telemetry import RunTelemetry


class Adoption:
    """What is folded so far of a run that was claimed."""

    def __init__(self, claimed: Claimed, state: AnyState, telemetry: RunTelemetry | None) -> None:
        self.claimed = claimed
        self.state = state
        self.telemetry = telemetry

    @property
    def is_complete(self) -> bool:
        """Is the log folded as far as it went when the run was claimed?"""
        return self.state.last_seq == self.claimed.loaded.row.last_seq

    def read(self, events: Sequence[Event]) -> None:
        """Fold the next events of the log."""
        for event in events:
            evolve(self.state, event)
        if self.telemetry is not None:
            self.telemetry.read(events)
