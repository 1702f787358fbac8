"""Queries on MySQL and MariaDB, through PyMySQL if it is installed (`pip install anabranch[mysql]`).

Called by `execution` in a worker thread. The driver writes values into the text itself, so the
session fixes the rules by which it quotes them (character set, escapes) before every query.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from anabranch.errors import NodeFailure
from anabranch.queries.answers import Answer, Collector
from anabranch.queries.faults import failed, not_allowed, source_refused, timed_out, unreachable
from anabranch.queries.parameters import Bound, Document
from anabranch.queries.session import OWN_DATABASE, OWN_TABLES, Work
from anabranch.queries.sources import ServerSource

try:
    import pymysql
    from pymysql.cursors import SSCursor
except ImportError:  # the extra is not installed: sources of this kind are refused with a sentence
    pymysql = None

# 1 s beyond the server's own timeout, so that its answer comes first where it has one.
_GRACE_MS = 1_000

_TIMED_OUT = {1969, 3024}  # MariaDB, MySQL
_READ_ONLY = {1792}
_RETRYABLE = {1205, 1213}
_UNREACHABLE = {2002, 2003, 2006, 2013, 1040, 1053}

# Strict, and without NO_BACKSLASH_ESCAPES or ANSI_QUOTES: the text was looked at, and values are
# quoted, by these rules.
_SQL_MODE = "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

_OWN = "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN (%s, %s)"


class MysqlSession:
    """A connection for one query; there is no cheap way to make a used one as new."""

    def __init__(self, source: ServerSource, addresses: Sequence[str], *, connect_timeout_ms: int) -> None:
        """Connect. Raises NodeFailure."""
        if pymysql is None:
            raise source_refused("MySQL sources need PyMySQL: pip install 'anabranch[mysql]'")
        self._source = source
        self._socket: socket.socket | None = None
        try:
            self._socket = _dial(addresses, source.port, connect_timeout_ms / 1000)
            self._connection = pymysql.connect(
                host=source.host,  # for TLS only: the connection is the one that was just made
                user=source.user,
                password=source.password,
                database=source.database,
                charset="utf8mb4",
                autocommit=True,
                local_infile=False,
                ssl=_tls(source.tls),
                read_timeout=connect_timeout_ms / 1000,
                defer_connect=True,
            )
            self._connection.connect(self._socket)
            self._refuse_own()
        except (pymysql.Error, OSError) as error:
            self.close()
            raise unreachable(f"MySQL: {source.mask(_words(error))}") from None
        except BaseException:
            self.close()
            raise

    def run(self, work: Work) -> Answer:
        """See `Session.run`."""
        try:
            self._prepare(work)
            return self._answer(work)
        except (pymysql.Error, OSError) as error:
            raise self._fault(error, work) from None

    def reset(self) -> bool:
        """See `Session.reset`."""
        return False

    def interrupt(self) -> None:
        """See `Session.interrupt`."""
        # Under TLS the driver has wrapped the socket, and ours is an empty shell.
        current = self._connection._sock or self._socket
        if current is not None:
            with contextlib.suppress(OSError):
                current.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Session.close`."""
        for one in (getattr(getattr(self, "_connection", None), "_sock", None), self._socket):
            if one is not None:
                with contextlib.suppress(OSError):
                    one.close()

    def _refuse_own(self) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(_OWN, OWN_TABLES)
            if cursor.fetchone()[0] == len(OWN_TABLES):
                raise source_refused(OWN_DATABASE)

    def _prepare(self, work: Work) -> None:
        assert self._socket is not None, "a session is made with its connection"
        self._connection._read_timeout = (work.timeout_ms + _GRACE_MS) / 1000
        with self._connection.cursor() as cursor:
            cursor.execute(f"SET SESSION sql_mode = '{_SQL_MODE}'")
            cursor.execute("SET SESSION time_zone = '+00:00'")
            # Two names for one thing: MySQL counts milliseconds, MariaDB seconds.
            with contextlib.suppress(pymysql.Error):
                cursor.execute(f"SET SESSION max_execution_time = {work.timeout_ms}")
            with contextlib.suppress(pymysql.Error):
                cursor.execute(f"SET SESSION max_statement_time = {work.timeout_ms / 1000}")
            cursor.execute(f"START TRANSACTION READ {'WRITE' if work.writes else 'ONLY'}")

    def _answer(self, work: Work) -> Answer:
        cursor = SSCursor(self._connection)
        cursor._query(text_of(work, self._connection))
        names = [column[0] for column in cursor.description or ()]
        collector = Collector(names, rows_max=work.limits.rows_max, bytes_max=work.limits.bytes_max)
        for row in cursor.fetchall_unbuffered() if names else ():
            collector.add(row)
        changed = cursor.rowcount
        with self._connection.cursor() as ending:
            ending.execute("COMMIT" if work.writes else "ROLLBACK")
        return Answer(collector.rows, len(collector.rows) if names else max(changed, 0))

    def _fault(self, error: Exception, work: Work) -> NodeFailure:
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        words = self._source.mask(_words(error))
        if number in _TIMED_OUT or isinstance(error, TimeoutError) or "timed out" in words:
            return timed_out(work.timeout_ms)
        if number in _READ_ONLY:
            return not_allowed(f"MySQL: {words}; a query that changes rows is declared with `writes: true`")
        if number in _UNREACHABLE or isinstance(error, OSError):
            return unreachable(f"MySQL: {words}")
        return failed(f"MySQL: {words}", retryable=number in _RETRYABLE)


def text_of(work: Work, connection: Any) -> str:
    """The statement with its values, quoted by the driver for this connection."""
    values = {name: connection.escape(_adapted(work.values[name])) for name in work.statement.parameters}
    return work.statement.render(values.__getitem__)


def _dial(addresses: Sequence[str], port: int, timeout_s: float) -> socket.socket:
    """A connection to the first of the checked addresses that answers."""
    refusal: OSError = OSError("the host has no address")
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout=timeout_s)
        except OSError as error:
            refusal = error
    raise refusal


def _tls(mode: str) -> ssl.SSLContext | None:
    if mode in ("disable", "prefer"):
        return None
    context = ssl.create_default_context()
    if mode == "require":  # encrypted, whoever it is: as PostgreSQL's mode of this name
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _adapted(value: Bound) -> Any:
    if isinstance(value, Document):
        return orjson.dumps(value.value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _words(error: BaseException) -> str:
    return " ".join(str(error.args[-1] if error.args else error).split())
