"""Statements for SQLite only, each with the index it relies on.

Executed by `sqlite_dialect`; those that write always run in its writer's transaction. Whole batches are bound at once
and results come as one JSON value: `sqlite_dialect` says why. A batch statement exists for each power of two of rows;
unused rows are all NULL and match nothing.
"""

# Statements are put together from this package's own column names and conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from functools import cache

from sqlalchemy import TextClause, text

from anabranch.engine.rules.events import Status
from anabranch.engine.store.schema import IS_ENDING, IS_OPEN, IS_SIGNAL
from anabranch.engine.store.sql.families import REASON_BEGINS, REASON_BYTES, REASON_ENDS
from anabranch.engine.store.sql.rows import (
    EVENT_COLUMNS,
    EVENT_NOTE_COLUMNS,
    INSTANCE_COLUMNS,
    LOG_SEPARATOR,
    NEW_HEAD_COLUMNS,
    PAYLOAD_SEPARATOR,
)
from anabranch.engine.store.sql.statements import (
    HAS_CAPACITY,
    IS_AWAKE,
    IS_WHOLE,
    RESUMES,
    SIGNALS_KEPT,
    SUSPENDS,
    SUSPENDS_UNFIT,
)

_COLUMNS = ", ".join(INSTANCE_COLUMNS)
_NOTE = ", ".join(EVENT_NOTE_COLUMNS)


TRANSITION_COLUMNS = (
    "id",
    "expected_version",
    "held_by",
    "first_seq",
    "not_before",
    "events",
    "bytes",
    "new_status",
    "ends",
    "releases",
    "new_available_at",
    "new_started_at",
    "new_suspended_for",
    "clears",
    "now",
)
"""The columns of a transition for `advance` and `matching_guards`."""

NEW_RUN_COLUMNS = (
    *NEW_HEAD_COLUMNS,
    "status",
    "version",
    "last_seq",
    "worker_id",
    "available_at",
    "started_at",
    "completed_at",
    "log_bytes",
    "suspended_for",
    "needs",
)
"""What the creation of a run writes."""

_GUARD = f"""
    instance_id = id
    AND version = expected_version
    AND worker_id IS held_by
    AND {IS_OPEN}
    AND last_seq + 1 = coalesce(first_seq, last_seq + 1)
    AND coalesce(not_before, 0) <= now"""


IS_EFFECTIVE = """NOT EXISTS (
    SELECT 1 FROM workflow_instances AS h CROSS JOIN json_each(coalesce(h.left_out, '[]')) AS o
    WHERE h.instance_id = l.instance_id AND l.seq BETWEEN o.value ->> 0 AND o.value ->> 1)"""
"""No reopening has left out the log row `l`. By primary key."""


@cache
def advance(rows: int) -> str:
    """Move the instances of this many transitions whose guards hold, each by primary key.

    It begins with UPDATE, not WITH: only then does the driver count the rows.
    """
    return f"""
        UPDATE workflow_instances SET
            version = version + 1,
            last_seq = last_seq + events,
            log_bytes = log_bytes + bytes,
            status = new_status,
            worker_id = CASE WHEN releases THEN NULL ELSE worker_id END,
            available_at = CASE WHEN releases THEN new_available_at ELSE coalesce(new_available_at, available_at) END,
            started_at = coalesce(started_at, new_started_at),
            completed_at = CASE WHEN ends THEN now END,
            suspended_for = new_suspended_for,
            company = CASE WHEN NOT clears THEN company END,
            crashes = CASE WHEN clears THEN 0 ELSE crashes END
        FROM ({_transitions(rows)}) WHERE {_GUARD}"""


@cache
def matching_guards(rows: int) -> str:
    """The ids of the transitions whose guards hold, as a JSON list.

    CROSS JOIN puts the transitions in the outer loop.
    """
    return f"""
        SELECT json_group_array(id) FROM ({_transitions(rows)}) CROSS JOIN workflow_instances WHERE {_GUARD}"""


@cache
def create_run(rows: int) -> str:
    """Insert this many creations that are known to be new."""
    return f"""
        INSERT INTO workflow_instances ({", ".join(NEW_RUN_COLUMNS)})
        SELECT * FROM ({_values(len(NEW_RUN_COLUMNS), rows)}) WHERE column1 IS NOT NULL"""


@cache
def append_events(rows: int) -> str:
    """Append this many events of winners; a violated unique index undoes the transaction."""
    return f"""
        INSERT INTO workflow_instance_logs ({", ".join(EVENT_COLUMNS)})
        SELECT * FROM ({_values(len(EVENT_COLUMNS), rows)}) WHERE column1 IS NOT NULL"""


