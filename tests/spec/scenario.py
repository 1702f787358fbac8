"""Given events, when a stimulus arrives, then events: the language of the specs about decisions.

    run = begun(drawn("start>left, start>right, left>join, right>join")).completed("left")
    assert run.when(completed("right")).dispatches == ["join"]

A node in the root scope is written `join`, one in an iteration `each[0]/work`, a later attempt
`work#2`. No asyncio, no handlers, no store: results are what the spec says they are, and time
moves only by `later`. After every stimulus the invariants of `laws` are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.engine.rules.commands import AwaitChild, Dispatch, Wake
from anabranch.engine.rules.decide import Decision, decide
from anabranch.engine.rules.drawn.drawn_state import InstanceHead, InstanceState
from anabranch.engine.rules.drawn.outcomes import EVALUATIONS_MAX, LOOP_WORK_MAX
from anabranch.engine.rules.event_payloads import Recovered, RunReopened, RunSuspended, SignalReceived, left_out_by
from anabranch.engine.rules.events import TERMINALS, Event, EventType, Status
from anabranch.engine.rules.evolve import evolve, fold, outstanding
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.repair.retry_plan import plan_retry
from anabranch.engine.rules.shared.blame import Blame
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.rules.stimuli import (
    AwaitsChild,
    AwaitsSignal,
    CancelRequested,
    ChildEnded,
    Completed,
    Failed,
    HandlerOutcome,
    LeaseAcquired,
    LogReloaded,
    NodeResult,
    SignalSent,
    Started,
    Stimulus,
    TimersDue,
)
from anabranch.engine.rules.values import Payload
from anabranch.errors import RunError
from tests.spec.drawings import TYPES
from tests.spec.laws import Before, check_decision, check_log

# An hour after the epoch: any moment will do, as long as it is none that a slip would produce.
BIRTH_MS = 3_600_000

INSTANCE_ID = "00000000-0000-7000-8000-000000000001"

TIMERS = TimersDue()
TAIL = LogReloaded()
LAPSED = LeaseAcquired(Blame(1))
HANDED_OVER = LeaseAcquired()


def completed(node: str, output: Any = None, *, handle: str | None = None, delay_ms: int | None = None) -> NodeResult:
    """The handler of this attempt returned."""
    return _result(node, Completed(Payload.of(output), handle, delay_ms))


def failed(
    node: str,
    message: str = "it broke",
    *,
    code: str = "HANDLER_ERROR",
    retryable: bool = False,
    retry_after_ms: int | None = None,
) -> NodeResult:
    """The handler of this attempt raised; for good, unless it is `retryable`."""
    node_id, scope, attempt = parts_of(node)
    error = RunError(code, "Broken", message, node_id, scope, attempt)
    return _result(node, Failed(error, retryable, retry_after_ms))


def asks_for(node: str, event: str, *, match: Any = None, timeout_ms: int | None = None) -> NodeResult:
    """The handler of this attempt asks for a signal."""
    return _result(node, AwaitsSignal(event, None if match is None else Payload.of(match), timeout_ms))


def awaits_child(node: str) -> NodeResult:
    """The handler of this attempt has started the activation's child."""
    return _result(node, AwaitsChild(child_of(node)))


def child_ended(node: str, status: Status, outcome: Any = None) -> ChildEnded:
    """The child of this activation is over."""
    return ChildEnded(child_of(node), status, Payload.of(outcome))


def child_of(node: str) -> str:
    """The id of this activation's child."""
    node_id, scope, _ = parts_of(node)
    return child_id(INSTANCE_ID, node_id, scope)


def signal(event: str, payload: Any = None, *, key: str | None = None) -> SignalSent:
    """A signal arrives at the owner of the instance."""
    return SignalSent(event, Payload.of(payload), key)


def cancel(reason: str = "no longer wanted") -> CancelRequested:
    """Somebody asks for the end."""
    return CancelRequested(reason)


def parts_of(address: str) -> tuple[str, str, int]:
    """(node id, scope, attempt) of an address such as `each[0]/work#2`, or `ask#2/look` in the second pass of `ask`."""
    scope, _, last = address.rpartition("/")
    node_id, _, attempt = last.partition("#")
    return node_id, scope, int(attempt or 1)


def address(node_id: str, scope: str, attempt: int = 1) -> str:
    """The address of an attempt; the first one is not numbered."""
    path = f"{scope}/{node_id}" if scope else node_id
    return path if attempt <= 1 else f"{path}#{attempt}"


