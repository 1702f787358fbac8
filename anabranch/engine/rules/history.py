"""The history of a run: its log folded into activations, for views, metrics and notifications.

Pure. `History` takes the events of one run in log order, drawn or coded, from the first one or any later one, or only
the first and latest row of each activation. The run view, the sockets, telemetry and the command line format it.
Decisions use another fold, `evolve`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.rules.coded.names import FUNCTION_NODE_ID, Mark, StepKind
from anabranch.engine.rules.drawn.scopes import base_of, is_item_of, scope_key_of
from anabranch.engine.rules.event_payloads import (
    ChildAwaited,
    DelayStarted,
    RunReopened,
    RunResumed,
    RunSuspended,
    SignalAwaited,
    SignalReceived,
    SignalTaken,
    Wait,
    handled_error,
    is_pinned,
    read_error,
    read_input,
    read_recovered,
    read_reopened,
    read_resumed,
    read_retry_time,
    read_signal,
    read_suspension,
    read_trigger,
    read_wait,
)
from anabranch.engine.rules.events import ENDINGS, ERROR_HANDLE, LOOP_HANDLE, ActivationKey, Event, EventType, Status
from anabranch.engine.rules.shared.left_out import NOTHING_LEFT_OUT, Ranges, is_left_out
from anabranch.engine.rules.values import EMPTY, Payload

# Looked up once: a member of an enum costs ten times a global before Python 3.12, and these are read for every row.
_DISPATCHED, _WAITING, _LOOP_OPENED = EventType.NODE_DISPATCHED, EventType.NODE_WAITING, EventType.LOOP_OPENED
_ATTEMPT_FAILED, _FAILED = EventType.NODE_ATTEMPT_FAILED, EventType.NODE_FAILED
_COMPLETED, _SKIPPED = EventType.NODE_COMPLETED, EventType.NODE_SKIPPED
_INPUT_SET, _SIGNAL, _RECOVERED = EventType.INPUT_SET, EventType.SIGNAL_RECEIVED, EventType.INSTANCE_RECOVERED
_SUSPENDED, _RESUMED = EventType.INSTANCE_SUSPENDED, EventType.INSTANCE_RESUMED
_REOPENED = EventType.INSTANCE_REOPENED
_PENDING, _RUNNING = Status.PENDING, Status.RUNNING


class ActivationStatus(StrEnum):
    """How far an activation is."""

    RUNNING = "running"
    WAITING = "waiting"
    RETRYING = "retrying"
    SUCCESS = "success"
    ERROR = "error"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    """Its run ended first."""


_SHOWS = {
    _DISPATCHED: ActivationStatus.RUNNING,
    _WAITING: ActivationStatus.WAITING,
    _LOOP_OPENED: ActivationStatus.RUNNING,
    _ATTEMPT_FAILED: ActivationStatus.RETRYING,
    _COMPLETED: ActivationStatus.SUCCESS,
    _FAILED: ActivationStatus.ERROR,
    _SKIPPED: ActivationStatus.SKIPPED,
}
_RUNS, _WAITS, _RETRIES = ActivationStatus.RUNNING, ActivationStatus.WAITING, ActivationStatus.RETRYING
_SUCCESS, _ERROR = ActivationStatus.SUCCESS, ActivationStatus.ERROR
ENDED = frozenset({_SUCCESS, _ERROR, ActivationStatus.SKIPPED, ActivationStatus.CANCELLED})
"""The statuses of activations that are over."""


class Activity(StrEnum):
    """The kind of work that an attempt does."""

    RUN = "run"
    SLEEP = "sleep"
    WAIT = "wait"
    CHILD = "child"
    SIGNAL = "signal"
    LOOP = "loop"


_ACTIVITY_OF_STEP = {
    StepKind.RUN: Activity.RUN,
    StepKind.SLEEP: Activity.SLEEP,
    StepKind.EVENT: Activity.WAIT,
    StepKind.CHILD: Activity.CHILD,
    StepKind.SIGNAL: Activity.SIGNAL,
}


@dataclass(slots=True, eq=False)
class ActivationView:
    """One node in one scope, or one step of a coded run. Times are milliseconds since the epoch."""

    node_id: str
    scope: str
    first_seq: int
    began_at: int | None
    """None: unknown from the rows taken."""
    mark: Mark | None = None
    """Of a step of a coded run: its kind, and what it followed."""
    status: ActivationStatus = _RUNS
    attempt: int = 0
    seq: int = 0
    """Its latest row; once it is cancelled, the row that ended its run."""
    at: int = 0
    """When that was written."""
    attempt_began_at: int | None = None
    """None: unknown, or no attempt was under way when it was skipped or cancelled."""
    ended_at: int | None = None
    waits_for: Wait | None = None
    """What its present attempt waits for, or has waited for."""
    retry_at: int | None = None
    """When the next attempt is due, while it is retrying."""
    error: dict[str, Any] | None = None
    """Of its last attempt, as it is shown."""
    output: Payload | None = None
    is_loop: bool = False
    iterations: int | None = None
    """How many iterations a loop has in all; None: it has a condition, or its payload was not read."""
    has_iterated: bool = False
    """A loop that opened an iteration."""
    opened_seq: int = 0
    """The row in which a loop began to iterate; its latest is that of its end."""
    next_handle: str | None = None
    output_variable: str | None = None
    is_pinned: bool = False
    """In a test run: it took the output that it was pinned to, and was not executed."""

    @property
    def key(self) -> ActivationKey:
        """Node id and scope: the key of the activation within its run."""
        return self.node_id, self.scope

    @property
    def has_ended(self) -> bool:
        """True once it has ended."""
        return self.status in ENDED

    @property
    def is_unhandled(self) -> bool:
        """Whether it failed without an exit that handles the failure: its iteration or its run then fails, too."""
        return self.status is _ERROR and self.next_handle is None

    @property
    def handles(self) -> list[str]:
        """The exits that it left by, once it has ended; none if it was skipped. A loop with iterations also left by
        `loop`, and an item of a mapped node by none: the edges leave the whole."""
        if is_item_of(*self.key):
            return []
        taken = [] if self.next_handle is None else [self.next_handle]
        return [LOOP_HANDLE, *taken] if self.has_iterated else taken

    @property
    def activity(self) -> Activity:
        """The work of its current or last attempt."""
        if self.mark is not None:
            return _ACTIVITY_OF_STEP[self.mark.kind]
        match self.waits_for:
            case SignalAwaited():
                return Activity.WAIT
            case ChildAwaited():
                return Activity.CHILD
            case DelayStarted():
                return Activity.SLEEP
        return Activity.LOOP if self.is_loop else Activity.RUN

    @property
    def leaves_value(self) -> bool:
        """Whether it leaves a value in the context."""
        return self.status is _SUCCESS or (self.status is _ERROR and self.next_handle is not None)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended."""

    status: Status
    output: Payload | None = None
    error: dict[str, Any] | None = None
    reason: Any = None
    """Why it was cancelled."""


