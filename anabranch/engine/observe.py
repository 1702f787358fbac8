"""Telling others what is committed: observers in this process, and one log line per act of an operator's interest."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from anabranch.engine.ports import Observer
from anabranch.engine.rules.events import Event, Status

logger = logging.getLogger("anabranch.engine")


class Observers:
    """A list of observers that is itself one. An observer that raises is logged and left out of nothing."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []

    def add(self, observer: Observer) -> None:
        """Tell this one, too, from now on."""
        self._observers.append(observer)

    def remove(self, observer: Observer) -> None:
        """Tell this one no longer."""
        self._observers.remove(observer)

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """Pass on what is in the log now; in log order per instance."""
        for observer in self._observers:
            try:
                observer.committed(instance_id, events, status)
            except Exception:
                logger.exception("an observer failed", extra={"instance_id": instance_id})
