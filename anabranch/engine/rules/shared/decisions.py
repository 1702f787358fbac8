"""The result of a decision, its builder, and the decisions that drawn and coded runs share.

Pure. `decide` and `coded_decide` write into a builder. Each event is numbered, stamped and folded into the state at
once, so the next line sees it. The builder of drawn runs also ends activations: `complete`, `fail`, `skip`. Shared are
creation, deadline, takeovers, suspension, signals, retries and children. `transitions` reads the result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from anabranch.dataclass import dataclass
from anabranch.engine.rules.coded.names import Mark
from anabranch.engine.rules.commands import Command, Dispatch, Wake
from anabranch.engine.rules.drawn.drawn_state import Activation, InstanceState, Phase, Scope
from anabranch.engine.rules.drawn.scopes import depth_of, pass_path
from anabranch.engine.rules.event_payloads import (
    REPLACED_BY,
    DefinitionSet,
    InputSet,
    NodeFailed,
    Recovered,
    RetryScheduled,
    RunFailedPayload,
    RunResumed,
    RunSuspended,
    SignalReceived,
)
from anabranch.engine.rules.events import TERMINALS, ActivationKey, Event, EventType, Status, SuspendReason
from anabranch.engine.rules.evolve import AnyState, evolve, failure_handle, outstanding
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.shared.child_ids import WORKFLOW_TYPE
from anabranch.engine.rules.shared.log_limit import ROWS_ALWAYS_TAKEN, LogFull
from anabranch.engine.rules.shared.retry import RETRY_AFTER_MS_MAX, RetryPolicy
from anabranch.engine.rules.shared.run_state import OpenActivation
from anabranch.engine.rules.shared.signals import SIGNALS_KEPT_MAX, RunSignals
from anabranch.engine.rules.stimuli import (
    ChildEnded,
    Failed,
    LeaseAcquired,
    PauseRequested,
    ResumeRequested,
    SignalSent,
    Started,
)
from anabranch.engine.rules.values import EMPTY, VALUE_BYTES_MAX, Payload
from anabranch.errors import RunError

# 16 MB of context per run: it is in memory while a worker owns the run, and every adoption reads it.
CONTEXT_BYTES_MAX = 16_777_216

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_NODE_DISPATCHED = EventType.NODE_DISPATCHED
_NODE_COMPLETED = EventType.NODE_COMPLETED

_NOTHING_UNFINISHED: frozenset[ActivationKey] = frozenset()

State = TypeVar("State", bound=AnyState)


@dataclass(slots=True, eq=False)
class Decision:
    """The events and commands that follow from one stimulus. Never changed once it is built (not `frozen`: see
    `Event`)."""

    events: Sequence[Event] = ()
    commands: Sequence[Command] = ()
    """To perform once the events are committed: what this decision added to `outstanding`."""
    stops: Sequence[Dispatch] = ()
    """Attempts that are no longer awaited; their handlers are stopped."""
    cancels: Sequence[str] = ()
    """Ids of children that are no longer awaited, some of which may never have been started; they end with the same
    commit."""
    not_before: int | None = None
    """The latest due time that fired: the commit must find it passed by the store's own clock."""
    delivered: bool | None = None
    """For a signal: whether a matching wait was open when it (or the first one with its key) arrived."""
    refused: str | None = None
    """For a signal: the code of its refusal."""
    worked: int = 0
    """What running loops and evaluating nodes has cost, in the units of `templates.budget`."""
    evaluated: Sequence[tuple[str, str, int]] = ()
    """Attempts of pure nodes that were answered by this decision, as (node id, scope, attempt)."""


NOTHING = Decision()


