"""Interfaces for metrics and traces: each row of a log is reported once, by the process that wrote it.

`anabranch.telemetry` implements them. Observers see more: they also receive rows that other processes wrote to an owned
run. Counters must not, or the sum over all processes would count rows twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.shared.run_state import InstanceHead


class RunTelemetry(Protocol):
    """Receives the events of one run while this process owns it. Must not block or raise."""

    def read(self, events: Sequence[Event]) -> None:
        """Take events of the log that another process has counted."""

    def wrote(self, events: Sequence[Event]) -> None:
        """Take events that this process has written, in log order."""


class Telemetry(Protocol):
    """Telemetry of all runs of a process. Must not block or raise."""

    def of_run(self, head: InstanceHead, plan: AnyPlan) -> RunTelemetry:
        """The telemetry of a run that this process now owns."""

    def signalled(self, head: InstanceHead, event: str, *, seq: int, at_ms: int) -> None:
        """This process has appended a signal to a run that it does not own."""

    def ended(self, head: InstanceHead, status: Status, *, code: str | None, at_ms: int) -> None:
        """This process has ended a run that it does not own; `code` is that of its error, if it failed."""


AroundAttempt: TypeAlias = Callable[[str, str, str, int], AbstractContextManager[None]]
"""A context manager around the code of an attempt, by run id, node id or step name, scope and attempt."""
