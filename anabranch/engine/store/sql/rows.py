"""Convert rows to objects and back: how instances, events and claims travel to and from a database.

Pure. Called by the dialects and by `reads`. A batch of transitions is sent as JSON text with the payloads inserted
unchanged. A log is read as one JSON text of everything but the payloads, and the payloads joined by a separator. So no
payload is encoded or decoded more than once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.ports import ClaimRequest, InstanceHead, InstanceRow, Transition
from anabranch.engine.rules.coded.names import variable_and_mark
from anabranch.engine.rules.events import NODE_STATUS, Event, EventType, Status, SuspendReason
from anabranch.engine.rules.graph.pools import DEFAULT_POOL, EVERY_POOL, pools_in
from anabranch.engine.rules.shared.blame import Blame
from anabranch.engine.rules.shared.left_out import NOTHING_LEFT_OUT, together
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from anabranch.engine.rules.value_parts import PART_BYTES_MIN, read_division
from anabranch.engine.rules.values import EMPTY, DividedPayload, Payload, WholePayload
from anabranch.engine.store.schema import workflow_instance_logs, workflow_instances
from anabranch.engine.store.sql.database_errors import DataRefused
from anabranch.errors import LogUnreadable, RunUnreadable

# Companies are counts of runs in one process: the databases' 32-bit integers end there.
_NO_LIMIT = 2**31 - 1

INSTANCE_COLUMNS = tuple(column.name for column in workflow_instances.c)
_INSTANCE_ID = INSTANCE_COLUMNS.index("instance_id")

_HEAD_FIELDS = [field.name for field in fields(InstanceHead)]
_TRUTHS = [_HEAD_FIELDS.index(name) for name in ("test", "parent_waits")]
_LEFT_OUT = _HEAD_FIELDS.index("left_out")
_COLUMN_OF = {name: "starts_at" if name == "available_at" else name for name in _HEAD_FIELDS}

NEW_HEAD_COLUMNS = tuple(column for name, column in _COLUMN_OF.items() if name != "left_out")
"""The columns that the head of a new run writes, in the order of its fields; only reopenings write `left_out`."""

new_head_values = attrgetter(*(name for name in _HEAD_FIELDS if name != "left_out"))
"""The values of these columns."""


def _columns_of(*names: str) -> itemgetter[Any]:
    return itemgetter(*map(INSTANCE_COLUMNS.index, names))


_head_of = _columns_of(*_COLUMN_OF.values())
_state_of = _columns_of(
    "status", "version", "last_seq", "worker_id", "available_at", "started_at", "completed_at", "log_bytes"
)
_rarely_of = _columns_of("suspended_for", "company", "crashes", "needs")

EVENT_COLUMNS = tuple(column.name for column in workflow_instance_logs.c)

EVENT_NOTE_COLUMNS = (
    "seq",
    "event_type",
    "node_id",
    "scope",
    "node_attempt",
    "created_at",
    "next_handle",
    "output_variable",
    "error_message",
    "arguments",
    "parts",
)
"""All columns of an event except its payload, in the order that `events_from` expects."""

# JSON never contains a raw control character, neither in strings nor between tokens, so these two cannot be part of a
# payload.
PAYLOAD_SEPARATOR = "\x1e"
LOG_SEPARATOR = "\x1d"

_PAYLOAD_SEPARATOR = PAYLOAD_SEPARATOR.encode()

# An escaped NUL that is not an escaped backslash followed by text. PostgreSQL refuses it;
# refusing it for every store keeps a database movable from SQLite to PostgreSQL.
NUL_IN_JSON = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def encode_transitions(transitions: Iterable[Transition]) -> str:
    """The guarded transitions of a batch as a JSON list: guard values and new values."""
    return _encode(
        [
            {
                "instance_id": transition.instance_id,
                "expected_version": transition.expected_version,
                "held_by": transition.worker_id,
                "first_seq": transition.events[0].seq if transition.events else None,
                "events": len(transition.events),
                "bytes": transition.payload_bytes,
                "status": transition.status._value_,  # `value` is a descriptor, and dearer than the rest of a row
                "ends": (ends := transition.status.is_terminal),
                "releases": ends or transition.release,
                "available_at": None if ends else transition.available_at,
                "not_before": transition.not_before,
                "started_at": transition.started_at,
                "suspended_for": transition.suspended_for,
                "clears": transition.clears,
            }
            for transition in transitions
        ]
    )


def encode_new_runs(transitions: Iterable[Transition]) -> str:
    """The creations of a batch as a JSON list of instance rows, keyed by column; `ends` asks for completed_at."""
    return _encode(
        [_new_run_row(transition, transition.new_run) for transition in transitions if transition.new_run is not None]
    )


def encode_events(transitions: Iterable[Transition]) -> str:
    """The events of a batch as a JSON list of log rows, keyed by column. Columns that are NULL are left out, and the
    scope of the root and the first generation: a quarter of the bytes is neither sent nor parsed."""
    rows = []
    for transition in transitions:
        instance_id, generation = transition.instance_id, transition.generation
        for event in transition.events:
            payload, event_type = event.payload, event.type._value_  # `value` is a descriptor, and dear
            division = payload.division
            row = {
                "instance_id": instance_id,
                "seq": event.seq,
                "node_id": event.node_id,
                "event_type": event_type,
                "payload": orjson.Fragment(payload.raw if division is None else division.shell),
                "node_attempt": event.attempt,
                "created_at": event.created_at,
            }
            if event.scope:
                row["scope"] = event.scope
            if generation:
                row["generation"] = generation
            if (status := NODE_STATUS.get(event_type)) is not None:
                row["node_status"] = status
            if event.next_handle is not None:
                row["next_handle"] = event.next_handle
            if event.error_message is not None:
                row["error_message"] = event.error_message
            if event.mark is not None:
                row["output_variable"] = event.mark.text
            elif event.output_variable is not None:
                row["output_variable"] = event.output_variable
            if event.arguments is not None:
                row["arguments"] = event.arguments
            if division is not None:
                row["parts"] = division.references
            rows.append(row)
    return _encode(rows)


def instance_row(values: Sequence[Any]) -> InstanceRow:
    """An instance from the values of INSTANCE_COLUMNS, in their order. Raises RunUnreadable."""
    status, version, last_seq, worker_id, available_at, started_at, completed_at, log_bytes = _state_of(values)
    reason, company, crashes, needs = _rarely_of(values)
    try:
        return InstanceRow(
            _head(values),
            _STATUS[status],
            version,
            last_seq,
            worker_id,
            available_at,
            started_at,
            completed_at,
            log_bytes,
            None if reason is None else SuspendReason(reason),
            None if company is None else Blame(company, crashes),
            () if needs is None else tuple(orjson.loads(needs)),
        )
    except (ValueError, LookupError, TypeError, AttributeError) as unreadable:
        instance_id = values[_INSTANCE_ID]
        raise RunUnreadable(
            f"the row of run {instance_id} cannot be read: {type(unreadable).__name__}: {unreadable}",
            details={"instanceID": str(instance_id)},
        ) from unreadable


def _head(values: Sequence[Any]) -> InstanceHead:
    fields = [*_head_of(values)]
    for number in _TRUTHS:  # SQLite has numbers for them
        fields[number] = bool(fields[number])
    left_out = fields[_LEFT_OUT]
    fields[_LEFT_OUT] = NOTHING_LEFT_OUT if left_out is None else together(orjson.loads(left_out))
    return InstanceHead(*fields)


def events_from(instance_id: str, notes: Sequence[Sequence[Any]], payloads: str) -> list[Event]:
    """Events of a run from their notes (EVENT_NOTE_COLUMNS) and their joined payloads, both in the same order.

    Raises LogUnreadable.
    """
    if not notes:
        return []
    raws = payloads.encode().split(_PAYLOAD_SEPARATOR)
    events: list[Event] = []
    seq = 0
    try:
        for note, raw in zip(notes, raws, strict=True):
            (
                seq,
                event_type,
                node_id,
                scope,
                attempt,
                created_at,
                next_handle,
                stored,
                error_message,
                arguments,
                parts,
            ) = note
            variable, mark = (None, None) if stored is None else variable_and_mark(stored)
            events.append(
                Event(
                    seq,
                    _EVENT_TYPE[event_type],
                    node_id,
                    scope,
                    attempt,
                    EMPTY if raw == EMPTY.raw else payload_from(raw, parts),
                    created_at,
                    next_handle,
                    variable,
                    error_message,
                    arguments,
                    mark,
                )
            )
    except (ValueError, LookupError, TypeError, AttributeError) as unreadable:
        raise LogUnreadable(
            f"row {seq} of the log of run {instance_id} cannot be read: {type(unreadable).__name__}: {unreadable}",
            details={"instanceID": instance_id, "seq": seq},
        ) from unreadable
    return events


def payload_from(raw: bytes, parts: str | None) -> Payload:
    """A payload from its columns; its large parts are not fetched."""
    if parts is not None:
        return DividedPayload(read_division(raw, parts))
    return Payload.parse(raw) if len(raw) <= PART_BYTES_MIN else WholePayload.parse(raw)


@dataclass(frozen=True, slots=True)
class ExternalEvent:
    """An event to append, whether the instance is owned or not; `ends` closes it with that status.

    A signal that is `awaited` is consumed at once, so the limit of kept signals does not apply.
    """

    tenant_id: str
    instance_id: str
    event_type: str
    payload: Payload
    key: str | None = None
    ends: Status | None = None
    suspends: SuspendReason | None = None
    """Suspends an instance that is not suspended, for this reason."""
    resumes: bool = False
    """Resumes a suspended instance."""
    message: str | None = None
    """The code of the error, if it ends with one."""
    awaited: bool = False
    log_limit: LogLimit = LOG_LIMIT

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of every statement that appends it."""
        parameters: dict[str, Any] = {
            "instance_id": self.instance_id,
            "tenant_id": self.tenant_id,
            "bytes": self.payload.weight,
        }
        if self.ends is None:
            parameters |= {"bytes_max": self.log_limit.bytes_max, "rows_max": self.log_limit.rows_max}
        if self.suspends is not None:
            parameters["suspended_for"] = self.suspends.value
        return parameters

    @property
    def row(self) -> dict[str, Any]:
        """What the statements that write the row of the log take."""
        division = self.payload.division
        return {
            "event_type": self.event_type,
            "payload": (self.payload.raw if division is None else division.shell).decode(),
            "message": self.message,
            "parts": None if division is None else division.references,
        }

    @property
    def is_about_unfit(self) -> bool:
        """Whether it suspends a run that no worker can run."""
        return self.suspends is not None and self.suspends.ends_by_itself

    @property
    def is_signal(self) -> bool:
        """Whether it is a signal: neither an end nor about a suspension."""
        return self.ends is None and self.suspends is None and not self.resumes


