"""PostgreSQL: one statement, one round trip, one transaction for everything on the hot path.

Called by `store`, `reads` and `definitions` through `dialect.Dialect`. Any number of processes may share the database;
row locks, versions and leases keep them apart.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import orjson
import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.types.string import TextLoader
from sqlalchemy import URL, Connection, Engine, TextClause, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from anabranch.engine.ports import ClaimRequest, InstanceRow, Loaded, Outcome, Transition
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.run_filter import WantedInput
from anabranch.engine.store.postgresql import postgresql_claim
from anabranch.engine.store.postgresql import postgresql_statements as statements
from anabranch.engine.store.postgresql.async_commits import PostgresqlAsyncCommits
from anabranch.engine.store.postgresql.password_file import usable_password_file
from anabranch.engine.store.postgresql.postgresql_commit import writing
from anabranch.engine.store.postgresql.postgresql_connections import BoundedAsyncConnection, BoundedConnection
from anabranch.engine.store.postgresql.timeouts import Timeouts
from anabranch.engine.store.schema import metadata, set_postgresql_options
from anabranch.engine.store.sql.component import transaction
from anabranch.engine.store.sql.database_errors import DatabaseErrorKind
from anabranch.engine.store.sql.dialect import ENDS_SETTLE_MS, ClaimedRow, Outages
from anabranch.engine.store.sql.families import (
    cancelled_children,
    created_children,
    failures,
    touches_family,
    woken_parents,
)
from anabranch.engine.store.sql.reading.input_conditions import postgresql_condition
from anabranch.engine.store.sql.rows import (
    INSTANCE_COLUMNS,
    ExternalEvent,
    claim_parameters,
    code_keys,
    encode_new_runs,
    events_from,
    instance_row,
)
from anabranch.engine.store.value_table import keep_values, parts_of
from anabranch.errors import DatabaseUnreachable
from anabranch.triggers.failure_recording import record_failures

log = logging.getLogger("anabranch.store")

# 5 s to connect, and 20 s of silence on an idle connection (`Timeouts` bounds the statements): well
# inside a lease, so that an outage is noticed before it is lost.
CONNECT_TIMEOUT_S = 5
SILENCE_MAX_MS = 20_000

_CONNECTING = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives_idle": SILENCE_MAX_MS // 2_000,
    "keepalives_interval": SILENCE_MAX_MS // 4_000,
    "keepalives_count": 2,
    "tcp_user_timeout": SILENCE_MAX_MS,
}

# 5 executions, as the driver has it: planning a statement that is used once costs more than it saves.
PREPARE_AFTER = 5

# An arbitrary number that no other advisory lock uses: "anabranc" in ASCII.
_MIGRATION_LOCK = 0x616E616272616E63

# Migrations have no timeouts, whatever is set for the role.
_MIGRATING = {"statement_timeout": 0, "lock_timeout": 0, "idle_in_transaction_session_timeout": 0}

_SNAPSHOT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"

# What the server calls connections that commit runs.
COMMITTING = "anabranch commits"

_IS_POOLED = (
    "a pooler lends connections by the transaction: nothing is prepared, settings hold for one transaction,"
    " and what other processes write is noticed by polling"
)

# PostgreSQL plans the commit statement for tables as they are now, and a plan lives on while they grow. New tables look
# so small that it would scan them; restricted to indexes, batches of 200 went from 42,000 to 73,000 units a second. One
# plan for all batches saves planning.
PLANNED_FOR_COMMITS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}

_TRY_AGAIN_CLASS = "40"  # transaction rollback: deadlock, serialisation
_LOCK_NOT_AVAILABLE = "55P03"  # our lock_timeout: the holder may be gone by the next attempt
_CANCELLED = "57014"  # a statement_timeout, ours or an administrator's, or a cancel by another session
# A prepared statement is missing, exists already, or has another result type now: the first two mean that a pooler
# shares sessions.
_SESSION_LOST = {"26000", "42P05"}
_PLAN_OUTDATED = "0A000"
_REFUSED_CLASSES = {"22", "23", "54"}  # data exception, integrity violation, program limit exceeded
_UNAVAILABLE_CLASSES = {"08", "25", "28", "3D", "53", "57", "58", "XX"}
_DUPLICATE = "23505"
# Where a connection keeps the line that it was told.
_LINE = "line_of_history"

# Forbidden or undefined, not supported, not in this state: what a server answers that has no timelines.
_UNTOLD_CLASSES = {"42", "0A", "55"}

set_postgresql_options()


class PostgresqlDialect:
    """A PostgreSQL database."""

    commits_in_flight_max = 2
    commit_threads = 2
    reading_threads = 4
    writing_threads = 4
    row_lock = "FOR UPDATE SKIP LOCKED"
    clock = statements.NOW_MS
    is_remote = True
    given_rows = "json_array_elements(CAST(:given AS json)) AS p(value)"
    payload_size = "octet_length(CAST(l.payload AS text))"
    parts_size = (
        "coalesce((SELECT sum(CAST(x.part ->> 2 AS integer))"
        " FROM json_array_elements(CAST(l.parts AS json)) AS x(part)), 0)"
    )
    payload_without_output = (
        "CASE WHEN l.payload ->> 'output' IS NULL THEN l.payload"
        " ELSE CAST(CAST(l.payload AS jsonb) - 'output' AS json) END"
    )
    among_ids = "instance_id = ANY(CAST(:ids AS uuid[]))"
    index_names = "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()"
    ended_children = statements.ENDED_CHILDREN
    is_effective = statements.IS_EFFECTIVE

    def __init__(self, url: URL, *, timeouts: Timeouts, pooled: bool | None = None) -> None:
        """`pooled`: whether a pooler lends sessions per transaction; None: `detect` finds out."""
        self._url = url.set(drivername="postgresql+psycopg")
        self.timeouts = timeouts
        self._pooled = pooled
        self.target = f"PostgreSQL database {url.database or url.username or ''} at {_hosts_of(url)}"
        self._has_lines = True
        """Whether the server tells which line of history it is on."""

    @property
    def pooled(self) -> bool:
        """Whether session settings may be lost between transactions; True until `detect` has found out."""
        return self._pooled is not False

    def apply_outcome(self, connection: Connection) -> bool:
        """Detect whether sessions are our own.

        A pooler uses its own cancel keys, so the backend's number differs from the one announced at connect; and a
        pooler in transaction mode may serve two connections from one backend, or one connection from two.
        """
        if self._pooled is not None:
            return False
        engine = self.engine(commits=False)
        try:
            with engine.connect() as other:
                one, two, again = _backend(connection), _backend(other), _backend(connection)
        finally:
            engine.dispose()
        self._pooled = not (one == again == _driver(connection).info.backend_pid != two)
        if self._pooled:
            log.info("%s: %s", self.target, _IS_POOLED)
        return True

    def connect_arguments(self) -> dict[str, Any]:
        """The driver's arguments for every connection of the engine."""
        _, arguments = self._url.get_dialect()().create_connect_args(self._url)
        further = {**usable_password_file(arguments), "prepare_threshold": None if self.pooled else PREPARE_AFTER}
        return {**_CONNECTING, **arguments, **further}

    def connect(
        self, *, application_name: str = "anabranch", settings: Mapping[str, object] | None = None
    ) -> BoundedConnection:
        """A driver connection in autocommit, with these settings if the session is our own."""
        arguments = {"application_name": application_name, **self.connect_arguments()}
        connection = BoundedConnection.connect(autocommit=True, **arguments)
        self._make_ours(connection)
        if settings and not self.pooled:
            try:
                connection.execute(_statements("SET", settings))
            except BaseException:
                connection.close()
                raise
        return connection

    async def connect_asynchronously(
        self, *, application_name: str, settings: Mapping[str, object] | None = None
    ) -> BoundedAsyncConnection:
        """The same for coroutines."""
        arguments = {"application_name": application_name, **self.connect_arguments()}
        connection = await BoundedAsyncConnection.connect(autocommit=True, **arguments)
        self._make_ours(connection)
        if settings and not self.pooled:
            try:
                await connection.execute(_statements("SET", settings))
            except BaseException:
                await connection.close()
                raise
        return connection

    def _make_ours(self, connection: BoundedConnection | BoundedAsyncConnection) -> None:
        connection.answer_within_s = self.timeouts.client_s
        # Ids and payloads are handled as text, so the driver must not decode them.
        connection.adapters.register_loader("uuid", TextLoader)
        connection.adapters.register_loader("json", TextLoader)

    def engine(self, *, commits: bool) -> Engine:
        """On connections for commits the planner is restricted to indexes."""
        name = COMMITTING if commits else "anabranch"
        settings = self._settings(commits=commits)
        return create_engine(
            self._url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            creator=lambda: self.connect(application_name=name, settings=settings),
        )

    def async_commits(self, outages: Outages) -> PostgresqlAsyncCommits:
        """One round trip each, and no thread."""
        settings = self._settings(commits=True)
        return PostgresqlAsyncCommits(
            self,
            outages,
            connect=lambda: self.connect_asynchronously(application_name=COMMITTING, settings=settings),
            beginning=lambda: _beginning(settings) if self.pooled else None,
        )

    @contextmanager
    def migration(self, connection: Connection) -> Iterator[None]:
        """Uses an advisory lock, because two transactions may both find no table."""
        driver = _driver(connection)
        with transaction(connection, _beginning(_MIGRATING), driver_error=psycopg.Error):
            bounded, driver.answer_within_s = driver.answer_within_s, None
            try:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
                yield
            finally:
                driver.answer_within_s = bounded

    def _settings(self, *, commits: bool) -> dict[str, object]:
        """Settings for every statement, which override those of the role or database."""
        timeouts: dict[str, object] = {
            "statement_timeout": self.timeouts.statement_ms,
            "lock_timeout": self.timeouts.lock_ms,
            "idle_in_transaction_session_timeout": self.timeouts.idle_in_transaction_ms,
        }
        return {**timeouts, **PLANNED_FOR_COMMITS} if commits else timeouts

    def whole(self, connection: Connection, *, commits: bool) -> AbstractContextManager[None]:
        """If sessions are shared, settings hold for one transaction, so this begins one."""
        if not self.pooled:
            return nullcontext()
        return transaction(connection, _beginning(self._settings(commits=commits)), driver_error=psycopg.Error)

    def transaction(self, connection: Connection) -> AbstractContextManager[None]:
        """Uses the transaction of `whole`, if there is one."""
        if _in_transaction(connection):
            return nullcontext()
        return transaction(connection, "BEGIN", driver_error=psycopg.Error)

    @contextmanager
    def snapshot(self, connection: Connection) -> Iterator[None]:
        """REPEATABLE READ, read only; the transaction that is open already, or one of its own."""
        if _in_transaction(connection):
            connection.exec_driver_sql(f"SET TRANSACTION {_SNAPSHOT}")
            yield
            return
        with transaction(connection, f"BEGIN {_SNAPSHOT}", driver_error=psycopg.Error):
            yield

    def sever(self, connection: Connection) -> None:
        """Closes the socket; a connection that the pool has dropped has none."""
        if not connection.invalidated:
            _driver(connection).sever()

    def check_writable(self, connection: Connection) -> None:
        """A server that is read-only (a standby) accepts no commit. Raises DatabaseUnreachable."""
        if connection.execute(statements.IS_READ_ONLY).scalar_one() == "on":
            raise DatabaseUnreachable(f"{self.target}: it is read-only")

    def ids(self, instance_ids: Sequence[str]) -> str:
        """Leaves out text that is not a UUID."""
        return "{" + ",".join(filter(_is_uuid, instance_ids)) + "}"

    def now(self, connection: Connection) -> int:
        """The server's clock (ms)."""
        return int(connection.execute(statements.NOW).scalar_one())

    def line_of_history(self, connection: Connection) -> str | None:
        """The cluster and its timeline, which each promotion and each restore to a point in time raises.

        A server that cannot say it (some only speak PostgreSQL's protocol) has one line. Raises DatabaseUnreachable
        on a standby: what it becomes is not known yet.
        """
        if not self._has_lines:
            return None
        known: str | None = connection.info.get(_LINE)
        if known is not None and not self.pooled:
            return known  # promotion ends no session of a standby, but those are refused below
        try:
            line: str | None = connection.execute(statements.LINE_OF_HISTORY).scalar_one()
        except DBAPIError as error:
            state = _sqlstate(error) or ""
            if state[:2] not in _UNTOLD_CLASSES or state in _SESSION_LOST:
                raise
            self._has_lines = False
            log.warning("%s: failovers that lose commits are not noticed: %s", self.target, self.describe(error))
            raise DatabaseUnreachable(self.describe(error)) from error
        if line is None:
            raise DatabaseUnreachable(f"{self.target}: it is a standby")
        connection.info[_LINE] = line
        return line

    def settled_until(self, connection: Connection) -> int:
        """The begin of the oldest writing transaction, and at least the usual time ago.

        A row gets its end time while it is written, so not before its transaction began. The usual time covers
        transactions of other roles, which this connection cannot see.
        """
        return int(connection.execute(statements.OLDEST_WRITER).scalar_one()) - ENDS_SETTLE_MS

    def input_condition(self, wanted: WantedInput, number: int) -> TextClause:
        """Uses the operators of jsonb: numbers by value, objects in any key order."""
        return postgresql_condition(wanted, number)

    def commit(self, connection: Connection, transitions: Sequence[Transition]) -> Outcome:
        """One statement; more only if a creation did not win, for parents and children, and for failed runs."""
        found, failed = parts_of(transitions), failures(transitions)
        if not touches_family(transitions) and not found and not failed:
            return self._write(connection, transitions)
        with self.transaction(connection):
            # A transition that loses wakes no parent, but the winners are not known yet.
            parents = woken_parents(transitions, {transition.instance_id for transition in transitions})
            if parents:
                connection.execute(statements.LOCK_PARENTS, {"ids": self.ids(parents)})
            uncreated, rejected = self._rejected_children(connection, transitions)
            written = self._write(
                connection, [transition for transition in transitions if transition.instance_id not in uncreated]
            )
            woken = self._wake(connection, woken_parents(transitions, written.won))
            cancelled = self._cancel(connection, "instance_id", cancelled_children(transitions, written.won))
            if won := {instance_id: parts for instance_id, parts in found.items() if instance_id in written.won}:
                keep_values(connection, self, won)
            if recorded := {instance_id: error for instance_id, error in failed.items() if instance_id in written.won}:
                record_failures(connection, recorded, now=written.store_now)
        return replace(written, rejected=rejected | written.rejected, woken=woken, cancelled=cancelled)

    def _rejected_children(
        self, connection: Connection, transitions: Sequence[Transition]
    ) -> tuple[set[str], set[str]]:
        """The new runs whose parents are locked by others or reject them; and, separately, the latter."""
        children = created_children(transitions)
        if not children:
            return set(), set()
        parents = sorted({parent for _, parent in children})
        shared = set(connection.execute(statements.SHARE_PARENTS, {"ids": self.ids(parents)}).scalars())
        asked = {"new_runs": encode_new_runs(transition for transition, _ in children)}
        rejected = set(connection.execute(statements.REJECTED_CREATIONS, asked).scalars())
        return rejected | {transition.instance_id for transition, parent in children if parent not in shared}, rejected

    def _wake(self, connection: Connection, parents: Sequence[str]) -> dict[str, int]:
        """Raise the versions of open parents whose children have ended; returns the versions."""
        if not parents:
            return {}
        return {row[0]: row[1] for row in connection.execute(statements.WAKE, {"ids": self.ids(parents)})}

    def _cancel(self, connection: Connection, by: str, ids: Sequence[str]) -> set[str]:
        """Cancel these open children, or the children of these runs, with all that they await; returns the cancelled
        ones."""
        cancelled: set[str] = set()
        while ids:
            ids = list(connection.execute(statements.cancel_children(by), {"ids": self.ids(ids)}).scalars())
            cancelled.update(ids)
            by = "parent_id"  # from generation to generation
        return cancelled

    def _write(self, connection: Connection, transitions: Sequence[Transition]) -> Outcome:
        """Write the transitions whose guards hold."""
        questions = writing(transitions)
        question = next(questions)
        while True:
            rows = connection.execute(*question).all()
            try:
                question = questions.send(rows)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]

    def claim(self, connection: Connection, wanted: ClaimRequest) -> list[ClaimedRow]:
        """One statement: locks due rows, skips rows locked by others, and takes the rest."""
        parameters = claim_parameters(wanted) | {"lease_ms": wanted.lease_ms}
        if wanted.parked is not None:
            parameters["parked"] = self.ids([wanted.parked.instance_id])
        if wanted.only is not None:
            parameters["ids"] = self.ids(wanted.only)
        if wanted.known_code is not None:
            parameters["known_code"] = code_keys(wanted.known_code)
            parameters["known_types"] = list(wanted.known_types or ())
        if wanted.capacities is not None:
            parameters |= {
                "capacity": wanted.capacities.each,
                "capacities": orjson.dumps(wanted.capacities.of).decode(),
                "full": [tenant_id for tenant_id, capacity in wanted.capacities.of.items() if not capacity],
            }
        statement = postgresql_claim.claim(
            parked=wanted.parked is not None,
            only=wanted.only is not None,
            steal=wanted.steal,
            knows=wanted.known_code is not None,
            capacities=wanted.capacities is not None,
            large=wanted.large,
            alone=wanted.suspects.alone,
        )
        rows = connection.execute(statement, parameters)
        return [ClaimedRow(*row) for row in rows]

    def append_external(self, connection: Connection, event: ExternalEvent, *, signals_max: int) -> InstanceRow | None:
        """One statement; an end locks parents and children, too, from the top."""
        parameters = {**event.parameters, **event.row}
        if event.ends is not None:
            return self._end_externally(connection, event, parameters)
        if event.is_signal:
            parameters |= {"key": event.key, "signals_max": signals_max}
        append = statements.append_external(
            ends=None, suspends=event.suspends is not None, resumes=event.resumes, unfit=event.is_about_unfit
        )
        values = connection.execute(append, parameters).one_or_none()
        return None if values is None else instance_row(tuple(values))

    def _end_externally(
        self, connection: Connection, event: ExternalEvent, parameters: dict[str, Any]
    ) -> InstanceRow | None:
        """Close an instance, wake its parent and cancel its children; locks them from the top, as `commit` does."""
        with self.transaction(connection):
            asked = {name: parameters[name] for name in ("instance_id", "tenant_id")}
            parents = list(connection.execute(statements.FAMILY, asked).scalars())
            if parents:
                connection.execute(statements.LOCK_PARENTS, {"ids": self.ids(parents)})
            values = connection.execute(statements.append_external(ends=event.ends), parameters).one_or_none()
            if values is None:
                return None
            self._wake(connection, parents)
            self._cancel(connection, "parent_id", [parameters["instance_id"]])
            if event.ends is Status.FAILED:
                record_failures(connection, {event.instance_id: event.payload.value}, now=self.now(connection))
        return instance_row(tuple(values))

    def load(self, connection: Connection, instance_ids: Sequence[str], *, after_seq: int) -> dict[str, Loaded]:
        """One statement, so one snapshot, for all of them."""
        found: dict[str, Loaded] = {}
        heads = len(INSTANCE_COLUMNS)
        for values in connection.execute(statements.LOAD, {"ids": self.ids(instance_ids), "after_seq": after_seq}):
            row = instance_row(values[:heads])
            found[row.head.instance_id] = Loaded(row, _events(row.head.instance_id, values[heads], values[heads + 1]))
        return found

    def read_log(
        self, connection: Connection, instance_id: str, *, after_seq: int, limit: int, bytes_max: int
    ) -> list[Event]:
        """The bytes are summed up by a window over the rows of the page."""
        page = {"instance_id": instance_id, "after_seq": after_seq, "limit": limit, "bytes_max": bytes_max}
        notes, payloads = connection.execute(statements.READ_LOG, page).one()
        return _events(instance_id, notes, payloads)

    def give_back_space(self, connection: Connection) -> bool:
        """Does nothing: autovacuum frees what it can without locking a table."""
        return False

    def compact(self, connection: Connection) -> None:
        """Pages inside a table are kept for new rows; only VACUUM FULL would give them back.

        Uses a separate connection: a vacuum has no timeout and runs outside of transactions.
        """
        with self.connect(application_name="anabranch purge", settings=_MIGRATING) as unbounded:
            unbounded.answer_within_s = None
            for table in metadata.tables:
                unbounded.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(table)))

    def disk_bytes(self, connection: Connection) -> int:
        """The whole database, with its indexes."""
        return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())

    def event_list(self, rows: str) -> str:
        """Notes by json_agg, payloads joined as text."""
        return statements.event_list(rows)

    def number_list(self, rows: str) -> str:
        """By json_agg."""
        return f"SELECT CAST(json_agg(json_build_array(seq, number)) AS text) FROM ({rows}) AS row"  # noqa: S608  # our own statements

    def locked_transitions(self, connection: Connection, transitions: Sequence[Transition]) -> set[str]:
        """By the parents that they wake and the children that they cancel."""
        needs = {transition.instance_id: {transition.wakes, *transition.cancels} - {None} for transition in transitions}
        wanted = sorted({instance_id for ids in needs.values() for instance_id in ids if instance_id is not None})
        with self.transaction(connection):
            asked = {"ids": self.ids(wanted)}
            there = set(connection.execute(statements.EXISTING, asked).scalars())
            free = set(connection.execute(statements.LOCK_FREE, asked).scalars())
        return {instance_id for instance_id, ids in needs.items() if ids & (there - free)}

    def external_changes_possible(self, connection: Connection) -> bool:
        """Always: PostgreSQL has no counter that would rule them out."""
        return True

    def error_kind_of(self, error: Exception) -> DatabaseErrorKind:
        """Classifies by SQLSTATE; an error without one means a broken connection."""
        state = _sqlstate(error)
        if state is None:
            original = error.orig if isinstance(error, DBAPIError) else error
            return (
                DatabaseErrorKind.UNAVAILABLE
                if isinstance(original, psycopg.OperationalError)
                else DatabaseErrorKind.BUG
            )
        if state == _LOCK_NOT_AVAILABLE:
            return DatabaseErrorKind.LOCKED
        if state in _SESSION_LOST:
            self._lose_sessions(state)
            return DatabaseErrorKind.STALE
        if state == _PLAN_OUTDATED:
            return DatabaseErrorKind.STALE
        if state[:2] == _TRY_AGAIN_CLASS:
            return DatabaseErrorKind.TRY_AGAIN
        if state[:2] in _REFUSED_CLASSES:
            return DatabaseErrorKind.REFUSED
        return DatabaseErrorKind.UNAVAILABLE if state[:2] in _UNAVAILABLE_CLASSES else DatabaseErrorKind.BUG

    def is_duplicate(self, error: Exception) -> bool:
        """True for a primary key or a unique index."""
        return _sqlstate(error) == _DUPLICATE

    def describe(self, error: Exception) -> str:
        """The target and the first line of PostgreSQL's message; further lines may repeat parameters."""
        words = str(error.orig if isinstance(error, DBAPIError) else error).strip()
        message = f"{self.target}: {words.splitlines()[0] if words else 'no answer'}"
        return f"{message} ({self._why_cancelled()})" if _sqlstate(error) == _CANCELLED else message

    def _why_cancelled(self) -> str:
        ours = f"the engine sets a statement_timeout of {self.timeouts.statement_ms} ms in its own sessions"
        return (
            f"{ours}; if this came sooner, the limit of the role, the database or a proxy is lower, "
            "or another session cancelled it"
        )

    def _lose_sessions(self, state: str) -> None:
        """A prepared statement is gone, or belongs to another client: from now on treat all sessions as shared."""
        if not self._pooled:
            self._pooled = True
            log.warning("%s: error %s on a prepared statement: %s", self.target, state, _IS_POOLED)


