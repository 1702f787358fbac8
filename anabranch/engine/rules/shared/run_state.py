"""The state that all runs share, drawn or coded, and how the events that both have change it: head, open activations,
timers, children, suspensions, the end. Signals and the waits for them are in `signals`.

`drawn_state` and `coded_state` build on it; code that needs only this works for both. Plain objects that only `evolve`
changes.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar

from anabranch.dataclass import dataclass
from anabranch.engine.rules.commands import AwaitChild, Command, Dispatch, Wake
from anabranch.engine.rules.event_payloads import (
    ChildAwaited,
    DelayStarted,
    Redo,
    RunReopened,
    RunSuspended,
    SignalAwaited,
    SignalTaken,
    Waiting,
    read_recovered,
    read_reopened,
    read_signal,
    read_suspension,
)
from anabranch.engine.rules.events import ActivationKey, Event, EventType, Status, SuspendReason
from anabranch.engine.rules.shared.blame import Blame, Suspicion
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.rules.shared.left_out import NOTHING_LEFT_OUT, Ranges
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT
from anabranch.engine.rules.shared.signals import RunSignals, SignalWait
from anabranch.engine.rules.value_parts import Division, StoredValue
from anabranch.engine.rules.values import DividedPayload, Payload


@dataclass(slots=True)
class InstanceHead:
    """What an instance is created with and keeps. Times are milliseconds since the epoch.

    Never changed once created (not `frozen`: see `Event`; here that would cost ten times as much).
    """

    instance_id: str
    tenant_id: str
    workflow_id: str | None
    """None for a test run of an unsaved graph."""
    workflow_name: str
    workflow_version: int
    created_at: int
    available_at: int
    """The time before which nothing is dispatched; created_at when the start asked for none."""
    deadline_at: int | None = None
    retention_days: int = 30
    idempotency_key: str | None = None
    parent_id: str | None = None
    kind: str = "drawn"
    test: bool = False
    parent_node_id: str | None = None
    """The activation of the parent that started it (with `parent_scope`)."""
    parent_scope: str | None = None
    parent_waits: bool = False
    """The parent awaits its end; it is cancelled if the parent does not any more."""
    depth: int = 0
    """How many runs are above it."""
    root_id: str | None = None
    """The topmost of them; None: it is a root itself."""
    rerun_of: str | None = None
    """The run that this one repeats, with the same or another input."""
    started_by: str | None = None
    """The id of the key that started it, or `cli`; of a message its id and topic; None: a run or a schedule."""
    generation: int = 0
    """How often it was reopened; with `left_out`, `deadline_at` and `parent_waits` all that ever changes."""
    left_out: Ranges = NOTHING_LEFT_OUT
    """The rows of its log that do not count any more."""
    forked_from: str | None = None
    """The run whose outcomes it began with."""


# 64 entries: in a smaller heap, removing stale entries costs more than it frees.
TIMERS_KEPT_MIN = 64


class Phase(Enum):
    """What an open activation is doing."""

    DISPATCHED = "dispatched"
    WAITING = "waiting"
    RETRYING = "retrying"
    LOOPING = "looping"


# Looked up once: a member of an enum costs ten times a global before Python 3.12, and these are read for every row.
_DISPATCHED = Phase.DISPATCHED
_PENDING, _RUNNING, _WAITING, _SUSPENDED = Status.PENDING, Status.RUNNING, Status.WAITING, Status.SUSPENDED


@dataclass(frozen=True, slots=True)
class Redone:
    """What a reopening changes in an activation that it repeats."""

    attempts: int
    """The attempts before: they do not count against its budget."""
    key_generation: int = 0
    """The reopening that gave it another idempotency key; 0: it has its first one."""
    child_generation: int = 0
    """The reopening since which it starts another child; 0: its first one."""


class OpenActivation(ABC):
    """An open activation of any kind: dispatched and not ended yet."""

    __slots__ = ("attempt", "child_id", "due_at", "due_seq", "phase", "redone", "signal_wait")

    def __init__(self) -> None:
        self.phase = _DISPATCHED
        self.attempt = 1
        self.due_at: int | None = None
        self.due_seq = 0
        """The row that set `due_at`: two attempts may be due at the same time, and only the later one counts."""
        self.signal_wait: SignalWait | None = None
        """Set if it waits for a signal; None for delays."""
        self.child_id: str | None = None
        """The run whose end this waits for."""
        self.redone: Redone | None = None
        """Set once a reopening has let it try again."""

    @property
    def counted_attempt(self) -> int:
        """The current attempt, counted against its budget of attempts."""
        return self.attempt if self.redone is None else self.attempt - self.redone.attempts

    def __lt__(self, other: OpenActivation) -> bool:
        """The order of activations that one row made due at the same time."""
        return self.key < other.key

    def child_of(self, instance_id: str) -> str:
        """The id of the child run that it starts or has started."""
        return child_id(instance_id, *self.key, 0 if self.redone is None else self.redone.child_generation)

    @property
    @abstractmethod
    def key(self) -> ActivationKey:
        """Node id and scope: the key of the activation within its run."""


Open = TypeVar("Open", bound=OpenActivation)
Runs = TypeVar("Runs", bound=OpenActivation)


class RunState(ABC, Generic[Open, Runs]):
    """The state that decisions about any run need. `Open` is the type of its open activations, `Runs` of those that get
    jobs."""

    __slots__ = (
        "children",
        "head",
        "is_paused",
        "last_seq",
        "log_bytes",
        "log_limit",
        "on_trial",
        "outcome",
        "running",
        "signals",
        "started",
        "suspended_at",
        "suspension",
        "suspicion",
        "terminal",
        "timers",
        "timers_max",
        "unevaluated",
        "values",
        "values_bytes",
    )

    def __init__(self, head: InstanceHead) -> None:
        self.head = head
        self.last_seq = 0
        self.log_bytes = 0
        """JSON bytes of all payloads in the log; of a large part of one, what its reference takes."""
        self.values: dict[str, StoredValue | None] = {}
        """The large parts of payloads by their hash, each once; None: it was not fetched."""
        self.values_bytes = 0
        """JSON bytes of all of these."""
        self.log_limit = LOG_LIMIT
        """What the log may hold, as the deciding process was configured."""
        self.started = False
        """True from the first NODE_DISPATCHED."""
        self.suspension: RunSuspended | None = None
        """Why the run stands still; None: it does not."""
        self.suspended_at = 0
        """When it was last suspended (ms)."""
        self.on_trial = False
        """Whether its owner tries if its code can continue it by now. No row says so."""
        self.is_paused = False
        """Is its workflow or its tenant paused, as far as its owner knows? No row says so."""
        self.terminal: Status | None = None
        self.outcome: Payload | None = None
        """Output, error or reason, once terminal."""
        self.running: dict[ActivationKey, Runs] = {}
        """Activations whose attempt is unanswered, by (node id, scope)."""
        self.unevaluated: OrderedDict[ActivationKey, Runs] = OrderedDict()
        """Of these, pure nodes: a decision evaluates them, first in, first out."""
        self.timers: list[tuple[int, int, Open]] = []
        """A heap of (due time, seq, activation); entries that do not hold any more go when met, or at `timers_max`."""
        self.timers_max = TIMERS_KEPT_MIN
        """A heap longer than this is cleared of what does not hold any more."""
        self.suspicion: Suspicion | None = None
        """The run may have killed a process; None: it is above suspicion."""
        self.children: dict[str, Open] = {}
        """Open waits for the end of a child, by its id."""
        self.signals = RunSignals()

    def keep_parts(self, division: Division) -> DividedPayload:
        """The payload of a new row with large parts: what the run has already, it has once."""
        for part in division.parts:
            if part.sha256 not in self.values:
                self.values_bytes += part.size
            known = self.values.get(part.sha256)
            if known is None:
                self.values[part.sha256] = part.content
            else:
                part.content = known
        return DividedPayload(division)

    def values_bytes_with(self, division: Division) -> int:
        """How many bytes the large parts of the run have with those of one more payload."""
        new = {part.sha256: part.size for part in division.parts if part.sha256 not in self.values}
        return self.values_bytes + sum(new.values())

    @property
    def blame(self) -> Blame | None:
        """The suspicion against the run, as far as the log knows."""
        return None if self.suspicion is None else self.suspicion.blame

    @property
    def is_terminal(self) -> bool:
        """True once the instance has ended."""
        return self.terminal is not None

    @property
    def stands_still(self) -> bool:
        """True: nothing begins or fires, and what arrives is kept. Its deadline counts all the same."""
        return self.suspension is not None or self.is_paused

    @property
    def may_perform(self) -> bool:
        """Whether its owner may execute what is outstanding."""
        return not self.is_paused and (self.suspension is None or self.on_trial)

    @property
    def status(self) -> Status:
        """The status that the log implies (WAITING, where the engine may still show RUNNING for short waits)."""
        if self.terminal is not None:
            return self.terminal
        if self.suspension is not None:
            return _SUSPENDED
        if not self.started:
            return _PENDING
        return _RUNNING if self.running else _WAITING

    @abstractmethod
    def activation(self, node_id: str, scope: str) -> Open | None:
        """The open activation of a node in a scope, if there is one."""

    def awaits(self, node_id: str, scope: str, attempt: int) -> Runs | None:
        """The activation whose unanswered attempt this is, if there is one."""
        activation = self.running.get((node_id, scope))
        return activation if activation is not None and activation.attempt == attempt else None

    def owes(self, command: Command) -> bool:
        """Whether this command is still outstanding. While the run is suspended only its deadline is."""
        if self.terminal is not None:
            return False
        if self.suspension is not None:
            return isinstance(command, Wake) and not command.node_id and command.due_at in self.own_due_times()
        if isinstance(command, Dispatch):
            return self.awaits(command.node_id, command.scope, command.attempt) is not None
        if isinstance(command, AwaitChild):
            return command.child_id in self.children
        activation = self.activation(command.node_id, command.scope)
        if activation is not None and activation.due_at == command.due_at:
            return True
        return not command.node_id and command.due_at in self.own_due_times()

    def next_due(self) -> int | None:
        """When the next delay, retry, wait or deadline is due, or the instance may begin; None: never by itself.

        A run that stands still has only its deadline.
        """
        if not self.timers and self.started and self.head.deadline_at is None:
            return None  # as nearly always
        times = list(self.own_due_times())
        timer = None if self.stands_still else self.next_timer()
        if timer is not None and timer.due_at is not None:
            times.append(timer.due_at)
        return min(times, default=None)

    def add_timer(self, activation: Open, due_at: int, seq: int) -> None:
        """Note a due time. The heap is cleaned when it is about twice as large as after the last cleaning."""
        heapq.heappush(self.timers, (due_at, seq, activation))
        if len(self.timers) > self.timers_max:
            self.timers = [
                entry for entry in self.timers if entry[2].due_at is not None and entry[2].due_seq == entry[1]
            ]
            heapq.heapify(self.timers)
            self.timers_max = 2 * len(self.timers) + TIMERS_KEPT_MIN

    def next_timer(self) -> Open | None:
        """The activation whose due time comes first."""
        while self.timers:
            _, seq, activation = self.timers[0]
            if activation.due_at is not None and activation.due_seq == seq:
                return activation
            heapq.heappop(self.timers)
        return None

    def own_due_times(self) -> Iterator[int]:
        """Due times of the instance itself: its deadline, and its start time while it has not begun."""
        if self.head.deadline_at is not None:
            yield self.head.deadline_at
        if not self.started and not self.stands_still:
            yield self.head.available_at


# -- events that change runs of both kinds ---------------------------------------------------------
AnyRun: TypeAlias = RunState[Any, Any]


def signal_received(state: AnyRun, event: Event) -> None:
    """Promise a signal to the oldest open wait that it matches, or keep it."""
    arrived = read_signal(event.payload)
    state.signals.receive(event.seq, arrived)


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
    for key in state.signals.unpromised_waits():
        activation = state.activation(*key)
        if activation is not None and activation.due_at is not None:
            # No signal could arrive meanwhile.
            set_timer(state, activation, activation.due_at + recorded.closed_ms, event.seq)


def _redo(state: AnyRun, activation: OpenActivation, redo: Redo, recorded: RunReopened, event: Event) -> None:
    before = activation.redone
    state.running.pop(activation.key, None)
    state.unevaluated.pop(activation.key, None)
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
    if isinstance(recorded, SignalAwaited | SignalTaken):
        if activation.signal_wait is None:
            activation.signal_wait = SignalWait(activation.key)
        state.signals.wait_recorded(activation.signal_wait, recorded)
    if activation.phase is Phase.WAITING:
        return
    activation.phase = Phase.WAITING
    activation.due_at = None
    if isinstance(recorded, ChildAwaited):
        activation.child_id = recorded.child_id
        state.children[recorded.child_id] = activation
    if isinstance(recorded, DelayStarted | SignalAwaited) and recorded.due_at is not None:
        set_timer(state, activation, recorded.due_at, seq)


def set_timer(state: RunState[Open, Any], activation: Open, due_at: int, seq: int) -> None:
    """The activation is due then (ms), as the row with this seq says."""
    activation.due_at, activation.due_seq = due_at, seq
    state.add_timer(activation, due_at, seq)


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
