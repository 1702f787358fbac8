"""Decisions: given what has happened and what arrives now, what happens next?

`decide` is the whole of the engine's judgement. It reads a state, a stimulus and the time,
and returns the events to append with the commands that follow from them. Every event is
folded into the state at once (by `evolve`, the only thing that changes a state), so the next
thought sees it; nothing is performed and nothing is stored here. A stimulus that makes no
sense any more changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import orjson

from anabranch.engine.rules import loops
from anabranch.engine.rules.commands import Command, Dispatch, Wake
from anabranch.engine.rules.events import DEFAULT_HANDLE, DONE_HANDLE, ERROR_HANDLE, TIMEOUT_HANDLE, Event, EventType
from anabranch.engine.rules.evolve import evolve, failure_handle
from anabranch.engine.rules.instance import Activation, InstanceState, Phase, Scope
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.plan import PlanNode
from anabranch.engine.rules.scheduling import Readiness, calculate_next_nodes
from anabranch.engine.rules.signals import SIGNALS_KEPT_MAX
from anabranch.engine.rules.stimuli import (
    Adopted,
    AwaitsSignal,
    CancelRequested,
    Completed,
    Failed,
    HandlerOutcome,
    NodeResult,
    SignalSent,
    Started,
    Stimulus,
    TailLoaded,
    TimersDue,
)
from anabranch.engine.rules.values import EMPTY, NULL, Payload
from anabranch.errors import AnabranchError, RunError

# 16 MB of context a run: it lives in memory while the run is held, and every adoption reads it.
CONTEXT_BYTES_MAX = 16_777_216


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from one stimulus."""

    events: Sequence[Event] = ()
    commands: Sequence[Command] = ()
    """To perform once the events are committed: what this decision added to `outstanding`."""
    stops: Sequence[Dispatch] = ()
    """Attempts that nobody awaits any more: their handlers are told to stop."""
    not_before: int | None = None
    """The latest due time that fired: the commit must find it passed by the store's own clock."""
    delivered: bool | None = None
    """For a signal: was a fitting wait open when it (or the first one with its key) arrived?"""
    refused: str | None = None
    """For a signal: the code of why it was not taken."""


NOTHING = Decision()


def decide(state: InstanceState, stimulus: Stimulus, now: int) -> Decision:
    """What follows from a stimulus at `now` (ms): events, commands, what to stop. Evolves `state` by those events."""
    if state.is_terminal:
        return NOTHING  # late results are not an error: someone finished first
    if isinstance(stimulus, Started) and state.last_seq > 0:
        return NOTHING  # an earlier try to be born, thought to be lost, has reached the store after all
    thought = _Thought(state, now)
    if thought.deadline_passed():
        return thought.decision()
    match stimulus:
        case Started():
            thought.start(stimulus)
        case NodeResult():
            activation = state.awaits(stimulus.node_id, stimulus.scope, stimulus.attempt)
            if activation is None:
                return NOTHING  # a duplicate, or an attempt that was given up
            thought.answer(activation, stimulus.outcome)
        case TimersDue():
            thought.begin_if_due()
            thought.fire_timers()
        case SignalSent():
            return thought.receive(stimulus)
        case TailLoaded():
            thought.draw_consequences()
        case CancelRequested():
            thought.end_instance(EventType.INSTANCE_CANCELLED, Payload.trusted(stimulus.reason))
        case Adopted():
            thought.adopt(stimulus)
        case _:
            assert_never(stimulus)
    return thought.decision()


