"""How a run looks from outside: its row and log as the JSON that every API answers with.

Pure. Reads rows and events; knows no stores, no HTTP. Names are the wire's (camelCase), times
are ISO 8601 with an offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.engine.ports import ActivationPage, InstanceRow, RunReading
from anabranch.engine.rules.coded.names import FUNCTION_NODE_ID, latest_row_before
from anabranch.engine.rules.coded.plan import CODED_KIND
from anabranch.engine.rules.coded.trace import trace
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.unsaved_definitions import is_unsaved_definition

# The first 1,000 activations of a run are shown with it; `/steps` and the log have them all.
NODES_SHOWN_MAX = 1_000

NODE_STATUS = {
    EventType.NODE_DISPATCHED: "running",
    EventType.NODE_WAITING: "waiting",
    EventType.NODE_ATTEMPT_FAILED: "retrying",
    EventType.LOOP_OPENED: "running",
    EventType.NODE_COMPLETED: "success",
    EventType.NODE_FAILED: "error",
    EventType.NODE_SKIPPED: "skipped",
}
"""The status that an event gives its activation, as every API shows it; other events give none."""

ENDED = ("success", "error", "skipped")
"""The statuses of activations that have ended."""


def run_summary(row: InstanceRow) -> dict[str, Any]:
    """A run as lists show it: what the row alone knows."""
    head = row.head
    return {
        "instanceID": head.instance_id,
        "workflowID": head.workflow_id,
        "name": head.workflow_name,
        "version": head.workflow_version,
        "kind": head.kind,
        "test": head.test,
        "status": row.status.value,
        "parentID": head.parent_id,
        "worker": row.worker_id,
        "retentionDays": head.retention_days,
        "createdAt": to_iso(head.created_at),
        "availableAt": to_iso(head.available_at),
        "deadlineAt": _iso_or_none(head.deadline_at),
        "startedAt": _iso_or_none(row.started_at),
        "completedAt": _iso_or_none(row.completed_at),
    }


def run_outcome(row: InstanceRow, last: Sequence[Event]) -> dict[str, Any]:
    """What a run ended with; `last` holds the last event of its log, or nothing while it is open."""
    values = {event.type: event.payload.value for event in last}
    return {
        "instanceID": row.head.instance_id,
        "status": row.status.value,
        "output": values.get(EventType.INSTANCE_COMPLETED),
        "error": values.get(EventType.INSTANCE_FAILED),
    }


def run_details(run: RunReading) -> dict[str, Any]:
    """A run with its input, how it ended, and the activations that were read of it."""
    row, page = run.row, run.activations
    traced = {"graph": _graph(page.events)} if row.head.kind == CODED_KIND else {}
    return {
        **run_summary(row),
        "input": run.created.payload.value["input"],
        "output": _end_of(run, EventType.INSTANCE_COMPLETED),
        "error": _end_of(run, EventType.INSTANCE_FAILED),
        "note": _end_of(run, EventType.INSTANCE_CANCELLED) if run.note is None else _note(run.note),
        "nodes": [brief(step) for step in activations(page, row.status)],
        **traced,
    }


def shown_status(event: Event) -> str | None:
    """The status that an event gives the activation it is about; None: it is about none that is shown.

    The body of a coded run is no node: what is shown of it are its steps, and the status of the run.
    """
    return NODE_STATUS.get(event.type) if event.node_id != FUNCTION_NODE_ID else None


def activations(page: ActivationPage, status: Status) -> list[dict[str, Any]]:
    """The activations of a page, in the order of their first events, with timings, error, and output if it was read."""
    steps: dict[tuple[str, str], dict[str, Any]] = {}
    for event in page.events:
        shown = shown_status(event)
        if shown is None:
            continue
        step = steps.get((event.node_id, event.scope))
        if step is None:
            step = steps[event.node_id, event.scope] = {
                "nodeID": event.node_id,
                "scope": event.scope,
                "status": shown,
                "attempt": event.attempt,
                "startedAt": _iso_or_none(_began_at(event, page.times)),
                "endedAt": None,
                "output": None,
                "error": None,
                "seq": event.seq,
            }
        step["status"], step["attempt"] = shown, event.attempt
        if shown in ENDED:
            step["endedAt"] = to_iso(event.created_at)
        step["output"] = event.payload.value if shown == "success" else None
        step["error"] = event.payload.value["error"] if shown in ("error", "retrying") else None
    if status.is_terminal:
        for step in steps.values():
            if step["status"] not in ENDED:
                step["status"] = "cancelled"  # derived: nobody awaits it any more
    return list(steps.values())


def brief(step: dict[str, Any]) -> dict[str, Any]:
    """An activation without its output, as a run's `nodes` lists it."""
    return {key: step[key] for key in ("nodeID", "scope", "status", "attempt", "startedAt", "endedAt", "error")}


def log_entry(event: Event) -> dict[str, Any]:
    """An event as the log shows it."""
    return {
        "seq": event.seq,
        "nodeID": event.node_id,
        "scope": event.scope,
        "eventType": event.type.value,
        "nodeStatus": event.node_status,
        "nextHandle": event.next_handle,
        "outputVariable": event.output_variable,
        "nodeAttempt": event.attempt,
        "payload": event.payload.value,
        "errorMessage": event.error_message,
        "createdAt": to_iso(event.created_at),
    }


def _began_at(first: Event, times: Mapping[int, int]) -> int | None:
    """When an activation began, by its first row. A coded step has none for that: it began when its body could ask."""
    if first.type is EventType.NODE_DISPATCHED:
        return first.created_at
    row = latest_row_before(first.output_variable)
    return None if row is None else times.get(row)


def _end_of(run: RunReading, event_type: EventType) -> Any:
    return run.end.payload.value if run.end is not None and run.end.type is event_type else None


def _note(note: Event) -> Any:
    """What a coded run says of itself: why it could not go on. A definition is none, nor the rules of its replays."""
    return None if is_unsaved_definition(note) or "loop" in note.payload.value else note.payload.value


def _graph(events: Sequence[Event]) -> dict[str, Any]:
    """What a coded run has traced, in the form of a drawn one."""
    traced = trace(events)
    return {
        "nodes": [
            {"id": step.id, "nodeID": step.name, "scope": step.scope, "type": step.kind} for step in traced.steps
        ],
        "edges": [{"upstreamNodeID": before, "downstreamNodeID": after} for before, after in traced.edges],
    }


def _iso_or_none(at_ms: int | None) -> str | None:
    return None if at_ms is None else to_iso(at_ms)
