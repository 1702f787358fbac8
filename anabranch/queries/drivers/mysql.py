"""Queries on MySQL and MariaDB, through PyMySQL if it is installed (`pip install anabranch[mysql]`).

Runs in a driver process. PyMySQL writes values into the text itself, so the session sets the rules for quoting
(character set, escapes) before every query. The account of a source protects files and other databases of the server:
with an account that may do too much nothing runs.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from anabranch.errors import NodeFailure
from anabranch.queries.drivers.driver_requests import DatabaseTarget, QueryRequest
from anabranch.queries.drivers.memory import MemoryLimiter
from anabranch.queries.drivers.own_database import OWN_DATABASE, OWN_TABLES
from anabranch.queries.drivers.serve import Send, Started
from anabranch.queries.parameters import Bound, Document
from anabranch.queries.query_faults import failed, not_allowed, source_refused, timed_out, too_powerful, unreachable
from anabranch.queries.query_results import Collector

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

# How SHOW GRANTS writes names: in backticks, whatever the server's own settings are.
_SPELLING = ("SET SESSION sql_mode = ''", "SET SESSION sql_quote_show_create = 1")

_OWN = "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN (%s, %s)"

# What an account may hold on all databases at once. Everything else reaches beyond its own (FILE, PROCESS,
# SUPER and its finer parts, CREATE USER, replication), or writes to the database that says who may do what.
_HARMLESS = frozenset({
    "USAGE", "SELECT", "SHOW DATABASES", "SHOW VIEW", "SHOW CREATE ROUTINE", "SHOW ROUTINE", "EXECUTE",
    "LOCK TABLES", "CREATE TEMPORARY TABLES", "REFERENCES",
})  # fmt: skip
_PRIVILEGES_DATABASE = "mysql"
_GRANT = re.compile(
    r"GRANT (?P<privileges>.+) ON (?:TABLE )?(?P<scope>\*\.\*|`(?:[^`]|``)*`\.(?:\*|`(?:[^`]|``)*`)) TO .*"
)
_ROLE = re.compile(r"GRANT (?P<role>`(?:[^`]|``)*`)")
_PROXY = re.compile(r"GRANT PROXY ON .*", re.IGNORECASE)
_COLUMNS = re.compile(r"\([^)]*\)")


class MysqlDriver:
    """A connection for each query; resetting a used one costs more."""

    def __init__(self, target: DatabaseTarget, memory: MemoryLimiter) -> None:
        self._target = target
        self._memory = memory

    def check(self) -> None:
        """Connect, and look whether database and account are fit for queries. Raises NodeFailure."""
        with self._connected():
            pass

    def run(self, request: QueryRequest, started: Started, send: Send) -> int:
        """Send the rows of a query; their number. Raises NodeFailure (QUERY_FAILED, SOURCE_REFUSED)."""
        with self._connected() as connection:
            try:
                _prepare(connection, request)
                started()
                return _count(connection, request, send)
            except (pymysql.Error, OSError) as error:
                raise _fault(error, request) from None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection to a database, and with an account, that are fit for queries."""
        if pymysql is None:
            raise source_refused("MySQL sources need PyMySQL: pip install 'anabranch[mysql]'")
        target, plain, connection = self._target, None, None
        self._memory.limit_connecting()
        try:
            try:
                plain = _dial(target.addresses, target.port, target.connect_timeout_ms / 1000)
                connection = pymysql.connect(
                    host=target.host,  # for TLS only: the connection is the one that was just made
                    user=target.user,
                    password=target.password,
                    database=target.database,
                    charset="utf8mb4",
                    autocommit=True,
                    local_infile=False,
                    ssl=_tls(target.tls),
                    read_timeout=target.connect_timeout_ms / 1000,
                    defer_connect=True,
                )
                connection.connect(plain)
                self._memory.limit_answering()
                _refuse_own(connection)
                _refuse_power(connection, target)
            except (pymysql.Error, OSError) as error:
                raise unreachable(f"MySQL: {_words(error)}") from None
            yield connection
        finally:
            _hang_up(plain, connection)


def _hang_up(plain: socket.socket | None, connection: Any) -> None:
    """Disconnect now: the driver's file object would else keep the socket open for as long as it lives."""
    # Under TLS the driver has wrapped the socket, so the original object is detached.
    for one in (getattr(connection, "_sock", None), plain):
        if one is not None:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                one.close()


def _refuse_own(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_OWN, OWN_TABLES)
        if cursor.fetchone()[0] == len(OWN_TABLES):
            raise source_refused(OWN_DATABASE)


def _refuse_power(connection: Any, target: DatabaseTarget) -> None:
    powers = [power for grant in _grants(connection) for power in excess_privileges(grant)]
    if powers:
        raise too_powerful(target.user, list(dict.fromkeys(powers)), _advice(target.database))


