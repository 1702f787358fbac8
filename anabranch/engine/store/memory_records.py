"""What a memory store has of one instance, and what a transaction on it was. Read by the simulation, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.store.memory_refusals import unique_key


@dataclass(frozen=True, slots=True)
class Change:
    """One instance before and after a transaction; None: it was not there."""

    before: InstanceRow | None
    after: InstanceRow | None
    events: Sequence[Event]
    by_family: bool = False
    """It was woken or cancelled by what became of its child or parent."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one operation of one connection wrote, all at once."""

    operation: str
    now: int
    changes: Sequence[Change]


@dataclass(slots=True, eq=False)
class InstanceRecord:
    """One instance: its row (replaced, never changed), its log, its entries in the unique indexes."""

    row: InstanceRow
    events: list[Event] = field(default_factory=list)
    unique: set[tuple[object, ...]] = field(default_factory=set)
    signals_kept: int = 0
    """Signals that no wait has taken."""

    def append(self, events: Sequence[Event]) -> None:
        """Write events that `refusal_of` let through."""
        for event in events:
            key = unique_key(event)
            if key is not None:
                self.unique.add(key)
            if event.type is EventType.SIGNAL_RECEIVED:
                self.signals_kept += 1
            elif event.type is EventType.NODE_WAITING and "signalSeq" in event.payload.value:
                self.signals_kept -= 1
        self.events.extend(events)
