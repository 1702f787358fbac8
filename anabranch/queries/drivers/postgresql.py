"""Queries on PostgreSQL: one statement in the extended protocol, in a transaction opened for it.

Runs in a driver process. A reading query becomes a subquery of ours: nothing that writes is valid there, and the server
itself measures each row before it sends it. The role of a source protects files, programs and other databases of the
server: the server is asked what the role may do, and with one that may do too much nothing runs.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, cast

import psycopg
from psycopg import pq
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.json import Jsonb

from anabranch.errors import NodeFailure
from anabranch.queries.drivers.driver_requests import DatabaseTarget, QueryRequest
from anabranch.queries.drivers.memory import MemoryLimiter
from anabranch.queries.drivers.nodejs_values import NODE_LOADERS
from anabranch.queries.drivers.own_database import OWN_DATABASE, OWN_TABLES
from anabranch.queries.drivers.serve import Send, Started
from anabranch.queries.parameters import Bound, Document
from anabranch.queries.query_faults import (
    failed,
    not_allowed,
    source_refused,
    timed_out,
    too_large,
    too_powerful,
    unreachable,
)
from anabranch.queries.query_results import Collector

# 2 s for the server to notice that the client is gone, if its own timeout does not end the query first.
_CLIENT_CHECK_MS = 2_000

# 5 s to wait for a row or table locked by another session.
_LOCK_TIMEOUT_MS = 5_000

# 5 s for which an answer about the role holds: asking takes longer than many a query.
_JUDGEMENT_SECONDS = 5.0

_ROW_TOO_LARGE = "anabranch-row-bytes-"

# Predefined roles that reach beyond the database, and functions that do so for whom they were granted to.
_ROLES = (
    "pg_read_server_files",
    "pg_write_server_files",
    "pg_execute_server_program",
    "pg_signal_backend",
    "pg_signal_autovacuum_worker",
    "pg_create_subscription",
)
_FUNCTIONS = ("pg_read_file", "pg_read_binary_file", "pg_ls_dir", "pg_stat_file", "lo_import", "lo_export")

# Attributes are not inherited, but a member of a role can become it: so the whole chain is looked at.
_IDENTITY = f"""
    WITH RECURSIVE mine(oid) AS (
        SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = session_user
        UNION SELECT m.roleid FROM pg_catalog.pg_auth_members m JOIN mine ON m.member = mine.oid
    ), powers(power) AS (
        SELECT p.power || CASE WHEN r.rolname = session_user THEN '' ELSE ' (as ' || r.rolname || ')' END
        FROM mine JOIN pg_catalog.pg_roles r USING (oid), LATERAL (VALUES
            (r.rolsuper, 'SUPERUSER'), (r.rolcreaterole, 'CREATEROLE'), (r.rolreplication, 'REPLICATION'),
            (r.rolbypassrls, 'BYPASSRLS')) AS p(is_held, power)
        WHERE p.is_held
        UNION ALL
        SELECT 'member of ' || r.rolname FROM mine JOIN pg_catalog.pg_roles r USING (oid)
        WHERE r.rolname IN ({", ".join(f"'{name}'" for name in _ROLES)})
        UNION ALL
        SELECT DISTINCT 'EXECUTE on ' || f.proname FROM mine JOIN pg_catalog.pg_proc f
            ON f.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
            AND f.proname IN ({", ".join(f"'{name}'" for name in _FUNCTIONS)})
            AND pg_catalog.has_function_privilege(mine.oid, f.oid, 'EXECUTE')
    )
    SELECT (SELECT count(DISTINCT relname) FROM pg_catalog.pg_class
            WHERE relname IN ({", ".join(f"'{name}'" for name in OWN_TABLES)})
            AND relkind IN ('r', 'p', 'f', 'v', 'm')),
        (SELECT array_agg(power) FROM powers)
