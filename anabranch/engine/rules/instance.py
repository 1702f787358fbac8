"""The state of one instance: scopes, open activations, timers, signals, and the questions asked of them.

Plain objects that only `evolve` changes. A state is private to its owner and thrown away,
never rolled back, when a commit is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from anabranch.engine.rules import loops
from anabranch.engine.rules.commands import AwaitChild, Command, Dispatch
from anabranch.engine.rules.context import NO_ENTRIES, Context, Entries
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.plan import Body, Plan, PlanNode
from anabranch.engine.rules.signals import KeptSignal, fits
from anabranch.engine.rules.values import Payload
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
    parent_node_id: str | None = None
    """The activation of the parent that started it (with `parent_scope`)."""
    parent_scope: str | None = None
    parent_waits: bool = False
    """The parent awaits its end; it is cancelled if the parent does not any more."""
    depth: int = 0
    """How many runs are above it."""
    root_id: str | None = None
    """The topmost of them; None: nobody started it, it is a root itself."""


# 64 entries: in a smaller heap, sorting out what does not hold any more costs more than it frees.
TIMERS_KEPT_MIN = 64

_NO_WAITS: dict[tuple[str, str], Activation] = {}
_NO_SIGNALS: dict[int, KeptSignal] = {}


class Phase(Enum):
    """What an open activation is doing."""

    DISPATCHED = "dispatched"
    WAITING = "waiting"
    RETRYING = "retrying"
    LOOPING = "looping"


# Looked up once: a member of an enum costs ten times a global before Python 3.12, and these are read for every row.
_DISPATCHED = Phase.DISPATCHED
_PENDING, _RUNNING, _WAITING = Status.PENDING, Status.RUNNING, Status.WAITING


class Activation:
    """An open activation: dispatched and not ended yet."""

    __slots__ = (
        "attempt",
        "child_id",
        "context",
        "due_at",
        "due_seq",
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
        self.phase = _DISPATCHED
        self.attempt = 1
        self.due_at: int | None = None
        self.due_seq = 0
        """The row that set `due_at`: two tries may be due at the same time, and only the later one counts."""
        self.output: Payload | None = None
        self.next_handle: str | None = None
        self.event: str | None = None
        """The signal that a wait asks for; None for delays."""
        self.match: Payload | None = None
        self.promised: KeptSignal | None = None
        """A signal that arrived for this wait and is not recorded as taken yet."""
        self.child_id: str | None = None
        """The run whose end this waits for."""
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
        self.live: dict[str, int] = {node.id: edges for node, edges in body.entries}
        self.dead: dict[str, int] = {}
        self.open: dict[str, Activation] = {}
        self.ended: set[str] = set()
        self.remaining = len(body.nodes)
        self.entries: Entries = NO_ENTRIES
        self.bindings: Mapping[str, Any] | None = None
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
        "children",
        "ends",
        "head",
        "kept",
        "kept_count",
        "last_seq",
        "outcome",
        "plan",
        "promises",
        "recoveries",
        "root",
        "running",
        "scopes",
        "signal_answers",
        "started",
        "terminal",
        "timers",
        "timers_max",
        "unfinished",
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
        """A heap of (due time, seq, activation); entries that do not hold any more go when met, or at `timers_max`."""
        self.timers_max = TIMERS_KEPT_MIN
        """A heap longer than this is cleared of what does not hold any more."""
        self.unfinished: dict[tuple[str, str], Activation] = {}
        """Loops that may open an iteration at once, by (node id, scope): a decision had worked enough before."""
        self.ends: list[tuple[str | None, Any]] = []
        """What the root End nodes collected, in seq order."""
        self.recoveries = 0
        """Takeovers of a lapsed lease with an unanswered dispatch since anything else happened."""
        self.kept: dict[str, dict[int, KeptSignal]] = {}
        """Signals that no wait has taken, by event and seq, oldest first."""
        self.kept_count = 0
        self.waits: dict[str, dict[tuple[str, str], Activation]] = {}
        """Open waits that no signal was promised to, by event and (node id, scope), oldest first."""
        self.promises: dict[int, Activation] = {}
        """Open waits whose signal has arrived and is not recorded as taken yet, by its seq, oldest first."""
        self.children: dict[str, Activation] = {}
        """Open waits for the end of a child, by its id."""
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
            return _PENDING
        return _RUNNING if self.running else _WAITING

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
        if isinstance(command, AwaitChild):
            return command.child_id in self.children
        if command.node_id:
            activation = self.activation(command.node_id, command.scope)
            return activation is not None and activation.due_at == command.due_at
        return command.due_at in self.own_due_times()

    def next_due(self) -> int | None:
        """When the next delay, retry, wait or deadline is due, or the instance may begin; None: never by itself.

        A loop that is not finished with opening iterations is due since it opened.
        """
        if not self.timers and not self.unfinished and self.started and self.head.deadline_at is None:
            return None  # as nearly always
        times = list(self.own_due_times())
        timer = self.next_timer()
        if timer is not None and timer.due_at is not None:
            times.append(timer.due_at)
        times += [loop.due_at for loop in self.unfinished.values() if loop.due_at is not None]
        return min(times, default=None)

    def add_timer(self, activation: Activation, due_at: int, seq: int) -> None:
        """Note a due time; the heap stays within twice of what held when it was last cleared, and a bit."""
        heapq.heappush(self.timers, (due_at, seq, activation))
        if len(self.timers) > self.timers_max:
            self.timers = [
                entry for entry in self.timers if entry[2].due_at is not None and entry[2].due_seq == entry[1]
            ]
            heapq.heapify(self.timers)
            self.timers_max = 2 * len(self.timers) + TIMERS_KEPT_MIN

    def next_timer(self) -> Activation | None:
        """The activation whose due time comes first."""
        while self.timers:
            _, seq, activation = self.timers[0]
            if activation.due_at is not None and activation.due_seq == seq:
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
        for wait in self.waits.get(event, _NO_WAITS).values():
            if fits(wait.match, payload):
                return wait
        return None

    def oldest_signal(self, event: str, match: Payload | None) -> KeptSignal | None:
        """The oldest kept signal that fits a wait."""
        for signal in self.kept.get(event, _NO_SIGNALS).values():
            if fits(match, signal.payload):
                return signal
        return None

    def output(self) -> Any:
        """The merge of the root End nodes' objects so far, in seq order; None if no End was reached."""
        if not self.ends:
            return None
        merged: dict[str, Any] = {}
        for name, collected in self.ends:
            merged.update({name: collected} if name is not None else collected)
        return merged

    def own_due_times(self) -> Iterator[int]:
        """Due times of the instance itself: its deadline, and its beginning while that lies ahead."""
        if self.head.deadline_at is not None:
            yield self.head.deadline_at
        if not self.started:
            yield self.head.available_at