def claim_parameters(wanted: ClaimRequest) -> dict[str, Any]:
    """The parameters of every claim statement."""
    capacity, parked = wanted.suspects, wanted.parked
    return {
        "worker_id": wanted.worker_id,
        "limit": wanted.limit,
        "weight_max": wanted.weight_max,
        "owned": capacity.owned,
        "company_min": _NO_LIMIT if capacity.company_min is None else capacity.company_min,
        "away_until": 0 if wanted.away_until is None else wanted.away_until,
        **({} if parked is None else {"parked": parked.instance_id, "parked_of": parked.tenant_id}),
        **({} if wanted.known_code is None else _pool_parameters(tuple(wanted.known_types or ()))),
    }


@lru_cache(maxsize=16)  # one list for each engine of the process
def _pool_parameters(known_types: tuple[str, ...]) -> Mapping[str, bool]:
    """Whether the worker serves every pool, and the default one, which runs with other needs or none do not name."""
    here = pools_in(known_types)
    return {"every_pool": EVERY_POOL in here, "default_pool": bool(here & {DEFAULT_POOL, EVERY_POOL})}


def code_keys(known_code: Sequence[tuple[str, int]]) -> list[str]:
    """Names and versions of code, as one text each, as the statements of a claim compare them."""
    return [f"{name}:{version}" for name, version in known_code]


_STATUS = {status.value: status for status in Status}
_EVENT_TYPE = {type_.value: type_ for type_ in EventType}


def _new_run_row(transition: Transition, head: InstanceHead) -> dict[str, Any]:
    ends = transition.status.is_terminal
    return dict(zip(NEW_HEAD_COLUMNS, new_head_values(head), strict=True)) | {
        "status": transition.status,
        "version": 1,
        "last_seq": len(transition.events),
        "worker_id": None if ends or transition.release else transition.worker_id,
        "available_at": None if ends else transition.available_at,
        "started_at": transition.started_at,
        "log_bytes": transition.payload_bytes,
        "suspended_for": transition.suspended_for,
        "needs": orjson.dumps(list(transition.needs)).decode() if transition.needs else None,
        "ends": ends,
        "only_active": transition.only_active,
    }


def _encode(rows: list[dict[str, Any]]) -> str:
    try:
        text = orjson.dumps(rows)
        if text.count(b"\\u0000") and NUL_IN_JSON.search(text):
            raise DataRefused("text with a NUL character")
        return text.decode()
    except (TypeError, ValueError) as problem:  # a lone surrogate, or payload bytes that are not UTF-8
        raise DataRefused(f"text that is not valid Unicode ({problem})") from None
