"""Which runs are listed: one filter for the command line, clients, the service and stores alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.input_filters import InputFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Runs that meet every condition; without any, all but test runs. Times are milliseconds since the epoch."""

    workflow: str | None = None
    """Its id; everybody but a store takes its name, too."""
    statuses: Sequence[Status] = ()
    """In one of these; none: in any."""
    reasons: Sequence[SuspendReason] = ()
    """Suspended for one of these; none: whether suspended or not."""
    since: int | None = None
    until: int | None = None
    """Created at `since` or later, and before `until`."""
    version: int | None = None
    rerun_of: str | None = None
    """Runs that repeat this one."""
    test: bool = False
    """Only test runs; else only others."""
    error: str | None = None
    """Failed ones whose error has this code, or this text in its message, in capitals or not."""
    input_filters: Sequence[InputFilter] = ()
    """A value in the input, read as JSON or taken as text. All of them must be met."""


ALL_RUNS = RunFilter()
