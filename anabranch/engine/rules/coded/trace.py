"""The graph that a coded run has traced so far: its steps, and which followed from which.

Pure: from the log to nodes and edges. Every step says which rows its branch of the body knew last
when it asked for it (its mark); the steps that these rows ended are those it followed from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.engine.rules.coded.names import FUNCTION_NODE_ID, StepKind, read_mark
from anabranch.engine.rules.events import ENDINGS, Event

# 1,000 steps: what a canvas can show; the log has them all.
TRACED_MAX = 1_000

# No step can be called so: names have no @.
START_ID = "@start"


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A step as a node of the graph.

    Two kinds are no steps: `start` is where the body began, `join` where many branches met before many others began.
    """

    id: str
    name: str
    scope: str
    kind: str


@dataclass(slots=True)
class Trace:
    """Nodes, the start first, and edges (from, to); what followed from no step followed from the start."""

    steps: list[TracedStep]
    edges: list[tuple[str, str]]


def trace(events: Iterable[Event]) -> Trace:
    """The graph of the first 1,000 steps, in the order of their first rows."""
    found: dict[tuple[str, str], TracedStep] = {}
    after: dict[str, list[str]] = {}
    ended: dict[int, str] = {}
    for event in events:
        if event.node_id == FUNCTION_NODE_ID:
            continue
        place = (event.node_id, event.scope)
        if place not in found:
            if len(found) >= TRACED_MAX:
                continue
            mark = read_mark(event.output_variable)
            id_ = event.node_id + event.scope
            found[place] = TracedStep(id_, event.node_id, event.scope, mark.kind.value)
            after.setdefault(mark.after, []).append(id_)
        if event.type in ENDINGS:
            ended[event.seq] = found[place].id
    graph = Trace([TracedStep(START_ID, "", "", "start"), *found.values()], [])
    for rows, followers in after.items():
        _connect(graph, rows, followers, ended)
    return graph


def _connect(graph: Trace, rows: str, followers: list[str], ended: dict[int, str]) -> None:
    """What ended by these rows comes before all of these steps."""
    known = read_mark(f"{StepKind.RUN}:{rows}").rows
    before = [ended[row] for row in known if row in ended] or [START_ID]
    if len(before) > 1 and len(followers) > 1:
        join = TracedStep(f"join@{rows}", "", "", "join")
        graph.steps.append(join)
        graph.edges += [(each, join.id) for each in before]
        before = [join.id]
    graph.edges += [(one, other) for other in followers for one in before]