"""  # noqa: S608 -- names of ours

_RETRYABLE_STATES = {"40001", "40P01", "55P03"}
_UNREACHABLE_CLASSES = {"08", "53", "57", "58"}

# libpq's words for a message that does not fit into this process.
_NO_MEMORY = ("out of memory", "cannot allocate memory")


class PostgresqlDriver:
    """A connection, for one query after the other of one source."""

    def __init__(
        self, target: DatabaseTarget, memory: MemoryLimiter, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._target = target
        self._memory = memory
        self._clock = clock
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._judged_at = -math.inf

    def check(self) -> None:
        """Connect, and look whether database and account are fit for queries. Raises NodeFailure."""
        self._open(_opening(writes=False, timeout_ms=self._target.connect_timeout_ms))
        self._close()

    def run(self, request: QueryRequest, started: Started, send: Send) -> int:
        """Send the rows of a query; their number. Raises NodeFailure (QUERY_FAILED, SOURCE_REFUSED)."""
        connection = self._open(_opening(writes=request.writes, timeout_ms=request.timeout_ms))
        started()
        try:
            count = _Execution(connection, request, send).count()
            if request.writes:
                connection.execute("COMMIT")
        except (psycopg.Error, OSError, RecursionError) as error:
            failure = self._fault(error, connection, request)
            self._renew(connection)
            raise failure from None
        except NodeFailure:
            self._renew(connection)
            raise
        self._renew(connection)
        return count

    def _open(self, opening: str) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection in a transaction, to a database and with a role that are fit for queries."""
        if self._connection is not None:
            try:
                return self._begin(self._connection, opening)
            except NodeFailure as failure:
                # The server closed the idle connection; no query was sent.
                self._close()
                if failure.type_name != "SourceUnreachable":
                    raise
        self._memory.limit_connecting()
        try:
            self._connection = _connect(self._target)
        except (psycopg.Error, OSError) as error:
            raise _unreachable(error) from None
        self._memory.limit_answering()
        try:
            return self._begin(self._connection, opening)
        except NodeFailure:
            self._close()
            raise

    def _begin(
        self, connection: psycopg.Connection[tuple[Any, ...]], opening: str
    ) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            connection.execute(opening.encode())
            if self._clock() < self._judged_at + _JUDGEMENT_SECONDS:
                return connection
            own_tables, powers = connection.execute(_IDENTITY.encode()).fetchone() or (0, None)
        except (psycopg.Error, OSError) as error:
            if getattr(error, "sqlstate", None) and not connection.broken:
                raise failed(f"PostgreSQL: {_first_line(error)}") from None
            raise _unreachable(error) from None
        if own_tables == len(OWN_TABLES):
            raise source_refused(OWN_DATABASE)
        if powers:
            raise too_powerful(self._target.user, powers, _advice(self._target.database))
        self._judged_at = self._clock()
        return connection

    def _renew(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Undo what is left of the transaction, settings, temporary tables, locks, cursors, listens: all of it."""
        try:
            # Also after a successful reading query, to undo session settings that it made.
            connection.execute("ROLLBACK")
            connection.execute("DISCARD ALL")
        except (psycopg.Error, OSError):
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError, psycopg.Error):
                self._connection.close()
            self._connection = None
        self._judged_at = -math.inf

    def _fault(self, error: Exception, connection: psycopg.Connection[Any], request: QueryRequest) -> NodeFailure:
        words = _first_line(error)
        state = getattr(error, "sqlstate", None) or ""
        if isinstance(error, RecursionError):
            return failed("PostgreSQL: a JSON value is nested too deep to be read")
        if state == "57014":
            return timed_out(request.timeout_ms)
        if state == "25006":
            return not_allowed(f"PostgreSQL: {words}; a query that changes rows is declared with `writes: true`")
        if state == "22P02" and _ROW_TOO_LARGE in words:
            return too_large(f"a row of more than {request.bytes_max} bytes")
        if not state and (connection.broken or connection.closed or isinstance(error, OSError)):
            return _unreachable(error)
        if state[:2] in _UNREACHABLE_CLASSES:
            return unreachable(f"PostgreSQL: {words}")
        return failed(f"PostgreSQL: {words}", retryable=state in _RETRYABLE_STATES)


class _Execution:
    """One statement, in the transaction that was opened for it."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]], request: QueryRequest, send: Send) -> None:
        self._connection = connection
        self._request = request
        self._send = send

    def count(self) -> int:
        """How many rows were sent, or changed."""
        request = self._request
        numbers = {name: f"${number}" for number, name in enumerate(request.names, start=1)}
        text = request.render(numbers.__getitem__)
        values = [_adapted(request.values[name]) for name in numbers]
        # A name that the query cannot know, or a column of this name would stand in for the row.
        alias = f"row_{secrets.token_hex(8)}"
        if not request.writes:
            return self._rows(_measured(text, alias, request.bytes_max), values)
        if not self._gives_rows(text):
            return self._changes(text, values)
        # PostgreSQL takes a writing WITH only at the top, so that one is sent as it is.
        if request.verb != "with":
            text = _measured_changes(text, alias, request.bytes_max)
        return self._rows(text, values)

    def _rows(self, text: str, values: Sequence[Any]) -> int:
        with psycopg.RawCursor(self._connection) as cursor:
            if self._request.as_in_node:
                for name, loader in NODE_LOADERS.items():
                    cursor.adapters.register_loader(name, loader)
            collector: Collector | None = None
            stream = cast(Generator[tuple[Any, ...]], cursor.stream(text.encode(), values))
            # Closed at once when a limit ends it early: closing cancels what the server still does.
            with contextlib.closing(stream) as rows:
                for row in rows:
                    if collector is None:
                        columns = [column.name for column in cursor.description or ()]
                        collector = Collector(columns, self._request, self._send)
                    collector.add(row)
            if collector is None:
                return 0
            collector.flush()
            return collector.count

    def _changes(self, text: str, values: Sequence[Any]) -> int:
        # In a pipeline the driver uses the extended protocol always; without parameters it would else
        # send a text that may hold several statements.
        with psycopg.RawCursor(self._connection) as cursor:
            with self._connection.pipeline():
                cursor.execute(text.encode(), values)
            return max(cursor.rowcount, 0)

    def _gives_rows(self, text: str) -> bool:
        """Whether the statement returns rows; the server describes it without executing it."""
        connection = self._connection.pgconn
        for result in (connection.prepare(b"", text.encode()), connection.describe_prepared(b"")):
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise psycopg.errors.error_from_result(result, encoding="utf-8")
        return result.nfields > 0


def _unreachable(error: BaseException) -> NodeFailure:
    """The failure for a connection that was refused or broke. Raises MemoryError if it broke at the memory limit."""
    words = _first_line(error)
    if any(each in words for each in _NO_MEMORY):
        raise MemoryError
    return unreachable(f"PostgreSQL: {words}")


def _advice(database: str) -> str:
    name = database.replace('"', '""')
    return (
        "Name a role in the URL that may do what the queries need and nothing else:"
        " CREATE ROLE anabranch_queries LOGIN PASSWORD '…';"
        f' GRANT CONNECT ON DATABASE "{name}" TO anabranch_queries;'
        " GRANT USAGE ON SCHEMA public TO anabranch_queries;"
        " GRANT SELECT ON ALL TABLES IN SCHEMA public TO anabranch_queries;"
        " and for writing queries GRANT INSERT, UPDATE, DELETE on the tables that they change."
    )


def _connect(target: DatabaseTarget) -> psycopg.Connection[tuple[Any, ...]]:
    is_local = target.socket_directory is not None
    return psycopg.connect(
        # The name for TLS, the checked addresses for the connection: nothing is resolved a second time.
        host=target.socket_directory if is_local else ",".join([target.host] * len(target.addresses)),
        hostaddr=None if is_local else ",".join(target.addresses),
        port=target.port,
        user=target.user,
        # Each of these is written out because libpq would else look for it in the service's environment or home.
        password=target.password,
        dbname=target.database,
        passfile=f"{os.devnull}/none",
        options="",
        sslmode=target.tls,
        sslcertmode="disable",
        gssencmode="disable",
        client_encoding="UTF8",
        application_name="anabranch query",
        connect_timeout=max(2, target.connect_timeout_ms // 1000 // max(1, len(target.addresses))),
        autocommit=True,
        prepare_threshold=None,
        context=_Adapters(),
    )


def _opening(*, writes: bool, timeout_ms: int) -> str:
    """The transaction and its bounds, in one round trip. Numbers and constants of ours only."""
    settings = {
        "statement_timeout": str(timeout_ms),
        "lock_timeout": str(min(_LOCK_TIMEOUT_MS, timeout_ms)),
        "idle_in_transaction_session_timeout": str(timeout_ms),
        "client_connection_check_interval": str(_CLIENT_CHECK_MS),
        # The text was looked at with these rules for its strings.
        "standard_conforming_strings": "on",
        "timezone": "'UTC'",
        "datestyle": "'ISO, YMD'",
        "intervalstyle": "'iso_8601'",
        "bytea_output": "'hex'",
        # In parallel, PostgreSQL may gather the rows of an ordered subquery in another order.
        "max_parallel_workers_per_gather": "0",
    }
    parts = [f"BEGIN TRANSACTION READ {'WRITE' if writes else 'ONLY'}"]
    parts += [f"SET LOCAL {name} = {value}" for name, value in settings.items()]
    return "; ".join(parts)


def _measured(text: str, alias: str, bytes_max: int) -> str:
    """The query as a subquery; the cast fails, at the server, at the first row that is too long to send."""
    # The text has passed `statement`; the name, the number and the rest are ours.
    size = f"octet_length(CAST({alias} AS text))"
    guard = f"CASE WHEN {size} <= {bytes_max} THEN true ELSE CAST('{_ROW_TOO_LARGE}' || {size} AS boolean) END"
    return f"SELECT {alias}.* FROM (\n{text}\n) AS {alias} WHERE {guard}"  # noqa: S608


def _measured_changes(text: str, alias: str, bytes_max: int) -> str:
    """The same around a statement that changes rows and returns them."""
    changed = f"changed_{alias}"
    measured = _measured(f"SELECT * FROM {changed}", alias, bytes_max)  # noqa: S608
    return f"WITH {changed} AS (\n{text}\n) {measured}"


class _TextLoader(Loader):
    """A value in the server's own words."""

    def load(self, data: Any) -> str:
        return bytes(data).decode()


class _InstantLoader(_TextLoader):
    """A timestamp in ISO 8601: `2026-01-31T08:00:00+00:00`; infinity and years BC as they are."""

    def load(self, data: Any) -> str:
        text = super().load(data)
        if "BC" in text or "infinity" in text:
            return text
        text = text.replace(" ", "T", 1)
        return f"{text}:00" if text[-3:-2] in ("+", "-") and "T" in text else text


class _Adapters:
    """The driver's adapters, but for what would lose something on its way through Python."""

    adapters = AdaptersMap(psycopg.adapters)
    connection = None


for _type in ("numeric", "uuid", "date", "time", "timetz", "interval", "inet", "cidr"):
    _Adapters.adapters.register_loader(_type, _TextLoader)
for _type in ("timestamp", "timestamptz"):
    _Adapters.adapters.register_loader(_type, _InstantLoader)


def _adapted(value: Bound) -> Any:
    return Jsonb(value.value) if isinstance(value, Document) else value


def _first_line(error: BaseException) -> str:
    """The primary message; what follows repeats the statement."""
    diagnosis = getattr(error, "diag", None)
    primary = getattr(diagnosis, "message_primary", None)
    return " ".join((primary or str(error) or type(error).__name__).split())
