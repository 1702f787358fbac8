"""Statements for PostgreSQL only, each with its locking and the index it relies on.

Executed by `postgresql_dialect`. Each is a whole transaction in autocommit and one round trip, except where parents and
children are involved.
"""

# Statements are put together from this package's own column names and conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from functools import cache

from sqlalchemy import TextClause, text

from anabranch.engine.rules.events import Status
from anabranch.engine.store.schema import HAS_NOT_ENDED, IS_ENDING, IS_OPEN, IS_SIGNAL
from anabranch.engine.store.sql.families import REASON_BEGINS, REASON_BYTES, REASON_ENDS
from anabranch.engine.store.sql.rows import EVENT_NOTE_COLUMNS, INSTANCE_COLUMNS, PAYLOAD_SEPARATOR
from anabranch.engine.store.sql.statements import (
    HAS_CAPACITY,
    IS_AWAKE,
    IS_WHOLE,
    RESUMES,
    SIGNALS_KEPT,
    SUSPENDS,
    SUSPENDS_UNFIT,
)

# floor, not round: a timer must not fire in the half millisecond before it is due.
NOW_MS = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)"

_COLUMNS = ", ".join(INSTANCE_COLUMNS)
_NOT_AT_CREATION = ("completed_at", "company", "crashes")
_WRITTEN_AT_CREATION = ", ".join(name for name in INSTANCE_COLUMNS if name not in _NOT_AT_CREATION)
_NOTE = ", ".join(EVENT_NOTE_COLUMNS)
_SEPARATOR = f"chr({ord(PAYLOAD_SEPARATOR)})"

IS_EFFECTIVE = """NOT EXISTS (
    SELECT 1 FROM workflow_instances AS h
    CROSS JOIN LATERAL json_array_elements(CAST(coalesce(h.left_out, '[]') AS json)) AS o(pair)
    WHERE h.instance_id = l.instance_id
      AND l.seq BETWEEN CAST(o.pair ->> 0 AS integer) AND CAST(o.pair ->> 1 AS integer))"""
"""No reopening has left out the log row `l`. By primary key."""

NOW = text(f"SELECT {NOW_MS}")
"""The server's clock."""

BACKEND = text("SELECT pg_backend_pid()")
"""The number of the process that answers."""

LINE_OF_HISTORY = text("""
    SELECT CASE WHEN NOT pg_is_in_recovery() THEN
        CAST((SELECT system_identifier FROM pg_control_system()) AS text)
        || '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END
""")
"""The cluster and its timeline, in hexadecimal digits; NULL on a standby."""

IS_READ_ONLY = text("SELECT current_setting('transaction_read_only')")
"""Whether a transaction that begins now may write: not on a standby, nor on a database that was made read-only."""

OLDEST_WRITER = text("""
    SELECT CAST(floor(extract(epoch FROM least(clock_timestamp(), min(xact_start))) * 1000) AS bigint)
    FROM pg_stat_activity
    WHERE datname = current_database() AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()
""")
"""The begin of the oldest open transaction that has written; now, if there is none.

A frozen process may keep one open.
"""

