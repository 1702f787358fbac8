"""Decisions: what they come to, and one in the making.

`decide` makes a `DrawnDecisionBuilder`, `coded.decide` a builder of its own, and the deciding rules write into it.
Whatever is written is folded into the state at once, so the next line sees it. What to write is theirs; that a
row is numbered, stamped and folded is settled here. `transitions` reads what it came to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from anabranch.engine.rules.coded.names import Mark
from anabranch.engine.rules.commands import Command, Dispatch, Wake
from anabranch.engine.rules.drawn.drawn_state import Activation, InstanceState, Phase, Scope
from anabranch.engine.rules.events import TERMINALS, Event, EventType
from anabranch.engine.rules.evolve import evolve
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.rules.payloads import RunFailed
from anabranch.engine.rules.shared.child_ids import WORKFLOW_TYPE, child_id
from anabranch.engine.rules.shared.log_limit import ROWS_ALWAYS_TAKEN, LogFull
from anabranch.engine.rules.shared.run_state import OpenActivation
from anabranch.engine.rules.states import AnyState
from anabranch.engine.rules.values import EMPTY, Payload
from anabranch.errors import RunError

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_NODE_DISPATCHED = EventType.NODE_DISPATCHED

_NOTHING_UNFINISHED: frozenset[tuple[str, str]] = frozenset()

State = TypeVar("State", bound=AnyState)


@dataclass(slots=True, eq=False)
class Decision:
    """What follows from one stimulus. Never changed once it is made (not `frozen`: see `Event`)."""

    events: Sequence[Event] = ()
    commands: Sequence[Command] = ()
    """To perform once the events are committed: what this decision added to `outstanding`."""
    stops: Sequence[Dispatch] = ()
    """Attempts that nobody awaits any more: their handlers are told to stop."""
    cancels: Sequence[str] = ()
    """Children that nobody awaits any more, if there are any of these ids: they end with the same commit."""
    not_before: int | None = None
    """The latest due time that fired: the commit must find it passed by the store's own clock."""
    delivered: bool | None = None
    """For a signal: was a fitting wait open when it (or the first one with its key) arrived?"""
    refused: str | None = None
    """For a signal: the code of why it was not taken."""
    worked: int = 0
    """What running loops and evaluating nodes has cost, in the units of `templates.budget`."""
    evaluated: Sequence[Dispatch] = ()
    """Attempts of pure nodes that were answered by this decision."""


NOTHING = Decision()


