"""Processes: which ones run on a database, and which of them a migration would break.

Each process reports itself (`report_process`); `anabranch.migrations` asks for the older ones. Programs from before
`FIRST_REPORTED` do not report. They are found by their sessions, on PostgreSQL, and by the runs that they own.
"""

from __future__ import annotations

from functools import cache

from sqlalchemy import Connection, TextClause, text

from anabranch.engine.store.schema import IS_OPEN, OLDEST_PROGRAM, SCHEMA_REVISION
from anabranch.engine.store.sql.dialect import Dialect

# 30 s between two reports, and three of them until a process counts as gone: one may be late, and none of them matters
# to anything but a migration.
REPORTS_EVERY_MS = 30_000
GONE_AFTER_MS = 3 * REPORTS_EVERY_MS

# The schema that brought the reports.
FIRST_REPORTED = "0026"

_FORGET = text("DELETE FROM processes WHERE process_id = :id OR seen_at < :before")
"""A process that ends also removes those that are gone."""

_OLDER = text("""
    SELECT process_id, release FROM processes WHERE schema_revision < :oldest AND seen_at > :after ORDER BY process_id
""")

_SESSIONS = text("""
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND application_name IN ('anabranch', 'anabranch commits', 'anabranch hints')
""")
"""Other sessions of programs, of any release."""

_OWNERS = text(f"""
    SELECT DISTINCT worker_id FROM workflow_instances
    WHERE {IS_OPEN} AND worker_id IS NOT NULL AND available_at > :now ORDER BY worker_id
""")  # noqa: S608 -- our own condition
"""Workers with leases that have not expired."""


@cache
def _report(clock: str) -> TextClause:
    return text(f"""
        INSERT INTO processes (process_id, release, schema_revision, seen_at) VALUES (:id, :release, :schema, {clock})
        ON CONFLICT (process_id) DO UPDATE SET seen_at = {clock}
    """)  # noqa: S608 -- our own expression


_SUPPORT = text("SELECT oldest_program FROM schema_support WHERE revision = :revision")


def report_process(connection: Connection, dialect: Dialect, *, process_id: str, release: str) -> None:
    """Say that this process runs, with this release and the schema of this program."""
    named = {"id": process_id, "release": release, "schema": SCHEMA_REVISION}
    connection.execute(_report(dialect.clock), named)


def forget_process(connection: Connection, dialect: Dialect, *, process_id: str) -> None:
    """Remove the report of a process that ends."""
    connection.execute(_FORGET, {"id": process_id, "before": dialect.now(connection) - GONE_AFTER_MS})


def older_processes(connection: Connection, dialect: Dialect, *, found: str) -> list[str]:
    """The processes that cannot work with the schema of this program, in words; `found` is the present schema."""
    now = dialect.now(connection)
    if found >= FIRST_REPORTED:
        asked = {"oldest": OLDEST_PROGRAM, "after": now - GONE_AFTER_MS}
        return [f"{process_id} (release {release})" for process_id, release in connection.execute(_OLDER, asked)]
    owners = connection.execute(_OWNERS, {"now": now}).scalars()
    older = [f"worker {worker_id}, which owns runs" for worker_id in owners]
    sessions = connection.execute(_SESSIONS).scalar_one() if dialect.is_remote else 0
    return [*older, f"{sessions} sessions of anabranch"] if sessions else older


def note_support(connection: Connection) -> None:
    """Record which programs work with the schema that the database has now."""
    connection.execute(text("DELETE FROM schema_support"))
    support = {"revision": SCHEMA_REVISION, "oldest": OLDEST_PROGRAM}
    connection.execute(
        text("INSERT INTO schema_support (revision, oldest_program) VALUES (:revision, :oldest)"), support
    )


def supports(connection: Connection, *, found: str) -> bool:
    """Whether this program works with a newer schema, as the program that migrated to it has recorded."""
    oldest: str | None = connection.execute(_SUPPORT, {"revision": found}).scalar_one_or_none()
    return oldest is not None and oldest <= SCHEMA_REVISION
