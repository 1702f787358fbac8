"""The JSON of runs, as all APIs return it: made from the row and the log.

Pure. Reads rows and events; knows no stores, no HTTP. Names are the wire's (camelCase), times
are ISO 8601 with an offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from anabranch.engine.ports import ActivationPage, InstanceRow, RunReading
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.coded.trace import trace
from anabranch.engine.rules.event_payloads import (
    ChildAwaited,
    DelayStarted,
    FunctionPostponed,
    RunSuspended,
    SignalAwaited,
    read_input,
    read_suspension,
    read_system,
)
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.history import ActivationStatus, ActivationView, RunEnd, activations_of, run_end
from anabranch.engine.rules.instants import to_iso, to_iso_or_none
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.values import Payload
from anabranch.run_requests import COMMAND_LINE, DATABASE_CLIENT

# The first 1,000 activations of a run are shown with it; `/steps` and the log have them all.
NODES_SHOWN_MAX = 1_000

# 64 KB of one value in a list: enough for a person.
SHOWN_BYTES_MAX = 65_536


class PayloadDetail(Enum):
    """The detail in which a log shows payloads."""

    NONE = "none"
    SHORT = "short"
    """Of those over 64 kB only the size, and where their large parts are."""
    WHOLE = "whole"


_OPEN = RunEnd(Status.RUNNING)


def run_summary(row: InstanceRow) -> dict[str, Any]:
    """A run in a list, from its row alone."""
    head = row.head
    return {
        "instanceID": head.instance_id,
        "workflowID": head.workflow_id,
        "name": head.workflow_name,
        "version": head.workflow_version,
        "kind": head.kind,
        "test": head.test,
        "status": row.status.value,
        "suspendedFor": None if row.suspended_for is None else row.suspended_for.value,
        "parentID": head.parent_id,
        "rerunOf": head.rerun_of,
        "forkedFrom": head.forked_from,
        "startedBy": started_by(head),
        "generation": head.generation,
        "worker": row.worker_id,
        "retentionDays": head.retention_days,
        "createdAt": to_iso(head.created_at),
        "availableAt": to_iso(head.available_at),
        "deadlineAt": to_iso_or_none(head.deadline_at),
        "startedAt": to_iso_or_none(row.started_at),
        "completedAt": to_iso_or_none(row.completed_at),
    }


def started_by(head: InstanceHead) -> dict[str, Any] | None:
    """The starter of a run: another run, a trigger, a key or a command; None: unknown."""
    if head.parent_id is not None:
        return {"kind": "run", "instanceID": head.parent_id, "nodeID": head.parent_node_id, "scope": head.parent_scope}
    kind, _, rest = (head.idempotency_key or "").partition(":")
    first, _, second = rest.partition(":")
    if kind == "schedule":
        # A run that was triggered by hand has no occurrence: its key continues with `now:`.
        occurrence = None if second[:4] == "now:" else second
        return {"kind": "schedule", "scheduleID": first, "occurrenceAt": occurrence, **_node(head.started_by)}
    if kind == "topic":
        message_id, topic, node_id = _words(head.started_by)
        return {"kind": "topic", "subscriptionID": first, "topic": topic, "messageID": message_id, **_node(node_id)}
    if kind == "failure":
        failed_id, _, node_id = _words(head.started_by)
        return {"kind": "failure", "triggerID": first, "instanceID": failed_id, **_node(node_id)}
    if kind == "hook":
        return {"kind": "hook", "triggerID": first, **_node(head.started_by)}
    if head.started_by in (None, DATABASE_CLIENT):
        return None
    who = {"kind": "cli"} if head.started_by == COMMAND_LINE else {"kind": "key", "keyID": head.started_by}
    return who if head.idempotency_key is None else {**who, "idempotencyKey": head.idempotency_key}


def _node(node_id: str | None) -> dict[str, str]:
    """The trigger node that the run began at; nothing for a schedule or subscription that somebody saved."""
    return {} if node_id is None else {"nodeID": node_id}


def _words(started_by: str | None) -> tuple[str | None, str | None, str | None]:
    """The first two words, which have no spaces in them, and the id of a node, which may have."""
    words = [*(started_by or "").split(" ", 2), None, None]
    return words[0] or None, words[1], words[2]


def run_outcome(instance_id: str, status: Status, outcome: Payload | None = None) -> dict[str, Any]:
    """The fields about the end of a run, from its last event; empty for an open run."""
    return {
        "instanceID": instance_id,
        "status": status.value,
        "output": outcome.value if outcome is not None and status is Status.COMPLETED else None,
        "error": outcome.value if outcome is not None and status is Status.FAILED else None,
    }


def run_failure(outcome: Payload) -> dict[str, Any]:
    """The error of a failed run, as lists show it."""
    return {key: outcome.value[key] for key in ("code", "message", "nodeID")}


def run_details(run: RunReading, *, inline: bool = True) -> dict[str, Any]:
    """A run with its input, its end, and the activations that were read."""
    row = run.row
    found = activations_in(run.activations, row)
    end = _OPEN if run.end is None else run_end(run.end) or _OPEN
    traced = {"graph": traced_graph(found)} if row.head.kind == CODED_KIND else {}
    return {
        **run_summary(row),
        "input": read_input(run.created.payload) if inline else _referred_input(run.created.payload),
        "output": None if end.output is None else end.output.value if inline else referred(end.output),
        "error": end.error,
        "note": end.reason if run.note is None and run.suspended is None else _note(run),
        "suspended": None if run.suspended is None else suspended(run.suspended),
        "nodes": [node_state(activation) for activation in found],
        **traced,
    }


def suspended(row: Event) -> dict[str, Any]:
    """Why a run is suspended, and since when, from the row that suspended it."""
    return {**suspension(read_suspension(row.payload)), "since": to_iso(row.created_at)}


def suspension(why: RunSuspended) -> dict[str, Any]:
    """Why a run is suspended, and how it can be resumed."""
    return {"reason": why.reason.value, "message": why.message, "hint": why.hint}


def activations_in(page: ActivationPage, row: InstanceRow) -> list[ActivationView]:
    """The activations of a page, in the order of their first events."""
    end = (row.status, row.last_seq, row.completed_at or 0) if row.status.is_terminal else None
    return activations_of(page.events, times=page.times, iterated=page.iterated, end=end, left_out=row.head.left_out)


def node_state(activation: ActivationView) -> dict[str, Any]:
    """An activation without its output, as a run's `nodes` lists it."""
    return {
        "nodeID": activation.node_id,
        "scope": activation.scope,
        "status": activation.status.value,
        "attempt": activation.attempt,
        "startedAt": to_iso_or_none(activation.began_at),
        "endedAt": to_iso_or_none(activation.ended_at),
        "error": activation.error,
        "at": to_iso(activation.at),
        "handles": activation.handles if activation.has_ended else None,
        "waitsFor": waits_for(activation),
        **({"pinned": True} if activation.is_pinned else {}),
        **({} if activation.iterations is None else {"iterations": activation.iterations}),
    }


