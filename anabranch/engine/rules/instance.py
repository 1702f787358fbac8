"""The state of one instance: the fold of its log, and nothing else.

`evolve` folds one event into a state; `fold` does so from nothing. Only they change a state:
`decide` reads it and lets every event that it emits pass through `evolve` at once, so what is
in memory and what a recovery folds from the log are the same by construction. A state is
private to its owner and thrown away, never rolled back, when a commit is lost.

Work per event is O(out-degree): edges count verdicts at their target, no join rescans its
sources.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from anabranch.engine.rules import loops
from anabranch.engine.rules.commands import Command, Dispatch, Wake
from anabranch.engine.rules.context import NO_ENTRIES, Context, Entries
from anabranch.engine.rules.events import ERROR_HANDLE, Event, EventType, Status
from anabranch.engine.rules.instants import from_iso
from anabranch.engine.rules.plan import Body, Plan, PlanNode
from anabranch.engine.rules.signals import KeptSignal, fits
from anabranch.engine.rules.values import NULL, Payload
from anabranch.errors import RunError


@dataclass(frozen=True, slots=True)
class InstanceHead:
    """What an instance is born with and keeps. Times are milliseconds since the epoch."""

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


_NONE: dict[Any, Any] = {}


class Phase(Enum):
    """What an open activation is doing."""

    DISPATCHED = "dispatched"
    WAITING = "waiting"
    RETRYING = "retrying"
    LOOPING = "looping"


class Activation:
    """An open activation: dispatched and not ended yet."""

    __slots__ = (
        "attempt",
        "context",
        "due_at",
        "event",
        "loop",
        "match",
        "next_handle",
        "node",
        "output",
        "phase",
        "promised",
        "scope",
    )

    def __init__(self, node: PlanNode, scope: Scope, context: Context) -> None:
        self.node = node
        self.scope = scope
        self.context = context
        """Snapshot before the first NODE_DISPATCHED: every attempt sees the same."""
        self.phase = Phase.DISPATCHED
        self.attempt = 1
        self.due_at: int | None = None
        self.output: Payload | None = None
        self.next_handle: str | None = None
        self.event: str | None = None
        """The signal that a wait asks for; None for delays."""
        self.match: Payload | None = None
        self.promised: KeptSignal | None = None
        """A signal that arrived for this wait and is not recorded as taken yet."""
        self.loop: loops.LoopRun | None = None


class Scope:
    """The root, or one iteration of a loop: verdict counters, open activations, what was written."""

    __slots__ = (
        "back",
        "bindings",
        "body",
        "bytes",
        "dead",
        "ended",
        "entries",
        "error",
        "index",
        "live",
        "open",
        "owner",
        "parent",
        "path",
        "remaining",
        "sinks",
    )

    def __init__(self, path: str, body: Body, parent: Scope | None, owner: Activation | None, index: int) -> None:
        self.path = path
        self.body = body
        self.parent = parent
        self.owner = owner
        """The loop activation that this is an iteration of; None at the root."""
        self.index = index
        self.live: dict[str, int] = dict(_entry_verdicts(body))
        self.dead: dict[str, int] = {}
        self.open: dict[str, Activation] = {}
        self.ended: set[str] = set()
        self.remaining = len(body.nodes)
        self.entries: Entries = NO_ENTRIES
        self.bindings: dict[str, Any] | None = None
        self.bytes = 0
        """JSON bytes that nodes of this scope wrote into the context."""
        self.error: RunError | None = None
        """The unhandled error that made this iteration fail."""
        self.back: Payload | None = None
        """Output of the node on the latest live back edge: the iteration's value."""
        self.sinks: list[tuple[PlanNode, Payload]] = []


