"""Arm the triggers of the active version of a workflow, and disarm those of the version before.

Called by the store inside the transaction that makes a version the active one, or deletes the workflow. A node keeps
its row, with the same id, over all versions: what is due stays due if its timing is the same, and no occurrence has
two runs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from anabranch.dataclass import dataclass
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.entry_points import FAILURE_TYPE, SCHEDULE_TYPE, TOPIC_TYPE, WEBHOOK_TYPE
from anabranch.errors import HookPathTaken, LimitReached
from anabranch.triggers.schedules.occurrences import Cron, Interval, next_after
from anabranch.triggers.topics.topic_patterns import head_of
from anabranch.triggers.trigger_schema import triggers

# 10,000 of each kind per tenant: schedules all due in one second start within half a minute, a message that fits all
# subscriptions starts its runs in that time.
TRIGGERS_MAX = 10_000

ARMED_TYPES = frozenset({FAILURE_TYPE, SCHEDULE_TYPE, TOPIC_TYPE, WEBHOOK_TYPE})

_TIMING = ("cron", "timezone", "everyMs")


@dataclass(frozen=True, slots=True)
class ArmedVersion:
    """A version of a drawn workflow, whose triggers are to be armed."""

    workflow_id: str
    tenant_id: str
    workflow: str
    version: int
    definition: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The row that a trigger node needs."""

    node_id: str
    kind: str
    subject: str | None
    head: str | None
    config: Mapping[str, Any]


def trigger_id_of(workflow_id: str, node_id: str) -> str:
    """The id of the trigger that a node arms, the same in every version."""
    return str(uuid.uuid5(uuid.UUID(workflow_id), node_id))


def arm(connection: Connection, version: ArmedVersion, *, now: int) -> None:
    """Arm the triggers of this version, and disarm all others of its workflow.

    Raises HookPathTaken; LimitReached where the tenant would get more than `TRIGGERS_MAX` of a kind.
    """
    armed = {row.node_id: row for row in connection.execute(_of_workflow(version.workflow_id))}
    wanted = {each.node_id: each for each in _wanted(version.definition)}
    _refuse_taken_paths(connection, version, wanted)
    for node_id, row in armed.items():
        # The paths of webhooks are unique, and two nodes may exchange theirs: these rows are written anew.
        if node_id not in wanted or WEBHOOK_TYPE in (row.kind, wanted[node_id].kind):
            connection.execute(delete(triggers).where(triggers.c.trigger_id == row.trigger_id))
    for each in wanted.values():
        known = armed.get(each.node_id)
        if known is None or WEBHOOK_TYPE in (known.kind, each.kind):
            _insert(connection, version, each, now=now)
        else:
            _update(connection, version, each, known, now=now)
    for kind in {each.kind for each in wanted.values() if each.node_id not in armed}:
        check_limit(connection, version.tenant_id, kind)


def disarm(connection: Connection, workflow_id: str) -> None:
    """Disarm all triggers of a workflow."""
    connection.execute(delete(triggers).where(triggers.c.workflow_id == workflow_id, triggers.c.node_id.is_not(None)))


def check_limit(connection: Connection, tenant_id: str, kind: str) -> None:
    """Raise LimitReached if the tenant has more than `TRIGGERS_MAX` of this kind."""
    of_kind = select(func.count()).select_from(triggers).where(triggers.c.tenant_id == tenant_id)
    if connection.execute(of_kind.where(triggers.c.kind == kind)).scalar_one() > TRIGGERS_MAX:
        raise LimitReached(f"there are {TRIGGERS_MAX} triggers of the kind {kind} already")


def _of_workflow(workflow_id: str) -> Any:
    columns = (triggers.c.node_id, triggers.c.trigger_id, triggers.c.kind, triggers.c.config, triggers.c.next_at)
    return select(*columns).where(triggers.c.workflow_id == workflow_id, triggers.c.node_id.is_not(None))