def _grants(connection: Any) -> list[str]:
    """The grants of the account and of every role that it can take on."""
    with connection.cursor() as cursor:

        def ask(text: str) -> list[str]:
            cursor.execute(text)
            return [str(row[0]) for row in cursor.fetchall()]

        for setting in _SPELLING:
            ask(setting)
        grants = ask("SHOW GRANTS")
        roles = [found["role"] for grant in grants if (found := _ROLE.match(grant))]
        if not roles:
            return grants
        try:  # MySQL knows all roles at once
            ask("SET ROLE ALL")
            grants += ask("SHOW GRANTS")
            ask("SET ROLE DEFAULT")
        except pymysql.Error:  # MariaDB knows one, with those that were granted to it
            cursor.execute("SELECT CURRENT_ROLE()")
            now = cursor.fetchone()[0]
            for role in roles:
                ask(f"SET ROLE {role}")
                grants += ask("SHOW GRANTS")
            ask("SET ROLE NONE" if now is None else f"SET ROLE {_quoted(now)}")
        return grants


def excess_privileges(grant: str) -> list[str]:
    """The privileges in a line of SHOW GRANTS that exceed what a query needs."""
    if _PROXY.fullmatch(grant):
        return ["PROXY"]
    found = _GRANT.fullmatch(grant)
    if found is None:
        return []
    scope = found["scope"]
    is_global = scope == "*.*"
    if not is_global and not _covers_privileges(scope):
        return []
    privileges = [each.strip() for each in _COLUMNS.sub("", found["privileges"]).split(",")]
    if is_global and "WITH GRANT OPTION" in grant[found.end("scope") :]:
        privileges.append("GRANT OPTION")
    where = "" if is_global else f" on {scope}"
    return [f"{each}{where}" for each in privileges if each.upper().replace("_", " ") not in _HARMLESS]


def _covers_privileges(scope: str) -> bool:
    """Is the database of privileges among those that are meant? The name of a database is a pattern, as of LIKE."""
    name = scope[1 : scope.index("`.", 1)].replace("``", "`").lower()
    pattern = re.sub(
        r"\\.|.",
        lambda part: {"%": ".*", "_": "."}.get(part[0], re.escape(part[0][-1])),
        name,
        flags=re.DOTALL,
    )
    return re.fullmatch(pattern, _PRIVILEGES_DATABASE) is not None


def _advice(database: str) -> str:
    return (
        "Name an account in the URL that may do what the queries need and nothing else:"
        " CREATE USER 'anabranch_queries'@'%' IDENTIFIED BY '…';"
        f" GRANT SELECT ON {_quoted(database)}.* TO 'anabranch_queries'@'%';"
        " and for writing queries GRANT INSERT, UPDATE, DELETE on the tables that they change."
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _prepare(connection: Any, request: QueryRequest) -> None:
    connection._read_timeout = (request.timeout_ms + _GRACE_MS) / 1000
    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION sql_mode = '{_SQL_MODE}'")
        cursor.execute("SET SESSION time_zone = '+00:00'")
        # Two names for one thing: MySQL counts milliseconds, MariaDB seconds.
        with contextlib.suppress(pymysql.Error):
            cursor.execute(f"SET SESSION max_execution_time = {request.timeout_ms}")
        with contextlib.suppress(pymysql.Error):
            cursor.execute(f"SET SESSION max_statement_time = {request.timeout_ms / 1000}")
        cursor.execute(f"START TRANSACTION READ {'WRITE' if request.writes else 'ONLY'}")


def _count(connection: Any, request: QueryRequest, send: Send) -> int:
    cursor = SSCursor(connection)
    cursor.execute(text_of(request, connection))  # without arguments, so that a % is a %
    gives_rows = cursor.description is not None
    collector = Collector([column[0] for column in cursor.description or ()], request, send)
    for row in cursor.fetchall_unbuffered() if gives_rows else ():
        collector.add(row)
    changed = cursor.rowcount
    with connection.cursor() as ending:
        ending.execute("COMMIT" if request.writes else "ROLLBACK")
    collector.flush()
    return collector.count if gives_rows else max(changed, 0)


def _fault(error: Exception, request: QueryRequest) -> NodeFailure:
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    words = _words(error)
    if number in _TIMED_OUT or isinstance(error, TimeoutError) or "timed out" in words:
        return timed_out(request.timeout_ms)
    if number in _READ_ONLY:
        return not_allowed(f"MySQL: {words}; a query that changes rows is declared with `writes: true`")
    if number in _UNREACHABLE or isinstance(error, OSError):
        return unreachable(f"MySQL: {words}")
    return failed(f"MySQL: {words}", retryable=number in _RETRYABLE)


def text_of(request: QueryRequest, connection: Any) -> str:
    """The statement with its values, quoted by the driver for this connection."""
    values = {name: connection.escape(_adapted(request.values[name])) for name in request.names}
    return request.render(values.__getitem__)


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
    if mode == "require":  # encrypted, with any server: as PostgreSQL's mode of this name
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