class InstanceState:
    """Everything that decisions about one instance need to know."""

    __slots__ = (
        "ends",
        "head",
        "kept",
        "kept_count",
        "last_seq",
        "outcome",
        "plan",
        "recoveries",
        "root",
        "running",
        "scopes",
        "signal_answers",
        "started",
        "terminal",
        "timers",
        "waits",
    )

    def __init__(self, plan: Plan, head: InstanceHead) -> None:
        self.plan = plan
        self.head = head
        self.last_seq = 0
        self.started = False
        """True from the first NODE_DISPATCHED."""
        self.terminal: Status | None = None
        self.outcome: Payload | None = None
        """Output, error or reason, once terminal."""
        self.root = Scope("", plan.root, None, None, 0)
        self.scopes: dict[str, Scope] = {"": self.root}
        self.running: dict[tuple[str, str], Activation] = {}
        """Activations whose attempt is unanswered, by (node id, scope)."""
        self.timers: list[tuple[int, int, Activation]] = []
        """A heap of (due time, seq, activation); entries that no longer hold are dropped when met."""
        self.ends: list[tuple[str | None, Any]] = []
        """What the root End nodes collected, in seq order."""
        self.recoveries = 0
        """Takeovers of a lapsed lease with an unanswered dispatch since anything else happened."""
        self.kept: dict[str, dict[int, KeptSignal]] = {}
        """Signals that no wait has taken, by event and seq, oldest first."""
        self.kept_count = 0
        self.waits: dict[str, dict[tuple[str, str], Activation]] = {}
        """Open waits by event and (node id, scope), oldest first."""
        self.signal_answers: dict[str, bool] = {}
        """For each signal key: was a fitting wait open when it arrived?"""

    @property
    def is_terminal(self) -> bool:
        """True once the instance has ended."""
        return self.terminal is not None

    @property
    def status(self) -> Status:
        """The status that the log implies (WAITING where the shell may still say RUNNING for short waits)."""
        if self.terminal is not None:
            return self.terminal
        if not self.started:
            return Status.PENDING
        return Status.RUNNING if self.running else Status.WAITING

    def activation(self, node_id: str, scope: str) -> Activation | None:
        """The open activation of a node in a scope, if there is one."""
        home = self.scopes.get(scope)
        return None if home is None else home.open.get(node_id)

    def awaits(self, node_id: str, scope: str, attempt: int) -> Activation | None:
        """The activation whose unanswered attempt this is, if there is one."""
        activation = self.running.get((node_id, scope))
        return activation if activation is not None and activation.attempt == attempt else None

    def owes(self, command: Command) -> bool:
        """Is this command still outstanding?"""
        if self.terminal is not None:
            return False
        if isinstance(command, Dispatch):
            return self.awaits(command.node_id, command.scope, command.attempt) is not None
        if command.node_id:
            activation = self.activation(command.node_id, command.scope)
            return activation is not None and activation.due_at == command.due_at
        return command.due_at in self._own_due_times()

    def next_due(self) -> int | None:
        """When the next delay, retry, wait or deadline is due, or the instance may begin; None: never by itself."""
        times = list(self._own_due_times())
        timer = self.next_timer()
        if timer is not None and timer.due_at is not None:
            times.append(timer.due_at)
        return min(times, default=None)

    def next_timer(self) -> Activation | None:
        """The activation whose due time comes first."""
        while self.timers:
            due_at, _, activation = self.timers[0]
            if activation.due_at == due_at:
                return activation
            heapq.heappop(self.timers)
        return None

    def context_of(self, scope: Scope) -> Context:
        """A snapshot of what an activation in this scope sees now."""
        if scope.parent is None:
            return Context((scope.entries,))
        maps, bindings = [], []
        level: Scope | None = scope
        while level is not None:
            maps.append(level.entries)
            if level.bindings is not None:
                bindings.append(level.bindings)
            level = level.parent
        return Context(tuple(maps), tuple(bindings))

    def context_bytes(self, scope: Scope) -> int:
        """JSON bytes of the context that this scope sees."""
        total, level = 0, scope
        while True:
            total += level.bytes
            if level.parent is None:
                return total
            level = level.parent

    def oldest_wait(self, event: str, payload: Payload) -> Activation | None:
        """The oldest open wait that this signal fits and that no other signal was promised to."""
        for wait in self.waits.get(event, _NONE).values():
            if wait.promised is None and fits(wait.match, payload):
                return wait
        return None

    def oldest_signal(self, event: str, match: Payload | None) -> KeptSignal | None:
        """The oldest kept signal that fits a wait."""
        for signal in self.kept.get(event, _NONE).values():
            if fits(match, signal.payload):
                return signal
        return None

    def promised_waits(self) -> Iterator[Activation]:
        """Open waits whose signal has arrived and is not recorded as taken yet."""
        for waits in list(self.waits.values()):
            yield from [wait for wait in waits.values() if wait.promised is not None]

    def final_context(self) -> dict[str, Any]:
        """The root context as a plain object, without the `__node_` entries."""
        return {name: value for name, value in self.context_of(self.root).items() if not name.startswith("__")}

    def output(self) -> Any:
        """The merge of the root End nodes' objects so far, in seq order; None if no End was reached."""
        if not self.ends:
            return None
        merged: dict[str, Any] = {}
        for name, collected in self.ends:
            merged.update({name: collected} if name is not None else collected)
        return merged

    def _own_due_times(self) -> Iterator[int]:
        """Due times of the instance itself: its deadline, and its beginning while that lies ahead."""
        if self.head.deadline_at is not None:
            yield self.head.deadline_at
        if not self.started:
            yield self.head.available_at


