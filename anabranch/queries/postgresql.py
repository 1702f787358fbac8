"""Queries on PostgreSQL: one statement in the extended protocol, inside a transaction that was opened for it.

Called by `execution` in a worker thread. A reading query is put into a subquery of ours: there
nothing that writes is grammatical, and the server itself measures each row before it is sent. The
role that a source names is the wall towards files and programs of the server; one that could reach
them (a superuser, say) is exchanged for `pg_read_all_data` before the query begins.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Generator, Iterator, Sequence
from typing import Any, cast

import psycopg
from psycopg import pq
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.json import Jsonb

from anabranch.errors import NodeFailure
from anabranch.queries.answers import Answer, Collector
from anabranch.queries.faults import failed, not_allowed, source_refused, timed_out, too_large, unreachable
from anabranch.queries.parameters import Bound, Document
from anabranch.queries.session import OWN_DATABASE, OWN_TABLES, Work
from anabranch.queries.sources import ServerSource

# 2 s for the server to notice that nobody listens any more, should its own timeout not end a query first.
_CLIENT_CHECK_MS = 2_000

# 5 s to wait for a row or table that somebody else has locked.
_LOCK_TIMEOUT_MS = 5_000

# Predefined since PostgreSQL 14: may read every table and do nothing else.
_READER = "pg_read_all_data"

_ROW_TOO_LARGE = "anabranch-row-bytes-"

_IDENTITY = """
    SELECT current_setting('server_version_num')::int,
        (SELECT count(DISTINCT relname) FROM pg_catalog.pg_class
         WHERE relname = ANY(%s) AND relkind IN ('r', 'p', 'f', 'v', 'm')),
        (SELECT r.rolsuper OR r.rolreplication OR r.rolcreaterole
            OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles p WHERE p.rolname = ANY(%s)
                       AND pg_catalog.pg_has_role(r.oid, p.oid, 'MEMBER'))
         FROM pg_catalog.pg_roles r WHERE r.rolname = session_user)
