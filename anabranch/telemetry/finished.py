"""What has finished: tries of steps, signals that came, runs that began and ended; folded from events.

Pure. A drawn node is a step, and so is whatever a body asks its context for. What counts is what the
log says: times are those of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from anabranch.engine.rules.coded.names import FUNCTION_NODE_ID, StepKind, is_mark, latest_row_before, read_mark
from anabranch.engine.rules.events import Event, EventType, Status

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_DISPATCHED, _WAITING = EventType.NODE_DISPATCHED, EventType.NODE_WAITING
_COMPLETED, _FAILED = EventType.NODE_COMPLETED, EventType.NODE_FAILED
_ATTEMPT_FAILED, _LOOP_OPENED = EventType.NODE_ATTEMPT_FAILED, EventType.LOOP_OPENED
_SIGNAL, _INPUT = EventType.SIGNAL_RECEIVED, EventType.INPUT_SET


class Kind(StrEnum):
    """What a try did for most of its time."""

    RUN = "run"
    SLEEP = "sleep"
    WAIT = "wait"
    CHILD = "child"
    SIGNAL = "signal"
    LOOP = "loop"


class Way(StrEnum):
    """How a try ended."""

    COMPLETED = "completed"
    RETRIED = "retried"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """Its run ended before it did."""


@dataclass(slots=True, eq=False)
class AttemptEnded:
    """One try of a step. Times are milliseconds since the epoch."""

    name: str
    """Of a drawn node, its id."""
    scope: str
    attempt: int
    kind: Kind
    began_at: int | None
    """None: this process has not seen it begin."""
    ended_at: int
    way: Way
    code: str | None = None
    """Of the error that it failed with."""
    child_id: str | None = None
    """The run that it waited for."""


@dataclass(slots=True, eq=False)
class SignalCame:
    """A signal has arrived at the run."""

    event: str
    seq: int
    at: int


@dataclass(slots=True, eq=False)
class RunBegan:
    """The run was created."""


@dataclass(slots=True, eq=False)
class RunEnded:
    """The run is over."""

    status: Status
    ended_at: int
    code: str | None = None


Finished: TypeAlias = AttemptEnded | SignalCame | RunBegan | RunEnded

_RUN, _COMPLETED_WAY = Kind.RUN, Way.COMPLETED

_STATUSES = {
    EventType.INSTANCE_COMPLETED: Status.COMPLETED,
    EventType.INSTANCE_FAILED: Status.FAILED,
    EventType.INSTANCE_CANCELLED: Status.CANCELLED,
}

_KIND_OF_STEP = {
    StepKind.RUN: Kind.RUN,
    StepKind.SLEEP: Kind.SLEEP,
    StepKind.EVENT: Kind.WAIT,
    StepKind.CHILD: Kind.CHILD,
    StepKind.SIGNAL: Kind.SIGNAL,
}


class Finishes:
    """What is under way in one run, as far as it takes to tell when it has ended."""

    __slots__ = ("_is_coded", "_open", "_times", "_waits")

    def __init__(self, *, is_coded: bool) -> None:
        self._is_coded = is_coded
        self._open: dict[tuple[str, str], Event] = {}
        """The row that a try began with, by (node id or step name, scope)."""
        self._waits: dict[tuple[str, str], Event] = {}
        """Of those, what made it wait, or a loop."""
        self._times: dict[int, int] = {}
        """When the rows were written that a step of a coded run may follow: ends of others, and its body's beginning.

        The first try of a step that does not wait has no row for its beginning.
        """

    def fold(self, events: Sequence[Event]) -> list[Finished]:
        """What has finished with these events; they continue what was folded before."""
        finished: list[Finished] = []
        for event in events:
            event_type = event.type  # compared and not looked up: an enum hashes its name in Python
            if event_type is _DISPATCHED:
                if event.node_id != FUNCTION_NODE_ID:
                    self._open[event.node_id, event.scope] = event
                else:
                    self._times[event.seq] = event.created_at
            elif event_type is _COMPLETED:
                finished.append(self._ended(event, _COMPLETED_WAY))
            elif event_type is _WAITING:
                self._waiting(event)
            elif event_type is _ATTEMPT_FAILED:
                if event.node_id != FUNCTION_NODE_ID:
                    finished.append(self._ended(event, Way.RETRIED, _code_of(event)))
            elif event_type is _FAILED:
                finished.append(self._ended(event, Way.FAILED, _code_of(event)))
            elif event_type is _LOOP_OPENED:
                self._waits[event.node_id, event.scope] = event
            elif event_type is _SIGNAL:
                finished.append(SignalCame(event.payload.value["event"], event.seq, event.created_at))
            elif event_type is _INPUT:
                finished.append(RunBegan())
            elif event_type in _STATUSES:
                finished += self._run_ended(event, _STATUSES[event_type])
        return finished

    def _waiting(self, event: Event) -> None:
        """It was dispatched before, unless it is a step that does nothing but wait."""
        if event.node_id != FUNCTION_NODE_ID:
            place = (event.node_id, event.scope)
            self._open.setdefault(place, event)
            self._waits[place] = event

    def _ended(self, event: Event, way: Way, code: str | None = None) -> AttemptEnded:
        place = (event.node_id, event.scope)
        began = self._open.pop(place, None)
        if self._is_coded:
            self._times[event.seq] = event.created_at
        if began is None:
            row = latest_row_before(event.output_variable)
            began_at = None if row is None else self._times.get(row)
        else:
            began_at = began.created_at
        ended = AttemptEnded(event.node_id, event.scope, event.attempt, _RUN, began_at, event.created_at, way, code)
        if self._is_coded or place in self._waits:
            self._tell_kind(ended, event)
        return ended

    def _tell_kind(self, ended: AttemptEnded, event: Event) -> None:
        """What it did for most of its time; `event` is one of its rows."""
        waited = self._waits.pop((ended.name, ended.scope), None)
        if waited is not None and waited.type is _WAITING:
            note = waited.payload.value
            ended.child_id = note.get("childID")
            ended.kind = Kind.CHILD if "childID" in note else Kind.WAIT if "event" in note else Kind.SLEEP
        elif waited is not None:
            ended.kind = Kind.LOOP
        if event.output_variable is not None and is_mark(event.output_variable):
            ended.kind = _KIND_OF_STEP[read_mark(event.output_variable).kind]

    def _run_ended(self, event: Event, status: Status) -> Iterable[Finished]:
        for (name, scope), began in self._open.items():
            ended = AttemptEnded(name, scope, began.attempt, _RUN, began.created_at, event.created_at, Way.CANCELLED)
            self._tell_kind(ended, began)
            yield ended
        self._open.clear()
        yield RunEnded(status, event.created_at, event.payload.value["code"] if status is Status.FAILED else None)


def _code_of(event: Event) -> str:
    code: str = event.payload.value["error"]["code"]
    return code
