"""Join barriers: which nodes come next, and is this one ready?

Pure. Called by `decide` and by nobody else. Knows graphs and verdict counters; knows no
queues, clocks or tables. A new join mode is added here and in `tests/spec`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from anabranch.engine.rules.drawn.state import Scope
from anabranch.engine.rules.graph.plan import PlanNode


class Readiness(Enum):
    """What the verdicts of a node's incoming edges say."""

    WAIT = "wait"
    DISPATCH = "dispatch"
    SKIP = "skip"


# Looked up once: a member of an enum costs ten times a global before Python 3.12, and these are read for every row.
_WAIT, _DISPATCH, _SKIP = Readiness


def calculate_next_nodes(scope: Scope, ended: PlanNode) -> Iterator[tuple[PlanNode, Readiness]]:
    """Targets of an ended node that its verdicts decide: each once, those still waiting left out."""
    for edge in ended.edges:
        target = edge.target
        if target.id not in scope.ended and target.id not in scope.open:
            readiness = is_node_ready(scope, target)
            if readiness is not _WAIT:
                yield target, readiness


def is_node_ready(scope: Scope, node: PlanNode) -> Readiness:
    """`all`: when every edge has a verdict, dispatched if one is live. `any`: by the first live one."""
    live = scope.live.get(node.id, 0)
    if live and node.join_any:
        return _DISPATCH
    if live + scope.dead.get(node.id, 0) < node.in_count:
        return _WAIT
    return _DISPATCH if live else _SKIP