"""
_FAR_REACHING = ["pg_execute_server_program", "pg_read_server_files", "pg_write_server_files", "pg_signal_backend"]

_RETRYABLE_STATES = {"40001", "40P01", "55P03"}
_UNREACHABLE_CLASSES = {"08", "53", "57", "58"}


class PostgresqlSession:
    """A connection, for one query after the other of one source."""

    def __init__(self, source: ServerSource, addresses: Sequence[str], *, connect_timeout_ms: int) -> None:
        """Connect. Raises NodeFailure."""
        self._source = source
        try:
            self._connection = _connect(source, addresses, connect_timeout_ms)
        except (psycopg.Error, OSError) as error:
            # `from None`, here and below: the driver's exceptions carry how they were told to connect.
            raise unreachable(f"PostgreSQL: {source.mask(_first_line(error))}") from None
        try:
            self._has_reach = self._look_around()
        except BaseException:
            self.close()
            raise

    def run(self, work: Work) -> Answer:
        """See `Session.run`."""
        if self._has_reach and work.writes:
            raise source_refused(
                f"the role {self._source.user} may reach files or programs of the server (it is a superuser, perhaps);"
                " writing queries need a role that may not"
            )
        try:
            with self._transaction(work):
                return self._answer(work)
        except (psycopg.Error, OSError, RecursionError) as error:
            raise self._fault(error, work) from None

    def reset(self) -> bool:
        """See `Session.reset`: settings, temporary tables, locks, cursors, listens, all of it."""
        try:
            self._connection.execute("DISCARD ALL")
        except (psycopg.Error, OSError):
            return False
        return True

    def interrupt(self) -> None:
        """See `Session.interrupt`: the thread that reads wakes up to a broken connection."""
        with (
            contextlib.suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self._connection.fileno())) as pipe,
        ):
            pipe.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Session.close`."""
        with contextlib.suppress(OSError, psycopg.Error):
            self._connection.close()

    def _look_around(self) -> bool:
        """Refuse a database of anabranch's own; is the role one that reaches beyond the database?"""
        try:
            row = self._connection.execute(_IDENTITY, (list(OWN_TABLES), _FAR_REACHING)).fetchone()
        except (psycopg.Error, OSError) as error:
            raise unreachable(f"PostgreSQL: {self._source.mask(_first_line(error))}") from None
        assert row is not None, "a SELECT without FROM has one row"
        version, own_tables, has_reach = row
        if own_tables == len(OWN_TABLES):
            raise source_refused(OWN_DATABASE)
        if has_reach and version < 140_000:
            raise source_refused(
                f"the role {self._source.user} may reach files or programs of the server, and this server is too old"
                " to take that from it; name another role"
            )
        return bool(has_reach)

    @contextlib.contextmanager
    def _transaction(self, work: Work) -> Iterator[None]:
        self._connection.execute(_opening(work, has_reach=self._has_reach))
        try:
            yield
            if work.writes:
                self._connection.execute("COMMIT")
        finally:
            # Also behind a reading query that went well: what it set for the session is undone with it.
            with contextlib.suppress(OSError, psycopg.Error):
                self._connection.execute("ROLLBACK")

    def _answer(self, work: Work) -> Answer:
        numbers = {name: f"${number}" for number, name in enumerate(work.statement.parameters, start=1)}
        text = work.statement.render(numbers.__getitem__)
        values = [_adapted(work.values[name]) for name in numbers]
        # A name that the query cannot know, or a column of this name would stand in for the row.
        alias = f"row_{secrets.token_hex(8)}"
        if not work.writes:
            return self._rows(_measured(text, alias, work.limits.bytes_max), values, work)
        if not self._gives_rows(text):
            return self._changes(text, values)
        # PostgreSQL takes a writing WITH only at the top, so that one is sent as it is.
        if work.statement.verb != "with":
            text = _measured_changes(text, alias, work.limits.bytes_max)
        return self._rows(text, values, work)

    def _rows(self, text: str, values: Sequence[Any], work: Work) -> Answer:
        with psycopg.RawCursor(self._connection) as cursor:
            collector: Collector | None = None
            stream = cast(Generator[tuple[Any, ...]], cursor.stream(text.encode(), values))
            # Closed at once when a limit ends it early: closing cancels what the server still does.
            with contextlib.closing(stream) as rows:
                for row in rows:
                    if collector is None:
                        collector = self._collector(cursor, work)
                    collector.add(row)
            found = collector.rows if collector is not None else []
            return Answer(found, len(found))

    def _changes(self, text: str, values: Sequence[Any]) -> Answer:
        # In a pipeline the driver uses the extended protocol always; without parameters it would else
        # send a text that may hold several statements.
        with psycopg.RawCursor(self._connection) as cursor:
            with self._connection.pipeline():
                cursor.execute(text.encode(), values)
            return Answer([], max(cursor.rowcount, 0))

    def _gives_rows(self, text: str) -> bool:
        """Does the statement answer with rows? Asked of the server, which only looks at it."""
        connection = self._connection.pgconn
        for result in (connection.prepare(b"", text.encode()), connection.describe_prepared(b"")):
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise psycopg.errors.error_from_result(result, encoding="utf-8")
        return result.nfields > 0

    def _collector(self, cursor: psycopg.RawCursor[Any], work: Work) -> Collector:
        names = [column.name for column in cursor.description or ()]
        return Collector(names, rows_max=work.limits.rows_max, bytes_max=work.limits.bytes_max)

    def _fault(self, error: Exception, work: Work) -> NodeFailure:
        words = self._source.mask(_first_line(error))
        state = getattr(error, "sqlstate", None) or ""
        if isinstance(error, RecursionError):
            return failed("PostgreSQL: a JSON value is nested too deep to be read")
        if state == "57014":
            return timed_out(work.timeout_ms)
        if state == "25006":
            return not_allowed(f"PostgreSQL: {words}; a query that changes rows is declared with `writes: true`")
        if state == "22P02" and _ROW_TOO_LARGE in words:
            return too_large(f"a row of more than {work.limits.bytes_max} bytes")
        if not state and (self._connection.broken or self._connection.closed or isinstance(error, OSError)):
            return unreachable(f"PostgreSQL: {words}")
        if state[:2] in _UNREACHABLE_CLASSES:
            return unreachable(f"PostgreSQL: {words}")
        return failed(f"PostgreSQL: {words}", retryable=state in _RETRYABLE_STATES)


# No file can be there: one that is there and is no plain file (/dev/null) makes libpq write a warning to our
# standard error for each connection.
_NO_FILE = os.path.join(os.devnull, "none")


def _connect(
    source: ServerSource, addresses: Sequence[str], connect_timeout_ms: int
) -> psycopg.Connection[tuple[Any, ...]]:
    is_local = source.socket_directory is not None
    return psycopg.connect(
        # The name for TLS, the checked addresses for the connection: nothing is resolved a second time.
        host=source.socket_directory if is_local else ",".join([source.host] * len(addresses)),
        hostaddr=None if is_local else ",".join(addresses),
        port=source.port,
        user=source.user,
        # Each of these is written out because libpq would else look for it in the service's environment or home.
        password=source.password,
        dbname=source.database,
        passfile=_NO_FILE,
        options="",
        sslmode=source.tls,
        sslcertmode="disable",
        gssencmode="disable",
        client_encoding="UTF8",
        application_name="anabranch query",
        connect_timeout=max(2, connect_timeout_ms // 1000),
        autocommit=True,
        prepare_threshold=None,
        context=_Adapters(),
    )


def _opening(work: Work, *, has_reach: bool) -> str:
    """The transaction and its bounds, in one round trip. Numbers and constants of ours only."""
    settings = {
        "statement_timeout": str(work.timeout_ms),
        "lock_timeout": str(min(_LOCK_TIMEOUT_MS, work.timeout_ms)),
        "idle_in_transaction_session_timeout": str(work.timeout_ms),
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
    parts = [f"BEGIN TRANSACTION READ {'WRITE' if work.writes else 'ONLY'}"]
    parts += [f"SET LOCAL {name} = {value}" for name, value in settings.items()]
    if has_reach:
        parts.append(f"SET LOCAL ROLE {_READER}")
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