@dataclass(frozen=True)
class Happened:
    """What followed from one stimulus."""

    decision: Decision
    now: int

    @property
    def nothing(self) -> bool:
        """No event, no command, nobody told to stop."""
        return not (self.decision.events or self.decision.commands or self.decision.stops)

    @property
    def types(self) -> list[str]:
        """The types of the events, in order."""
        return [str(event.type) for event in self.decision.events]

    @property
    def dispatches(self) -> list[str]:
        """The attempts that were queued."""
        return [_where(event) for event in self.decision.events if event.type is EventType.NODE_DISPATCHED]

    @property
    def completions(self) -> list[str]:
        """The activations that ended well."""
        return self._ended(EventType.NODE_COMPLETED)

    @property
    def failures(self) -> list[str]:
        """The activations that failed for good."""
        return self._ended(EventType.NODE_FAILED)

    @property
    def skips(self) -> list[str]:
        """The activations that were skipped."""
        return self._ended(EventType.NODE_SKIPPED)

    @property
    def wakes(self) -> dict[str, int]:
        """Address (`""`: the instance itself) to milliseconds from now, for each wake-up that was asked for."""
        return {
            address(wake.node_id, wake.scope) if wake.node_id else "": wake.due_at - self.now
            for wake in self.decision.commands
            if isinstance(wake, Wake)
        }

    @property
    def awaited(self) -> list[str]:
        """The activations whose children are waited for from now on."""
        return [
            address(command.node_id, command.scope)
            for command in self.decision.commands
            if isinstance(command, AwaitChild)
        ]

    @property
    def cancels(self) -> list[str]:
        """The ids of the children that are to end with it, started or not."""
        return list(self.decision.cancels)

    @property
    def stops(self) -> list[str]:
        """The attempts that were told to stop."""
        return [address(stop.node_id, stop.scope, stop.attempt) for stop in self.decision.stops]

    @property
    def ending(self) -> str | None:
        """How the instance ended with this stimulus, if it did."""
        last = self.decision.events[-1].type if self.decision.events else None
        return str(last) if last in TERMINALS else None

    def payload(self, event_type: str, node: str = "") -> Any:
        """What the only event of a type (about a node) says."""
        return self.event(event_type, node).payload.value

    def event(self, event_type: str, node: str = "") -> Event:
        """The only event of a type (about a node)."""
        found = [
            event
            for event in self.decision.events
            if event.type == event_type and (not node or address(event.node_id, event.scope) == node)
        ]
        assert len(found) == 1, f"expected one {event_type} about {node or 'the instance'}, got {self.types}"
        return found[0]

    def _ended(self, event_type: EventType) -> list[str]:
        return [address(e.node_id, e.scope) for e in self.decision.events if e.type is event_type]


