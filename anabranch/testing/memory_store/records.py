"""Records of a memory store: an instance, and a transaction on it. The simulation reads them, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.engine.ports import WHOLE_LOG_WEIGHT_MAX, InstanceRow, Loaded
from anabranch.engine.rules.event_payloads import read_wait, signal_taken
from anabranch.engine.rules.events import ENDINGS, Event, EventType
from anabranch.engine.rules.shared.left_out import is_left_out
from anabranch.testing.memory_store.memory_refusals import unique_key

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_SIGNAL_RECEIVED, _NODE_WAITING = EventType.SIGNAL_RECEIVED, EventType.NODE_WAITING


@dataclass(frozen=True, slots=True)
class Change:
    """One instance before and after a transaction; None: it was not there."""

    before: InstanceRow | None
    after: InstanceRow | None
    events: Sequence[Event]
    by_family: bool = False
    """It was woken or cancelled by the end of its child or parent."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The writes of one operation, which are atomic."""

    operation: str
    now: int
    changes: Sequence[Change]
    for_signal: bool = False
    """A claim of a parked run for a signal, which may come before the run is due."""


@dataclass(slots=True, eq=False)
class InstanceRecord:
    """One instance: its row (replaced, never changed), its log, its entries in the unique indexes."""

    row: InstanceRow
    events: list[Event] = field(default_factory=list)
    unique: set[tuple[object, ...]] = field(default_factory=set)
    signals_kept: int = 0
    """Signals that no wait has taken."""

    @property
    def loaded(self) -> Loaded:
        """The row with its log, unless that is too large to be read at once."""
        return self.loaded_after(0)

    def loaded_after(self, seq: int) -> Loaded:
        """The same without the events up to a seq."""
        return Loaded(self.row, self.events[seq:] if self.row.log_weight <= WHOLE_LOG_WEIGHT_MAX else ())

    def has_ended(self, node_id: str | None, scope: str | None) -> bool:
        """Whether this activation has ended, by a row that no reopening left out."""
        left_out = self.row.head.left_out
        return any(
            event.type in ENDINGS and (event.node_id, event.scope) == (node_id, scope)
            for event in self.events
            if not is_left_out(left_out, event.seq)
        )

    def append(self, events: Sequence[Event], *, generation: int = 0) -> None:
        """Write events that `refusal_of` let through."""
        for event in events:
            key = unique_key(event, generation)
            if key is not None:
                self.unique.add(key)
            if event.type is _SIGNAL_RECEIVED:
                self.signals_kept += 1
            elif event.type is _NODE_WAITING and signal_taken(read_wait(event.payload)) is not None:
                self.signals_kept -= 1
        self.events.extend(events)
