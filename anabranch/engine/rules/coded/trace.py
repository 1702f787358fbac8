"""The traced graph of a coded run: its steps, and which step followed from which.

Pure: from the history of a run to nodes and edges. The mark of a step names the latest rows that its branch of the
function knew; the steps that these rows ended are its predecessors.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from anabranch.dataclass import dataclass
from anabranch.engine.rules.coded.names import NO_MARK, Mark, StepKind
from anabranch.engine.rules.history import ActivationView

# 1,000 steps: what a canvas can show; the log has them all.
TRACED_MAX = 1_000

# No step can have this name: step names contain no @.
START_ID = "@start"


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A step as a node of the graph.

    Two kinds are not steps: `start` is where the function began, `join` is where several branches met before others
    began.
    """

    id: str
    name: str
    scope: str
    kind: str


@dataclass(slots=True)
class Trace:
    """Nodes, the start first, and edges (from, to). Steps without a predecessor follow from the start."""

    steps: list[TracedStep]
    edges: list[tuple[str, str]]


def trace(activations: Iterable[ActivationView]) -> Trace:
    """The graph of the first 1,000 steps, in the order of their first rows."""
    found: list[TracedStep] = []
    after: dict[str, list[str]] = {}
    ended: dict[int, str] = {}
    for step in islice(activations, TRACED_MAX):
        mark = step.mark or NO_MARK
        id_ = step.node_id + step.scope
        found.append(TracedStep(id_, step.node_id, step.scope, mark.kind.value))
        after.setdefault(mark.after, []).append(id_)
        if step.ended_at is not None:
            ended[step.seq] = id_
    graph = Trace([TracedStep(START_ID, "", "", "start"), *found], [])
    for rows, followers in after.items():
        _connect(graph, rows, followers, ended)
    return graph


def _connect(graph: Trace, rows: str, followers: list[str], ended: dict[int, str]) -> None:
    """Connect the steps that ended with these rows to all of these steps."""
    known = Mark(StepKind.RUN, rows).rows
    before = [ended[row] for row in known if row in ended] or [START_ID]
    if len(before) > 1 and len(followers) > 1:
        join = TracedStep(f"join@{rows}", "", "", "join")
        graph.steps.append(join)
        graph.edges += [(each, join.id) for each in before]
        before = [join.id]
    graph.edges += [(one, other) for other in followers for one in before]