_MOVED = f"""
    WITH transition AS (
        SELECT * FROM json_to_recordset(CAST(:transitions AS json)) AS t(
            instance_id uuid, expected_version integer, held_by text, first_seq integer, events integer,
            bytes bigint, status text, ends boolean, releases boolean, available_at bigint, not_before bigint,
            started_at bigint, suspended_for text, clears boolean)
    ), locked AS (
        SELECT transition.* FROM transition CROSS JOIN LATERAL (
            SELECT 1 FROM workflow_instances AS i
            WHERE i.instance_id = transition.instance_id AND i.version = transition.expected_version
              AND i.worker_id IS NOT DISTINCT FROM transition.held_by AND i.{HAS_NOT_ENDED}
              AND (transition.first_seq IS NULL OR i.last_seq + 1 = transition.first_seq)
              AND (transition.not_before IS NULL OR transition.not_before <= {NOW_MS})
            FOR UPDATE SKIP LOCKED) AS guard
    ), moved AS (
        UPDATE workflow_instances AS i SET
            version = i.version + 1,
            last_seq = i.last_seq + locked.events,
            log_bytes = i.log_bytes + locked.bytes,
            status = locked.status,
            worker_id = CASE WHEN locked.releases THEN NULL ELSE i.worker_id END,
            available_at = CASE WHEN locked.releases THEN locked.available_at
                                ELSE coalesce(locked.available_at, i.available_at) END,
            started_at = coalesce(i.started_at, locked.started_at),
            completed_at = CASE WHEN locked.ends THEN {NOW_MS} END,
            suspended_for = locked.suspended_for,
            company = CASE WHEN NOT locked.clears THEN i.company END,
            crashes = CASE WHEN locked.clears THEN 0 ELSE i.crashes END
        FROM locked WHERE i.instance_id = locked.instance_id
        RETURNING i.instance_id
    )"""
_CREATED = f"""
    new_run AS (
        SELECT * FROM json_to_recordset(CAST(:new_runs AS json)) AS b(
            instance_id uuid, tenant_id text, workflow_id uuid, workflow_name text, workflow_version integer,
            kind text, test boolean, status text, version integer, last_seq integer, worker_id text,
            available_at bigint, starts_at bigint, deadline_at bigint, retention_days integer, idempotency_key text,
            parent_id uuid, created_at bigint, started_at bigint, parent_node_id text, parent_scope text,
            parent_waits boolean, depth integer, root_id uuid, log_bytes bigint, rerun_of uuid,
            started_by text, suspended_for text, generation integer, left_out text, forked_from uuid,
            needs text, ends boolean, only_active boolean)
    ), living AS (
        SELECT wanted.workflow_id, guard.version
        FROM (SELECT DISTINCT workflow_id FROM new_run ORDER BY workflow_id) AS wanted CROSS JOIN LATERAL (
            SELECT coalesce(active_version, newest_version) AS version FROM workflows AS w
            WHERE w.workflow_id = wanted.workflow_id AND w.deleted_at IS NULL
            FOR KEY SHARE SKIP LOCKED) AS guard
    ), created AS (
        INSERT INTO workflow_instances ({_WRITTEN_AT_CREATION}, completed_at)
        SELECT {_WRITTEN_AT_CREATION}, CASE WHEN ends THEN {NOW_MS} END
        FROM new_run
        WHERE workflow_id IS NULL
           OR (NOT only_active AND workflow_id IN (SELECT workflow_id FROM living)) IS TRUE
           OR (only_active AND (workflow_id, workflow_version) IN (SELECT workflow_id, version FROM living))
              IS TRUE
        ORDER BY tenant_id, workflow_name, idempotency_key
        ON CONFLICT DO NOTHING
        RETURNING instance_id
    )"""
_LOGGED = f"""
    logged AS (
        INSERT INTO workflow_instance_logs (instance_id, seq, node_id, scope, event_type, node_status, next_handle,
            output_variable, payload, error_message, node_attempt, created_at, arguments, generation, parts)
        SELECT instance_id, seq, node_id, coalesce(scope, ''), event_type, node_status, next_handle, output_variable,
            coalesce(payload, CAST('null' AS json)), error_message, node_attempt, created_at, arguments,
            coalesce(generation, 0), parts
        FROM json_to_recordset(CAST(:events AS json)) AS e(
            instance_id uuid, seq integer, node_id text, scope text, event_type text, node_status text,
            next_handle text, output_variable text, payload json, error_message text, node_attempt integer,
            created_at bigint, arguments text, generation integer, parts text)
        WHERE (instance_id IN (SELECT instance_id FROM winner)) IS TRUE
    )
    SELECT CAST(array_agg(instance_id) AS text[]), {NOW_MS} FROM winner"""