class DecisionBuilder(Generic[State]):
    """What one decision about one state writes, which each of its rows evolves."""

    def __init__(self, state: State, now: int) -> None:
        self.state = state
        self.now = now
        self.events: list[Event] = []
        self.commands: list[Command] = []
        self.stops: list[Dispatch] = []
        self.cancels: list[str] = []
        """Children that nobody awaits any more, if they were started at all."""
        self.not_before: int | None = None
        self.worked = 0
        """What running loops and evaluating nodes has cost so far, in the units of `templates.budget`."""
        self.evaluated: list[Dispatch] = []
        """Attempts of pure nodes that it has answered."""

    def append(
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
        arguments: str | None = None,
        mark: Mark | None = None,
    ) -> None:
        """Append an event, numbered and stamped; it is folded into the state at once.

        Raises LogFull for a row that the log has no room for; the row that ends the run always has.
        """
        state = self.state
        seq, limit = state.last_seq + 1, state.log_limit
        if (
            (state.log_bytes + len(payload.raw) > limit.bytes_max or seq > limit.rows_max)
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
        """The instance ends FAILED, with everything in flight told to stop."""
        self.end_instance(EventType.INSTANCE_FAILED, RunFailed(error).payload, error.message)

    def end_instance(self, event_type: EventType, payload: Payload, message: str | None = None) -> None:
        """Terminal status is an event, and the last one."""
        for (node_id, scope), activation in self.state.running.items():
            self.stops.append(Dispatch(node_id, scope, activation.attempt))
        self.append(event_type, "", "", 0, payload, error_message=message)

    def wake(self, activation: OpenActivation) -> None:
        """Ask to be woken when the activation is due, if it ever is."""
        if activation.due_at is not None:
            self.commands.append(Wake(*activation.place, activation.attempt, activation.due_at))

    def fired(self, due_at: int) -> None:
        """Remember the latest due time that this decision rests on."""
        self.not_before = due_at if self.not_before is None else max(self.not_before, due_at)

    def build(self) -> Decision:
        """What it came to, without what it asked for and took back itself."""
        if not self.events:
            return Decision(worked=self.worked) if self.worked else NOTHING
        commands = [command for command in self.commands if self.state.owes(command)]
        begun_now = frozenset(self.commands) if self.stops else ()
        stops = [stop for stop in self.stops if stop not in begun_now]
        return Decision(
            self.events, commands, stops, self.cancels, self.not_before, worked=self.worked, evaluated=self.evaluated
        )

    def log_full(self) -> Decision:
        """The log has no room for what follows: the run has failed then."""
        self.fail_instance(self.state.log_limit.error())
        return self.build()


class DrawnDecisionBuilder(DecisionBuilder[InstanceState]):
    """One decision about a drawn run in the making."""

    def __init__(self, state: InstanceState, now: int, work_max: int, evaluations_max: int) -> None:
        super().__init__(state, now)
        self.work_max = work_max
        self.evaluations_max = evaluations_max
        self.evaluated_bytes = 0
        """What their outputs have as JSON."""
        self.unfinished_before = frozenset(state.unfinished) if state.unfinished else _NOTHING_UNFINISHED
        self.todo: deque[tuple[Scope, PlanNode]] = deque()
        """Ended activations whose consequences are not drawn yet: a queue, since graphs are deeper than stacks."""
        self.given: deque[tuple[PlanNode, str]] = deque()
        """Nodes, with their scopes, that complete with a given result as soon as nothing else is to be drawn."""

    def dispatch(self, node: PlanNode, path: str, *, attempt: int = 1) -> None:
        """Queue an attempt; its event opens the iteration if it is the first in it."""
        if node.given is not None:
            self.append(_NODE_DISPATCHED, node.id, path, attempt, node.given.note)
            self.given.append((node, path))
            return
        self.append(_NODE_DISPATCHED, node.id, path, attempt, EMPTY)
        self.commands.append(Dispatch(node.id, path, attempt))

    def skip(self, node: PlanNode, scope: Scope) -> None:
        """End an activation that will not happen, or is not awaited any more."""
        activation = scope.open.get(node.id)
        attempt = 0
        if activation is not None:
            attempt = activation.attempt
            if activation.phase is Phase.DISPATCHED:
                self.stops.append(Dispatch(node.id, scope.path, attempt))
            self.abandon(activation)
        self.append(EventType.NODE_SKIPPED, node.id, scope.path, attempt, EMPTY)
        self.todo.append((scope, node))

    def end_instance(self, event_type: EventType, payload: Payload, message: str | None = None) -> None:
        """Terminal status is an event, and the last one."""
        if event_type is not EventType.INSTANCE_COMPLETED:  # which leaves nothing open
            for home in self.state.scopes.values():
                for activation in home.open.values():
                    self.abandon(activation)
        super().end_instance(event_type, payload, message)

    def abandon(self, activation: Activation) -> None:
        """An activation is over before its child is, which may be on its way into the world just now."""
        if activation.node.type == WORKFLOW_TYPE:
            self.cancels.append(child_id(self.state.head.instance_id, activation.node.id, activation.scope.path))

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
            self.append(event_type, "", "", 0, payload, error_message=error_message)
        else:
            self.append(
                event_type,
                activation.node.id,
                activation.scope.path,
                activation.attempt,
                payload,
                next_handle=next_handle,
                output_variable=activation.node.output_variable,
                error_message=error_message,
            )

    @property
    def has_worked_enough(self) -> bool:
        """Loops wait for the next decision, so that other instances get their turn."""
        return self.worked >= self.work_max


def error_about(activation: Activation, code: str, type_name: str, message: str) -> RunError:
    """An error of the rules' own making, about an activation."""
    return RunError(code, type_name, message, activation.node.id, activation.scope.path, activation.attempt)
