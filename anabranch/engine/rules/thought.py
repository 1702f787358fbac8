"""One decision in the making: the events so far, and the commands that follow from them.

Called by the rooms that think (`decide`, `outcomes`, `endings`, `iterations`) and by nobody
else. Whatever they write here is folded into the state at once, so the next line sees it. What
to write is theirs; that a row is numbered, stamped and folded is settled here.
"""

from __future__ import annotations

from collections import deque

from anabranch.engine.rules.child_ids import WORKFLOW_TYPE, child_id
from anabranch.engine.rules.commands import Command, Dispatch, Wake
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.evolve import evolve
from anabranch.engine.rules.instance import Activation, InstanceState, Phase, Scope
from anabranch.engine.rules.plan import PlanNode
from anabranch.engine.rules.values import EMPTY, Payload
from anabranch.errors import RunError

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_NODE_DISPATCHED = EventType.NODE_DISPATCHED


class Thought:
    """The notes of one decision about one state, which each of them evolves."""

    def __init__(self, state: InstanceState, now: int, work_max: int) -> None:
        self.state = state
        self.now = now
        self.events: list[Event] = []
        self.commands: list[Command] = []
        self.stops: list[Dispatch] = []
        self.cancels: list[str] = []
        """Children that nobody awaits any more, if they were started at all."""
        self.not_before: int | None = None
        self.worked = 0
        """What running loops has cost so far, in the units of `template_work`."""
        self.work_max = work_max
        self.unfinished_before = frozenset(state.unfinished)
        self.todo: deque[tuple[Scope, PlanNode]] = deque()
        """Ended activations whose consequences are not drawn yet: a queue, since graphs are deeper than stacks."""

    def dispatch(self, node: PlanNode, path: str, *, attempt: int = 1) -> None:
        """Queue an attempt; its event opens the iteration if it is the first in it."""
        self._append(_NODE_DISPATCHED, node.id, path, attempt, EMPTY)
        self.commands.append(Dispatch(node.id, path, attempt))

    def skip(self, node: PlanNode, scope: Scope) -> None:
        """End an activation that will not happen, or is not awaited any more."""
        activation = scope.open.get(node.id)
        attempt = 0
        if activation is not None:
            attempt = activation.attempt
            if activation.phase is Phase.DISPATCHED:
                self.stops.append(Dispatch(node.id, scope.path, attempt))
            self.forsake(activation)
        self._append(EventType.NODE_SKIPPED, node.id, scope.path, attempt, EMPTY)
        self.todo.append((scope, node))

    def fail_instance(self, error: RunError) -> None:
        """The instance ends FAILED, with everything in flight told to stop."""
        self.end_instance(EventType.INSTANCE_FAILED, Payload.trusted(error.as_json()), error.message)

    def end_instance(self, event_type: EventType, payload: Payload, message: str | None = None) -> None:
        """Terminal status is an event, and the last one."""
        for (node_id, scope), activation in self.state.running.items():
            self.stops.append(Dispatch(node_id, scope, activation.attempt))
        if event_type is not EventType.INSTANCE_COMPLETED:  # which leaves nothing open
            for home in self.state.scopes.values():
                for activation in home.open.values():
                    self.forsake(activation)
        self.emit(event_type, payload=payload, error_message=message)

    def forsake(self, activation: Activation) -> None:
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

    @property
    def has_worked_enough(self) -> bool:
        """Loops wait for the next decision, so that other instances get their turn."""
        return self.worked >= self.work_max

    def fired(self, due_at: int) -> None:
        """Remember the latest due time that this decision rests on."""
        self.not_before = due_at if self.not_before is None else max(self.not_before, due_at)


def error_about(activation: Activation, code: str, type_name: str, message: str) -> RunError:
    """An error of the rules' own making, about an activation."""
    return RunError(code, type_name, message, activation.node.id, activation.scope.path, activation.attempt)