class DecisionBuilder(Decision, Generic[State]):
    """Collects the events and commands of one decision; each appended event evolves the state.

    It is the decision that it builds: another object for each node would cost as much as an event.
    """

    __slots__ = ("now", "state")
    # While it is built, these are lists.
    events: list[Event]
    commands: list[Command]
    stops: list[Dispatch]
    cancels: list[str]
    evaluated: list[tuple[str, str, int]]

    def __init__(self, state: State, now: int) -> None:
        self.state = state
        self.now = now
        self.events = []
        self.commands = []
        self.stops = []
        self.cancels = []
        self.not_before = self.delivered = self.refused = None
        self.worked = 0
        self.evaluated = []

    def append(
        self,
        event_type: EventType,
        node_id: str,
        scope: str,
        attempt: int,
        payload: Payload,
        next_handle: str | None = None,
        output_variable: str | None = None,
        error_message: str | None = None,
        arguments: str | None = None,
        mark: Mark | None = None,
    ) -> None:
        """Append an event with the next seq and the time, and fold it into the state at once.

        Raises LogFull if the row does not fit into the log; the row that ends the run always fits.
        """
        # Its parameters may be given by position, which costs half of a call with names.
        state = self.state
        seq, limit = state.last_seq + 1, state.log_limit
        division = payload.division
        if (
            (
                state.log_bytes + payload.weight > limit.bytes_max
                or seq > limit.rows_max
                or (division is not None and state.values_bytes_with(division) > limit.bytes_max)
            )
            and seq > ROWS_ALWAYS_TAKEN
            and event_type not in TERMINALS
        ):
            raise LogFull
        event = Event(
            seq,
            event_type,
            node_id,
            scope,
            attempt,
            payload,
            self.now,
            next_handle,
            output_variable,
            error_message,
            arguments,
            mark,
        )
        evolve(state, event)
        self.events.append(event)

    def fail_instance(self, error: RunError) -> None:
        """End the instance FAILED, and stop everything in flight."""
        self.end_instance(EventType.INSTANCE_FAILED, RunFailedPayload(error).payload, error.message)

    def end_instance(self, event_type: EventType, payload: Payload, message: str | None = None) -> None:
        """Terminal status is an event, and the last one."""
        for (node_id, scope), activation in self.state.running.items():
            self.stops.append(Dispatch(node_id, scope, activation.attempt))
        self.append(event_type, "", "", 0, payload, None, None, message)

    def wake(self, activation: OpenActivation) -> None:
        """Ask to be woken when the activation is due, if it ever is."""
        if activation.due_at is not None:
            self.commands.append(Wake(*activation.key, activation.attempt, activation.due_at))

    def fired(self, due_at: int) -> None:
        """Note the latest due time that this decision depends on."""
        self.not_before = due_at if self.not_before is None else max(self.not_before, due_at)

    def build(self) -> Decision:
        """The decision, without commands that it revoked itself."""
        if not self.events:
            return Decision(worked=self.worked) if self.worked else NOTHING
        commands = self.commands
        if commands:
            last = self.events[-1]
            is_last = len(commands) == 1 and last.type is _NODE_DISPATCHED and last.node_id == commands[0].node_id
            if not is_last or self.state.suspension is not None:  # else nothing came after it that could revoke it
                self.commands = [command for command in commands if self.state.owes(command)]
            if self.stops:
                begun_now = frozenset(commands)
                self.stops = [stop for stop in self.stops if stop not in begun_now]
        return self

    def log_full(self) -> Decision:
        """Fail the run, because its log is full."""
        self.delivered = None  # to no wait: the run has ended
        self.fail_instance(self.state.log_limit.error())
        return self.build()