def fold(plan: Plan, head: InstanceHead, events: Iterable[Event]) -> InstanceState:
    """The state that a log implies. Events must be the whole log, in seq order."""
    state = InstanceState(plan, head)
    for event in events:
        evolve(state, event)
    return state


def outstanding(state: InstanceState) -> set[Command]:
    """What the log still owes an answer to: unanswered dispatches, and due times. Empty once terminal."""
    if state.terminal is not None or state.last_seq == 0:
        return set()
    owed: set[Command] = {Dispatch(a.node.id, a.scope.path, a.attempt) for a in state.running.values()}
    for due_at, _, activation in state.timers:
        if activation.due_at == due_at:
            owed.add(Wake(activation.node.id, activation.scope.path, activation.attempt, due_at))
    owed.update(Wake("", "", 0, due_at) for due_at in state._own_due_times())
    return owed


def evolve(state: InstanceState, event: Event) -> None:
    """Fold one event into a state that we own. The event's seq must be the next one."""
    assert event.seq == state.last_seq + 1, f"seq {event.seq} after {state.last_seq}: rows are missing or doubled"
    state.last_seq = event.seq
    if event.type is not EventType.INSTANCE_RECOVERED:
        state.recoveries = 0
    _EVOLVE[event.type](state, event)


def _input_set(state: InstanceState, event: Event) -> None:
    state.root.entries = state.root.entries.set("input", (event.seq, event.payload.value["input"]))
    state.root.bytes += len(event.payload.raw)


def _nothing(state: InstanceState, event: Event) -> None:
    """SYSTEM_SET is metadata outside the context."""


def _node_dispatched(state: InstanceState, event: Event) -> None:
    state.started = True
    scope = state.scopes.get(event.scope) or _open_scope(state, event.scope)
    activation = scope.open.get(event.node_id)
    if activation is None:
        activation = Activation(state.plan.nodes[event.node_id], scope, state.context_of(scope))
        scope.open[event.node_id] = activation
    activation.phase = Phase.DISPATCHED
    activation.attempt = event.attempt
    activation.due_at = None
    state.running[event.node_id, event.scope] = activation


def _node_waiting(state: InstanceState, event: Event) -> None:
    activation = state.scopes[event.scope].open[event.node_id]
    state.running.pop((event.node_id, event.scope), None)
    note = event.payload.value
    if "signalSeq" in note:
        _take_signal(state, activation, note["event"], note["signalSeq"])
    if activation.phase is Phase.WAITING:
        return
    activation.phase = Phase.WAITING
    _set_timer(state, activation, note.get("dueAt"), event.seq)
    if "event" in note:
        activation.event = note["event"]
        activation.match = Payload.trusted(note["match"]) if "match" in note else None
        if "signalSeq" not in note:
            state.waits.setdefault(note["event"], {})[event.node_id, event.scope] = activation
    else:
        activation.output = Payload.trusted(note["output"])
        activation.next_handle = note["nextHandle"]


