"""Observers: pass on committed events within this process, to telemetry and to hints.

The consequences of a commit start first: handlers do not wait for observers.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anabranch.engine.hints.hint_line import Notices
from anabranch.engine.ports import Clock, InstanceRow, Observer
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.shared.log_limit import LOG_TOO_LARGE
from anabranch.engine.telemetry import RunTelemetry, Telemetry

logger = logging.getLogger("anabranch.engine")


@dataclass(slots=True, eq=False)
class News:
    """Rows of a run that are in the log now."""

    instance_id: str
    events: Sequence[Event]
    status: Status
    written: Sequence[Event] = ()
    """Those that this process has written."""
    telemetry: RunTelemetry | None = None
    """Counts the written rows; None: they are not counted."""


class Observers:
    """A list of observers that is itself an observer. If one raises, that is logged, and it stays in the list."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self.written: Counter[str] = Counter()
        """How many events of each type were passed on."""

    def add(self, observer: Observer) -> None:
        """Add an observer."""
        self._observers.append(observer)

    def remove(self, observer: Observer) -> None:
        """Remove an observer."""
        self._observers.remove(observer)

    def tell(self, news: Sequence[News]) -> None:
        """Pass on what was committed. Called one turn of the event loop after the commit, in the order of the
        commits."""
        for one in news:
            self.committed(one.instance_id, one.events, one.status)
            if one.telemetry is not None:
                one.telemetry.wrote(one.written)

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """Pass on committed events, in log order per instance."""
        written = self.written
        for event in events:
            written[event.type._value_] += 1  # the descriptor `value` would cost more than everything else here
        for observer in self._observers:
            try:
                observer.committed(instance_id, events, status)
            except Exception:
                logger.exception("an observer failed", extra={"instance_id": instance_id})


class StoreNews:
    """Passes on what a store has just written (`Notices`): as hints to other processes, and to telemetry if it was
    appended without the engine.

    The engine reports its own commits to telemetry itself.
    """

    def __init__(
        self,
        *,
        hints: Notices,
        clock: Clock,
        telemetry: Telemetry | None,
        acknowledged: Callable[[str, int], None],
    ) -> None:
        """`acknowledged` is called with each appended row."""
        self._acknowledged = acknowledged
        self._hints = hints
        self._clock = clock
        self._telemetry = telemetry
        self.committed = hints.committed
        """A commit of transitions was answered."""

    def appended(self, row: InstanceRow, *, signal: str | None) -> None:
        """A signal of that name, or else the end of the run, was appended, owned or not."""
        self._acknowledged(row.head.instance_id, row.last_seq)
        self._hints.appended(row, signal=signal)
        if self._telemetry is None:
            return
        if signal is not None:
            self._telemetry.signalled(row.head, signal, seq=row.last_seq, at_ms=self._clock.now())
        elif row.completed_at is not None:
            code = LOG_TOO_LARGE if row.status is Status.FAILED else None
            self._telemetry.ended(row.head, row.status, code=code, at_ms=row.completed_at)

    def released(self) -> None:
        """Runs were released for any worker to claim."""
        self._hints.released()
