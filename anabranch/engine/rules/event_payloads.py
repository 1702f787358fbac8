"""Event payloads: one class per form, written and read only here.

Pure. Decisions write them; `evolve`, `history` and readers of logs read them. Some rows need none: the payload of
NODE_COMPLETED and INSTANCE_COMPLETED is an output, any JSON; NODE_SKIPPED and the dispatch of an executed node have
none. The stored JSON must stay readable for every later version: a form may gain optional fields, but never lose one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.rules.events import Event, EventType, SuspendReason
from anabranch.engine.rules.instants import from_iso, to_iso, to_iso_or_none
from anabranch.engine.rules.shared.left_out import Ranges, together
from anabranch.engine.rules.test_runs import WHOLE, TestRunPlan, read_test_run_plan
from anabranch.engine.rules.values import EMPTY, Payload
from anabranch.errors import RunError

_TRIGGER = "trigger"
_DEFINITION = "__workflowDefinition"
_TEST_RUN = "testRun"
_LEFT_BEHIND = "leftBehind"


# -- INPUT_SET -------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class InputSet:
    """The payload of INPUT_SET: what a run is created with."""

    input: Payload
    trigger: str | None = None
    """The trigger that it begins at; None: `start`."""

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        if self.trigger is None:
            return Payload({"input": self.input.value}, b'{"input":' + self.input.raw + b"}")
        value = {"input": self.input.value, _TRIGGER: self.trigger}
        raw = b'{"input":' + self.input.raw + b',"' + _TRIGGER.encode() + b'":' + orjson.dumps(self.trigger) + b"}"
        return Payload(value, raw)


def read_input(payload: Payload) -> Any:
    """The input of a run, from INPUT_SET."""
    return payload.value["input"]


def read_trigger(payload: Payload) -> str | None:
    """The trigger that a run begins at, from INPUT_SET; None: `start`."""
    trigger: str | None = payload.value.get(_TRIGGER)
    return trigger


# -- SYSTEM_SET ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class DefinitionSet:
    """The definition of a test run, right after its input."""

    definition: Payload
    differs: Payload | None = None
    """How the run differs from one of its definition (`TestRunPlan`), if it does."""

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        value, raw = {_DEFINITION: self.definition.value}, b'{"' + _DEFINITION.encode() + b'":' + self.definition.raw
        if self.differs is None:
            return Payload(value, raw + b"}")
        value[_TEST_RUN] = self.differs.value
        return Payload(value, raw + b',"' + _TEST_RUN.encode() + b'":' + self.differs.raw + b"}")


@dataclass(frozen=True, slots=True)
class FunctionPostponed:
    """No worker could continue a workflow function; it is offered again at `due_at` (ms)."""

    code: str
    message: str
    due_at: int

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """The note, as runs show it."""
        return {"code": self.code, "message": self.message, "dueAt": to_iso(self.due_at)}


@dataclass(frozen=True, slots=True)
class ReplayRules:
    """The rules for the order of callbacks in the event loop of a workflow function (also in its NODE_DISPATCHED)."""

    loop: int
    """The version of the rules."""
    python: str
    """Another version of Python may order otherwise what asyncio leaves open."""
    seed: int
    """What hashes of tasks and random numbers begin with."""

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted({"loop": self.loop, "python": self.python, "seed": self.seed})


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A row of another run that its fork does not have: this one keeps its place."""

    event_type: EventType

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted({_LEFT_BEHIND: self.event_type.value})


DEFINITION_SEQ = 2
"""The row that has the definition of a test run: the creation writes it right after the input."""


def read_definition(created: Sequence[Event]) -> Any | None:
    """The definition in the first events of a test run; None if there is none."""
    for event in created:
        if event.seq == DEFINITION_SEQ and event.type is EventType.SYSTEM_SET:
            return event.payload.value.get(_DEFINITION)
    return None


def read_test_run(created: Sequence[Event]) -> TestRunPlan:
    """The pins and limits of a test run, from its first events."""
    for event in created:
        if event.seq == DEFINITION_SEQ and event.type is EventType.SYSTEM_SET:
            return read_test_run_plan(event.payload.value.get(_TEST_RUN))
    return WHOLE


