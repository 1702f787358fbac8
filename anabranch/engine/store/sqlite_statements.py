"""The statements that only SQLite has, each with the index it relies on.

Executed by `sqlite`, always in its writer's transaction where they write. Batches come as one
JSON parameter and answers go as one JSON value: see there why.
"""

# Statements are put together from this package's own column names and conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from functools import cache

from sqlalchemy import TextClause, text

from anabranch.engine.store.rows import EVENT_NOTE_COLUMNS, INSTANCE_COLUMNS, LOG_SEPARATOR, PAYLOAD_SEPARATOR
from anabranch.engine.store.schema import IS_OPEN, IS_SIGNAL, workflow_instance_logs
from anabranch.engine.store.statements import SIGNALS_KEPT

_LOG_COLUMNS = tuple(column.name for column in workflow_instance_logs.c)
_WRITTEN_AT_BIRTH = tuple(name for name in INSTANCE_COLUMNS if name != "completed_at")
_COLUMNS = ", ".join(INSTANCE_COLUMNS)
_NOTE = ", ".join(EVENT_NOTE_COLUMNS)


def _fields(names: tuple[str, ...]) -> str:
    """Each column's value out of one object of a JSON list; a payload stays JSON text."""
    return ", ".join(f"value {'->' if name == 'payload' else '->>'} '{name}'" for name in names)


GUARDS_HELD = text(f"""
    SELECT json_group_array(i.instance_id)
    FROM json_each(:turns) AS t CROSS JOIN workflow_instances AS i
    WHERE i.instance_id = t.value ->> 'instance_id'
      AND i.version = t.value ->> 'expected_version'
      AND i.worker_id IS t.value ->> 'held_by'
      AND i.{IS_OPEN}
      AND i.last_seq + 1 = coalesce(t.value ->> 'first_seq', i.last_seq + 1)
      AND coalesce(t.value ->> 'not_before', 0) <= :now
""")
"""The instances whose guards hold. CROSS JOIN fixes the order: each turn looks its row up by primary key."""

BIRTHS_KNOWN = text("""
    SELECT json_group_array(json_array(id, holder)) FROM (
        SELECT b.value ->> 'instance_id' AS id,
               (SELECT k.instance_id FROM workflow_instances AS k
                WHERE k.tenant_id = b.value ->> 'tenant_id' AND k.workflow_name = b.value ->> 'workflow_name'
                  AND k.idempotency_key = b.value ->> 'idempotency_key' AND k.idempotency_key IS NOT NULL) AS holder,
               (SELECT 1 FROM workflow_instances AS i WHERE i.instance_id = b.value ->> 'instance_id') AS present
        FROM json_each(:births) AS b)
    WHERE holder IS NOT NULL OR present IS NOT NULL
""")
"""The births that are not new, with the holder of their key. Uses ux_instance_idempotency and the primary key."""

ADVANCE = text("""
    UPDATE workflow_instances SET
        version = version + 1,
        last_seq = last_seq + (t.value ->> 'events'),
        status = t.value ->> 'status',
        worker_id = CASE WHEN t.value ->> 'releases' THEN NULL ELSE worker_id END,
        available_at = CASE WHEN t.value ->> 'releases' THEN t.value ->> 'available_at'
                            ELSE coalesce(t.value ->> 'available_at', available_at) END,
        started_at = coalesce(started_at, t.value ->> 'started_at'),
        completed_at = CASE WHEN t.value ->> 'ends' THEN :now END
    FROM json_each(:turns) AS t
    WHERE instance_id = t.value ->> 'instance_id'
""")
"""Move the rows of turns whose guards are known to hold, by primary key."""

GIVE_BIRTH = text(f"""
    INSERT INTO workflow_instances ({", ".join(_WRITTEN_AT_BIRTH)}, completed_at)
    SELECT {_fields(_WRITTEN_AT_BIRTH)}, CASE WHEN value ->> 'ends' THEN :now END FROM json_each(:births)
""")
"""Insert births that are known to be new."""

APPEND_EVENTS = text(f"""
    INSERT INTO workflow_instance_logs ({", ".join(_LOG_COLUMNS)})
    SELECT {_fields(_LOG_COLUMNS)} FROM json_each(:events)
""")
"""Append the winners' events; a row that a unique index forbids undoes the transaction."""

