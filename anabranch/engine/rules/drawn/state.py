"""The state of one drawn instance: scopes, open activations, and the questions asked of them.

Plain objects that only `evolve` changes. A state is private to its owner and thrown away,
never rolled back, when a commit is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.engine.rules.drawn import loops
from anabranch.engine.rules.drawn.context import NO_ENTRIES, Context, Entries
from anabranch.engine.rules.graph.plan import Body, Plan, PlanNode
from anabranch.engine.rules.run_state import InstanceHead, OpenActivation, Phase, RunState
from anabranch.engine.rules.values import Payload
from anabranch.errors import RunError

__all__ = ["Activation", "InstanceHead", "InstanceState", "Phase", "Scope"]


class Activation(OpenActivation):
    """An open activation of a node: dispatched and not ended yet."""

    __slots__ = ("context", "loop", "next_handle", "node", "output", "scope")

    def __init__(self, node: PlanNode, scope: Scope, context: Context) -> None:
        OpenActivation.__init__(self)
        self.node = node
        self.scope = scope
        self.context = context
        """Snapshot before the first NODE_DISPATCHED: every attempt sees the same."""
        self.output: Payload | None = None
        """Of a delay: what it completes with once it is over."""
        self.next_handle: str | None = None
        self.loop: loops.LoopRun | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Node id and scope: which activation of its run it is."""
        return self.node.id, self.scope.path


class Scope:
    """The root, or one iteration of a loop: verdict counters, open activations, what was written."""

    __slots__ = (
        "back",
        "bindings",
        "body",
        "bytes",
        "dead",
        "ended",
        "entries",
        "error",
        "index",
        "live",
        "open",
        "owner",
        "parent",
        "path",
        "remaining",
        "sinks",
    )

    def __init__(self, path: str, body: Body, parent: Scope | None, owner: Activation | None, index: int) -> None:
        self.path = path
        self.body = body
        self.parent = parent
        self.owner = owner
        """The loop activation that this is an iteration of; None at the root."""
        self.index = index
        self.live: dict[str, int] = {node.id: edges for node, edges in body.entries}
        self.dead: dict[str, int] = {}
        self.open: dict[str, Activation] = {}
        self.ended: set[str] = set()
        self.remaining = len(body.nodes)
        self.entries: Entries = NO_ENTRIES
        self.bindings: Mapping[str, Any] | None = None
        self.bytes = 0
        """JSON bytes that nodes of this scope wrote into the context."""
        self.error: RunError | None = None
        """The unhandled error that made this iteration fail."""
        self.back: Payload | None = None
        """Output of the node on the latest live back edge: the iteration's value."""
        self.sinks: list[tuple[PlanNode, Payload]] = []


class InstanceState(RunState[Activation, Activation]):
    """Everything that decisions about one drawn instance need to know."""

    __slots__ = ("ends", "plan", "root", "scopes", "unfinished")

    def __init__(self, plan: Plan, head: InstanceHead) -> None:
        super().__init__(head)
        self.plan = plan
        self.root = Scope("", plan.root, None, None, 0)
        self.scopes: dict[str, Scope] = {"": self.root}
        self.unfinished: dict[tuple[str, str], Activation] = {}
        """Loops that may open an iteration at once, by (node id, scope): a decision had worked enough before."""
        self.ends: list[tuple[str | None, Any]] = []
        """What the root End nodes collected, in seq order."""

    def activation(self, node_id: str, scope: str) -> Activation | None:
        """The open activation of a node in a scope, if there is one."""
        home = self.scopes.get(scope)
        return None if home is None else home.open.get(node_id)

    def next_due(self) -> int | None:
        """When the next delay, retry, wait or deadline is due, or the instance may begin; None: never by itself.

        A loop that is not finished with opening iterations is due since it opened.
        """
        due = super().next_due()
        if not self.unfinished:
            return due  # as nearly always
        times = [loop.due_at for loop in self.unfinished.values() if loop.due_at is not None]
        return min(times if due is None else [due, *times], default=None)

    def context_of(self, scope: Scope) -> Context:
        """A snapshot of what an activation in this scope sees now."""
        if scope.parent is None:
            return Context((scope.entries,))
        maps, bindings = [], []
        level: Scope | None = scope
        while level is not None:
            maps.append(level.entries)
            if level.bindings is not None:
                bindings.append(level.bindings)
            level = level.parent
        return Context(tuple(maps), tuple(bindings))

    def context_bytes(self, scope: Scope) -> int:
        """JSON bytes of the context that this scope sees."""
        total, level = 0, scope
        while True:
            total += level.bytes
            if level.parent is None:
                return total
            level = level.parent

    def output(self) -> Any:
        """The merge of the root End nodes' objects so far, in seq order; None if no End was reached."""
        return merged_ends(self.ends)


def merged_ends(ends: Sequence[tuple[str | None, Any]]) -> Any:
    """The merge of what End nodes collected under their names, in seq order; None if no End was reached."""
    if not ends:
        return None
    merged: dict[str, Any] = {}
    for name, collected in ends:
        merged.update({name: collected} if name is not None else collected)
    return merged
