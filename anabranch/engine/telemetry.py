"""Interfaces for metrics and traces: each row of a log is reported once, by the process that wrote it.

`anabranch.telemetry` implements them. Observers see more: the owner of a run is also told of rows that others wrote. A
counter must not be, or the sum over all processes would count rows twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.shared.run_state import InstanceHead


class RunTelemetry(Protocol):
    """Hears of one run as long as this process holds it, and is forgotten with it. Must not block or raise."""

    def read(self, events: Sequence[Event]) -> None:
        """These events are next in the log; their writer has counted them."""

    def wrote(self, events: Sequence[Event]) -> None:
        """These events are in the log, in its order, and this process has written them."""


class Telemetry(Protocol):
    """Hears of all runs of a process. Must not block or raise."""

    def of_run(self, head: InstanceHead, plan: AnyPlan) -> RunTelemetry:
        """Who is told of a run that is held here from now on."""

    def signalled(self, head: InstanceHead, event: str, *, seq: int, at_ms: int) -> None:
        """This process has appended a signal to a run that it does not hold."""

    def ended(self, head: InstanceHead, status: Status, *, code: str | None, at_ms: int) -> None:
        """This process has ended a run that it does not hold; `code` is its error's, if it failed."""


AroundAttempt: TypeAlias = Callable[[str, str, str, int], AbstractContextManager[None]]
"""What surrounds a try while its code runs, by the run's id, the node's id or step's name, scope and attempt."""