def read_system(payload: Payload) -> DefinitionSet | FunctionPostponed | LeftBehind | ReplayRules | None:
    """The content of a SYSTEM_SET; None: a note of an older version, or a payload that was not read."""
    value = payload.value
    if _LEFT_BEHIND in value:
        return LeftBehind(EventType(value[_LEFT_BEHIND]))
    if "loop" in value:
        return ReplayRules(value["loop"], value["python"], value["seed"])
    if _DEFINITION in value:
        return DefinitionSet(Payload.trusted(value[_DEFINITION]))
    if "dueAt" in value:
        return FunctionPostponed(value["code"], value["message"], from_iso(value["dueAt"]))
    return None


def read_rules(payload: Payload) -> ReplayRules | None:
    """The content of a workflow function's NODE_DISPATCHED; None: an older version wrote it."""
    rules = read_system(payload)
    return rules if isinstance(rules, ReplayRules) else None


# -- NODE_DISPATCHED of nodes ----------------------------------------------------------------------
NODE_PINNED = Payload.trusted({"pinned": True})
"""A node of a test run takes the output that it was pinned to."""
NODE_DISABLED = Payload.trusted({"disabled": True})
"""A disabled node."""


def is_pinned(payload: Payload) -> bool:
    """Whether a NODE_DISPATCHED is of a pinned node."""
    return "pinned" in payload.value


# -- NODE_WAITING ----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class DelayStarted:
    """An activation waits until `due_at` (ms)."""

    due_at: int
    output: Payload | None = None
    """What a node that delays its own end hands on then; None: a sleep of a workflow function, which hands on null."""
    next_handle: str | None = None

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        note: dict[str, Any] = {"dueAt": to_iso(self.due_at)}
        if self.output is None:
            return Payload.trusted(note)
        note |= {"output": self.output.value, "nextHandle": self.next_handle}
        return Payload(note, orjson.dumps({**note, "output": orjson.Fragment(self.output.raw)}))


@dataclass(frozen=True, slots=True)
class SignalTaken:
    """A wait has taken the signal at `seq`; the first row of a wait, where a kept signal ends it at once."""

    event: str
    seq: int

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted({"event": self.event, "signalSeq": self.seq})


@dataclass(frozen=True, slots=True)
class SignalAwaited:
    """An activation waits for one of these signals, each with its `match`, until `due_at` (ms; None: for ever)."""

    events: Mapping[str, Payload | None]
    names_event: bool
    """Its output says which of them has come."""
    due_at: int | None = None
    taken: SignalTaken | None = None
    """A kept signal that ends the wait at once."""

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        matches = {event: None if match is None else match.value for event, match in self.events.items()}
        note: dict[str, Any]
        if self.names_event:
            note = {"events": matches}
        else:
            ((event, match),) = matches.items()
            note = {"event": event} if self.events[event] is None else {"event": event, "match": match}
        if self.due_at is not None:
            note["dueAt"] = to_iso(self.due_at)
        if self.taken is not None:
            note |= {"event": self.taken.event, "signalSeq": self.taken.seq}
        return Payload.trusted(note)


@dataclass(frozen=True, slots=True)
class ChildAwaited:
    """An activation waits for the end of the run that it started."""

    child_id: str

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted({"childID": self.child_id})


@dataclass(frozen=True, slots=True)
class FunctionPaused:
    """A workflow function only waits for its steps; `ready`: it is called again at once, because one has ended."""

    ready: bool

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted({"ready": True}) if self.ready else EMPTY


Wait: TypeAlias = DelayStarted | SignalAwaited | ChildAwaited
"""What an activation can wait for."""
Waiting: TypeAlias = Wait | SignalTaken | FunctionPaused
"""What a NODE_WAITING can say; the last of a workflow function alone."""


def signal_taken(waiting: Waiting) -> SignalTaken | None:
    """The signal that a wait takes with this row, if it takes one."""
    return (
        waiting if isinstance(waiting, SignalTaken) else waiting.taken if isinstance(waiting, SignalAwaited) else None
    )


def read_wait(payload: Payload) -> Waiting:
    """Read the payload of NODE_WAITING."""
    value = payload.value
    due_at = from_iso(value["dueAt"]) if "dueAt" in value else None
    if "events" in value or "event" in value:
        taken = SignalTaken(value["event"], value["signalSeq"]) if "signalSeq" in value else None
        if "events" in value:
            events = {
                event: None if match is None else Payload.trusted(match) for event, match in value["events"].items()
            }
            return SignalAwaited(events, True, due_at, taken)
        if taken is not None and due_at is None and "match" not in value:
            return taken
        match = Payload.trusted(value["match"]) if "match" in value else None
        return SignalAwaited({value["event"]: match}, False, due_at, taken)
    if "childID" in value:
        return ChildAwaited(value["childID"])
    if due_at is None:
        return FunctionPaused(value.get("ready", False))
    if "output" in value:
        return DelayStarted(due_at, Payload.trusted(value["output"]), value["nextHandle"])
    return DelayStarted(due_at)


