"""SQL of the benchmarks: logs that look as if they had been there for months, and when runs ended.

Filled by the database itself from a series of numbers: a million rows in seconds.
"""

from __future__ import annotations

from sqlalchemy import Connection, create_engine, make_url, text

# The rows of a run of ten nodes: its input, two for each node, its end.
ROWS_PER_RUN = 22

_NUMBERS = {
    "sqlite": "(WITH RECURSIVE s(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM s WHERE n < :last) SELECT n FROM s)",
    "postgresql": "(SELECT n FROM generate_series(CAST(:first AS int), CAST(:last AS int)) AS s(n))",
}

# Ids of version 7 from the beginning of 2020 on: older than whatever is started now, as real ones would be.
_RUN_ID = {
    "sqlite": "printf('016f5e66-%04x-7%03x-8000-%012x', i.n / 65536, i.n % 4096, i.n)",
    "postgresql": (
        "CAST('016f5e66-' || lpad(to_hex(i.n / 65536), 4, '0') || '-7' || lpad(to_hex(i.n % 4096), 3, '0')"
        " || '-8000-' || lpad(to_hex(i.n), 12, '0') AS uuid)"
    ),
}
_TRUTH = {"sqlite": "0", "postgresql": "false"}

_RUNS = """
    INSERT INTO workflow_instances (instance_id, tenant_id, workflow_id, workflow_name, workflow_version, kind, test,
        status, version, last_seq, starts_at, retention_days, created_at, started_at, completed_at)
    SELECT {run_id}, 'default', w.workflow_id, w.name, 1, 'drawn', {false}, 'COMPLETED', 11, {rows},
        1577836800000 + i.n, 30, 1577836800000 + i.n, 1577836800000 + i.n, 1577836800100 + i.n
    FROM {numbers} AS i, workflows AS w WHERE w.name = :workflow
"""
_LOGS = """
    INSERT INTO workflow_instance_logs (instance_id, seq, node_id, scope, event_type, node_status, next_handle,
        output_variable, payload, node_attempt, created_at)
    SELECT {run_id}, e.n,
        CASE WHEN e.n IN (1, {rows}) THEN '' WHEN e.n < 4 THEN 'start' ELSE 'n' || ((e.n - 2) / 2) END, '',
        CASE WHEN e.n = 1 THEN 'INPUT_SET' WHEN e.n = {rows} THEN 'INSTANCE_COMPLETED'
            WHEN e.n % 2 = 0 THEN 'NODE_DISPATCHED' ELSE 'NODE_COMPLETED' END,
        CASE WHEN e.n % 2 = 1 AND e.n > 1 THEN 'success' END, CASE WHEN e.n % 2 = 1 AND e.n > 1 THEN 'default' END,
        CASE WHEN e.n % 2 = 1 AND e.n > 3 THEN 'v' END,
        CAST('{{"v":' || i.n || '}}' AS {json}), CASE WHEN e.n IN (1, {rows}) THEN 0 ELSE 1 END, 1577836800000 + i.n
    FROM {numbers} AS i, {events} AS e
"""
_ENDED = """
    SELECT count(*), min(started_at), max(completed_at) FROM workflow_instances
    WHERE created_at >= :since AND completed_at IS NOT NULL
"""


def fill(url: str, log_rows: int, *, workflow: str) -> None:
    """Add ended runs of a saved workflow until there are about so many log rows, and tidy up as a server would."""
    runs = log_rows // ROWS_PER_RUN
    if not runs:
        return
    kind = make_url(url).get_backend_name()
    events = _NUMBERS[kind].replace(":first", "1").replace(":last", str(ROWS_PER_RUN))
    words = {
        "run_id": _RUN_ID[kind],
        "false": _TRUTH[kind],
        "rows": ROWS_PER_RUN,
        "numbers": _NUMBERS[kind],
        "events": events,
        "json": {"sqlite": "text", "postgresql": "json"}[kind],
    }
    with _connected(url) as connection:
        bounds = {"first": 1, "last": runs}
        connection.execute(text(_RUNS.format(**words)), {**bounds, "workflow": workflow})
        connection.execute(text(_LOGS.format(**words)), bounds)
        for statement in {
            "sqlite": ("PRAGMA wal_checkpoint(TRUNCATE)",),
            "postgresql": ("VACUUM ANALYZE", "CHECKPOINT"),
        }[kind]:
            connection.execute(text(statement))


def stored_log_rows(url: str) -> int:
    """How many log rows there are."""
    with _connected(url) as connection:
        return int(connection.execute(text("SELECT count(*) FROM workflow_instance_logs")).scalar_one())


def ended_since(url: str, since: int) -> tuple[int, int, int]:
    """Of the runs created since then (ms): how many have ended, when the first began, when the last ended."""
    with _connected(url) as connection:
        count, first, last = connection.execute(text(_ENDED), {"since": since}).one()
        return int(count), int(first or 0), int(last or 0)


def _connected(url: str) -> Connection:
    parsed = make_url(url)
    driver = "postgresql+psycopg" if parsed.get_backend_name() == "postgresql" else "sqlite"
    return create_engine(parsed.set(drivername=driver), isolation_level="AUTOCOMMIT").connect()
