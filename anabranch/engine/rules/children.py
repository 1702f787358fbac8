"""Children: a node waits for the run that it started, until that has ended.

Pure. Called by `decide` and by nobody else. Who starts the child is the handler, who finds out
that it has ended is the shell; cancelling it when nobody waits any more is the store's share of a
turn (`Turn.cancels`).
"""

from __future__ import annotations

from anabranch.engine.rules.commands import AwaitChild
from anabranch.engine.rules.endings import complete, fail
from anabranch.engine.rules.events import DEFAULT_HANDLE, EventType
from anabranch.engine.rules.instance import Activation
from anabranch.engine.rules.stimuli import AwaitsChild, ChildEnded
from anabranch.engine.rules.thought import Thought, error_about
from anabranch.engine.rules.upkeep import worth_of_child
from anabranch.engine.rules.values import Payload


def open_child_wait(thought: Thought, activation: Activation, asked: AwaitsChild) -> None:
    """A node has started its child and waits for its end, which may have come already."""
    note = Payload.trusted({"childID": asked.child_id})
    thought.emit(EventType.NODE_WAITING, activation, payload=note)
    thought.commands.append(AwaitChild(activation.node.id, activation.scope.path, asked.child_id))


def close_child_wait(thought: Thought, activation: Activation, ended: ChildEnded) -> None:
    """The child's output is the node's; a bad end is the node's failure, and no other try is made."""
    worth = worth_of_child(ended)
    if isinstance(worth, Payload):
        complete(thought, activation, worth, DEFAULT_HANDLE)
    else:
        fail(thought, activation, error_about(activation, *worth))
