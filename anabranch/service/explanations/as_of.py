"""The state of a run at a row of its log: status, activations, verdicts of edges, waits, context.

Pure. Called by the service in a thread. One pass over the events feeds two folds: `evolve`, which knows verdicts and
contexts, and `history`, which also keeps what has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot, InstanceState
from anabranch.engine.rules.drawn.scopes import pass_path, scope_key_of
from anabranch.engine.rules.event_payloads import left_out_by
from anabranch.engine.rules.events import ActivationKey, Event
from anabranch.engine.rules.evolve import AnyPlan, AnyState, evolve, new_state
from anabranch.engine.rules.graph.document import GraphEdge
from anabranch.engine.rules.graph.plan import Body, Plan, PlanNode
from anabranch.engine.rules.history import ActivationStatus, ActivationView, History, loop_of
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
    activations: dict[ActivationKey, ActivationView] = field(default_factory=dict)
    """All activations so far, in the order of their first rows."""
    contexts: dict[ActivationKey, ContextSnapshot] = field(default_factory=dict)
    """The contexts of conditions when they were evaluated."""
    suspended_at: int = 0
    """When it was last suspended (ms)."""
    _into: defaultdict[str, list[GraphEdge]] = field(default_factory=lambda: defaultdict(list))
    """The edges by their targets; computed on first use."""

    @property
    def scopes(self) -> list[str]:
        """The root, and every iteration that was opened."""
        return list(dict.fromkeys(["", *(scope for _, scope in self.activations)]))

    def verdict(self, edge: GraphEdge, scope: str) -> Verdict:
        """The verdict of an edge whose source is in this scope, or in a region that it leads out of into this scope."""
        source = self.activations.get((edge.source, scope))
        if source is None:
            header = self._region_left(edge, scope)
            return Verdict.OPEN if header is None else self._verdict_of_exit(edge, header, scope)
        if edge.handle in source.handles:
            return Verdict.LIVE
        decided = source.has_ended and source.status is not ActivationStatus.CANCELLED
        return Verdict.DEAD if decided else Verdict.OPEN

    def incoming(self, node_id: str, scope: str) -> Iterator[tuple[GraphEdge, str]]:
        """The edges that decide whether a node starts, each with the scope of its source; no back edges.

        The header of a region starts its first pass by the edges from outside, any other by those that lead back. An
        edge out of a region is decided in the scope around it.
        """
        assert isinstance(self.plan, Plan), "only drawn runs have edges"
        if self.edges and not self._into:
            for edge in self.edges:
                self._into[edge.target].append(edge)
        node, body = self.plan.nodes[node_id], self.body_of(scope)
        if node.item is not None and body is node.item.home:
            return  # its loop has begun it
        if node.region is not None and body is node.home:
            scope_key = scope_key_of(scope)
            if scope_key.index > 1:
                before = pass_path(node_id, scope_key.scope, scope_key.index - 1)
                yield from ((edge, before) for edge in self._into[node_id] if self._is_in(edge, body))
                return
            scope, body = scope_key.scope, node.home.outer
        for edge in self._into[node_id]:
            source = self.plan.nodes.get(edge.source)
            if source is None or body is None:
                continue
            if source is body.loop:
                yield edge, loop_of(scope)[1]
            elif self._is_in(edge, body) and not (node.region and self._is_in(edge, node.region.body)):
                yield edge, scope

    def _is_in(self, edge: GraphEdge, body: Body) -> bool:
        """Whether the source of an edge is in a region or in an inner one."""
        assert isinstance(self.plan, Plan)
        source = self.plan.nodes.get(edge.source)
        level = None if source is None else source.home
        while level is not None and level is not body:
            level = level.outer
        return level is not None

    def _region_left(self, edge: GraphEdge, scope: str) -> PlanNode | None:
        """The header of the region that an edge leads out of into this scope."""
        if not isinstance(self.plan, Plan) or edge.source not in self.plan.nodes:
            return None
        body, level = self.body_of(scope), self.plan.nodes[edge.source].home
        while level.header is not None and level.outer is not None:
            if level.outer is body:
                return level.header
            level = level.outer
        return None

    def scope_of_source(self, edge: GraphEdge, scope: str) -> str:
        """The scope of the source of an edge into this scope: the open pass of a region that the edge leaves."""
        header = self._region_left(edge, scope)
        around = self.state.scopes.get(scope) if isinstance(self.state, InstanceState) else None
        while header is not None and around is not None:
            region = around.open.get(header.id)
            run = None if region is None else region.region
            if run is None or run.open_pass is None:
                break
            around = run.open_pass
            scope = around.path
            header = self._region_left(edge, scope)
        return scope

    def _verdict_of_exit(self, edge: GraphEdge, header: PlanNode, scope: str) -> Verdict:
        """Edges out of a region have one verdict, when it ends: live if they were in any pass."""
        around = self.state.scopes.get(scope) if isinstance(self.state, InstanceState) else None
        if around is not None and header.id in around.open:
            return Verdict.OPEN
        passes = pass_path(header.id, scope, 1)[:-1]
        inside = [each for each in self.activations.values() if each.scope.startswith(passes)]
        if any(each.node_id == edge.source and edge.handle in each.handles for each in inside):
            return Verdict.LIVE
        has_ended = bool(inside) or (header.id, scope) in self.activations
        return Verdict.DEAD if has_ended else Verdict.OPEN

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
        try:
            scope_key = scope_key_of(scope)
        except ValueError:
            return None
        node = self.plan.nodes.get(scope_key.node_id)
        if node is None:
            return None
        if scope_key.is_pass:
            return None if node.region is None else node.region.body
        return None if node.loop is None else node.loop.body

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
        if isinstance(change, ActivationView):
            run.activations[change.key] = change
            if not change.has_ended:
                _note_context(run, change)
    return run


def _note_context(run: RunAsOf, activation: ActivationView) -> None:
    """Keep the context of a condition: it explains which branch was taken."""
    if isinstance(run.state, InstanceState):
        found = run.state.activation(*activation.key)
        if found is not None and found.node.type == CONDITION_TYPE:
            run.contexts[activation.key] = found.context
