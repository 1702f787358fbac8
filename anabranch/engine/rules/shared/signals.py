"""Signals of a run: which wait takes which, and what is kept until a wait asks for it.

One signal goes to one wait: the oldest open one of its event whose `match` matches. A wait takes the oldest matching
kept signal.

Plain objects that only folding changes. `RunState` has one `RunSignals`; decisions ask it which wait or signal comes
first (`decisions.receive_signal`, `decide`, `coded_decide`). `FoldedSignals` folds the same from the rows about signals
alone, for callers that need no more of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.rules.event_payloads import (
    SignalAwaited,
    SignalReceived,
    SignalTaken,
    read_signal,
    read_wait,
    signal_taken,
)
from anabranch.engine.rules.events import ENDINGS, ActivationKey, Event, EventType
from anabranch.engine.rules.stimuli import AwaitsAnySignal, AwaitsSignal
from anabranch.engine.rules.values import NULL, Payload, is_superset

# 10,000 kept signals: enough for any sensible backlog, and quick to fold. Beyond it the sender gets 429.
SIGNALS_KEPT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class KeptSignal:
    """A signal that no wait has taken yet."""

    seq: int
    event: str
    payload: Payload

    def output(self, *, names_event: bool) -> Payload:
        """The output of a wait that takes the signal: its payload, or `{"event", "payload"}`."""
        if not names_event:
            return self.payload
        raw = orjson.dumps({"event": self.event, "payload": orjson.Fragment(self.payload.raw)})
        return Payload({"event": self.event, "payload": self.payload.value}, raw)


def fits(match: Payload | None, payload: Payload) -> bool:
    """True if a signal's payload satisfies a wait's `match`; a wait without `match` takes every payload."""
    return match is None or is_superset(payload.value, match.value)


class SignalWait:
    """What an open activation waits for, if it waits for a signal."""

    __slots__ = ("events", "key", "names_event", "promised")

    def __init__(self, key: ActivationKey) -> None:
        self.key = key
        """Node id and scope of the activation."""
        self.events: Mapping[str, Payload | None] = {}
        """The signals that it asks for, each with its `match`."""
        self.names_event = False
        """Its output says which of them has come."""
        self.promised: KeptSignal | None = None
        """A signal that arrived for this wait and is not recorded as taken yet."""

    def served(self) -> tuple[Payload, Payload]:
        """The payload of NODE_WAITING when the wait takes the signal promised to it, and the output of the wait."""
        signal = self.promised
        assert signal is not None, "only who was promised a signal takes one"
        return SignalTaken(signal.event, signal.seq).payload, signal.output(names_event=self.names_event)


_NO_SIGNALS: dict[int, KeptSignal] = {}


@dataclass(slots=True)
class RunSignals:
    """The signals of one run that no wait has taken, and its waits for signals."""

    kept: dict[str, dict[int, KeptSignal]] = field(default_factory=dict)
    """Signals that no wait has taken, by event and seq, oldest first."""
    kept_count: int = 0
    waits: dict[str, dict[ActivationKey, SignalWait]] = field(default_factory=dict)
    """Open waits that no signal was promised to, by event and (node id, scope), oldest first."""
    promises: dict[int, SignalWait] = field(default_factory=dict)
    """Open waits whose signal has arrived and is not recorded as taken yet, by its seq, oldest first."""
    answers: dict[str, bool] = field(default_factory=dict)
    """For each signal key: was a matching wait open when it arrived?"""

    # -- reading ----------------------------------------------------------------------------
    def oldest_wait(self, event: str, payload: Payload) -> SignalWait | None:
        """The oldest open wait that this signal matches and that has no other signal assigned."""
        for wait in self.waits.get(event, {}).values():
            if fits(wait.events[event], payload):
                return wait
        return None

    def oldest_kept(self, events: Mapping[str, Payload | None]) -> KeptSignal | None:
        """The oldest kept signal that matches a wait for these."""
        oldest = None
        for event, match in events.items():
            for signal in self.kept.get(event, _NO_SIGNALS).values():
                if oldest is not None and oldest.seq < signal.seq:
                    break
                if fits(match, signal.payload):
                    oldest = signal
                    break
        return oldest

    def opened_wait(self, asked: AwaitsSignal | AwaitsAnySignal, *, now: int) -> tuple[Payload, Payload | None]:
        """The payload of NODE_WAITING for a wait that begins at `now` (ms), and its output if a kept signal ends it at
        once."""
        names_event = isinstance(asked, AwaitsAnySignal)
        events = asked.events if isinstance(asked, AwaitsAnySignal) else {asked.event: asked.match}
        due_at = None if asked.timeout_ms is None else now + asked.timeout_ms
        signal = self.oldest_kept(events)
        taken = None if signal is None else SignalTaken(signal.event, signal.seq)
        output = None if signal is None else signal.output(names_event=names_event)
        return SignalAwaited(events, names_event, due_at, taken).payload, output

    @property
    def has_open_waits(self) -> bool:
        """Whether a wait is open, with a promised signal or without."""
        return bool(self.waits or self.promises)

    def unpromised_waits(self) -> Iterator[ActivationKey]:
        """The open waits that no signal was promised to, each once."""
        return iter(dict.fromkeys(key for waits in self.waits.values() for key in waits))

    def untaken(self) -> list[int]:
        """The seqs of the signals that no wait has taken, promised ones too, oldest first."""
        return sorted([*self.promises, *(seq for signals in self.kept.values() for seq in signals)])

    # -- folding ----------------------------------------------------------------------------
    def receive(self, seq: int, arrived: SignalReceived) -> bool:
        """Promise the signal in this row to the oldest open wait that it matches, or keep it. True if there is one."""
        signal = KeptSignal(seq, arrived.event, arrived.content)
        wait = self.oldest_wait(arrived.event, arrived.content)
        if wait is None:
            self._keep(signal)
        else:
            self._promise(signal, wait)
        if arrived.key is not None:
            self.answers[arrived.key] = wait is not None
        return wait is not None

    def wait_recorded(self, wait: SignalWait, recorded: SignalAwaited | SignalTaken) -> None:
        """Open the wait, or let it take its signal, as a row of it says; some rows say both."""
        taken = signal_taken(recorded)
        if taken is not None:
            self._take(wait, taken)
        if isinstance(recorded, SignalAwaited):
            wait.events, wait.names_event = recorded.events, recorded.names_event
            if taken is None:
                for event in recorded.events:
                    self.waits.setdefault(event, {})[wait.key] = wait
        elif not wait.events:
            wait.events = {recorded.event: None}

    def close_wait(self, wait: SignalWait) -> None:
        """Forget an ended wait. A signal promised to it but not taken goes to the next wait, or is kept."""
        self._stop_waiting(wait)
        signal, wait.promised = wait.promised, None
        if signal is not None:
            heir = self.oldest_wait(signal.event, signal.payload)
            if heir is None:
                del self.promises[signal.seq]
                self._keep(signal)
                self.kept[signal.event] = dict(sorted(self.kept[signal.event].items()))  # older than its neighbours
            else:
                self._promise(signal, heir)

    def _take(self, wait: SignalWait, taken: SignalTaken) -> None:
        """Let the wait take the signal, which was promised to it or kept until now."""
        if wait.promised is not None and wait.promised.seq == taken.seq:
            wait.promised = None
            del self.promises[taken.seq]
            return
        signals = self.kept[taken.event]
        del signals[taken.seq]
        if not signals:
            del self.kept[taken.event]
        self.kept_count -= 1

    def _keep(self, signal: KeptSignal) -> None:
        self.kept.setdefault(signal.event, {})[signal.seq] = signal
        self.kept_count += 1

    def _promise(self, signal: KeptSignal, wait: SignalWait) -> None:
        """Promise a signal to a wait, which then waits for no other: thousands may be promised before the first is
        taken."""
        wait.promised = signal
        self.promises[signal.seq] = wait
        self._stop_waiting(wait)

    def _stop_waiting(self, wait: SignalWait) -> None:
        for event in wait.events:
            waits = self.waits.get(event, {})
            if waits.pop(wait.key, None) is not None and not waits:
                del self.waits[event]


class FoldedSignals:
    """The signals of one run, folded from the rows about signals and their waits alone.

    Tells whether a signal met an open wait, without reading the rest of the log.
    """

    __slots__ = ("last_seq", "open", "signals")

    def __init__(self) -> None:
        self.signals = RunSignals()
        self.last_seq = 0
        self.open: dict[ActivationKey, SignalWait] = {}
        """Waits that have not ended, those with a promised signal too."""

    def evolve(self, event: Event) -> bool | None:
        """Fold the next row about signals or their waits; other rows may be missing.

        For a signal, return whether a matching wait is open that has no earlier signal promised.
        """
        self.last_seq = event.seq
        key = (event.node_id, event.scope)
        if event.type is EventType.SIGNAL_RECEIVED:
            arrived = read_signal(event.payload)
            is_awaited = self.signals.receive(event.seq, arrived)
            if not is_awaited:
                # It is taken by its seq; its payload is no longer compared.
                self.signals.kept[arrived.event][event.seq] = KeptSignal(event.seq, arrived.event, NULL)
            return is_awaited
        if event.type is EventType.NODE_WAITING:
            recorded = read_wait(event.payload)
            if isinstance(recorded, SignalAwaited | SignalTaken):
                self.signals.wait_recorded(self.open.setdefault(key, SignalWait(key)), recorded)
        elif event.type in ENDINGS and (ended := self.open.pop(key, None)) is not None:
            self.signals.close_wait(ended)
        return None
