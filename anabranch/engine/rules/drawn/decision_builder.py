"""One decision about a drawn run in the making: `notes`, with what only graphs have.

Called by the rooms that think about them (`decide`, `outcomes`, `endings`, `iterations`) and by
nobody else.
"""

from __future__ import annotations

from collections import deque

from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.decision_builder import Notes
from anabranch.engine.rules.drawn.state import Activation, InstanceState, Phase, Scope
from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.rules.values import EMPTY, Payload
from anabranch.engine.rules.waits.child_ids import WORKFLOW_TYPE, child_id
from anabranch.errors import RunError

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_NODE_DISPATCHED = EventType.NODE_DISPATCHED

_NOTHING_UNFINISHED: frozenset[tuple[str, str]] = frozenset()


class DrawnDecisionBuilder(Notes[InstanceState]):
    """The notes of one decision about one drawn run."""

    def __init__(self, state: InstanceState, now: int, work_max: int) -> None:
        super().__init__(state, now)
        self.worked = 0
        """What running loops has cost so far, in the units of `template_work`."""
        self.work_max = work_max
        self.unfinished_before = frozenset(state.unfinished) if state.unfinished else _NOTHING_UNFINISHED
        self.todo: deque[tuple[Scope, PlanNode]] = deque()
        """Ended activations whose consequences are not drawn yet: a queue, since graphs are deeper than stacks."""

    def dispatch(self, node: PlanNode, path: str, *, attempt: int = 1) -> None:
        """Queue an attempt; its event opens the iteration if it is the first in it."""
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
        """Loops wait for the next decision, so that other instances get their transition."""
        return self.worked >= self.work_max


def error_about(activation: Activation, code: str, type_name: str, message: str) -> RunError:
    """An error of the rules' own making, about an activation."""
    return RunError(code, type_name, message, activation.node.id, activation.scope.path, activation.attempt)