# -- failures, of attempts, nodes and runs ---------------------------------------------------------
@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """An attempt failed (NODE_ATTEMPT_FAILED); the next is due at `due_at` (ms)."""

    error: RunError
    due_at: int

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted({"error": self.error.as_json(), "dueAt": to_iso(self.due_at)})


def read_retry_time(payload: Payload) -> int:
    """When the next attempt is due (ms), from NODE_ATTEMPT_FAILED."""
    return from_iso(payload.value["dueAt"])


@dataclass(frozen=True, slots=True)
class NodeFailed:
    """An activation failed for good (NODE_FAILED)."""

    error: RunError

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted({"error": self.error.as_json()})


def read_error(payload: Payload) -> dict[str, Any]:
    """The error of an attempt or an activation in the form for views, from NODE_ATTEMPT_FAILED or NODE_FAILED."""
    error: dict[str, Any] = payload.value["error"]
    return error


def handled_error(error: Mapping[str, Any]) -> dict[str, Any]:
    """The value that a failed node leaves in the context when its `error` exit handles the failure."""
    return {"error": {key: error[key] for key in ("type", "message", "code", "attempt")}}


@dataclass(frozen=True, slots=True)
class RunFailedPayload:
    """A run failed (INSTANCE_FAILED)."""

    error: RunError

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted(self.error.as_json())


@dataclass(frozen=True, slots=True)
class RunCancelledPayload:
    """A run was cancelled (INSTANCE_CANCELLED)."""

    reason: str

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted(self.reason)


REPLACED_BY = {SuspendReason.HISTORY_LOST: "the loss of rows", SuspendReason.PAUSED: "the pause"}
"""By what a suspended run is resumed only to be suspended for another reason (`SuspendReason.replaces`)."""