class _Thought:
    """One decision in the making."""

    def __init__(self, state: InstanceState, now: int) -> None:
        self.state = state
        self.now = now
        self.events: list[Event] = []
        self.commands: list[Command] = []
        self.stops: list[Dispatch] = []
        self.not_before: int | None = None
        self.todo: deque[tuple[Scope, PlanNode]] = deque()
        """Ended activations whose consequences are not drawn yet: a queue, since graphs are deeper than stacks."""

    def decision(self) -> Decision:
        """What this thought came to, without commands that it made and unmade itself."""
        if not self.events:
            return NOTHING
        commands = [command for command in self.commands if self.state.owes(command)]
        return Decision(self.events, commands, self.stops, self.not_before)

    # -- stimuli --------------------------------------------------------------------------
    def start(self, started: Started) -> None:
        """Birth: the input, and `start` unless its time has not come or its creator has no room."""
        head = self.state.head
        raw = b'{"input":' + started.input.raw + b"}"
        self.emit(EventType.INPUT_SET, payload=Payload({"input": started.input.value}, raw))
        if head.deadline_at is not None:
            self.commands.append(Wake("", "", 0, head.deadline_at))
        overdue = head.deadline_at is not None and head.deadline_at <= self.now
        # A time that was asked for is a timer, also when it has come while the birth was on its way: only
        # a timer's turn is held against the store's own clock.
        if started.begin and head.available_at <= head.created_at and not overdue:
            self.dispatch(self.state.plan.start, "")
        else:
            self.commands.append(Wake("", "", 0, head.available_at))

    def adopt(self, adopted: Adopted) -> None:
        """A takeover: counted if a worker was lost; then whatever became due or arrived meanwhile."""
        state = self.state
        if adopted.lapsed:
            recoveries = state.recoveries + 1 if state.running else state.recoveries
            if recoveries > adopted.recoveries_max:
                message = (
                    f"{adopted.recoveries_max} workers in a row were lost while running this, without any progress"
                )
                self.fail_instance(RunError("RECOVERY_LIMIT", "RecoveryLimit", message))
                return
            self.emit(EventType.INSTANCE_RECOVERED, payload=Payload.trusted({"recoveries": recoveries}))
        self.begin_if_due()
        self.fire_timers()

    def answer(self, activation: Activation, outcome: HandlerOutcome) -> None:
        """An attempt's outcome."""
        match outcome:
            case Completed():
                self.returned(activation, outcome)
            case AwaitsSignal():
                self.open_wait(activation, outcome)
            case Failed():
                self.attempt_failed(activation, outcome)
        self.draw_consequences()

    def receive(self, signal: SignalSent) -> Decision:
        """Keep a signal, and feed it to the wait that it fits."""
        state = self.state
        if signal.key is not None and signal.key in state.signal_answers:
            return Decision(delivered=state.signal_answers[signal.key])
        waited_for = state.oldest_wait(signal.event, signal.payload) is not None
        if not waited_for and state.kept_count >= SIGNALS_KEPT_MAX:
            return Decision(refused="TOO_MANY_SIGNALS")
        self.emit(EventType.SIGNAL_RECEIVED, payload=signal_payload(signal.event, signal.payload, signal.key))
        self.draw_consequences()
        done = self.decision()
        return Decision(done.events, done.commands, done.stops, done.not_before, delivered=waited_for)

    def begin_if_due(self) -> None:
        """Dispatch `start` if the instance has not begun and may."""
        if not self.state.started and self.state.head.available_at <= self.now and not self.state.is_terminal:
            self.fired(self.state.head.available_at)
            self.dispatch(self.state.plan.start, "")

    def fire_timers(self) -> None:
        """Fire whatever is due, oldest due time first; a signal that is in the log already beats its timeout."""
        self.draw_consequences()
        while not self.state.is_terminal:
            activation = self.state.next_timer()
            if activation is None or activation.due_at is None or activation.due_at > self.now:
                return
            self.fired(activation.due_at)
            if activation.phase is Phase.RETRYING:
                self.dispatch(activation.node, activation.scope.path, attempt=activation.attempt + 1)
            elif activation.event is not None:
                self.complete(activation, NULL, TIMEOUT_HANDLE)
            else:
                assert activation.output is not None
                self.complete(activation, activation.output, activation.next_handle)
            self.draw_consequences()

    def deadline_passed(self) -> bool:
        """Fail the instance if its deadline has come; nothing else happens then."""
        deadline = self.state.head.deadline_at
        if deadline is None or deadline > self.now or self.state.last_seq == 0:
            return False
        self.fired(deadline)
        message = f"the run was not done by {to_iso(deadline)}"
        self.fail_instance(RunError("DEADLINE_EXCEEDED", "DeadlineExceeded", message))
        return True

    # -- outcomes -------------------------------------------------------------------------
    def returned(self, activation: Activation, outcome: Completed) -> None:
        """A handler returned: wait out its delay, open its loop, or complete."""
        node = activation.node
        if node.loop is not None:
            self.open_loop(activation, outcome.output)
            return
        exits = node.handles - {ERROR_HANDLE}  # which only the engine picks
        handle = outcome.next_handle
        if handle is None and exits:
            handle = DEFAULT_HANDLE
        if handle is not None and handle not in exits:
            message = f"the handler of type {node.type!r} named a handle that the node does not have: {handle!r}"
            self.fail(activation, self.error(activation, "UNKNOWN_HANDLE", "UnknownHandle", message))
        elif outcome.queue_delay_ms is None:
            self.complete(activation, outcome.output, handle)
        else:
            due_at = self.now + outcome.queue_delay_ms
            note: dict[str, Any] = {"dueAt": to_iso(due_at), "output": outcome.output.value, "nextHandle": handle}
            raw = orjson.dumps({**note, "output": orjson.Fragment(outcome.output.raw)})
            self.emit(EventType.NODE_WAITING, activation, payload=Payload(note, raw))
            self.wake(activation)

    def open_wait(self, activation: Activation, asked: AwaitsSignal) -> None:
        """A node asks for a signal: one that was kept completes it at once."""
        note: dict[str, Any] = {"event": asked.event}
        if asked.match is not None:
            note["match"] = asked.match.value
        if asked.timeout_ms is not None:
            note["dueAt"] = to_iso(self.now + asked.timeout_ms)
        signal = self.state.oldest_signal(asked.event, asked.match)
        if signal is None:
            self.emit(EventType.NODE_WAITING, activation, payload=Payload.trusted(note))
            self.wake(activation)
            return
        note["signalSeq"] = signal.seq
        self.emit(EventType.NODE_WAITING, activation, payload=Payload.trusted(note))
        self.complete(activation, signal.payload, DEFAULT_HANDLE)

    def take_promise(self, wait: Activation) -> None:
        """Record which signal the wait takes, and complete it with the payload."""
        signal = wait.promised
        assert signal is not None
        note = Payload.trusted({"event": signal.event, "signalSeq": signal.seq})
        self.emit(EventType.NODE_WAITING, wait, payload=note)
        self.complete(wait, signal.payload, DEFAULT_HANDLE)

    def attempt_failed(self, activation: Activation, failed: Failed) -> None:
        """A try failed: another is due later, or that was the last."""
        policy = activation.node.retry
        if not failed.retryable or activation.attempt >= policy.max_attempts:
            self.fail(activation, failed.error)
            return
        key = f"{self.state.head.instance_id}/{activation.scope.path}/{activation.node.id}"
        delay_ms = policy.delay_ms(activation.attempt, key=key)
        if failed.retry_after_ms is not None:
            delay_ms = max(delay_ms, failed.retry_after_ms)
        note = {"error": failed.error.as_json(), "dueAt": to_iso(self.now + delay_ms)}
        self.emit(
            EventType.NODE_ATTEMPT_FAILED, activation, payload=Payload.trusted(note), error_message=failed.error.message
        )
        self.wake(activation)

    def complete(self, activation: Activation, output: Payload, handle: str | None) -> None:
        """The activation ends well, unless its output would overfill the context."""
        node, scope = activation.node, activation.scope
        if self.state.context_bytes(scope) + len(output.raw) > CONTEXT_BYTES_MAX:
            message = f"with this output the context of the run would pass {CONTEXT_BYTES_MAX} bytes"
            self.fail(activation, self.error(activation, "CONTEXT_TOO_LARGE", "ContextTooLarge", message))
            return
        self.emit(EventType.NODE_COMPLETED, activation, payload=output, next_handle=handle)
        if node.terminate:
            self.terminate()
        else:
            self.todo.append((scope, node))

    def fail(self, activation: Activation, error: RunError) -> None:
        """The activation fails for good: handled, or the end of its iteration or of the instance."""
        node, scope = activation.node, activation.scope
        payload = Payload.trusted({"error": error.as_json()})
        handle = failure_handle(node)
        self.emit(EventType.NODE_FAILED, activation, payload=payload, next_handle=handle, error_message=error.message)
        if handle is None and (node.error_handling == "fail_workflow" or scope.owner is None):
            self.fail_instance(error)
            return
        if handle is None:
            self.abandon(scope)
        self.todo.append((scope, node))

    # -- consequences ---------------------------------------------------------------------
    def draw_consequences(self) -> None:
        """Walk from every ended activation to what its verdicts decide, until nothing more follows.

        Waits whose signal has arrived are served here too, since ending one activation may hand
        its signal to another: after a decision no signal lies beside a wait that it fits.
        """
        promises = self.state.promises
        while (self.todo or promises) and not self.state.is_terminal:
            if self.todo:
                self.follow(*self.todo.popleft())
            else:
                self.take_promise(next(iter(promises.values())))

    def follow(self, scope: Scope, node: PlanNode) -> None:
        """What one ended activation decides: its targets, and perhaps the end of its scope."""
        for target, readiness in calculate_next_nodes(scope, node):
            if readiness is Readiness.DISPATCH:
                self.dispatch(target, scope.path)
            else:
                self.skip(target, scope)
        if scope.remaining == 0:
            if scope.owner is not None:
                self.iteration_ended(scope.owner)
            else:
                self.end_instance(EventType.INSTANCE_COMPLETED, Payload.trusted(self.state.output()))

    def dispatch(self, node: PlanNode, path: str, *, attempt: int = 1) -> None:
        """Queue an attempt; its event opens the iteration if it is the first in it."""
        self._append(EventType.NODE_DISPATCHED, node.id, path, attempt, EMPTY)
        self.commands.append(Dispatch(node.id, path, attempt))

    def skip(self, node: PlanNode, scope: Scope) -> None:
        """End an activation that will not happen, or is not awaited any more."""
        activation = scope.open.get(node.id)
        attempt = 0
        if activation is not None:
            attempt = activation.attempt
            if activation.phase is Phase.DISPATCHED:
                self.stops.append(Dispatch(node.id, scope.path, attempt))
        self._append(EventType.NODE_SKIPPED, node.id, scope.path, attempt, EMPTY)
        self.todo.append((scope, node))

    def abandon(self, scope: Scope) -> None:
        """End all that is open or undecided in an iteration, innermost loops first."""
        scopes = [scope]
        for outer in scopes:  # grows while it is walked: breadth first
            for activation in outer.open.values():
                if activation.loop is not None:
                    scopes.extend(activation.loop.open.values())
        for inner in reversed(scopes):
            for node in inner.body.nodes:
                if node.id not in inner.ended:
                    self.skip(node, inner)

    def terminate(self) -> None:
        """An End with `terminate`: what is open becomes SKIPPED, the instance COMPLETED."""
        for scope in sorted(self.state.scopes.values(), key=lambda scope: scope.path.count("["), reverse=True):
            for activation in sorted(scope.open.values(), key=lambda activation: activation.loop is not None):
                self.skip(activation.node, scope)
        self.end_instance(EventType.INSTANCE_COMPLETED, Payload.trusted(self.state.output()))

    # -- loops ----------------------------------------------------------------------------
    def open_loop(self, activation: Activation, source: Payload) -> None:
        """The handler resolved the source: record it once, and open what concurrency allows."""
        spec = activation.node.loop
        assert spec is not None
        items = source.value if spec.mode == "forEach" else None
        count = None if items is None else len(items)
        raw = b'{"items":%s,"count":%s}' % (source.raw if items is not None else b"null", orjson.dumps(count))
        self.emit(EventType.LOOP_OPENED, activation, payload=Payload({"items": items, "count": count}, raw))
        self.iteration_ended(activation)

    def iteration_ended(self, activation: Activation) -> None:
        """Go on with a loop: open further iterations, or end it. Harmless if it has ended already."""
        run, spec = activation.loop, activation.node.loop
        if run is None or spec is None or activation.scope.open.get(activation.node.id) is not activation:
            return
        prefix = f"{activation.scope.path}/{activation.node.id}" if activation.scope.path else activation.node.id
        while run.may_open(spec) and self.condition_holds(activation, run):
            if not spec.body.nodes:
                run.pass_through(activation, self.state.context_of(activation.scope))
                continue
            path = f"{prefix}[{run.next_index}]"
            for node in spec.body.first:
                self.dispatch(node, path)
        if run.error is not None:
            for scope in list(run.open.values()):
                self.abandon(scope)
            self.fail(activation, run.error)
        elif not run.open:
            self.complete(activation, run.output(), DONE_HANDLE)

    def condition_holds(self, activation: Activation, run: loops.LoopRun) -> bool:
        """Does a `while` loop go on? It is asked before each iteration; forEach always does while it has items."""
        spec = activation.node.loop
        if spec is None or spec.condition is None:
            return True
        context = self.state.context_of(activation.scope).within(run.bindings(run.next_index))
        try:
            goes_on = bool(spec.condition.resolve(context))
        except AnabranchError as error:
            run.error = loops.error_of(error, activation)
            return False
        if goes_on and run.next_index >= spec.iterations_max:
            message = (
                f"loop {activation.node.id!r} wants more than its {spec.iterations_max} iterations (maxIterations)"
            )
            run.error = self.error(activation, "LOOP_LIMIT", "LoopLimit", message)
            return False
        return goes_on

    # -- the end --------------------------------------------------------------------------
    def fail_instance(self, error: RunError) -> None:
        """The instance ends FAILED, with everything in flight told to stop."""
        self.end_instance(EventType.INSTANCE_FAILED, Payload.trusted(error.as_json()), error.message)

    def end_instance(self, event_type: EventType, payload: Payload, message: str | None = None) -> None:
        """Terminal status is an event, and the last one."""
        for (node_id, scope), activation in self.state.running.items():
            self.stops.append(Dispatch(node_id, scope, activation.attempt))
        self.emit(event_type, payload=payload, error_message=message)

    # -- leaves ---------------------------------------------------------------------------
    def emit(
        self,
        event_type: EventType,
        activation: Activation | None = None,
        *,
        payload: Payload,
        next_handle: str | None = None,
        error_message: str | None = None,
    ) -> None:
        """Append an event about an open activation, or about the instance."""
        if activation is None:
            self._append(event_type, "", "", 0, payload, error_message=error_message)
        else:
            self._append(
                event_type,
                activation.node.id,
                activation.scope.path,
                activation.attempt,
                payload,
                next_handle=next_handle,
                output_variable=activation.node.output_variable,
                error_message=error_message,
            )

    def _append(
        self,
        event_type: EventType,
        node_id: str,
        scope: str,
        attempt: int,
        payload: Payload,
        *,
        next_handle: str | None = None,
        output_variable: str | None = None,
        error_message: str | None = None,
    ) -> None:
        seq = self.state.last_seq + 1
        event = Event(
            seq, event_type, node_id, scope, attempt, payload, self.now, next_handle, output_variable, error_message
        )
        evolve(self.state, event)
        self.events.append(event)

    def wake(self, activation: Activation) -> None:
        """Ask to be woken when the activation is due, if it ever is."""
        if activation.due_at is not None:
            self.commands.append(Wake(activation.node.id, activation.scope.path, activation.attempt, activation.due_at))

    def fired(self, due_at: int) -> None:
        """Remember the latest due time that this decision rests on."""
        self.not_before = due_at if self.not_before is None else max(self.not_before, due_at)

    def error(self, activation: Activation, code: str, type_name: str, message: str) -> RunError:
        """An error of the rules' own making, about an activation."""
        return RunError(code, type_name, message, activation.node.id, activation.scope.path, activation.attempt)


def signal_payload(event: str, payload: Payload, key: str | None) -> Payload:
    """The payload of a SIGNAL_RECEIVED row: `{event, key?, payload}`."""
    note: dict[str, Any] = {"event": event}
    if key is not None:
        note["key"] = key
    raw = orjson.dumps({**note, "payload": orjson.Fragment(payload.raw)})
    note["payload"] = payload.value
    return Payload(note, raw)
