"""Replay recorded runs on a draft: which of them would have gone another way, and where the log cannot tell.

Called by the command `replay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.durable.definition import DECLARED, Workflow, WorkflowRegistry
from anabranch.durable.history_replay import Agreement, replay_function
from anabranch.engine.rules.coded.coded_plan import CodedPlan, coded_plan
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.graph.plan import Plan
from anabranch.errors import InvalidWorkflow
from anabranch.histories.graph_replay import Difference, DifferenceKind, replay_graph
from anabranch.histories.recorded_history import RecordedHistory

# 20: what follows from the first difference is not worth more lines.
DIFFERENCES_SHOWN_MAX = 20

_ANOTHER_WAY = frozenset({DifferenceKind.OUTCOME, DifferenceKind.ONLY_THEN, DifferenceKind.ONLY_NOW})


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """A recorded run, and what it would have done."""

    run: dict[str, Any]
    agreement: Agreement
    differences: tuple[Difference, ...]
    message: str = ""

    def as_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            **self.run,
            "agreement": self.agreement.value,
            "differences": [each.as_json() for each in self.differences[:DIFFERENCES_SHOWN_MAX]],
            "differencesOmitted": max(0, len(self.differences) - DIFFERENCES_SHOWN_MAX),
            "message": self.message,
        }


def replay_on_graph(history: RecordedHistory, definition: Mapping[str, Any], node_types: NodeTypes) -> ReplayedRun:
    """A recorded drawn run on another graph. Raises InvalidWorkflow for a graph that cannot be compiled."""
    plan = history.plan(node_types, definition)
    try:
        recorded = history.plan(node_types)
    except InvalidWorkflow as refusal:
        message = f"its own definition cannot be compiled by this version: {refusal.message}"
        return ReplayedRun(history.shown, Agreement.UNKNOWN, (), message)
    assert isinstance(plan, Plan) and isinstance(recorded, Plan), "the caller looks at the kind"
    found = replay_graph(plan, recorded, history.head, history.events)
    return ReplayedRun(history.shown, _agreement(found), tuple(found))


async def replay_on_code(history: RecordedHistory, code: WorkflowRegistry = DECLARED) -> ReplayedRun:
    """A recorded coded run with the function that is here: of its version, else the newest."""
    found = function_for(history, code)
    if found is None:
        message = f"no function of '{history.head.workflow_name}' is here"
        return ReplayedRun(history.shown, Agreement.UNKNOWN, (), message)
    plan = coded_plan(found.name, history.head.workflow_version, history.definition.get("workflowOptions") or {})
    assert isinstance(plan, CodedPlan)
    replayed = await replay_function(found, plan, history.head, history.events)
    differences: tuple[Difference, ...] = ()
    if replayed.agreement is not Agreement.SAME:
        kind = DifferenceKind.OUTCOME if replayed.agreement is Agreement.DIFFERENT else DifferenceKind.UNKNOWN
        name, scope = replayed.step or ("", "")
        rows = (event.seq for event in history.events if (event.node_id, event.scope) == (name, scope))
        differences = (Difference(kind, name, scope, next(rows, None) if name else None, replayed.message),)
    return ReplayedRun(history.shown, replayed.agreement, differences, replayed.message)


def undecided(history: RecordedHistory, message: str) -> ReplayedRun:
    """A run of which the log cannot tell anything."""
    return ReplayedRun(history.shown, Agreement.UNKNOWN, (), message)


def function_for(history: RecordedHistory, code: WorkflowRegistry) -> Workflow | None:
    """The function that a recorded run is called with."""
    head = history.head
    exact = code.find(head.workflow_name, head.workflow_version)
    if exact is not None:
        return exact
    return max((each for each in code if each.name == head.workflow_name), key=lambda each: each.version, default=None)


def _agreement(found: list[Difference]) -> Agreement:
    if any(each.kind in _ANOTHER_WAY for each in found):
        return Agreement.DIFFERENT
    return Agreement.UNKNOWN if any(each.kind is DifferenceKind.UNKNOWN for each in found) else Agreement.SAME