def _wanted(definition: Mapping[str, Any]) -> Iterator[_Wanted]:
    """The rows that the nodes of a valid definition need."""
    for node in definition.get("nodes", ()):
        if node.get("type") not in ARMED_TYPES or node.get("disabled") is True:
            continue
        kind, config = node["type"], node.get("config") or {}
        subject = head = None
        if kind == TOPIC_TYPE:
            subject, head = config["topic"], head_of(config["topic"])
        elif kind == WEBHOOK_TYPE:
            subject = head = config["path"]
        elif kind == FAILURE_TYPE:
            subject = head = config.get("workflow") or ""
        else:
            config = _timing(config)
        yield _Wanted(node["id"], kind, subject, head, config)


def _timing(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a `schedule` node as rows have it. Without `input` the time of the occurrence is the payload."""
    every = config.get("every")
    timing = {
        "cron": config.get("cron"),
        "timezone": config.get("timezone") or "UTC",
        "everyMs": None if every is None else parse_duration(every),
        "missed": config.get("missed") or "one",
    }
    return timing | ({"input": config["input"]} if config.get("input") is not None else {})


def _insert(connection: Connection, version: ArmedVersion, wanted: _Wanted, *, now: int) -> None:
    config = {**wanted.config, "anchorAt": now} if wanted.kind == SCHEDULE_TYPE else wanted.config
    row = insert(triggers).values(
        trigger_id=trigger_id_of(version.workflow_id, wanted.node_id),
        tenant_id=version.tenant_id,
        workflow_id=version.workflow_id,
        node_id=wanted.node_id,
        enabled=True,
        next_at=_next_at(config, now) if wanted.kind == SCHEDULE_TYPE else None,
        created_at=now,
        **_values(version, wanted, config, now=now),
    )
    try:
        connection.execute(row)
    except IntegrityError:
        if wanted.kind != WEBHOOK_TYPE:
            raise
        # Another workflow has taken the path since we looked.
        raise _path_taken(wanted.subject, "another workflow") from None


def _update(connection: Connection, version: ArmedVersion, wanted: _Wanted, known: Row[Any], *, now: int) -> None:
    values: dict[str, Any] = {}
    config = wanted.config
    if wanted.kind == SCHEDULE_TYPE:
        before = orjson.loads(known.config) if known.kind == SCHEDULE_TYPE else {}
        is_same = all(before.get(name) == config[name] for name in _TIMING) and known.kind == SCHEDULE_TYPE
        config = {**config, "anchorAt": before["anchorAt"] if is_same else now}
        values["next_at"] = known.next_at if is_same else _next_at(config, now)
    elif known.kind == SCHEDULE_TYPE:
        values["next_at"] = None
    values |= _values(version, wanted, config, now=now)
    connection.execute(update(triggers).where(triggers.c.trigger_id == known.trigger_id).values(values))


def _values(version: ArmedVersion, wanted: _Wanted, config: Mapping[str, Any], *, now: int) -> dict[str, Any]:
    return {
        "kind": wanted.kind,
        "workflow": version.workflow,
        "version": version.version,
        "subject": wanted.subject,
        "head": wanted.head,
        "config": orjson.dumps(config).decode(),
        "updated_at": now,
    }


def _next_at(config: Mapping[str, Any], now: int) -> int | None:
    cron, every_ms = config["cron"], config["everyMs"]
    return next_after(Interval(config["anchorAt"], every_ms) if cron is None else Cron(cron, config["timezone"]), now)


def _refuse_taken_paths(connection: Connection, version: ArmedVersion, wanted: Mapping[str, _Wanted]) -> None:
    paths = [each.subject for each in wanted.values() if each.kind == WEBHOOK_TYPE]
    if not paths:
        return
    taken = select(triggers.c.subject, triggers.c.workflow).where(
        triggers.c.tenant_id == version.tenant_id,
        triggers.c.kind == WEBHOOK_TYPE,
        triggers.c.subject.in_(paths),
        triggers.c.workflow_id != version.workflow_id,
    )
    found = connection.execute(taken.limit(1)).first()
    if found is not None:
        raise _path_taken(found.subject, f"workflow {found.workflow}")


def _path_taken(path: str | None, owner: str) -> HookPathTaken:
    return HookPathTaken(f"the webhook path {path!r} belongs to {owner}")
