"""Queries on SQLite files: opened for one query, checked by an authorizer, stopped by a progress handler.

Runs in a driver process. The authorizer lets through what it knows: reads, functions, and changes of rows in a writing
query. It refuses to create or drop tables, attach files, change settings and load extensions. A query that does not
stop is ended with its process.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson

from anabranch.errors import NodeFailure
from anabranch.queries.drivers.driver_requests import DatabaseTarget, QueryRequest
from anabranch.queries.drivers.memory import TEMPORARY_FILE_BYTES, MemoryLimiter, limit_files
from anabranch.queries.drivers.own_database import OWN_DATABASE, OWN_TABLES
from anabranch.queries.drivers.serve import Send, Started
from anabranch.queries.parameters import Bound, Document
from anabranch.queries.query_faults import failed, not_allowed, source_refused, timed_out, too_large, unreachable
from anabranch.queries.query_results import Collector

# 1,000 steps of SQLite's machine take well below a millisecond: so late a timeout is noticed.
_STEPS_BETWEEN_LOOKS = 1_000

# 5 s: another writer's transaction takes milliseconds; the rest is left to the node's retry.
_BUSY_TIMEOUT_S = 5.0

# 8 MiB of pages in memory; what a sort needs beyond that goes to a temporary file. In memory it
# would grow without a bound until the query's time is over.
_CACHE_KIB = 8_192

_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 16,
    # One LIKE is one step, in which nothing can stop it: its cost is text times pattern.
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 256,
}

_READING_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_WRITING_ACTIONS = {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}

_FUNCTIONS_DENIED = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "lsdir", "fsdir"}

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}


class SqliteDriver:
    """Opens the file for each query: that costs less than making sure of an open one."""

    def __init__(self, target: DatabaseTarget, memory: MemoryLimiter) -> None:
        self._path = target.path
        self._timeout_ms = target.connect_timeout_ms
        self._deadline = float("inf")
        memory.limit_answering()

    def check(self) -> None:
        """There are no roles."""
        self._deadline = time.monotonic() + self._timeout_ms / 1000
        try:
            with contextlib.closing(self._connect(writes=False)) as connection:
                _refuse_own(connection)
        except sqlite3.Error as error:
            raise _fault(error, bytes_max=0, timeout_ms=self._timeout_ms, writes=False) from None

    def run(self, request: QueryRequest, started: Started, send: Send) -> int:
        """Send the rows of a query; their number. Raises NodeFailure (QUERY_FAILED, SOURCE_REFUSED)."""
        self._deadline = time.monotonic() + request.timeout_ms / 1000
        started()
        # A query that reads writes nothing but temporary files.
        limit_files(None if request.writes else TEMPORARY_FILE_BYTES)
        try:
            with contextlib.closing(self._connect(writes=request.writes)) as connection:
                _refuse_own(connection)
                return self._run(connection, request, send)
        except sqlite3.Error as error:
            raise _fault(
                error, bytes_max=request.bytes_max, timeout_ms=request.timeout_ms, writes=request.writes
            ) from None

    def _connect(self, *, writes: bool) -> sqlite3.Connection:
        # Never `rwc`: a query does not make files. The path is the real one, quoted, so nothing in it is an option.
        uri = f"file:{quote(self._path)}?mode={'rw' if writes else 'ro'}"
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        connection.text_factory = lambda text: text.decode(errors="replace")
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.set_progress_handler(self._must_stop, _STEPS_BETWEEN_LOOKS)
        for setting in (
            f"PRAGMA cache_size = -{_CACHE_KIB}",
            "PRAGMA temp_store = FILE",
            "PRAGMA mmap_size = 0",
            "PRAGMA trusted_schema = OFF",
            "PRAGMA cell_size_check = ON",
            f"PRAGMA query_only = {'OFF' if writes else 'ON'}",
        ):
            connection.execute(setting)
        return connection

    def _run(self, connection: sqlite3.Connection, request: QueryRequest, send: Send) -> int:
        # No value may be longer than the whole answer may be: one row could fill the memory otherwise.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, request.bytes_max)
        # Their first use declares them, which looks to the authorizer as if the schema were changed.
        connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").fetchall()
        connection.execute("BEGIN IMMEDIATE" if request.writes else "BEGIN")
        connection.set_authorizer(_authorizer(writes=request.writes))
        positions = {name: number for number, name in enumerate(request.names, start=1)}
        sql = request.render(lambda name: f"?{positions[name]}")
        cursor = connection.execute(sql, [_adapted(request.values[name]) for name in positions])
        collector = Collector([column[0] for column in cursor.description or ()], request, send)
        for row in cursor:
            collector.add(row)
        gives_rows, changed = cursor.description is not None, cursor.rowcount
        cursor.close()
        connection.set_authorizer(None)
        connection.execute("COMMIT" if request.writes else "ROLLBACK")
        collector.flush()
        return collector.count if gives_rows else max(changed, 0)

    def _must_stop(self) -> bool:
        return time.monotonic() > self._deadline


def _fault(error: sqlite3.Error, *, bytes_max: int, timeout_ms: int, writes: bool) -> NodeFailure:
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    words = str(error)
    if primary == sqlite3.SQLITE_NOMEM:
        raise MemoryError
    if primary == sqlite3.SQLITE_INTERRUPT:
        return timed_out(timeout_ms)
    if primary in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY):
        advice = "" if writes else "; a query that changes rows is declared with `writes: true`"
        return not_allowed(f"SQLite: {words}{advice}")
    if primary == sqlite3.SQLITE_TOOBIG:
        return too_large(f"a value of more than {bytes_max} bytes")
    if primary in _BUSY:
        return unreachable(f"SQLite: {words}")
    return failed(f"SQLite: {words}")


def _refuse_own(connection: sqlite3.Connection) -> None:
    """By what is in the file, so that a copy, a hard link and a link that moved meanwhile are known too."""
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if found.issuperset(OWN_TABLES):
        raise source_refused(OWN_DATABASE)


def _authorizer(*, writes: bool) -> Callable[[int, str | None, str | None, str | None, str | None], int]:
    def decide(action: int, first: str | None, second: str | None, _database: str | None, _by: str | None) -> int:
        if action in _READING_ACTIONS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            return sqlite3.SQLITE_DENY if (second or "").lower() in _FUNCTIONS_DENIED else sqlite3.SQLITE_OK
        if writes and action in _WRITING_ACTIONS and not (first or "").lower().startswith("sqlite_"):
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    return decide


def _adapted(value: Bound) -> Any:
    if isinstance(value, Document):
        return orjson.dumps(value.value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value