class DrawnDecisionBuilder(DecisionBuilder[InstanceState]):
    """Collects the events and commands of one decision about a drawn run."""

    __slots__ = ("evaluated_bytes", "evaluations_max", "given", "todo", "unfinished_before", "work_max")

    def __init__(self, state: InstanceState, now: int, work_max: int, evaluations_max: int) -> None:
        DecisionBuilder.__init__(self, state, now)
        self.work_max = work_max
        self.evaluations_max = evaluations_max
        self.evaluated_bytes = 0
        """What their outputs have as JSON."""
        self.unfinished_before = frozenset(state.unfinished) if state.unfinished else _NOTHING_UNFINISHED
        self.todo: list[tuple[Scope, PlanNode]] = []
        """Ended activations that have not been followed, in the order of their ends. What follows from each is decided
        one after the other: graphs are deeper than stacks."""
        self.given: deque[tuple[PlanNode, str]] | None = None
        """Nodes, with their scopes, that complete with a given result as soon as nothing else is to be drawn."""

    def enter(self, node: PlanNode, path: str) -> None:
        """Dispatch a ready node in a scope. The header of a region opens its first pass."""
        self.dispatch(node, path if node.region is None else pass_path(node.id, path, 1))

    def dispatch(self, node: PlanNode, path: str, *, attempt: int = 1) -> None:
        """Dispatch an attempt; as the first event of an iteration or pass, this opens it."""
        if node.given is not None:
            self.append(_NODE_DISPATCHED, node.id, path, attempt, node.given.note)
            if self.given is None:
                self.given = deque()
            self.given.append((node, path))
            return
        self.append(_NODE_DISPATCHED, node.id, path, attempt, EMPTY)
        if node.evaluate is None:  # else this decision evaluates it, or `build` asks for it
            self.commands.append(Dispatch(node.id, path, attempt))

    def build(self) -> Decision:
        """The decision, with the pure nodes that it dispatched and did not evaluate."""
        unevaluated = self.state.unevaluated
        if unevaluated:
            self.commands += [
                Dispatch(event.node_id, event.scope, event.attempt)
                for event in self.events
                if event.type is _NODE_DISPATCHED and (event.node_id, event.scope) in unevaluated
            ]
        return DecisionBuilder.build(self)

    def complete(self, activation: Activation, output: Payload, handle: str | None) -> None:
        """Complete the activation, or fail it if its output would exceed the context limit."""
        node, scope = activation.node, activation.scope
        context_bytes = scope.bytes if scope.parent is None else self.state.context_bytes(scope)
        if context_bytes + output.weight > CONTEXT_BYTES_MAX:
            message = f"with this output the context of the run would pass {CONTEXT_BYTES_MAX} bytes"
            self.fail(activation, error_about(activation, "CONTEXT_TOO_LARGE", "ContextTooLarge", message))
            return
        self.append(_NODE_COMPLETED, node.id, scope.path, activation.attempt, output, handle, node.output_variable)
        if node.terminate:
            self.terminate()
        else:
            self.todo.append((scope, node))

    def fail(self, activation: Activation, error: RunError) -> None:
        """The activation fails for good: handled, or the end of its iteration or of the instance."""
        node, scope = activation.node, activation.scope
        handle = failure_handle(node, scope.body)
        if activation.child_id is None:  # else this is the end of the child itself
            self.abandon(activation)
        self.emit(EventType.NODE_FAILED, activation, NodeFailed(error).payload, handle, error.message)
        if handle is None and (node.error_handling == "fail_workflow" or scope.base.owner is None):
            self.fail_instance(error)
            return
        if handle is None:
            self.skip_all(scope.base)
        self.todo.append((scope, node))

    def skip(self, node: PlanNode, scope: Scope) -> None:
        """Skip an activation that will not run or is no longer awaited."""
        activation = scope.open.get(node.id)
        attempt = 0
        if activation is not None:
            attempt = activation.attempt
            if activation.phase is Phase.DISPATCHED:
                self.stops.append(Dispatch(node.id, scope.path, attempt))
            self.abandon(activation)
        self.append(EventType.NODE_SKIPPED, node.id, scope.path, attempt, EMPTY)
        self.todo.append((scope, node))

    def skip_all(self, scope: Scope) -> None:
        """End all that is open or undecided in an iteration, innermost loops and regions first."""
        scopes = [scope]
        for outer in scopes:  # grows while it is walked: breadth first
            for activation in outer.open.values():
                if activation.loop is not None:
                    scopes.extend(activation.loop.open.values())
                elif activation.region is not None and activation.region.open_pass is not None:
                    scopes.append(activation.region.open_pass)
        for inner in reversed(scopes):
            for node in inner.body.nodes:
                if node.id not in inner.ended:
                    self.skip(node, inner)

    def terminate(self) -> None:
        """An End with `terminate`: what is open becomes SKIPPED, the instance COMPLETED."""
        for scope in sorted(self.state.scopes.values(), key=lambda scope: depth_of(scope.path), reverse=True):
            for activation in sorted(scope.open.values(), key=lambda activation: activation.loop is not None):
                self.skip(activation.node, scope)
        self.end_instance(EventType.INSTANCE_COMPLETED, Payload.trusted(self.state.output()))

    def end_instance(self, event_type: EventType, payload: Payload, message: str | None = None) -> None:
        """Terminal status is an event, and the last one."""
        if event_type is not EventType.INSTANCE_COMPLETED:  # which leaves nothing open
            for home in self.state.scopes.values():
                for activation in home.open.values():
                    self.abandon(activation)
        super().end_instance(event_type, payload, message)

    def abandon(self, activation: Activation) -> None:
        """Cancel the child of an activation that ended first; the child may just be in creation."""
        if activation.node.type == WORKFLOW_TYPE and activation.region is None:
            self.cancels.append(activation.child_of(self.state.head.instance_id))

    def emit(
        self,
        event_type: EventType,
        activation: Activation,
        payload: Payload,
        next_handle: str | None = None,
        error_message: str | None = None,
    ) -> None:
        """Append an event about an open activation."""
        node = activation.node
        self.append(
            event_type,
            node.id,
            activation.scope.path,
            activation.attempt,
            payload,
            next_handle,
            node.output_variable,
            error_message,
        )

    @property
    def has_worked_enough(self) -> bool:
        """Whether loops must wait for the next decision, so that other instances get their turn."""
        return self.worked >= self.work_max