APPEND_EVENT = text("""
    INSERT INTO workflow_instance_logs (instance_id, seq, node_id, scope, event_type, payload, node_attempt, created_at)
    VALUES (:instance_id, :seq, '', '', :event_type, :payload, 0, :now)
""")
"""Append a stranger's event under the seq that its move has just taken."""

TAKE = text(f"""
    UPDATE workflow_instances SET version = version + 1, worker_id = :worker_id, available_at = :available_at
    WHERE instance_id IN (SELECT value FROM json_each(:ids)) AND {IS_OPEN}
""")
"""Give claimed instances to their worker, by primary key."""

LOAD = text(f"""
    SELECT json_group_array(json_array({_COLUMNS}, json(notes))),
           group_concat(payloads, '{LOG_SEPARATOR}')
    FROM (
        SELECT i.*,
               (SELECT json_group_array(json_array({_NOTE})) FROM (
                    SELECT * FROM workflow_instance_logs AS l
                    WHERE l.instance_id = i.instance_id AND l.seq > :after_seq ORDER BY seq)) AS notes,
               (SELECT coalesce(group_concat(payload, '{PAYLOAD_SEPARATOR}'), '') FROM (
                    SELECT payload FROM workflow_instance_logs AS l
                    WHERE l.instance_id = i.instance_id AND l.seq > :after_seq ORDER BY seq)) AS payloads
        FROM json_each(:ids) AS wanted CROSS JOIN workflow_instances AS i
        WHERE i.instance_id = wanted.value
    )
""")
"""Rows with their logs as one row: heads and notes in JSON, payloads joined. Uses both primary keys."""

READ_LOG = text(f"""
    SELECT json_group_array(json_array({_NOTE})), group_concat(payload, '{PAYLOAD_SEPARATOR}')
    FROM (SELECT * FROM workflow_instance_logs
          WHERE instance_id = :instance_id AND seq > :after_seq ORDER BY seq LIMIT :limit)
""")
"""One page of a log, in seq order. Uses the primary key."""


@cache
def claimable(*, only: bool, steal: bool) -> TextClause:
    """Open instances that are due (with `steal` also held ones), longest overdue first.

    Uses ix_instance_available, or the primary key when only some ids are asked for. The write
    lock is already held, so nobody else is claiming them.
    """
    due = "available_at <= :now" + (" OR worker_id IS NOT NULL" if steal else "")
    among = "AND instance_id IN (SELECT value FROM json_each(:ids))" if only else ""
    return text(f"""
        SELECT json_group_array(json_array(instance_id, worker_id, available_at)) FROM (
            SELECT instance_id, worker_id, available_at FROM workflow_instances
            WHERE {IS_OPEN} AND ({due}) {among}
            ORDER BY available_at, instance_id LIMIT :limit)
    """)


@cache
def move_by_stranger(*, ends: bool) -> TextClause:
    """Take the next seq of an open instance whoever holds it; returns its row, or nothing.

    A signal (`ends` false) whose key is in the log already, or that meets too many kept ones,
    moves nothing; they are only counted where the log is long enough to hold that many.
    Uses the primary keys and ux_log_signal_key.
    """
    if ends:
        change = "status = 'CANCELLED', worker_id = NULL, available_at = NULL, completed_at = :now"
        condition = ""
    else:
        change = """
            available_at = CASE WHEN worker_id IS NULL THEN min(coalesce(available_at, :now), :now)
                                ELSE available_at END"""
        condition = f"""
            AND NOT EXISTS (SELECT 1 FROM workflow_instance_logs AS l
                            WHERE l.instance_id = :instance_id AND {IS_SIGNAL} AND payload ->> 'key' = :key)
            AND (last_seq < :signals_max OR ({SIGNALS_KEPT}) < :signals_max)"""
    return text(f"""
        UPDATE workflow_instances SET version = version + 1, last_seq = last_seq + 1, {change}
        WHERE instance_id = :instance_id AND tenant_id = :tenant_id AND {IS_OPEN} {condition}
        RETURNING {_COLUMNS}
    """)
