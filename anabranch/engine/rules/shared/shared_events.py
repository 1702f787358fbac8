"""Folding of events that all runs share: timers, signals and waits, recoveries, the end.

Pure. Called by `evolve` and `coded_state`; the service uses `SignalWaits` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from anabranch.engine.rules.events import ENDINGS, Event, EventType, Status, SuspendReason
from anabranch.engine.rules.payloads import (
    ChildAwaited,
    DelayStarted,
    Redo,
    RunReopened,
    SignalAwaited,
    SignalTaken,
    Waiting,
    read_recovered,
    read_reopened,
    read_signal,
    read_suspension,
    read_wait,
    signal_taken,
)
from anabranch.engine.rules.shared.blame import Blame, Suspicion
from anabranch.engine.rules.shared.run_state import (
    InstanceHead,
    KeptSignal,
    Open,
    OpenActivation,
    Phase,
    Redone,
    RunState,
)
from anabranch.engine.rules.values import NULL

AnyRun: TypeAlias = RunState[Any, Any]


def signal_received(state: AnyRun, event: Event) -> None:
    """Assign a signal to the oldest open wait that it matches, or keep it."""
    arrived = read_signal(event.payload)
    signal = KeptSignal(event.seq, arrived.event, arrived.content)
    wait = state.oldest_wait(arrived.event, arrived.content)
    if wait is None:
        _keep(state, signal)
    else:
        _promise(state, signal, wait)
    if arrived.key is not None:
        state.signal_answers[arrived.key] = wait is not None


def instance_recovered(state: AnyRun, event: Event) -> None:
    """Make the run a suspect until everything that is executing now has ended."""
    recorded = read_recovered(event.payload)
    blame = None if recorded.company is None else Blame(recorded.company, recorded.crashes)
    state.suspicion = Suspicion(recorded.recoveries, blame, set(state.running)) if state.running else None


def instance_suspended(state: AnyRun, event: Event) -> None:
    """Suspend the run: nothing starts until it is resumed."""
    state.suspension, state.suspended_at = read_suspension(event.payload), event.created_at


def instance_resumed(state: AnyRun, event: Event) -> None:
    """Resume the run, with a full budget of crashes."""
    suspended, state.suspension, state.on_trial = state.suspension, None, False
    suspicion = state.suspicion
    if suspended is not None and suspended.reason is SuspendReason.CRASHED and suspicion is not None:
        suspicion.blame = Blame(1)


def instance_reopened(state: AnyRun, event: Event) -> None:
    """Reopen the run as if the rows left out did not exist; what caused its end is due again now."""
    recorded = read_reopened(event.payload)
    state.suspicion = state.suspension = None
    for each in recorded.redo:
        activation = state.activation(each.node_id, each.scope)
        if activation is not None:
            _redo(state, activation, each, recorded, event)
    for wait in {wait.place: wait for waits in state.waits.values() for wait in waits.values()}.values():
        if wait.due_at is not None:
            # No signal could arrive meanwhile.
            set_timer(state, wait, wait.due_at + recorded.closed_ms, event.seq)


def _redo(state: AnyRun, activation: OpenActivation, redo: Redo, recorded: RunReopened, event: Event) -> None:
    before = activation.redone
    state.running.pop(activation.place, None)
    state.unevaluated.pop(activation.place, None)
    if activation.child_id is not None:
        state.children.pop(activation.child_id, None)
        activation.child_id = None
    activation.phase = Phase.RETRYING
    activation.attempt = redo.attempt
    activation.redone = Redone(
        redo.attempt,
        recorded.generation if recorded.new_keys else 0 if before is None else before.key_generation,
        recorded.generation if redo.replaces_child else 0 if before is None else before.child_generation,
    )
    set_timer(state, activation, event.created_at, event.seq)


def instance_ended(state: AnyRun, event: Event) -> None:
    """Apply the last event: nothing is outstanding any more."""
    state.terminal = _TERMINAL_OF[event.type]
    state.outcome = event.payload


def wait(state: RunState[Open, Any], activation: Open, recorded: Waiting, seq: int) -> None:
    """Make the activation wait for a time, a signal or a child; or note that its wait has taken a signal."""
    taken = signal_taken(recorded)
    if taken is not None:
        take_signal(state, activation, taken)
    if activation.phase is Phase.WAITING:
        return
    activation.phase = Phase.WAITING
    activation.due_at = None
    if isinstance(recorded, SignalTaken):
        activation.events = {recorded.event: None}
    elif isinstance(recorded, SignalAwaited):
        activation.events, activation.names_event = recorded.events, recorded.names_event
        if taken is None:
            for event_name in recorded.events:
                state.waits.setdefault(event_name, {})[activation.place] = activation
    elif isinstance(recorded, ChildAwaited):
        activation.child_id = recorded.child_id
        state.children[recorded.child_id] = activation
    if isinstance(recorded, DelayStarted | SignalAwaited) and recorded.due_at is not None:
        set_timer(state, activation, recorded.due_at, seq)


def set_timer(state: RunState[Open, Any], activation: Open, due_at: int, seq: int) -> None:
    """The activation is due then (ms), as the row with this seq says."""
    activation.due_at, activation.due_seq = due_at, seq
    state.add_timer(activation, due_at, seq)


def take_signal(state: RunState[Open, Any], activation: Open, taken: SignalTaken) -> None:
    """Let the wait take the signal, which was assigned to it or kept until now."""
    if activation.promised is not None and activation.promised.seq == taken.seq:
        activation.promised = None
        del state.promises[taken.seq]
        return
    signals = state.kept[taken.event]
    del signals[taken.seq]
    if not signals:
        del state.kept[taken.event]
    state.kept_count -= 1


def close_wait(state: RunState[Open, Any], activation: Open) -> None:
    """Forget an ended wait. A signal assigned to it but not taken goes to the next wait, or is kept."""
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
    if signal.seq != state.last_seq:  # returned by a wait that ended: it is older than its neighbours
        state.kept[signal.event] = dict(sorted(signals.items()))


def _promise(state: RunState[Open, Any], signal: KeptSignal, wait: Open) -> None:
    """Assign a signal to a wait, which then waits for no other: thousands may be assigned before the first is taken."""
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


EVOLVE_SHARED: Mapping[EventType, Callable[[AnyRun, Event], None]] = {
    EventType.SIGNAL_RECEIVED: signal_received,
    EventType.INSTANCE_RECOVERED: instance_recovered,
    EventType.INSTANCE_SUSPENDED: instance_suspended,
    EventType.INSTANCE_RESUMED: instance_resumed,
    EventType.INSTANCE_REOPENED: instance_reopened,
    EventType.INSTANCE_COMPLETED: instance_ended,
    EventType.INSTANCE_FAILED: instance_ended,
    EventType.INSTANCE_CANCELLED: instance_ended,
}
"""How these events change a run of either kind."""


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
    """The waits for signals of one run and the signals assigned to them, folded from the rows about signals alone.
    Tells whether a signal met an open wait, without reading the rest of the log.
    """

    __slots__ = ("open",)

    def __init__(self, head: InstanceHead) -> None:
        super().__init__(head)
        self.open: dict[tuple[str, str], SignalWait] = {}
        """Waits that have not ended, those with a promised signal too."""

    def activation(self, node_id: str, scope: str) -> SignalWait | None:
        """The open wait with this key, if there is one."""
        return self.open.get((node_id, scope))

    def evolve(self, event: Event) -> bool | None:
        """Fold the next row about signals or their waits; other rows may be missing.

        For a signal, return whether a matching wait is open that has no earlier signal assigned.
        """
        self.last_seq = event.seq
        place = (event.node_id, event.scope)
        if event.type is EventType.SIGNAL_RECEIVED:
            signal = read_signal(event.payload)
            delivered = self.oldest_wait(signal.event, signal.content) is not None
            signal_received(self, event)
            if event.seq in self.kept.get(signal.event, {}):
                # It is taken by its seq; its payload is no longer compared.
                self.kept[signal.event][event.seq] = KeptSignal(event.seq, signal.event, NULL)
            return delivered
        if event.type is EventType.NODE_WAITING:
            wait(self, self.open.setdefault(place, SignalWait(place)), read_wait(event.payload), event.seq)
        elif event.type in ENDINGS and (ended := self.open.pop(place, None)) is not None:
            close_wait(self, ended)
        return None