def waits_for(activation: ActivationView) -> dict[str, Any] | None:
    """What an activation waits for, if it does: a timer, a signal (of one name or of several), or a child run."""
    if activation.status is ActivationStatus.RETRYING:
        return {"kind": "timer", "dueAt": to_iso_or_none(activation.retry_at)}
    if activation.status is not ActivationStatus.WAITING:
        return None
    match activation.waits_for:
        case ChildAwaited(child_id):
            return {"kind": "child", "childID": child_id}
        case SignalAwaited(events, names_event, until):
            asked: dict[str, Any] = {"kind": "signal"}
            matches = {event: None if match is None else shown(match) for event, match in events.items()}
            if names_event:
                asked["events"] = matches
            else:
                ((asked["event"], match),) = matches.items()
                if match is not None:
                    asked["match"] = match
            return asked if until is None else {**asked, "dueAt": to_iso(until)}
        case DelayStarted(due_at):
            return {"kind": "timer", "dueAt": to_iso(due_at)}
    return None


def shown(payload: Payload) -> Any:
    """A value in a list of many: the value itself, or its size."""
    size = payload.size
    return payload.value if size <= SHOWN_BYTES_MAX else {"truncated": True, "bytes": size}


def referred(payload: Payload) -> Any:
    """The same, with the paths and names of large parts, which can be read separately."""
    value, division = shown(payload), payload.division
    if division is None or payload.size <= SHOWN_BYTES_MAX:
        return value
    parts = [{"path": list(part.path), "sha256": part.sha256, "bytes": part.size} for part in division.parts]
    return {**value, "values": parts}


def _referred_input(created: Payload) -> Any:
    """The same of a run's input, which INPUT_SET has in a field."""
    found = referred(created)
    if created.size <= SHOWN_BYTES_MAX:
        return found["input"]
    for part in found.get("values", ()):
        del part["path"][0]
    return found


def step(activation: ActivationView, *, output: bool = True, inline: bool = True) -> dict[str, Any]:
    """An activation as `/steps` lists it, perhaps without its output."""
    value, payload = None, activation.output
    if output and payload is not None:
        value = payload.value if inline else referred(payload)
    return {**node_state(activation), **({"output": value} if output else {}), "seq": activation.first_seq}


def log_entry(event: Event, payloads: PayloadDetail = PayloadDetail.WHOLE) -> dict[str, Any]:
    """An event as the log shows it, perhaps without its payload."""
    payload = event.payload.value if payloads is PayloadDetail.WHOLE else referred(event.payload)
    return {
        "seq": event.seq,
        "nodeID": event.node_id,
        "scope": event.scope,
        "eventType": event.type.value,
        "nodeStatus": event.node_status,
        "nextHandle": event.next_handle,
        "outputVariable": event.stored_variable,
        "nodeAttempt": event.attempt,
        **({"payload": payload} if payloads is not PayloadDetail.NONE else {}),
        "errorMessage": event.error_message,
        "createdAt": to_iso(event.created_at),
        "arguments": event.arguments,
    }


def _note(run: RunReading) -> Any:
    """The note of a coded run that its code cannot continue: why, and when it is offered again. Definitions and replay
    rules are not notes.
    """
    if run.suspended is not None:
        why = read_suspension(run.suspended.payload)
        due_at = to_iso_or_none(run.row.available_at)
        return (
            {"code": why.reason.value, "message": why.message, "dueAt": due_at} if why.reason.is_offered_again else None
        )
    note = None if run.note is None else read_system(run.note.payload)
    return note.as_json() if isinstance(note, FunctionPostponed) else None


def traced_graph(activations: Iterable[ActivationView]) -> dict[str, Any]:
    """The graph that a coded run has traced, in the form of a drawn one."""
    traced = trace(activations)
    return {
        "nodes": [
            {"id": each.id, "nodeID": each.name, "scope": each.scope, "type": each.kind} for each in traced.steps
        ],
        "edges": [{"upstreamNodeID": before, "downstreamNodeID": after} for before, after in traced.edges],
    }