def _node_attempt_failed(state: InstanceState, event: Event) -> None:
    activation = state.scopes[event.scope].open[event.node_id]
    state.running.pop((event.node_id, event.scope), None)
    activation.phase = Phase.RETRYING
    _set_timer(state, activation, event.payload.value["dueAt"], event.seq)


def _loop_opened(state: InstanceState, event: Event) -> None:
    activation = state.scopes[event.scope].open[event.node_id]
    state.running.pop((event.node_id, event.scope), None)
    activation.phase = Phase.LOOPING
    activation.loop = loops.LoopRun(event.payload.value["items"], event.payload.value["count"])


def _node_completed(state: InstanceState, event: Event) -> None:
    scope, node = _end_activation(state, event)
    output = event.payload
    handle = event.next_handle
    scope.bytes += len(output.raw)
    _write(scope, node, event.seq, output.value)
    if scope.owner is not None:
        if handle in node.back_handles:
            scope.back = output
        if node.is_sink:
            scope.sinks.append((node, output))
    if node.is_end and (scope.owner is None or node.terminate):
        state.ends.append((node.end_name, output.value))
    _leave(state, scope, node, handle)


def _node_failed(state: InstanceState, event: Event) -> None:
    scope, node = _end_activation(state, event)
    error = event.payload.value["error"]
    handle = failure_handle(node)
    if handle is None:
        scope.error = RunError.from_json(error)
    elif handle == ERROR_HANDLE:
        folded = {"error": {key: error[key] for key in ("type", "message", "code", "attempt")}}
        scope.bytes += len(event.payload.raw)
        _write(scope, node, event.seq, folded)
        if handle in node.back_handles:
            scope.back = Payload.trusted(folded)
    else:
        _write(scope, node, event.seq, None)
        if handle in node.back_handles:
            scope.back = NULL
    _leave(state, scope, node, handle)


def _node_skipped(state: InstanceState, event: Event) -> None:
    scope, node = _end_activation(state, event)
    _leave(state, scope, node, None)


def _signal_received(state: InstanceState, event: Event) -> None:
    note = event.payload.value
    payload = Payload.trusted(note["payload"])
    signal = KeptSignal(event.seq, note["event"], payload)
    wait = state.oldest_wait(signal.event, payload)
    if wait is None:
        _keep(state, signal)
    else:
        wait.promised = signal
    if note.get("key") is not None:
        state.signal_answers[note["key"]] = wait is not None


def _instance_recovered(state: InstanceState, event: Event) -> None:
    state.recoveries = event.payload.value["recoveries"]


def _instance_ended(state: InstanceState, event: Event) -> None:
    state.terminal = _TERMINAL_OF[event.type]
    state.outcome = event.payload


_TERMINAL_OF = {
    EventType.INSTANCE_COMPLETED: Status.COMPLETED,
    EventType.INSTANCE_FAILED: Status.FAILED,
    EventType.INSTANCE_CANCELLED: Status.CANCELLED,
}

_EVOLVE: dict[EventType, Callable[[InstanceState, Event], None]] = {
    EventType.INPUT_SET: _input_set,
    EventType.SYSTEM_SET: _nothing,
    EventType.NODE_DISPATCHED: _node_dispatched,
    EventType.NODE_WAITING: _node_waiting,
    EventType.NODE_ATTEMPT_FAILED: _node_attempt_failed,
    EventType.LOOP_OPENED: _loop_opened,
    EventType.NODE_COMPLETED: _node_completed,
    EventType.NODE_FAILED: _node_failed,
    EventType.NODE_SKIPPED: _node_skipped,
    EventType.SIGNAL_RECEIVED: _signal_received,
    EventType.INSTANCE_RECOVERED: _instance_recovered,
    EventType.INSTANCE_COMPLETED: _instance_ended,
    EventType.INSTANCE_FAILED: _instance_ended,
    EventType.INSTANCE_CANCELLED: _instance_ended,
}


