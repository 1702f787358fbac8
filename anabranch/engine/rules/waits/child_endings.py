"""Children: a node waits for the run that it started, until that has ended.

Pure. Called by `decide` and by nobody else. Who starts the child is the handler, who finds out
that it has ended is the shell; cancelling it when nobody waits any more is the store's share of a
transition (`Transition.cancels`).
"""

from __future__ import annotations

from anabranch.engine.rules.commands import AwaitChild
from anabranch.engine.rules.decision import DrawnDecisionBuilder, error_about
from anabranch.engine.rules.drawn.drawn_state import Activation
from anabranch.engine.rules.drawn.outcomes import complete, fail
from anabranch.engine.rules.events import DEFAULT_HANDLE, EventType
from anabranch.engine.rules.payloads import ChildAwaited
from anabranch.engine.rules.shared_decisions import child_result
from anabranch.engine.rules.stimuli import AwaitsChild, ChildEnded
from anabranch.engine.rules.values import Payload


def open_child_wait(builder: DrawnDecisionBuilder, activation: Activation, asked: AwaitsChild) -> None:
    """A node has started its child and waits for its end, which may have come already."""
    builder.emit(EventType.NODE_WAITING, activation, payload=ChildAwaited(asked.child_id).payload)
    builder.commands.append(AwaitChild(activation.node.id, activation.scope.path, asked.child_id))


def close_child_wait(builder: DrawnDecisionBuilder, activation: Activation, ended: ChildEnded) -> None:
    """The child's output is the node's; a bad end is the node's failure, and no other try is made."""
    worth = child_result(ended)
    if isinstance(worth, Payload):
        complete(builder, activation, worth, DEFAULT_HANDLE)
    else:
        fail(builder, activation, error_about(activation, *worth))
