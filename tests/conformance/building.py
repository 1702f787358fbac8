"""Rows, events and transitions for the conformance tests, said in few words.

Events are written without a seq (0): `transition` and `new_run` number them after the row they extend,
as the rules do.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from anabranch.engine.ports import InstanceHead, InstanceRow, Store, Transition
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.values import EMPTY, Payload

TENANT = "default"
WORKER = "worker-1"
OTHER_WORKER = "worker-2"
LEASE_MS = 60_000
HOUR_MS = 3_600_000
NAP_MS = 100
"""A due time near enough to wait for, and too far to be reached before the first look."""


def new_id() -> str:
    """An id for an instance."""
    return str(uuid.uuid4())


def new_head(*, now: int, **changes: Any) -> InstanceHead:
    """What an instance is created with."""
    values: dict[str, Any] = {
        "instance_id": new_id(),
        "tenant_id": TENANT,
        "workflow_id": None,
        "workflow_name": "orders",
        "workflow_version": 1,
        "created_at": now,
        "available_at": now,
    }
    return InstanceHead(**{**values, **changes})


# -- events -----------------------------------------------------------------------------------
def event(
    type_: EventType, node_id: str = "", scope: str = "", attempt: int = 0, payload: Any = None, **changes: Any
) -> Event:
    """Any event, not yet numbered."""
    content = EMPTY if payload is None else payload if isinstance(payload, Payload) else Payload.of(payload)
    values: dict[str, Any] = {"created_at": 1_700_000_000_000, **changes}
    return Event(0, type_, node_id, scope, attempt, content, **values)


def input_set(value: Any = None) -> Event:
    """The first event of every log."""
    return event(EventType.INPUT_SET, payload={"input": value})


def dispatched(node_id: str, scope: str = "", attempt: int = 1) -> Event:
    """An attempt was queued."""
    return event(EventType.NODE_DISPATCHED, node_id, scope, attempt)


def attempt_failed(node_id: str, scope: str = "", attempt: int = 1) -> Event:
    """An attempt failed."""
    return event(
        EventType.NODE_ATTEMPT_FAILED, node_id, scope, attempt, {"error": {}, "dueAt": "2030-01-01T00:00:00.000+00:00"}
    )


def completed(node_id: str, scope: str = "", attempt: int = 1, output: Any = None) -> Event:
    """A node ended well."""
    content = output if isinstance(output, Payload) else Payload.of(output)
    return event(EventType.NODE_COMPLETED, node_id, scope, attempt, content, next_handle="default")


def failed(node_id: str, scope: str = "", attempt: int = 1) -> Event:
    """A node ended badly."""
    return event(EventType.NODE_FAILED, node_id, scope, attempt, {"error": {}}, error_message="it broke")


def skipped(node_id: str, scope: str = "") -> Event:
    """A node was passed over."""
    return event(EventType.NODE_SKIPPED, node_id, scope)


def waiting(node_id: str, **note: Any) -> Event:
    """A wait is open, or has taken a signal."""
    return event(EventType.NODE_WAITING, node_id, "", 1, note)


def signal_received(name: str, key: str | None = None) -> Event:
    """A signal that the owner itself wrote."""
    return event(EventType.SIGNAL_RECEIVED, payload={"event": name, **({"key": key} if key else {}), "payload": 1})


def instance_completed() -> Event:
    """The last event of a good end."""
    return event(EventType.INSTANCE_COMPLETED, payload=Payload.of(None))


# -- transitions ------------------------------------------------------------------------------------
def new_run(head: InstanceHead, *events: Event, worker_id: str | None = WORKER, **changes: Any) -> Transition:
    """The transition that makes an instance; by default held for a minute and RUNNING."""
    rows = numbered(events or [input_set()], 0)
    values: dict[str, Any] = {
        "payload_bytes": bytes_of(rows),
        "status": Status.RUNNING if worker_id else Status.PENDING,
        "available_at": head.available_at + (LEASE_MS if worker_id else 0),
    }
    return Transition(
        instance_id=head.instance_id,
        expected_version=0,
        worker_id=worker_id,
        events=rows,
        new_run=head,
        **{**values, **changes},
    )


def transition(row: InstanceRow, *events: Event, **changes: Any) -> Transition:
    """The owner's next transition on a row it knows."""
    rows = numbered(events, row.last_seq)
    values: dict[str, Any] = {
        "payload_bytes": bytes_of(rows),
        "expected_version": row.version,
        "worker_id": row.worker_id,
        "status": row.status,
        "available_at": None,
    }
    return Transition(instance_id=row.head.instance_id, events=rows, **{**values, **changes})


def ending(row: InstanceRow) -> Transition:
    """The transition that completes an instance."""
    return transition(row, instance_completed(), status=Status.COMPLETED, release=True)


def bytes_of(rows: Sequence[Event]) -> int:
    """What the payloads of these take in a log together."""
    return sum(row.payload.weight for row in rows)


def numbered(events: Sequence[Event], last_seq: int) -> list[Event]:
    """The events as they go on after `last_seq`."""
    return [replace(item, seq=seq) for seq, item in enumerate(events, last_seq + 1)]


# -- rows in a store ----------------------------------------------------------------------------
async def created(
    store: Store,
    *events: Event,
    worker_id: str | None = WORKER,
    turn_changes: dict[str, Any] | None = None,
    **head: Any,
) -> InstanceRow:
    """Commit a creation and read its row."""
    made = new_run(new_head(now=await store.now(), **head), *events, worker_id=worker_id, **(turn_changes or {}))
    return await committed(store, made)


async def born_many(store: Store, count: int, **changes: Any) -> list[InstanceRow]:
    """Several creations in one commit, in the order of their ids."""
    now = await store.now()
    transitions = [new_run(new_head(now=now), **changes) for _ in range(count)]
    outcome = await store.commit(transitions)
    assert len(outcome.won) == count, "every creation is new, so every one wins"
    loaded = await store.load(sorted(outcome.won))
    return [item.row for item in loaded.values()]


async def parked(store: Store, *, available_at: int | None, **head: Any) -> InstanceRow:
    """An instance that nobody holds and that waits for a time (None: for an external stimulus)."""
    row = await created(store, **head)
    return await committed(
        store, transition(row, waiting("nap"), status=Status.WAITING, release=True, available_at=available_at)
    )


async def committed(store: Store, only: Transition) -> InstanceRow:
    """Commit one transition that must win, and read the row after it."""
    outcome = await store.commit([only])
    assert outcome.won == {only.instance_id}, f"the transition must win: {outcome}"
    return await row_of(store, only.instance_id)


async def row_of(store: Store, instance_id: str) -> InstanceRow:
    """The row, which must be there."""
    row = await store.get_instance(instance_id)
    assert row is not None, f"instance {instance_id} is in the store"
    return row


async def log_of(store: Store, instance_id: str) -> list[tuple[int, EventType, str]]:
    """The log in short: (seq, type, node_id)."""
    return [(item.seq, item.type, item.node_id) for item in await store.read_log(instance_id)]


async def assert_unchanged(store: Store, row: InstanceRow) -> None:
    """Neither row nor log have moved since `row` was read."""
    assert await store.get_instance(row.head.instance_id) == row, "the row moved although its transition did not win"
    events = await store.read_log(row.head.instance_id, limit=row.last_seq + 1)
    assert [item.seq for item in events] == list(range(1, row.last_seq + 1)), "the log moved with a lost transition"
