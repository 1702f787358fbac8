"""A history: a recorded run with its definition and its log, as one JSON document.

Made by `Gateway.get_history`, kept in files by `runs export`, read by `verify` and `replay`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.coded.coded_plan import CODED_KIND, coded_plan
from anabranch.engine.rules.coded.names import variable_and_mark
from anabranch.engine.rules.event_payloads import left_out_by, read_test_run, reopenings_in
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.instants import from_iso
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.values import Payload
from anabranch.errors import InvalidRequest

_BULK_NAME = "anabranch-bulk"
"""The name of the engine's workflow for bulk runs."""

_CHECK_PREFIX = "anabranch-fork-"
"""How the names of the engine's workflows that check forks begin."""

FORMAT = "anabranch-history"
FORMAT_VERSION = 1

_KINDS = {"seq": int, "nodeID": str, "scope": str, "nodeAttempt": int}
"""What every row of a log has."""

_HINT = "Write the file with `anabranch runs export`."


@dataclass(frozen=True, slots=True)
class RecordedHistory:
    """One recorded run."""

    head: InstanceHead
    status: str
    definition: Mapping[str, Any]
    """The version that it is pinned to; of coded runs its options."""
    events: Sequence[Event]

    @property
    def is_of_system(self) -> bool:
        """A bulk run, or a check of a fork: its function is the engine's own."""
        name = self.head.workflow_name
        return self.is_coded and (name == _BULK_NAME or name.startswith(_CHECK_PREFIX))

    @property
    def is_coded(self) -> bool:
        """Whether it is a coded run."""
        return self.head.kind == CODED_KIND

    @property
    def shown(self) -> dict[str, Any]:
        """The form of the run in reports."""
        head = self.head
        return {
            "instanceID": head.instance_id,
            "name": head.workflow_name,
            "version": head.workflow_version,
            "kind": head.kind,
            "status": self.status,
        }

    def plan(self, node_types: NodeTypes, definition: Mapping[str, Any] | None = None) -> AnyPlan:
        """The plan of the run's definition, or of another one. Raises InvalidWorkflow."""
        head, definition = self.head, self.definition if definition is None else definition
        if self.is_coded:
            return coded_plan(head.workflow_name, head.workflow_version, definition.get("workflowOptions") or {})
        return compile_plan(definition, node_types, read_test_run(self.events[:2]))


def as_document(found: Mapping[str, Any]) -> dict[str, Any]:
    """A history that a gateway has read, in the form of a file."""
    return {"format": FORMAT, "formatVersion": FORMAT_VERSION, **found}


def read_history(document: Any, *, what: str) -> RecordedHistory:
    """A history from its document. Raises InvalidRequest, naming `what` and where it is wrong."""
    if not isinstance(document, dict) or document.get("format", FORMAT) != FORMAT:
        raise InvalidRequest(f"{what} is not a history", hint=_HINT)
    if document.get("formatVersion", FORMAT_VERSION) != FORMAT_VERSION:
        raise InvalidRequest(
            f"{what} has the format of another version of anabranch", hint="Read it with that version."
        )
    pointer = "/run"
    try:
        head = _head(document["run"])
        pointer = "/definition"
        definition = dict(document["definition"])
        events = []
        for number, entry in enumerate(document["log"]):
            pointer = f"/log/{number}"
            events.append(_event(entry))
        pointer = "/log"
        left_out, generation = left_out_by(events), sum(1 for _ in reopenings_in(events))
        status = str(document["run"]["status"])
    except KeyError as absent:
        raise InvalidRequest(f"{what}{pointer}: {absent} is missing", hint=_HINT) from None
    except ValueError as wrong:
        raise InvalidRequest(f"{what}{pointer}: {wrong}", hint=_HINT) from None
    except (TypeError, AttributeError):
        raise InvalidRequest(f"{what}{pointer} has not the form that it should have", hint=_HINT) from None
    if not events or events[0].type is not EventType.INPUT_SET:
        raise InvalidRequest(f"{what}/log does not begin with {EventType.INPUT_SET.value}", hint=_HINT)
    return RecordedHistory(replace(head, left_out=left_out, generation=generation), status, definition, events)


def _head(run: Mapping[str, Any]) -> InstanceHead:
    started_by = run.get("startedBy") or {}
    return InstanceHead(
        instance_id=run["instanceID"],
        tenant_id="",
        workflow_id=run["workflowID"],
        workflow_name=run["name"],
        workflow_version=run["version"],
        created_at=from_iso(run["createdAt"]),
        available_at=from_iso(run["availableAt"]),
        deadline_at=None if run["deadlineAt"] is None else from_iso(run["deadlineAt"]),
        retention_days=run["retentionDays"],
        parent_id=run["parentID"],
        kind=run["kind"],
        test=run["test"],
        parent_node_id=started_by.get("nodeID"),
        parent_scope=started_by.get("scope"),
    )


def _event(entry: Mapping[str, Any]) -> Event:
    for name, kind in _KINDS.items():
        if type(entry[name]) is not kind:
            raise ValueError(f"{name} is {entry[name]!r}")
    variable, mark = variable_and_mark(entry["outputVariable"])
    return Event(
        seq=entry["seq"],
        type=EventType(entry["eventType"]),
        node_id=entry["nodeID"],
        scope=entry["scope"],
        attempt=entry["nodeAttempt"],
        payload=Payload.trusted(entry["payload"]),
        created_at=from_iso(entry["createdAt"]),
        next_handle=entry["nextHandle"],
        output_variable=variable,
        error_message=entry["errorMessage"],
        arguments=entry.get("arguments"),
        mark=mark,
    )