# -- INSTANCE_SUSPENDED, INSTANCE_RESUMED ----------------------------------------------------------
@dataclass(frozen=True, slots=True)
class RunSuspended:
    """A run is suspended until it is resumed."""

    reason: SuspendReason
    message: str
    hint: str
    refused_by: str | None = None
    """The digest of the code, or the release, that cannot continue it: another one is offered the run at once."""

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        fields = {"reason": self.reason.value, "message": self.message, "hint": self.hint}
        return Payload.trusted(fields if self.refused_by is None else {**fields, "refusedBy": self.refused_by})


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A suspended run was resumed."""

    by: str

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        return Payload.trusted({"by": self.by})


def read_suspension(payload: Payload) -> RunSuspended:
    """Read the payload of INSTANCE_SUSPENDED."""
    value = payload.value
    return RunSuspended(SuspendReason(value["reason"]), value["message"], value["hint"], value.get("refusedBy"))


def read_resumed(payload: Payload) -> RunResumed:
    """Read the payload of INSTANCE_RESUMED."""
    return RunResumed(payload.value["by"])


# -- INSTANCE_REOPENED -----------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Redo:
    """An activation that a reopening repeats: its next attempt is due at once, with a full budget of attempts."""

    node_id: str
    scope: str
    attempt: int
    """The last attempt before."""
    replaces_child: bool = False
    """The run that it had started was removed: it starts another one."""

    def as_json(self) -> dict[str, Any]:
        """As it is stored."""
        note: dict[str, Any] = {"nodeID": self.node_id, "scope": self.scope, "attempt": self.attempt}
        return {**note, "replacesChild": True} if self.replaces_child else note


@dataclass(frozen=True, slots=True)
class RunReopened:
    """A run that failed or was cancelled is reopened."""

    generation: int
    """How often it was reopened, with this time."""
    left_out: Ranges
    """The rows that do not count any more: what its end was decided with."""
    redo: tuple[Redo, ...]
    closed_ms: int
    """How long it was closed: so much later do waits for signals time out."""
    deadline_at: int | None
    by: str
    key: str | None = None
    """The idempotency key of the request."""
    reason: str | None = None
    new_keys: bool = False
    """The activations in `redo` have other idempotency keys from now on."""

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        note: dict[str, Any] = {
            "generation": self.generation,
            "leftOut": [list(each) for each in self.left_out],
            "redo": [each.as_json() for each in self.redo],
            "closedMs": self.closed_ms,
            "deadlineAt": to_iso_or_none(self.deadline_at),
            "by": self.by,
        }
        for name, value in (("key", self.key), ("reason", self.reason), ("newKeys", self.new_keys or None)):
            if value is not None:
                note[name] = value
        return Payload.trusted(note)


def read_reopened(payload: Payload) -> RunReopened:
    """Read the payload of INSTANCE_REOPENED."""
    value = payload.value
    return RunReopened(
        value["generation"],
        tuple((first, last) for first, last in value["leftOut"]),
        tuple(
            Redo(each["nodeID"], each["scope"], each["attempt"], each.get("replacesChild", False))
            for each in value["redo"]
        ),
        value["closedMs"],
        None if value["deadlineAt"] is None else from_iso(value["deadlineAt"]),
        value["by"],
        value.get("key"),
        value.get("reason"),
        value.get("newKeys", False),
    )


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    """The rows before this one were copied from another run (FORKED_FROM)."""

    instance_id: str
    generation: int
    seq: int
    """Up to which row of its log."""
    version: int
    """Of the workflow that it followed."""
    reused: int
    """How many of its activations."""
    origins: tuple[str, ...] = ()
    """Of coded runs: the runs that rows were copied from, the nearest first."""

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        origins = {"origins": list(self.origins)} if self.origins else {}
        return Payload.trusted(
            {
                "instanceID": self.instance_id,
                "generation": self.generation,
                "seq": self.seq,
                "version": self.version,
                "reused": self.reused,
                **origins,
            }
        )


def read_forked_from(payload: Payload) -> ForkedFrom:
    """Read the payload of FORKED_FROM."""
    value = payload.value
    origins = tuple(value.get("origins", ()))
    return ForkedFrom(
        value["instanceID"], value["generation"], value["seq"], value["version"], value["reused"], origins
    )


def reopenings_in(events: Iterable[Event]) -> Iterator[tuple[int, RunReopened]]:
    """The reopenings among these events, each with its time (ms)."""
    for event in events:
        if event.type is EventType.INSTANCE_REOPENED:
            yield event.created_at, read_reopened(event.payload)


def left_out_by(events: Iterable[Event]) -> Ranges:
    """The rows that the reopenings among these events have left out."""
    return together(*(reopening.left_out for _, reopening in reopenings_in(events)))


# -- LOOP_OPENED, SIGNAL_RECEIVED, INSTANCE_RECOVERED ----------------------------------------------
@dataclass(frozen=True, slots=True)
class LoopOpened:
    """A loop has its items. A loop with a condition has no items, and its number of iterations is unknown."""

    items: Payload | None

    @property
    def count(self) -> int | None:
        """How many iterations there will be, where that is known."""
        return None if self.items is None else len(self.items.value)

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        items, count = self.items, self.count
        raw = b'{"items":%s,"count":%s}' % (b"null" if items is None else items.raw, orjson.dumps(count))
        return Payload({"items": None if items is None else items.value, "count": count}, raw)


def read_items(payload: Payload) -> list[Any] | None:
    """The items of a loop, from LOOP_OPENED; None: it has a condition instead."""
    items: list[Any] | None = payload.value["items"]
    return items


@dataclass(frozen=True, slots=True)
class SignalReceived:
    """A signal has arrived."""

    event: str
    content: Payload
    key: str | None = None

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        note: dict[str, Any] = {"event": self.event} if self.key is None else {"event": self.event, "key": self.key}
        raw = orjson.dumps({**note, "payload": orjson.Fragment(self.content.raw)})
        return Payload({**note, "payload": self.content.value}, raw)


def read_signal(payload: Payload) -> SignalReceived:
    """Read the payload of SIGNAL_RECEIVED."""
    value = payload.value
    return SignalReceived(value["event"], Payload.trusted(value["payload"]), value.get("key"))


@dataclass(frozen=True, slots=True)
class Recovered:
    """A run was taken over from a lost worker, with the number of takeovers since it was last cleared of suspicion."""

    recoveries: int
    company: int | None = None
    """See `blame.Blame`; None in rows from before crashes were blamed on runs."""
    crashes: int = 0

    @property
    def payload(self) -> Payload:
        """As it is stored."""
        blame = {} if self.company is None else {"company": self.company, "crashes": self.crashes}
        return Payload.trusted({"recoveries": self.recoveries, **blame})


def read_recovered(payload: Payload) -> Recovered:
    """Read the payload of INSTANCE_RECOVERED."""
    value = payload.value
    return Recovered(value["recoveries"], value.get("company"), value.get("crashes", 0))