def _events(instance_id: str, notes: str | None, payloads: str | None) -> list[Event]:
    return [] if notes is None or payloads is None else events_from(instance_id, orjson.loads(notes), payloads)


def _driver(connection: Connection) -> BoundedConnection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, BoundedConnection), "our engines make no others"
    return driver


def _backend(connection: Connection) -> int:
    return int(connection.execute(statements.BACKEND).scalar_one())


def _statements(verb: str, settings: Mapping[str, object]) -> str:
    """All settings in one message to the server."""
    return "; ".join(f"{verb} {name} = {value}" for name, value in settings.items())


def _beginning(settings: Mapping[str, object]) -> str:
    """How a transaction with these settings begins."""
    return "BEGIN; " + _statements("SET LOCAL", settings)


def _in_transaction(connection: Connection) -> bool:
    return _driver(connection).info.transaction_status != TransactionStatus.IDLE


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _sqlstate(error: Exception) -> str | None:
    return getattr(error.orig if isinstance(error, DBAPIError) else error, "sqlstate", None)


def _hosts_of(url: URL) -> str:
    """The hosts of a URL with their ports, for people."""
    hosts, ports = url.host or url.query.get("host", "the local socket"), url.port or url.query.get("port", "")
    if not isinstance(hosts, str):
        return ", ".join(hosts)
    of_each = zip_longest(hosts.split(","), str(ports).split(","), fillvalue="")
    return ", ".join(f"{host}:{port}" if port else host for host, port in of_each)