class Scenario:
    """One instance: its state, its log, its clock."""

    def __init__(self, plan: Plan, head: InstanceHead, *, checked: bool, work_max: int = LOOP_WORK_MAX) -> None:
        self.plan = plan
        self.head = head
        self.now = BIRTH_MS
        self.state = InstanceState(plan, head)
        self.log: list[Event] = []
        self._checked = checked
        self._work_max = work_max

    # -- when -----------------------------------------------------------------------------
    def when(self, stimulus: Stimulus, *, evaluations_max: int = EVALUATIONS_MAX) -> Happened:
        """Decide a stimulus now, and check that the laws hold afterwards."""
        before = Before.of(self.state) if self._checked else None
        decision = decide(self.state, stimulus, self.now, work_max=self._work_max, evaluations_max=evaluations_max)
        self.log += decision.events
        if before is not None:
            check_decision(self.state, self.log, before, decision, now=self.now)
        return Happened(decision, self.now)

    def then(self, *stimuli: Stimulus) -> Scenario:
        """The same scenario after these stimuli."""
        for stimulus in stimuli:
            self.when(stimulus)
        return self

    def completed(self, *nodes: str, output: Any = None) -> Scenario:
        """The same scenario after these attempts have returned by their default handle."""
        return self.then(*(completed(node, output) for node in nodes))

    def later(self, milliseconds: int) -> Happened:
        """Let time pass and offer what is due."""
        self.now += milliseconds
        return self.when(TIMERS)

    def written_elsewhere(self, sent: SignalSent | Recovered | RunSuspended) -> Scenario:
        """Another process appends a row to the log, and we fold it; nothing follows from it yet."""
        type_, row = EventType.SIGNAL_RECEIVED, sent
        if isinstance(sent, SignalSent):
            row = SignalReceived(sent.event, sent.payload, sent.key)
        elif isinstance(sent, Recovered):
            type_ = EventType.INSTANCE_RECOVERED
        else:
            type_ = EventType.INSTANCE_SUSPENDED
        event = Event(self.state.last_seq + 1, type_, "", "", 0, row.payload, self.now)
        evolve(self.state, event)
        self.log.append(event)
        return self

    def crashed(self) -> Scenario:
        """The memory is gone; another worker folds the log."""
        self.state = fold(self.plan, self.head, self.log)
        return self

    def reopened(self, *, closed_ms: int = 0, new_keys: bool = False) -> Scenario:
        """The ended run is retried, `closed_ms` after its end."""
        planned = plan_retry(self.plan, self.head, self.log)
        self.now += closed_ms
        generation, deadline_at = self.head.generation + 1, None
        if self.head.deadline_at is not None:
            reopened = [event.created_at for event in self.log if event.type is EventType.INSTANCE_REOPENED]
            deadline_at = self.now + self.head.deadline_at - [self.head.created_at, *reopened][-1]
        said = RunReopened(
            generation, planned.left_out, tuple(planned.redo), closed_ms, deadline_at, "spec", new_keys=new_keys
        )
        seq = self.state.last_seq + 1
        self.log.append(Event(seq, EventType.INSTANCE_REOPENED, "", "", 0, said.payload, self.now))
        left_out = left_out_by(self.log)
        self.head = replace(self.head, generation=generation, left_out=left_out, deadline_at=deadline_at)
        return self.crashed()

    # -- then -----------------------------------------------------------------------------
    @property
    def status(self) -> Status:
        """The status of the instance."""
        return self.state.status

    @property
    def outcome(self) -> Any:
        """The output, error or reason of an ended instance."""
        assert self.state.outcome is not None, "the instance has not ended"
        return self.state.outcome.value

    @property
    def owed(self) -> set[str]:
        """The attempts that are unanswered."""
        return {
            address(command.node_id, command.scope, command.attempt)
            for command in outstanding(self.state)
            if isinstance(command, Dispatch)
        }

    @property
    def due(self) -> dict[str, int]:
        """Address (`""`: the instance itself) to milliseconds from now, for all that is due by itself."""
        return {
            address(command.node_id, command.scope) if command.node_id else "": command.due_at - self.now
            for command in outstanding(self.state)
            if isinstance(command, Wake)
        }

    def sees(self, node: str) -> dict[str, Any]:
        """The context of an open activation, without the `__node_` entries."""
        return {name: value for name, value in self.context(node).items() if not name.startswith("__")}

    def context(self, node: str) -> Mapping[str, Any]:
        """The whole context of an open activation."""
        node_id, scope, _ = parts_of(node)
        activation = self.state.activation(node_id, scope)
        assert activation is not None, f"{node} is not open"
        return activation.context

    def rows(self, event_type: str) -> list[str]:
        """What the rows of one type are about, in log order."""
        return [_where(event) for event in self.log if event.type == event_type]

    def row(self, event_type: str, node: str) -> Any:
        """The payload of the first row of a type about an activation."""
        return next(e.payload.value for e in self.log if e.type == event_type and address(e.node_id, e.scope) == node)

    def check(self) -> Scenario:
        """Check the laws of the whole log, where that was put off."""
        check_log(self.state, self.log)
        return self


def given(
    document: Mapping[str, Any] | Plan,
    input_: Any = None,
    *,
    types: NodeTypes = TYPES,
    begin: bool = True,
    trigger: str | None = None,
    available_in_ms: int = 0,
    deadline_in_ms: int | None = None,
    checked: bool = True,
    work_max: int = LOOP_WORK_MAX,
    evaluates: bool = False,
) -> Scenario:
    """An instance that has just been created; `checked=False` puts the checks off to `check()`, for big ones.

    Pure nodes are jobs whose results the script tells, unless it `evaluates`.
    """
    plan = document if isinstance(document, Plan) else compile_plan(document, types, evaluates=evaluates)
    head = InstanceHead(
        instance_id=INSTANCE_ID,
        tenant_id="default",
        workflow_id=None,
        workflow_name="spec",
        workflow_version=1,
        created_at=BIRTH_MS,
        available_at=BIRTH_MS + available_in_ms,
        deadline_at=None if deadline_in_ms is None else BIRTH_MS + deadline_in_ms,
    )
    return Scenario(plan, head, checked=checked, work_max=work_max).then(
        Started(Payload.of(input_), trigger, begin=begin)
    )


def begun(document: Mapping[str, Any] | Plan, input_: Any = None, **options: Any) -> Scenario:
    """An instance whose `start` has completed."""
    return given(document, input_, **options).completed("start")


def _result(node: str, outcome: HandlerOutcome) -> NodeResult:
    node_id, scope, attempt = parts_of(node)
    return NodeResult(node_id, scope, attempt, outcome)


def _where(event: Event) -> str:
    return address(event.node_id, event.scope, event.attempt)