def failure_handle(node: PlanNode) -> str | None:
    """The handle that is live when this node fails for good; None: the failure is unhandled."""
    if node.error_handling == "continue" and node.has_error_edge:
        return ERROR_HANDLE
    if node.error_handling == "ignore":
        return node.ignored_handle
    return None


def _entry_verdicts(body: Body) -> Iterator[tuple[str, int]]:
    """The verdicts a scope opens with: the loop's `loop` edges are live."""
    return ((node.id, edges) for node, edges in body.entries)


def _open_scope(state: InstanceState, path: str) -> Scope:
    """Open the iteration that a first event names; its loop is open in the scope around it."""
    outer, _, name = path.rpartition("/")
    loop_id, _, index_text = name[:-1].rpartition("[")
    parent = state.scopes[outer]
    owner = parent.open[loop_id]
    assert owner.loop is not None and owner.node.loop is not None, f"{loop_id} has not opened"
    index = int(index_text)
    scope = Scope(path, owner.node.loop.body, parent, owner, index)
    scope.bindings = owner.loop.bindings(index)
    owner.loop.opened(index, scope)
    state.scopes[path] = scope
    return scope


def _end_activation(state: InstanceState, event: Event) -> tuple[Scope, PlanNode]:
    scope = state.scopes.get(event.scope) or _open_scope(state, event.scope)
    activation = scope.open.pop(event.node_id, None)
    if activation is not None:
        state.running.pop((event.node_id, event.scope), None)
        activation.due_at = None
        if activation.event is not None:
            _close_wait(state, activation)
    scope.ended.add(event.node_id)
    return scope, state.plan.nodes[event.node_id]


def _write(scope: Scope, node: PlanNode, seq: int, value: Any) -> None:
    entry = (seq, value)
    entries = scope.entries.set("__node_" + node.id, entry)
    scope.entries = entries if node.output_variable is None else entries.set(node.output_variable, entry)


def _leave(state: InstanceState, scope: Scope, node: PlanNode, handle: str | None) -> None:
    """Give every outgoing edge its verdict; close the iteration when its last activation has ended."""
    live, dead = scope.live, scope.dead
    for edge in node.edges:
        verdicts = live if edge.handle == handle else dead
        target = edge.target.id
        verdicts[target] = verdicts.get(target, 0) + 1
    scope.remaining -= 1
    if scope.remaining == 0 and scope.owner is not None:
        del state.scopes[scope.path]
        assert scope.owner.loop is not None
        scope.owner.loop.closed(scope, state.context_of(scope))


def _set_timer(state: InstanceState, activation: Activation, due_at: str | None, seq: int) -> None:
    activation.due_at = None if due_at is None else from_iso(due_at)
    if activation.due_at is not None:
        heapq.heappush(state.timers, (activation.due_at, seq, activation))


def _keep(state: InstanceState, signal: KeptSignal) -> None:
    signals = state.kept.setdefault(signal.event, {})
    signals[signal.seq] = signal
    state.kept_count += 1
    if signal.seq != state.last_seq:  # handed back by a wait that ended: it is older than its neighbours
        state.kept[signal.event] = dict(sorted(signals.items()))


def _take_signal(state: InstanceState, activation: Activation, event: str, seq: int) -> None:
    if activation.promised is not None and activation.promised.seq == seq:
        activation.promised = None
        return
    signals = state.kept[event]
    del signals[seq]
    if not signals:
        del state.kept[event]
    state.kept_count -= 1


def _close_wait(state: InstanceState, activation: Activation) -> None:
    """Forget an ended wait; a signal promised to it and not taken goes to the next wait or is kept."""
    assert activation.event is not None
    waits = state.waits.get(activation.event, _NONE)
    if waits.pop((activation.node.id, activation.scope.path), None) is not None and not waits:
        del state.waits[activation.event]
    signal, activation.promised = activation.promised, None
    if signal is not None:
        heir = state.oldest_wait(signal.event, signal.payload)
        if heir is None:
            _keep(state, signal)
        else:
            heir.promised = signal

