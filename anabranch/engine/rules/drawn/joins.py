"""Joins: does a node with incoming edges run, is it skipped, or does it wait for more of their verdicts?

Pure. Called by `decide` for the targets of an ended activation, unless it was the only edge to one.

A new join mode is decided here, and tested in `tests/spec/test_joins.py`. Its name is one of `JOIN_MODES` in
`graph/document.py`. What knows the modes, too: `graph/compile.py` (the nodes that an iteration begins with),
`graph/control_flow/flow.py` (the nodes that certainly run) and `verify/checked_scopes.py` (the check of recorded logs).
"""

from __future__ import annotations

from enum import Enum

from anabranch.engine.rules.drawn.drawn_state import Scope
from anabranch.engine.rules.graph.plan import PlanNode


class JoinDecision(Enum):
    """What a node does, given the verdicts of its incoming edges so far."""

    WAIT = "wait"
    DISPATCH = "dispatch"
    SKIP = "skip"


# Looked up once: a member of an enum costs ten times a global before Python 3.12, and these are read for every edge.
WAIT, DISPATCH, SKIP = JoinDecision


def join_decision(scope: Scope, node: PlanNode) -> JoinDecision:
    """Apply the join mode of the node to the verdicts in this scope.

    `all`: decided when every edge has a verdict, dispatched if one of them is live. `any`: dispatched by the first live
    edge, skipped if all are dead.
    """
    live = scope.live.get(node.id, 0)
    if live and node.join_any:
        return DISPATCH
    if live + scope.dead.get(node.id, 0) < node.in_count:
        return WAIT
    return DISPATCH if live else SKIP
