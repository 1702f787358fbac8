"""The state of a run at a row of its log: status, activations, verdicts of edges, waits, context.

Pure. Called by the service in a thread. One pass over the events feeds two folds: `evolve`, which knows verdicts and
contexts, and `history`, which also keeps what has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from anabranch.engine.rules.drawn.drawn_state import Context, InstanceState
from anabranch.engine.rules.events import Event
from anabranch.engine.rules.evolve import AnyPlan, AnyState, evolve, new_state
from anabranch.engine.rules.graph.document import GraphEdge
from anabranch.engine.rules.graph.plan import Body, Plan
from anabranch.engine.rules.history import Activation, ActivationStatus, History, loop_of
from anabranch.engine.rules.payloads import left_out_by
from anabranch.engine.rules.shared.run_state import InstanceHead

CONDITION_TYPE = "condition"


class Verdict(StrEnum):
    """The verdict of an edge in a scope."""

    OPEN = "open"
    LIVE = "live"
    DEAD = "dead"


@dataclass(slots=True)
class RunAsOf:
    """The state of a run after the first `seq` rows of its log."""

    plan: AnyPlan
    state: AnyState
    edges: Sequence[GraphEdge]
    """The edges of a drawn run's definition."""
    seq: int = 0
    at: int = 0
    """When the latest of these rows was written (ms)."""
    activations: dict[tuple[str, str], Activation] = field(default_factory=dict)
    """All activations so far, in the order of their first rows."""
    contexts: dict[tuple[str, str], Context] = field(default_factory=dict)
    """The contexts of conditions when they were evaluated."""
    suspended_at: int = 0
    """When it was last suspended (ms)."""
    _into: defaultdict[str, list[GraphEdge]] = field(default_factory=lambda: defaultdict(list))
    """The edges by their targets, once they were asked for."""

    @property
    def scopes(self) -> list[str]:
        """The root, and every iteration that was opened."""
        return list(dict.fromkeys(["", *(scope for _, scope in self.activations)]))

    def verdict(self, edge: GraphEdge, scope: str) -> Verdict:
        """Of an edge whose source lives in this scope."""
        source = self.activations.get((edge.source, scope))
        if source is None:
            return Verdict.OPEN
        if edge.handle in source.handles:
            return Verdict.LIVE
        decided = source.has_ended and source.status is not ActivationStatus.CANCELLED
        return Verdict.DEAD if decided else Verdict.OPEN

    def incoming(self, node_id: str, scope: str) -> Iterator[tuple[GraphEdge, str]]:
        """The edges that decide whether a node starts, each with the scope of its source; no back edges."""
        assert isinstance(self.plan, Plan), "only drawn runs have edges"
        if self.edges and not self._into:
            for edge in self.edges:
                self._into[edge.target].append(edge)
        home = self.plan.nodes[node_id].home
        for edge in self._into[node_id]:
            source = self.plan.nodes.get(edge.source)
            if source is None:
                continue
            if source.home is home:
                yield edge, scope
            elif source is home.loop:
                yield edge, loop_of(scope)[1]

    def outgoing(self, scope: str) -> Iterator[GraphEdge]:
        """The edges whose sources live in this scope."""
        assert isinstance(self.plan, Plan), "only drawn runs have edges"
        body = self.body_of(scope)
        for edge in self.edges:
            source = self.plan.nodes.get(edge.source)
            if source is not None and source.home is body:
                yield edge

    def body_of(self, scope: str) -> Body | None:
        """The part of the graph that lives in a scope; None: the run has no such scope."""
        assert isinstance(self.plan, Plan), "only drawn runs have scopes with a body"
        if not scope:
            return self.plan.root
        loop = self.plan.nodes.get(loop_of(scope)[0])
        return None if loop is None or loop.loop is None else loop.loop.body

    def context(self, scope: str) -> Mapping[str, Any] | None:
        """The context of a node in this scope now; None: the scope is closed or was never opened."""
        if not isinstance(self.state, InstanceState):
            return {"input": self.state.input.value["input"]} if self.seq else {}
        found = self.state.scopes.get(scope)
        return None if found is None else self.state.context_of(found)


def run_as_of(plan: AnyPlan, head: InstanceHead, events: Sequence[Event], edges: Sequence[GraphEdge] = ()) -> RunAsOf:
    """The state after these events: the first rows of the log, in seq order. `edges`: those of a drawn definition."""
    head = replace(head, left_out=left_out_by(events))  # later reopenings are not to be known yet
    run = RunAsOf(plan, new_state(plan, head), edges)
    history = History(left_out=head.left_out)
    for event in events:
        was_suspended = run.state.suspension is not None
        evolve(run.state, event)
        run.seq, run.at = event.seq, event.created_at
        if run.state.suspension is not None and not was_suspended:
            run.suspended_at = event.created_at
        change = history.take(event)
        if isinstance(change, Activation):
            run.activations[change.place] = change
            if not change.has_ended:
                _note_context(run, change)
    return run


def _note_context(run: RunAsOf, activation: Activation) -> None:
    """Keep the context of a condition: it explains which branch was taken."""
    if isinstance(run.state, InstanceState):
        found = run.state.activation(*activation.place)
        if found is not None and found.node.type == CONDITION_TYPE:
            run.contexts[activation.place] = found.context