COMMIT = text(f"""{_MOVED},{_CREATED}, winner AS (
        SELECT instance_id FROM moved UNION ALL SELECT instance_id FROM created
    ),{_LOGGED}
""")
"""A whole batch: lock the rows that still match, move them, insert the new ones, log the winners' events.

Locks rows in the order in which the transitions are offered (by id) and skips those that are locked, so that it never
waits for another commit; the lock step repeats no join, its LATERAL keeps both the order and the lookup by primary key.
New runs are inserted in the order of their keys, because an insert waits for a key that another batch is just
inserting. Their workflows are locked against deletion; creations and saves share that lock. A workflow that is just
being deleted is skipped like a locked row, so no commit waits for a delete. With `only_active` it must be the active
version. `IS TRUE` keeps the planner from turning the membership test into a join: a hashed set is faster
than the nested loop that the committing connections are held to. A payload that is the JSON value null arrives as an
SQL NULL.
"""

ADVANCE = text(f"""{_MOVED}, winner AS (SELECT instance_id FROM moved),{_LOGGED}
""")
"""The same for a batch without new runs, as most are: the server needs not begin what would find nothing to insert."""

KEY_HOLDERS = text("""
    SELECT b.instance_id, i.instance_id
    FROM json_to_recordset(CAST(:new_runs AS json)) AS b(
        instance_id uuid, tenant_id text, workflow_name text, idempotency_key text)
    JOIN workflow_instances AS i ON i.tenant_id = b.tenant_id AND i.workflow_name = b.workflow_name
        AND i.idempotency_key = b.idempotency_key AND i.idempotency_key IS NOT NULL
""")
"""The runs that have the idempotency keys of creations that did not win. Uses ux_instance_idempotency."""

CREATIONS_WITHOUT_WORKFLOW = text("""
    SELECT b.instance_id
    FROM json_to_recordset(CAST(:new_runs AS json)) AS b(
        instance_id uuid, workflow_id uuid, workflow_version integer, only_active boolean)
    WHERE b.workflow_id IS NOT NULL
      AND NOT EXISTS (
          SELECT 1 FROM workflows AS w
          WHERE w.workflow_id = b.workflow_id AND w.deleted_at IS NULL
            AND (NOT b.only_active OR coalesce(w.active_version, w.newest_version) = b.workflow_version))
      AND NOT EXISTS (SELECT 1 FROM workflow_instances AS i WHERE i.instance_id = b.instance_id)
""")
"""New runs that did not win because their workflow is deleted or has another active version, unless they exist. Uses
the primary keys."""

LOCK_PARENTS = text("""
    SELECT 1 FROM workflow_instances WHERE instance_id = ANY(CAST(:ids AS uuid[])) ORDER BY instance_id FOR UPDATE
""")
"""Lock the parents to wake before anything else of the batch, and wait for these locks.

The end of a parent locks it first and then its children; the end of a child must do the same, to avoid a deadlock.
"""

EXISTING = text("SELECT instance_id FROM workflow_instances WHERE instance_id = ANY(CAST(:ids AS uuid[]))")
"""Which of these exist. Uses the primary key."""

LOCK_FREE = text("""
    SELECT instance_id FROM workflow_instances WHERE instance_id = ANY(CAST(:ids AS uuid[]))
    ORDER BY instance_id FOR UPDATE SKIP LOCKED
""")
"""Which of these are not locked by others. Does not wait; uses the primary key."""

SHARE_PARENTS = text(f"""
    SELECT instance_id FROM workflow_instances
    WHERE instance_id = ANY(CAST(:ids AS uuid[])) AND {HAS_NOT_ENDED} ORDER BY instance_id FOR SHARE SKIP LOCKED
""")
"""The open ones among the parents of new runs, locked against any transition until the new runs are committed."""

