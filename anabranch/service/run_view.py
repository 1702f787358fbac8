"""How a run looks from outside: its row and log as the JSON that every front door answers with.

Pure. Reads rows and events; knows no stores, no HTTP. Names are the wire's (camelCase), times
are ISO 8601 with an offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.coded.places import BODY_NODE_ID, is_mark, latest_row_before
from anabranch.engine.rules.coded.plan import CODED_KIND
from anabranch.engine.rules.coded.trace import trace
from anabranch.engine.rules.definition_notes import is_definition
from anabranch.engine.rules.events import TERMINALS, Event, EventType, Status
from anabranch.engine.rules.instants import to_iso

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
"""The status that an event gives its activation, as every door shows it; other events give none."""

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


def run_details(row: InstanceRow, events: Sequence[Event]) -> dict[str, Any]:
    """A run with its input, how it ended, and its first 1,000 activations. `events` is the whole log."""
    first, last = events[0], events[-1]
    traced = {"graph": _graph(events)} if row.head.kind == CODED_KIND else {}
    return {
        **run_summary(row),
        "input": first.payload.value["input"],
        "output": last.payload.value if last.type is EventType.INSTANCE_COMPLETED else None,
        "error": last.payload.value if last.type is EventType.INSTANCE_FAILED else None,
        "note": last.payload.value if last.type is EventType.INSTANCE_CANCELLED else _note(events),
        "nodes": [brief(step) for step in activations(events, row.status)[:NODES_SHOWN_MAX]],
        **traced,
    }


def shown_status(event: Event) -> str | None:
    """The status that an event gives the activation it is about; None: it is about none that is shown.

    The body of a coded run is no node: what is shown of it are its steps, and the status of the run.
    """
    return NODE_STATUS.get(event.type) if event.node_id != BODY_NODE_ID else None


def activations(events: Iterable[Event], status: Status) -> list[dict[str, Any]]:
    """Every activation that was reached, in the order of its first event, with timings, output and error."""
    steps: dict[tuple[str, str], dict[str, Any]] = {}
    times: dict[int, int] = {}
    for event in events:
        times[event.seq] = event.created_at
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
                "startedAt": _iso_or_none(_began_at(event, times)),
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


def _note(events: Sequence[Event]) -> Any:
    """The last note; why a coded run could not go on is none any more once it has."""
    for event in reversed(events):
        if event.type is EventType.SYSTEM_SET:
            is_over = events[-1].type in TERMINALS and "dueAt" in event.payload.value
            return None if is_definition(event) or is_over else event.payload.value
        if event.output_variable is not None and is_mark(event.output_variable):
            return None
    return None


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
