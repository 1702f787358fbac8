"""Folding what every run has, drawn or coded: timers, signals and the waits for them, recoveries, the end.

Pure. Called by `evolve` and `coded.evolve`, and by nobody else.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.instants import from_iso
from anabranch.engine.rules.run_state import Open, Phase, RunState
from anabranch.engine.rules.values import Payload
from anabranch.engine.rules.waits.signals import KeptSignal, events_of

AnyRun: TypeAlias = RunState[Any, Any]


def signal_received(state: AnyRun, event: Event) -> None:
    """A signal is promised to the oldest open wait that it fits, or kept."""
    note = event.payload.value
    payload = Payload.trusted(note["payload"])
    signal = KeptSignal(event.seq, note["event"], payload)
    wait = state.oldest_wait(signal.event, payload)
    if wait is None:
        _keep(state, signal)
    else:
        _promise(state, signal, wait)
    if note.get("key") is not None:
        state.signal_answers[note["key"]] = wait is not None


def instance_recovered(state: AnyRun, event: Event) -> None:
    """Another takeover without progress."""
    state.recoveries = event.payload.value["recoveries"]


def instance_ended(state: AnyRun, event: Event) -> None:
    """The last event: nothing is owed any more."""
    state.terminal = _TERMINAL_OF[event.type]
    state.outcome = event.payload


def wait(state: RunState[Open, Any], activation: Open, event: Event) -> None:
    """The activation waits for its time, a signal or a child; or its wait has taken the signal that it was for."""
    note = event.payload.value
    if "signalSeq" in note:
        take_signal(state, activation, note["event"], note["signalSeq"])
    if activation.phase is Phase.WAITING:
        return
    activation.phase = Phase.WAITING
    set_timer(state, activation, note.get("dueAt"), event.seq)
    events = events_of(note)
    if events is not None:
        activation.events, activation.names_event = events, "events" in note
        if "signalSeq" not in note:
            for event_name in events:
                state.waits.setdefault(event_name, {})[activation.place] = activation
    elif "childID" in note:
        activation.child_id = note["childID"]
        state.children[note["childID"]] = activation


def set_timer(state: RunState[Open, Any], activation: Open, due_at: str | None, seq: int) -> None:
    """The activation is due then (None: never by itself), as the row with this seq says."""
    activation.due_at = None if due_at is None else from_iso(due_at)
    activation.due_seq = seq
    if activation.due_at is not None:
        state.add_timer(activation, activation.due_at, seq)


def take_signal(state: RunState[Open, Any], activation: Open, event: str, seq: int) -> None:
    """The wait takes the signal that this row brought: promised to it, or kept until now."""
    if activation.promised is not None and activation.promised.seq == seq:
        activation.promised = None
        del state.promises[seq]
        return
    signals = state.kept[event]
    del signals[seq]
    if not signals:
        del state.kept[event]
    state.kept_count -= 1


def close_wait(state: RunState[Open, Any], activation: Open) -> None:
    """Forget an ended wait; a signal promised to it and not taken goes to the next wait or is kept."""
    _stop_waiting(state, activation)
    signal, activation.promised = activation.promised, None
    if signal is not None:
        heir = state.oldest_wait(signal.event, signal.payload)
        if heir is None:
            del state.promises[signal.seq]
            _keep(state, signal)
        else:
            _promise(state, signal, heir)


def _keep(state: AnyRun, signal: KeptSignal) -> None:
    signals = state.kept.setdefault(signal.event, {})
    signals[signal.seq] = signal
    state.kept_count += 1
    if signal.seq != state.last_seq:  # handed back by a wait that ended: it is older than its neighbours
        state.kept[signal.event] = dict(sorted(signals.items()))


def _promise(state: RunState[Open, Any], signal: KeptSignal, wait: Open) -> None:
    """Set a signal aside for a wait, which waits for no other then: thousands may be promised before one is served."""
    wait.promised = signal
    state.promises[signal.seq] = wait
    _stop_waiting(state, wait)


def _stop_waiting(state: RunState[Open, Any], activation: Open) -> None:
    assert activation.events is not None
    for event in activation.events:
        waits = state.waits.get(event, {})
        if waits.pop(activation.place, None) is not None and not waits:
            del state.waits[event]


_TERMINAL_OF = {
    EventType.INSTANCE_COMPLETED: Status.COMPLETED,
    EventType.INSTANCE_FAILED: Status.FAILED,
    EventType.INSTANCE_CANCELLED: Status.CANCELLED,
}
