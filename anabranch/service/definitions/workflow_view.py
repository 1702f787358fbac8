"""The JSON of workflows, as all APIs return it.

Pure. Names are the wire's (camelCase), times are ISO 8601 with an offset; `run_view` does the
same for runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engine.ports import Pause, WorkflowEntry, WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.graph.validate import Report
from anabranch.engine.rules.instants import to_iso


def workflow_summary(
    workflow: WorkflowEntry | WorkflowVersion,
    run_counts: Mapping[Status, int],
    pause: Pause | None,
    *,
    include_graph: bool,
) -> dict[str, Any]:
    """A workflow as lists show it."""
    summary = {
        "workflowID": workflow.workflow_id,
        "name": workflow.name,
        "title": workflow.title,
        "kind": workflow.kind,
        "version": workflow.version,
        "activeVersion": workflow.active_version,
        "paused": None if pause is None else pause_as_json(pause),
        "runCounts": shown_counts(run_counts),
        "createdAt": to_iso(workflow.created_at),
        "updatedAt": to_iso(workflow.updated_at),
    }
    if not include_graph:
        return summary
    definition = workflow.definition or {}
    # A client that reads, edits and saves this must not lose fields that other tools keep in the document.
    further = {field: value for field, value in definition.items() if field not in summary}
    return {**summary, **_graph(definition), **({} if workflow.kind == CODED_KIND else further)}


def pause_as_json(pause: Pause) -> dict[str, Any]:
    """A pause in JSON: who paused it, and since when."""
    return {"by": pause.paused_by, "since": to_iso(pause.paused_at)}


def tenant_pause(pause: Pause | None) -> dict[str, Any]:
    """Whether a tenant is paused."""
    return {"paused": None if pause is None else pause_as_json(pause)}


def workflow_pause(workflow: WorkflowVersion, pause: Pause | None) -> dict[str, Any]:
    """Whether a workflow is paused."""
    return {"workflowID": workflow.workflow_id, "name": workflow.name, **tenant_pause(pause)}


def shown_counts(run_counts: Mapping[Status, int]) -> dict[str, int]:
    """The statuses that occur, in the order of a run's life."""
    return {status.value: run_counts[status] for status in Status if run_counts.get(status)}


def saved_summary(workflow: WorkflowVersion, report: Report) -> dict[str, Any]:
    """A saved workflow, with the validator's warnings and the bounds of its runs."""
    return {
        "workflowID": workflow.workflow_id,
        "name": workflow.name,
        "version": workflow.version,
        "activeVersion": workflow.active_version,
        "warnings": [warning.as_json() for warning in report.warnings],
        "terminates": report.terminates,
        "unbounded": list(report.unbounded),
        "activationsMax": report.activations_max,
    }


def version_summary(version: WorkflowEntry) -> dict[str, Any]:
    """One version of a workflow; `createdAt` is when this version was saved."""
    return {
        "workflowID": version.workflow_id,
        "name": version.name,
        "title": version.title,
        "kind": version.kind,
        "version": version.version,
        "active": version.version == version.active_version,
        "createdAt": to_iso(version.updated_at),
    }


def _graph(definition: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nodes": definition.get("nodes", []),
        "edges": definition.get("edges") or [],
        "workflowOptions": definition.get("workflowOptions"),
    }