def error_about(activation: Activation, code: str, type_name: str, message: str) -> RunError:
    """An error that the rules raise, with the activation named."""
    return RunError(code, type_name, message, activation.node.id, activation.scope.path, activation.attempt)


AnyDecisionBuilder: TypeAlias = DecisionBuilder[Any]


def created(builder: AnyDecisionBuilder, started: Started) -> bool:
    """Record the input of a new run. True if the run begins at once: its time has come and its creator has room."""
    head = builder.state.head
    builder.append(EventType.INPUT_SET, "", "", 0, InputSet(started.input, started.trigger).payload)
    if started.definition is not None:
        builder.append(EventType.SYSTEM_SET, "", "", 0, DefinitionSet(started.definition, started.differs).payload)
    if head.deadline_at is not None:
        builder.commands.append(Wake("", "", 0, head.deadline_at))
    overdue = head.deadline_at is not None and head.deadline_at <= builder.now
    # A requested start time is a timer even if it passed during the creation: only transitions of timers are checked
    # against the store's clock.
    if started.begin and head.available_at <= head.created_at and not overdue:
        return True
    builder.commands.append(Wake("", "", 0, head.available_at))
    return False


def may_begin(builder: AnyDecisionBuilder) -> bool:
    """True if the run has not begun and its time has come."""
    state = builder.state
    if state.started or state.head.available_at > builder.now or state.is_terminal or state.stands_still:
        return False
    builder.fired(state.head.available_at)
    return True


def deadline_passed(builder: AnyDecisionBuilder) -> bool:
    """Fail the instance if its deadline has come; True if it has."""
    deadline = builder.state.head.deadline_at
    if deadline is None or deadline > builder.now or builder.state.last_seq == 0:
        return False
    builder.fired(deadline)
    message = f"the run was not done by {to_iso(deadline)}"
    builder.fail_instance(RunError("DEADLINE_EXCEEDED", "DeadlineExceeded", message))
    return True


def taken_over(builder: AnyDecisionBuilder, acquired: LeaseAcquired) -> bool:
    """Record a takeover if a worker was lost since the last record.

    False: the run is suspended and nothing continues; its owner only watches its deadline.
    """
    state, blame = builder.state, acquired.blame
    if state.suspension is not None and not state.suspension.reason.ends_by_itself:
        # Tried without a row: whether this code can continue it, only a replay shows.
        state.on_trial = state.suspension.reason.is_offered_again and bool(state.running)
        return False
    if state.suspension is not None:
        resumed(builder, ResumeRequested("a worker that can run it"))
    if blame is not None and blame != state.blame:
        before = 0 if state.suspicion is None else state.suspicion.recoveries
        recovered = Recovered(before + 1 if state.running else before, *blame)
        builder.append(EventType.INSTANCE_RECOVERED, "", "", 0, recovered.payload)
    return True


