"""The waits for signals of one run, and which signal is promised to which: folded from the rows about these alone.

Pure. For callers without the state of a run: did a signal meet an open wait? The rest of its
log need not be read. Folds with the same functions as the state of a run.
"""

from __future__ import annotations

from anabranch.engine.rules.drawn.drawn_state import InstanceHead
from anabranch.engine.rules.events import ENDINGS, Event, EventType
from anabranch.engine.rules.payloads import read_signal, read_wait
from anabranch.engine.rules.shared.run_state import OpenActivation, RunState
from anabranch.engine.rules.shared.shared_events import close_wait, signal_received, wait
from anabranch.engine.rules.shared.signals import KeptSignal
from anabranch.engine.rules.values import NULL


class SignalWait(OpenActivation):
    """An activation that waits for a signal."""

    __slots__ = ("_place",)

    def __init__(self, place: tuple[str, str]) -> None:
        super().__init__()
        self._place = place

    @property
    def place(self) -> tuple[str, str]:
        """Node id and scope."""
        return self._place


class SignalWaits(RunState[SignalWait, SignalWait]):
    """What of a run decides whether a signal meets an open wait."""

    __slots__ = ("open",)

    def __init__(self, head: InstanceHead) -> None:
        super().__init__(head)
        self.open: dict[tuple[str, str], SignalWait] = {}
        """Waits that have not ended, those with a promised signal too."""

    def activation(self, node_id: str, scope: str) -> SignalWait | None:
        """The wait that is open there, if there is one."""
        return self.open.get((node_id, scope))

    def evolve(self, event: Event) -> bool | None:
        """Fold the next row that is about signals or their waits; others may be missing.

        Of a signal: is a wait open that it fits, and that no earlier one is promised to?
        """
        self.last_seq = event.seq
        place = (event.node_id, event.scope)
        if event.type is EventType.SIGNAL_RECEIVED:
            signal = read_signal(event.payload)
            delivered = self.oldest_wait(signal.event, signal.content) is not None
            signal_received(self, event)
            if event.seq in self.kept.get(signal.event, {}):
                # It is taken by its seq: nobody compares its payload any more.
                self.kept[signal.event][event.seq] = KeptSignal(event.seq, signal.event, NULL)
            return delivered
        if event.type is EventType.NODE_WAITING:
            wait(self, self.open.setdefault(place, SignalWait(place)), read_wait(event.payload), event.seq)
        elif event.type in ENDINGS and (ended := self.open.pop(place, None)) is not None:
            close_wait(self, ended)
        return None
