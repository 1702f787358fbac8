"""Verify that the log of each history follows from its definition. Called by the command `verify`.

`engine.rules.verify` checks drawn runs and what holds for all logs; for coded runs the function is also called with the
log, if its code is available.
"""

from __future__ import annotations

from typing import Any

from anabranch.dataclass import dataclass
from anabranch.durable.definition import DECLARED, WorkflowRegistry
from anabranch.durable.history_replay import Agreement, replay_function
from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.shared.run_state import Phase
from anabranch.engine.rules.verify.check_log import check_log
from anabranch.engine.rules.verify.finding import Finding, FindingCode
from anabranch.errors import InvalidWorkflow, LogUnreadable
from anabranch.histories.recorded_history import RecordedHistory

_CODE_DOES_NOT_MATCH = {
    SuspendReason.NONDETERMINISM: "it is suspended because its code does not match its log (NONDETERMINISM)",
    SuspendReason.DEFINITION_ERROR: "it is suspended because its code calls a step in an invalid way "
    "(DEFINITION_ERROR)",
}
"""Notes about runs whose logs are right: a worker with other code continues them."""


@dataclass(frozen=True, slots=True)
class RunVerification:
    """The findings about one run."""

    run: dict[str, Any]
    rows: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    """What could not be checked here, and why."""

    def as_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            **self.run,
            "rows": self.rows,
            "findings": [finding.as_json() for finding in self.findings],
            "notes": list(self.notes),
        }


def unreadable(run: dict[str, Any], why: Exception) -> RunVerification:
    """The finding about a run whose log cannot be read."""
    shown = {field: run[field] for field in ("instanceID", "name", "version", "kind", "status")}
    seq, message = 0, f"its log cannot be read: {type(why).__name__}: {why}"
    if isinstance(why, LogUnreadable):
        seq, message = why.details["seq"], why.message
    return RunVerification(shown, 0, (Finding(FindingCode.ROW_UNREADABLE, seq, "", "", message),), ())


async def verify_history(
    history: RecordedHistory, node_types: NodeTypes, code: WorkflowRegistry = DECLARED
) -> RunVerification:
    """Derive every dispatch, skip and end of a recorded run again, and report differences from the log."""
    try:
        plan = history.plan(node_types)
    except InvalidWorkflow as refusal:
        note = f"its definition cannot be compiled by this version: {refusal.message}"
        return RunVerification(history.shown, len(history.events), (), (note,))
    findings = check_log(plan, history.head, history.events)
    notes: list[str] = []
    if isinstance(plan, Plan):
        absent = sorted(name for name in plan.types if node_types.get(name) is None)
        if absent:
            notes.append(f"its node types {', '.join(absent)} are not known here")
    elif not findings:
        try:
            findings, notes = await _called(history, plan, code)
        except Exception as unreadable:  # noqa: BLE001 -- whatever a payload of another form makes a reader raise
            message = f"its function cannot be called with this log: {type(unreadable).__name__}: {unreadable}"
            findings = [Finding(FindingCode.ROW_UNREADABLE, history.events[0].seq, "", "", message)]
    return RunVerification(history.shown, len(history.events), tuple(findings), tuple(notes))


async def _called(history: RecordedHistory, plan: CodedPlan, code: WorkflowRegistry) -> tuple[list[Finding], list[str]]:
    """Replay a coded run's function on its log."""
    head = history.head
    found = code.find(head.workflow_name, head.workflow_version)
    if found is None and history.is_of_system:
        return [], []
    if found is None:
        version = f"version {head.workflow_version} of '{head.workflow_name}'"
        return [], [f"the function of {version} is not here and was not called with the log (--import)"]
    replayed = await replay_function(found, plan, head, history.events)
    if replayed.agreement is Agreement.UNKNOWN:
        return [], [replayed.message]
    if replayed.agreement is Agreement.SAME:
        return [], []
    state = fold(plan, head, history.events)
    if state.suspension is not None and state.suspension.reason in _CODE_DOES_NOT_MATCH:
        return [], [_CODE_DOES_NOT_MATCH[state.suspension.reason]]
    if replayed.ends is not None and state.function is not None and state.function.phase is not Phase.WAITING:
        return [], []  # the function is to be called again, and this is what will come of it
    name, scope = replayed.step or ("", "")
    seq = next((event.seq for event in history.events if (event.node_id, event.scope) == (name, scope)), 0)
    message = f"called with this log, its function does something else: {replayed.message}"
    return [Finding(FindingCode.STEP_DIFFERS, seq or history.events[-1].seq, name, scope, message)], []