def _transitions(rows: int) -> str:
    names = ", ".join(f"column{number} AS {name}" for number, name in enumerate(TRANSITION_COLUMNS, start=1))
    return f"SELECT {names} FROM ({_values(len(TRANSITION_COLUMNS), rows)})"


def _values(columns: int, rows: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return f"VALUES {', '.join([row] * rows)}"


CONFLICTING_CREATIONS = text(f"""
    SELECT json_group_array(json_array(id, holder, present IS NULL AND holder IS NULL)) FROM (
        SELECT b.value ->> 0 AS id,
               (SELECT k.instance_id FROM workflow_instances AS k
                WHERE k.tenant_id = b.value ->> 1 AND k.workflow_name = b.value ->> 2
                  AND k.idempotency_key = b.value ->> 3 AND k.idempotency_key IS NOT NULL) AS holder,
               (SELECT 1 FROM workflow_instances AS i WHERE i.instance_id = b.value ->> 0) AS present,
               (b.value ->> 4 IS NULL OR EXISTS (
                   SELECT 1 FROM workflows AS w
                   WHERE w.workflow_id = b.value ->> 4 AND w.deleted_at IS NULL
                     AND coalesce(b.value ->> 8, w.active_version, w.newest_version)
                         = coalesce(w.active_version, w.newest_version)))
               AND (b.value ->> 5 IS NULL OR EXISTS (
                   SELECT 1 FROM workflow_instances AS p WHERE p.instance_id = b.value ->> 5 AND p.{IS_OPEN}))
               AND (b.value ->> 5 IS NULL OR NOT EXISTS (
                   SELECT 1 FROM workflow_instance_logs AS l
                   WHERE l.instance_id = b.value ->> 5 AND l.node_id = b.value ->> 6 AND l.scope = b.value ->> 7
                     AND l.{IS_ENDING} AND {IS_EFFECTIVE})) AS living
        FROM json_each(:new_runs) AS b)
    WHERE holder IS NOT NULL OR present IS NOT NULL OR NOT living
""")
"""The creations (id, tenant, name, key, workflow, parent with node and scope, version if it must be the active one)
that are not possible, with the run that has their key, and whether they are rejected:

their workflow is deleted or has a newer version, or their parent or its activation has ended. Uses
ux_instance_idempotency, ux_log_ending and the primary keys.
"""

WAKE = text(f"""
    UPDATE workflow_instances SET version = version + 1,
        available_at = CASE WHEN worker_id IS NULL AND {IS_AWAKE} THEN min(coalesce(available_at, :now), :now)
                            ELSE available_at END
    WHERE instance_id IN (SELECT value FROM json_each(:ids)) AND {IS_OPEN}
    RETURNING instance_id, version
""")
"""Raise the versions of these parents, because a child has ended; returns the versions. By primary key."""

CANCEL_LOG = text(f"""
    INSERT INTO workflow_instance_logs (instance_id, seq, node_id, scope, event_type, payload, node_attempt, created_at)
    SELECT instance_id, last_seq + 1, '', '', 'INSTANCE_CANCELLED',
        json_quote('{REASON_BEGINS}' || parent_id || '{REASON_ENDS}'), 0, :now
    FROM workflow_instances WHERE instance_id IN (SELECT value FROM json_each(:ids))
""")
"""Append the last event of children that are no longer awaited."""

CANCEL_ROWS = text(f"""
    UPDATE workflow_instances SET version = version + 1, last_seq = last_seq + 1,
        log_bytes = log_bytes + {REASON_BYTES},
        status = 'CANCELLED', worker_id = NULL, available_at = NULL, completed_at = :now, suspended_for = NULL
    WHERE instance_id IN (SELECT value FROM json_each(:ids))
""")
"""Close these children afterwards."""

ENDED_CHILDREN = text(f"""
    SELECT asked.value, i.status, l.payload, l.parts
    FROM json_each(:ids) AS asked
    LEFT JOIN workflow_instances AS i ON i.instance_id = asked.value
    LEFT JOIN workflow_instance_logs AS l ON l.instance_id = i.instance_id AND l.seq = i.last_seq
    WHERE i.instance_id IS NULL OR NOT i.{IS_OPEN}
""")
"""See `Dialect.ended_children`. Uses both primary keys."""

APPEND_EVENT = text("""
    INSERT INTO workflow_instance_logs
        (instance_id, seq, node_id, scope, event_type, payload, error_message, node_attempt, created_at, parts)
    VALUES (:instance_id, :seq, '', '', :event_type, :payload, :message, 0, :now, :parts)
""")
"""Append an external event under the seq that `advance_external` has just taken."""

LOAD = text(f"""
    SELECT json_group_array(json_array({_COLUMNS}, json(notes))),
           group_concat(payloads, '{LOG_SEPARATOR}')
    FROM (
        SELECT i.*,
               (SELECT json_group_array(json_array({_NOTE})) FROM (
                    SELECT * FROM workflow_instance_logs AS l
                    WHERE {IS_WHOLE} AND l.instance_id = i.instance_id AND l.seq > :after_seq ORDER BY seq)) AS notes,
               (SELECT coalesce(group_concat(payload, '{PAYLOAD_SEPARATOR}'), '') FROM (
                    SELECT payload FROM workflow_instance_logs AS l
                    WHERE {IS_WHOLE} AND l.instance_id = i.instance_id AND l.seq > :after_seq ORDER BY seq)) AS payloads
        FROM json_each(:ids) AS wanted CROSS JOIN workflow_instances AS i
        WHERE i.instance_id = wanted.value
    )
""")
"""Rows with their logs as one row: heads and notes in JSON, payloads joined. Uses both primary keys."""


def event_list(rows: str) -> str:
    """The log rows of a SELECT as one row, in seq order: notes in JSON, payloads joined."""
    return f"""
        SELECT json_group_array(json_array({_NOTE})), group_concat(payload, '{PAYLOAD_SEPARATOR}')
        FROM (SELECT * FROM ({rows}) ORDER BY seq)
    """


READ_LOG = text(
    event_list("""
        SELECT * FROM workflow_instance_logs
        WHERE instance_id = :instance_id AND seq > :after_seq AND seq <= (
            SELECT max(seq) FROM (
                SELECT seq, sum(size) OVER (ORDER BY seq) - size AS before FROM (
                    SELECT seq, length(CAST(payload AS BLOB)) AS size FROM workflow_instance_logs
                    WHERE instance_id = :instance_id AND seq > :after_seq ORDER BY seq LIMIT :limit))
            WHERE before < :bytes_max)
    """)
)
"""One page of a log, in seq order; it ends early once its payloads have enough bytes. Uses the primary key."""


@cache
def to_cancel(by: str) -> TextClause:
    """Open children by their ids (`by` "instance_id") or by their parents' ("parent_id"), with all that they await, as
    one JSON list. Uses the primary key and ix_instance_parent.
    """
    return text(f"""
        WITH RECURSIVE to_cancel(id) AS (
            SELECT i.instance_id FROM json_each(:ids) AS asked CROSS JOIN workflow_instances AS i
            WHERE i.{by} = asked.value AND i.parent_waits AND i.{IS_OPEN}
            UNION
            SELECT i.instance_id FROM to_cancel CROSS JOIN workflow_instances AS i
            WHERE i.parent_id = to_cancel.id AND i.parent_waits AND i.{IS_OPEN}
        ) SELECT json_group_array(id) FROM to_cancel
    """)


@cache
def advance_external(*, ends: Status | None, suspends: bool, resumes: bool, unfit: bool) -> TextClause:
    """Take the next seq of an open instance, owned or not; returns its row, or nothing.

    A signal changes nothing if its key is in the log, if too many signals are kept, or if the log has no room; kept
    ones are only counted if the log is long enough to have that many. Uses the primary keys and ux_log_signal_key.
    """
    if ends:
        change = f"status = '{ends}', worker_id = NULL, available_at = NULL, completed_at = :now, suspended_for = NULL"
        condition = ""
    elif unfit:
        change = SUSPENDS_UNFIT
        condition = f"AND {IS_AWAKE} AND worker_id IS NULL AND {HAS_CAPACITY}"
    elif suspends:
        change = SUSPENDS
        condition = f"AND {IS_AWAKE} AND {HAS_CAPACITY}"
    elif resumes:
        change = f"{RESUMES}, available_at = CASE WHEN worker_id IS NULL THEN :now ELSE available_at END"
        condition = f"AND NOT {IS_AWAKE} AND {HAS_CAPACITY}"
    else:
        change = f"""
            available_at = CASE WHEN worker_id IS NULL AND {IS_AWAKE} THEN min(coalesce(available_at, :now), :now)
                                ELSE available_at END"""
        condition = f"""
            AND NOT EXISTS (SELECT 1 FROM workflow_instance_logs AS l
                            WHERE l.instance_id = :instance_id AND {IS_SIGNAL} AND payload ->> 'key' = :key)
            AND (last_seq < :signals_max OR ({SIGNALS_KEPT}) < :signals_max)
            AND {HAS_CAPACITY}"""
    return text(f"""
        UPDATE workflow_instances
        SET version = version + 1, last_seq = last_seq + 1, log_bytes = log_bytes + :bytes, {change}
        WHERE instance_id = :instance_id AND tenant_id = :tenant_id AND {IS_OPEN} {condition}
        RETURNING {_COLUMNS}
    """)
