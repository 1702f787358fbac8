"""Record failures for `failure` triggers: a message to each matching trigger, in the transaction in which a run fails.

Called by the store with the runs that a transaction ends as FAILED. The publisher starts the runs, as it does for
messages on topics: each once, whatever crashes. What is written here has the whole payload, so that it does not matter
how long the failed run is kept.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import orjson
from sqlalchemy import Connection, Text, and_, cast, func, insert, or_, select

from anabranch.engine.rules.entry_points import FAILURE_TYPE
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.store.schema.runs import workflow_instances
from anabranch.triggers.topics.saved_topics import FAILED_TOPIC, FAILURE_KEY_PREFIX
from anabranch.triggers.topics.topic_schema import topic_messages
from anabranch.triggers.trigger_schema import triggers

# 3 failures in a row: a workflow that handles a failure and fails, one that handles that failure and fails, and one
# more. Otherwise two workflows that handle each other's failures would start runs for ever.
FAILURES_IN_A_ROW_MAX = 3

_FAILED = workflow_instances.alias("failed")
_ROOT = workflow_instances.alias("root")

# A workflow does not handle its own failed runs, nor failed runs that these have started.
_SUBSCRIBED = (
    select(
        _FAILED.c.instance_id,
        _FAILED.c.tenant_id,
        _FAILED.c.workflow_id,
        _FAILED.c.workflow_name,
        _FAILED.c.workflow_version,
        _FAILED.c.generation,
        _FAILED.c.parent_id,
        _FAILED.c.created_at,
        _ROOT.c.idempotency_key,
        _ROOT.c.started_by,
        triggers.c.trigger_id,
        triggers.c.workflow_id.label("starts"),
        triggers.c.version,
        triggers.c.node_id,
    )
    .select_from(_FAILED)
    .join(
        triggers,
        and_(
            triggers.c.tenant_id == _FAILED.c.tenant_id,
            triggers.c.kind == FAILURE_TYPE,
            triggers.c.head.in_(["", _FAILED.c.workflow_name, cast(_FAILED.c.workflow_id, Text)]),
            triggers.c.workflow_id != _FAILED.c.workflow_id,
        ),
    )
    .outerjoin(_ROOT, _ROOT.c.instance_id == func.coalesce(_FAILED.c.root_id, _FAILED.c.instance_id))
    .where(
        _FAILED.c.test.is_(False),
        or_(_ROOT.c.workflow_id.is_(None), _ROOT.c.workflow_id != triggers.c.workflow_id),
    )
    .order_by(_FAILED.c.instance_id, triggers.c.trigger_id)
)


def record_failures(connection: Connection, errors: Mapping[str, Any], *, now: int) -> None:
    """Write messages about runs that fail in the caller's transaction; `errors` by the id of the run."""
    subscribed = connection.execute(_SUBSCRIBED.where(_FAILED.c.instance_id.in_(list(errors)))).all()
    messages = (
        _message([*rows], errors[instance_id], now=now)
        for instance_id, rows in groupby(subscribed, key=lambda row: row.instance_id)
    )
    if written := [message for message in messages if message is not None]:
        connection.execute(insert(topic_messages), written)


def _message(subscribed: Sequence[Any], error: Any, *, now: int) -> dict[str, Any] | None:
    failed = subscribed[0]
    depth = 1 + _failures_before(failed)
    if depth > FAILURES_IN_A_ROW_MAX:
        return None
    payload = {
        "run": {
            "instanceID": failed.instance_id,
            "workflowID": failed.workflow_id,
            "workflow": failed.workflow_name,
            "version": failed.workflow_version,
            "generation": failed.generation,
            "parentID": failed.parent_id,
            "createdAt": to_iso(failed.created_at),
            "failedAt": to_iso(now),
        },
        "error": error,
        "link": f"/#/runs/{failed.instance_id}",
        "depth": depth,
    }
    return {
        "message_id": str(uuid.uuid4()),
        "tenant_id": failed.tenant_id,
        "topic": FAILED_TOPIC,
        "key": f"{failed.instance_id}:{failed.generation}",
        "payload": orjson.dumps(payload).decode(),
        "deliveries": orjson.dumps(
            [[row.trigger_id, row.starts, None, None, row.version, row.node_id] for row in subscribed]
        ).decode(),
        "due_at": now,
        "created_at": now,
    }


def _failures_before(run: Any) -> int:
    """The number of failures in a row that have led to a run, from its trigger."""
    if not (run.idempotency_key or "").startswith(FAILURE_KEY_PREFIX):
        return 0
    return int(run.started_by.split(" ")[1])