@dataclass(frozen=True, slots=True)
class RunCreated:
    """A run was created with this input."""

    input: Any
    trigger: str | None = None
    """The trigger that it begins at; None: `start`."""


@dataclass(frozen=True, slots=True)
class RunRecovered:
    """A run was taken over from a lost worker."""

    recoveries: int


Change: TypeAlias = (
    ActivationView | RunCreated | SignalReceived | RunRecovered | RunSuspended | RunResumed | RunReopened | RunEnd
)
"""What an event changes for a reader of the log."""


class History:
    """The open activations and the status of one run, after the events taken so far."""

    __slots__ = (
        "_has_begun",
        "_iterated",
        "_latest_scope",
        "_left_out",
        "_times",
        "left_open",
        "open",
        "status",
        "suspension",
    )

    def __init__(
        self,
        *,
        times: Mapping[int, int] | None = None,
        iterated: frozenset[ActivationKey] = frozenset(),
        left_out: Ranges = NOTHING_LEFT_OUT,
    ) -> None:
        """`times`: write times of rows that are not taken, by seq; `iterated`: loops that opened an iteration.

        `left_out`: rows that reopenings of the run left out; they change nothing.
        """
        self._left_out = left_out
        self.open: dict[ActivationKey, ActivationView] = {}
        self.status = _PENDING
        """As the log has it: whether a run is parked, only its row knows."""
        self.suspension: RunSuspended | None = None
        """Why it is SUSPENDED; None: it is not."""
        self._has_begun = False
        self.left_open: list[ActivationView] = []
        """Those that were open when the run ended."""
        self._times = dict(times or {})
        """When the rows were written that a step of a coded run may follow: its beginning has no row of its own."""
        self._latest_scope = ""
        self._iterated = iterated

    def take(self, event: Event) -> Change | None:
        """Fold the next event and return the changed activation or run; None if nothing visible changed."""
        if self._left_out and is_left_out(self._left_out, event.seq):
            return None
        type_ = event.type  # compared, not looked up: an enum hashes its name in Python
        if type_ is _DISPATCHED or type_ is _COMPLETED or type_ is _WAITING or type_ is _SKIPPED:
            return self._moved(event, type_)
        if type_ is _FAILED or type_ is _ATTEMPT_FAILED or type_ is _LOOP_OPENED:
            return self._moved(event, type_)
        if type_ is _SIGNAL:
            return read_signal(event.payload) if event.payload.value else None  # its payload was not read
        if type_ is _INPUT_SET:
            payload = event.payload
            return RunCreated(read_input(payload), read_trigger(payload)) if payload.value else None
        if type_ is _RECOVERED:
            return RunRecovered(read_recovered(event.payload).recoveries) if event.payload.value else None
        if type_ is _SUSPENDED:
            self.status, self.suspension = Status.SUSPENDED, read_suspension(event.payload)
            return self.suspension
        if type_ is _RESUMED:
            self.status, self.suspension = _RUNNING if self._has_begun else _PENDING, None
            return read_resumed(event.payload)
        if type_ is _REOPENED:
            return self._reopened(event)
        end = run_end(event)
        if end is not None:
            self.end(end.status, event.seq, event.created_at)
        return end

    def end(self, status: Status, seq: int, at: int) -> None:
        """Apply the end of the run, at the row `seq`: open activations become cancelled."""
        self.status, self.suspension = status, None
        self.left_open = list(self.open.values())
        self.open.clear()
        for activation in self.left_open:
            if activation.status is _RETRIES:
                activation.attempt_began_at = None
            activation.status, activation.seq, activation.at = ActivationStatus.CANCELLED, seq, at

    # -- within ---------------------------------------------------------------------------
    def _reopened(self, event: Event) -> RunReopened | None:
        if not event.payload.value:
            return None  # its payload was not read
        reopened = read_reopened(event.payload)
        for each in reopened.redo:
            activation = self.open.get((each.node_id, each.scope))
            if activation is not None:
                activation.status, activation.retry_at = _RETRIES, event.created_at
                activation.attempt, activation.seq, activation.at = each.attempt, event.seq, event.created_at
        for activation in self.open.values():
            wait = activation.waits_for
            if activation.status is _WAITS and isinstance(wait, SignalAwaited) and wait.due_at is not None:
                # No signal could arrive meanwhile.
                activation.waits_for = replace(wait, due_at=wait.due_at + reopened.closed_ms)
        return reopened

    def _moved(self, event: Event, type_: EventType) -> ActivationView | None:
        self._has_begun = True
        if self.suspension is None and (type_ is _DISPATCHED or self.status is _PENDING):
            self.status = _RUNNING
        if event.node_id == FUNCTION_NODE_ID:
            if type_ is _DISPATCHED:
                self._times[event.seq] = event.created_at
            return None
        key = (event.node_id, event.scope)
        activation = self.open.get(key)
        if activation is None:
            activation = self.open[key] = self._opened(event, type_)
        activation.attempt, activation.seq, activation.at = event.attempt, event.seq, event.created_at
        if type_ is _DISPATCHED:
            activation.status = _RUNS
            activation.is_pinned = event.payload is not EMPTY and is_pinned(event.payload)
            activation.attempt_began_at = event.created_at
            activation.waits_for = activation.retry_at = activation.error = None
        elif type_ is _WAITING:
            self._waits(activation, event)
        elif type_ is _LOOP_OPENED:
            activation.status, activation.is_loop, activation.opened_seq = _RUNS, True, event.seq
            if event.payload.value:  # else it was not read
                activation.iterations = event.payload.value.get("count")
        else:
            self._attempt_over(activation, event, type_)
        return activation

    def _opened(self, event: Event, type_: EventType) -> ActivationView:
        mark = event.mark
        began_at = event.created_at if type_ is _DISPATCHED else None
        if mark is not None and began_at is None:
            before = mark.latest_row
            began_at = None if before is None else self._times.get(before)
        if event.scope != self._latest_scope:
            self._latest_scope = event.scope
            self._note_iteration(event.node_id, event.scope)
        activation = ActivationView(event.node_id, event.scope, event.seq, began_at, mark)
        activation.attempt_began_at = event.created_at if type_ is _WAITING else began_at
        activation.has_iterated = activation.key in self._iterated if self._iterated else False
        return activation

    def _note_iteration(self, node_id: str, scope: str) -> None:
        scope = base_of(scope)
        if scope.endswith("]"):
            loop = self.open.get(loop_of(scope))
            if loop is not None and loop.node_id != node_id:  # the items of a mapped node do not leave it
                loop.has_iterated = True

    def _waits(self, activation: ActivationView, event: Event) -> None:
        activation.status = _WAITS
        if event.payload.value:  # a reader may have left it out
            wait = read_wait(event.payload)
            if isinstance(wait, SignalTaken):
                wait = activation.waits_for or SignalAwaited({wait.event: None}, False, taken=wait)
            if isinstance(wait, Wait):
                activation.waits_for = wait

    def _attempt_over(self, activation: ActivationView, event: Event, type_: EventType) -> None:
        if type_ is _SKIPPED:
            if activation.status is _RETRIES:
                activation.attempt_began_at = None
            activation.error = None
        activation.status = _SHOWS[type_]
        if activation.mark is not None:
            self._times[event.seq] = event.created_at
        if type_ is _FAILED or type_ is _ATTEMPT_FAILED:
            activation.error = read_error(event.payload)
        if type_ is _ATTEMPT_FAILED:
            activation.retry_at = read_retry_time(event.payload)
            return
        activation.retry_at = None
        activation.ended_at, activation.next_handle = event.created_at, event.next_handle
        if type_ is _COMPLETED:
            activation.output, activation.error = event.payload, None
        activation.output_variable = event.output_variable
        del self.open[activation.key]