REJECTED_CREATIONS = text(f"""
    SELECT b.instance_id
    FROM json_to_recordset(CAST(:new_runs AS json)) AS b(
        instance_id uuid, parent_id uuid, parent_node_id text, parent_scope text)
    WHERE b.parent_id IS NOT NULL
      AND (NOT EXISTS (SELECT 1 FROM workflow_instances AS p WHERE p.instance_id = b.parent_id AND p.{HAS_NOT_ENDED})
           OR EXISTS (SELECT 1 FROM workflow_instance_logs AS l
                      WHERE l.instance_id = b.parent_id AND l.node_id = b.parent_node_id
                        AND l.scope = b.parent_scope AND l.{IS_ENDING} AND {IS_EFFECTIVE}))
      AND NOT EXISTS (SELECT 1 FROM workflow_instances AS i WHERE i.instance_id = b.instance_id)
""")
"""New runs whose parent has ended, or whose parent's activation has, unless they were created earlier.

A statement of its own after SHARE_PARENTS: its snapshot has every transition that these waited out.
Uses the primary keys and ux_log_ending.
"""

WAKE = text(f"""
    UPDATE workflow_instances SET version = version + 1,
        available_at = CASE WHEN worker_id IS NULL AND {IS_AWAKE} THEN least(coalesce(available_at, {NOW_MS}), {NOW_MS})
                            ELSE available_at END
    WHERE instance_id = ANY(CAST(:ids AS uuid[])) AND {HAS_NOT_ENDED}
    RETURNING instance_id, version
""")
"""Raise the versions of these parents, which are locked already, because a child has ended; returns the versions."""

ENDED_CHILDREN = text(f"""
    SELECT asked.instance_id, i.status, l.payload, l.parts
    FROM unnest(CAST(:ids AS uuid[])) AS asked(instance_id)
    LEFT JOIN workflow_instances AS i ON i.instance_id = asked.instance_id
    LEFT JOIN workflow_instance_logs AS l ON l.instance_id = i.instance_id AND l.seq = i.last_seq
    WHERE i.instance_id IS NULL OR NOT i.{IS_OPEN}
""")
"""See `Dialect.ended_children`. Uses both primary keys."""

FAMILY = text("""
    SELECT parent_id FROM workflow_instances
    WHERE instance_id = :instance_id AND tenant_id = :tenant_id AND parent_waits
""")
"""The parent that awaits an instance, if one does; that never changes."""

LOAD = text(f"""
    SELECT {", ".join(f"i.{name}" for name in INSTANCE_COLUMNS)}, log.notes, log.payloads
    FROM workflow_instances AS i CROSS JOIN LATERAL (
        SELECT CAST(json_agg(json_build_array({_NOTE}) ORDER BY seq) AS text) AS notes,
               string_agg(CAST(payload AS text), {_SEPARATOR} ORDER BY seq) AS payloads
        FROM workflow_instance_logs AS l
        WHERE {IS_WHOLE} AND l.instance_id = i.instance_id AND l.seq > :after_seq) AS log
    WHERE i.instance_id = ANY(CAST(:ids AS uuid[]))
""")
"""Rows with their logs, both from the statement's one snapshot. Uses both primary keys."""


def event_list(rows: str) -> str:
    """The log rows of a SELECT as one row, in seq order: notes in JSON, payloads joined."""
    return f"""
        SELECT CAST(json_agg(json_build_array({_NOTE}) ORDER BY seq) AS text),
               string_agg(CAST(payload AS text), {_SEPARATOR} ORDER BY seq)
        FROM ({rows}) AS page
    """


READ_LOG = text(
    event_list("""
        SELECT * FROM workflow_instance_logs
        WHERE instance_id = :instance_id AND seq > :after_seq AND seq <= (
            SELECT max(seq) FROM (
                SELECT seq, sum(size) OVER (ORDER BY seq) - size AS before FROM (
                    SELECT seq, octet_length(CAST(payload AS text)) AS size FROM workflow_instance_logs
                    WHERE instance_id = :instance_id AND seq > :after_seq ORDER BY seq LIMIT :limit) AS part
            ) AS sized WHERE before < :bytes_max)
    """)
)
"""One page of a log, in seq order; it ends early once its payloads have enough bytes. Uses the primary key."""