PAUSED_HINT = "Resume it when it should continue."


def suspend(builder: AnyDecisionBuilder, asked: PauseRequested) -> None:
    """Suspend the run, unless it is suspended already until somebody resumes it."""
    paused, suspension = SuspendReason.PAUSED, builder.state.suspension
    if suspension is not None:
        if not paused.replaces(suspension.reason):
            return
        builder.append(EventType.INSTANCE_RESUMED, "", "", 0, RunResumed(REPLACED_BY[paused]).payload)
    suspended = RunSuspended(paused, asked.why, PAUSED_HINT)
    builder.append(EventType.INSTANCE_SUSPENDED, "", "", 0, suspended.payload)


def resumed(builder: AnyDecisionBuilder, asked: ResumeRequested) -> bool:
    """Resume a suspended run: everything outstanding is performed again. False: it was not suspended."""
    if builder.state.suspension is None:
        return False
    owed_meanwhile = outstanding(builder.state)
    builder.append(EventType.INSTANCE_RESUMED, "", "", 0, RunResumed(asked.by).payload)
    builder.commands += sorted(outstanding(builder.state) - owed_meanwhile, key=repr)
    return True


def receive_signal(builder: AnyDecisionBuilder, signal: SignalSent) -> Decision | None:
    """Record a signal, and whether a matching wait is open. A decision instead, which changes nothing: the answer for a
    signal whose key has arrived before, or the refusal of one that exceeds the limit of kept signals.
    """
    signals: RunSignals = builder.state.signals
    if signal.key is not None and signal.key in signals.answers:
        return Decision(delivered=signals.answers[signal.key])
    builder.delivered = signals.oldest_wait(signal.event, signal.payload) is not None
    if signals.kept_count >= SIGNALS_KEPT_MAX and not builder.delivered:
        return Decision(refused="TOO_MANY_SIGNALS")
    builder.append(
        EventType.SIGNAL_RECEIVED, "", "", 0, SignalReceived(signal.event, signal.payload, signal.key).payload
    )
    return None


def next_attempt(
    builder: AnyDecisionBuilder, policy: RetryPolicy, attempt: int, failed: Failed, *, key: str
) -> Payload | None:
    """The payload of NODE_ATTEMPT_FAILED; None if it was the last attempt."""
    if not failed.retryable or attempt >= policy.max_attempts:
        return None
    delay_ms = policy.delay_ms(attempt, key=f"{builder.state.head.instance_id}/{key}")
    if failed.retry_after_ms is not None:
        delay_ms = max(delay_ms, min(failed.retry_after_ms, RETRY_AFTER_MS_MAX))
    return RetryScheduled(failed.error, builder.now + delay_ms).payload


def child_result(ended: ChildEnded) -> Payload | tuple[str, str, str]:
    """The output of a completed child, or code, type and message of the error for any other end."""
    if ended.status is Status.COMPLETED:
        size = ended.outcome.size
        if size <= VALUE_BYTES_MAX:
            return ended.outcome
        # merged from several End nodes it may be larger than one output may be
        message = f"the output of the child run {ended.child_id} has {size} bytes of JSON, a node's {VALUE_BYTES_MAX}"
        return "VALUE_TOO_LARGE", "ValueTooLarge", message
    if ended.status is Status.FAILED:
        error = ended.outcome.value
        message = f"the child run {ended.child_id} failed with {error['code']}: {error['message']}"
        return "CHILD_FAILED", "ChildFailed", message
    return "CHILD_CANCELLED", "ChildCancelled", f"the child run {ended.child_id} was cancelled: {ended.outcome.value}"