def activations_of(
    events: Iterable[Event],
    *,
    times: Mapping[int, int] | None = None,
    iterated: frozenset[ActivationKey] = frozenset(),
    end: tuple[Status, int, int] | None = None,
    left_out: Ranges = NOTHING_LEFT_OUT,
) -> list[ActivationView]:
    """The activations in some rows of a log, in the order of their first ones.

    `end`: the status of an ended run, the row that ended it, and when.
    """
    history = History(times=times, iterated=iterated, left_out=left_out)
    found: dict[ActivationKey, ActivationView] = {}
    for event in events:
        change = history.take(event)
        if isinstance(change, ActivationView):
            found[change.key] = change
    if end is not None:
        history.end(*end)
    return list(found.values())


def run_end(event: Event) -> RunEnd | None:
    """How the run ended with this row; None if the row does not end a run."""
    if event.type is EventType.INSTANCE_COMPLETED:
        return RunEnd(Status.COMPLETED, output=event.payload)
    if event.type is EventType.INSTANCE_FAILED:
        return RunEnd(Status.FAILED, error=event.payload.value)
    if event.type is EventType.INSTANCE_CANCELLED:
        return RunEnd(Status.CANCELLED, reason=event.payload.value)
    return None


def suspension_by(event: Event) -> RunSuspended | None:
    """Why a row suspends the run; None if it does not."""
    return read_suspension(event.payload) if event.type is _SUSPENDED else None