@cache
def append_external(
    *, ends: Status | None, suspends: bool = False, resumes: bool = False, unfit: bool = False
) -> TextClause:
    """Append an event to an open instance, owned or not; returns its row, or nothing.

    Waits for the row's lock, so it cannot starve. A signal changes nothing if its key is in the log, if too many
    signals are kept, or if the log has no room; kept ones are only counted if the log is long enough to have that many.
    ux_log_signal_key refuses a key that is sent twice at once. Uses the primary keys.
    """
    if ends:
        change = f"""
            status = '{ends}', worker_id = NULL, available_at = NULL, completed_at = {NOW_MS}, suspended_for = NULL"""
        condition = ""
    elif unfit:
        change = SUSPENDS_UNFIT
        condition = f"AND {IS_AWAKE} AND worker_id IS NULL AND {HAS_CAPACITY}"
    elif suspends:
        change = SUSPENDS
        condition = f"AND {IS_AWAKE} AND {HAS_CAPACITY}"
    elif resumes:
        change = f"{RESUMES}, available_at = CASE WHEN worker_id IS NULL THEN {NOW_MS} ELSE available_at END"
        condition = f"AND NOT {IS_AWAKE} AND {HAS_CAPACITY}"
    else:
        change = f"""
            available_at = CASE WHEN worker_id IS NULL AND {IS_AWAKE}
                                THEN least(coalesce(available_at, {NOW_MS}), {NOW_MS}) ELSE available_at END"""
        condition = f"""
            AND NOT EXISTS (SELECT 1 FROM workflow_instance_logs AS l
                            WHERE l.instance_id = :instance_id AND {IS_SIGNAL} AND payload ->> 'key' = :key)
            AND (last_seq < :signals_max OR ({SIGNALS_KEPT}) < :signals_max)
            AND {HAS_CAPACITY}"""
    return text(f"""
        WITH moved AS (
            UPDATE workflow_instances
            SET version = version + 1, last_seq = last_seq + 1, log_bytes = log_bytes + :bytes, {change}
            WHERE instance_id = :instance_id AND tenant_id = :tenant_id AND {HAS_NOT_ENDED} {condition}
            RETURNING {_COLUMNS}
        ), logged AS (
            INSERT INTO workflow_instance_logs
                (instance_id, seq, node_id, scope, event_type, payload, error_message, node_attempt, created_at, parts)
            SELECT instance_id, last_seq, '', '', :event_type, CAST(:payload AS json), :message, 0, {NOW_MS}, :parts
            FROM moved
        )
        SELECT {_COLUMNS} FROM moved
    """)


@cache
def cancel_children(by: str) -> TextClause:
    """Cancel open children by their ids (`by` "instance_id") or by their parents' ("parent_id"); returns them.

    Waits for their locks. One generation only: children created during the wait are only visible to the next statement.
    Uses the primary key or ix_instance_parent.
    """
    return text(f"""
        WITH to_cancel AS (
            SELECT instance_id FROM workflow_instances
            WHERE {by} = ANY(CAST(:ids AS uuid[])) AND parent_waits AND {HAS_NOT_ENDED}
            ORDER BY instance_id FOR UPDATE
        ), moved AS (
            UPDATE workflow_instances AS i SET version = i.version + 1, last_seq = i.last_seq + 1,
                log_bytes = i.log_bytes + {REASON_BYTES}, status = 'CANCELLED', worker_id = NULL,
                available_at = NULL, completed_at = {NOW_MS}, suspended_for = NULL
            FROM to_cancel WHERE i.instance_id = to_cancel.instance_id
            RETURNING i.instance_id, i.last_seq, i.parent_id
        ), logged AS (
            INSERT INTO workflow_instance_logs
                (instance_id, seq, node_id, scope, event_type, payload, node_attempt, created_at)
            SELECT instance_id, last_seq, '', '', 'INSTANCE_CANCELLED',
                to_json('{REASON_BEGINS}' || CAST(parent_id AS text) || '{REASON_ENDS}'), 0, {NOW_MS}
            FROM moved
        )
        SELECT instance_id FROM moved
    """)