def shown_status(event_type: str) -> ActivationStatus | None:
    """The status that a row of this type gives its activation; None if it concerns no activation."""
    return _SHOWS.get(event_type)  # type: ignore[call-overload, no-any-return]


def is_loop_opening(event_type: str) -> bool:
    """Whether a row of this type only says that a running loop has its items."""
    return event_type == _LOOP_OPENED


def value_left(activation: ActivationView) -> Any:
    """The value of an ended activation in the context: its output, the error that its `error` exit handles, or null."""
    if activation.status is _SUCCESS and activation.output is not None:
        return activation.output.value
    if activation.next_handle == ERROR_HANDLE and activation.error is not None:
        return handled_error(activation.error)
    return None


def loop_of(scope: str) -> ActivationKey:
    """Node id and scope of the loop that an iteration belongs to: for `a[1]/b[2]`, `b` in `a[1]`."""
    return iteration_of(scope)[:2]


def iteration_of(scope: str) -> tuple[str, str, int]:
    """The loop's node id, its scope and the index of an iteration: for `a[1]/b[2]`, `b`, `a[1]`, 2."""
    scope_key = scope_key_of(scope)
    return scope_key.node_id, scope_key.scope, scope_key.index


@dataclass(frozen=True, slots=True)
class ActivationFilter:
    """A filter for the activations of a run."""

    node_id: str | None = None
    scope: str | None = None
    """In this scope only."""
    within: str | None = None
    """In this scope or below it: `each[3]`, or all iterations of a loop, `each`, or all passes of a region, `ask`."""
    statuses: frozenset[ActivationStatus] = frozenset()
    """With one of these; empty: with any."""

    @property
    def ended_by(self) -> frozenset[EventType]:
        """The types of the rows that end activations with these statuses."""
        return frozenset(type_ for type_ in ENDINGS if _SHOWS[type_] in self.statuses)

    @property
    def takes_open(self) -> bool:
        """Whether open activations, which have no such row, are requested."""
        return bool(self.statuses - {_SUCCESS, _ERROR, ActivationStatus.SKIPPED})

    def may_take(self, node_id: str, scope: str, ending: EventType | None) -> bool:
        """Whether it may be requested, judging by its key and the type of the row that ended it (None: it is open)."""
        within = self.within
        return (
            self.node_id in (None, node_id)
            and self.scope in (None, scope)
            and (within is None or scope == within or scope.startswith((within + "/", within + "[", within + "#")))
            and (not self.statuses or (self.takes_open if ending is None else ending in self.ended_by))
        )

    def takes(self, activation: ActivationView) -> bool:
        """Whether it has one of the requested statuses."""
        return not self.statuses or activation.status in self.statuses


ALL_ACTIVATIONS = ActivationFilter()
