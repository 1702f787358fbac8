"""SQLite: one file, one writer thread, a handful of statements per batch.

Called by `store`, `reads` and `definitions` through `dialect.Dialect`. Several processes may share the file; the lock
of the database and the leases keep them apart.

Each step of a statement releases Python's interpreter lock, and a busy main thread returns it only after 5 ms. So a
batch of any size is a few statements with at most one result row: with `executemany` a batch of 400 events took 950 ms
beside a busy thread, in one statement 28 ms.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import orjson
from sqlalchemy import URL, Connection, Engine, TextClause, create_engine
from sqlalchemy import event as engine_events
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from anabranch.engine.ports import ClaimRequest, InstanceRow, Loaded, Outcome, Transition
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.run_filter import WantedInput
from anabranch.engine.store.sql.component import transaction
from anabranch.engine.store.sql.database_errors import DatabaseErrorKind, DataRefused
from anabranch.engine.store.sql.dialect import ENDS_SETTLE_MS, ClaimedRow, Outages
from anabranch.engine.store.sql.reading.input_conditions import sqlite_condition
from anabranch.engine.store.sql.rows import (
    LOG_SEPARATOR,
    ExternalEvent,
    claim_parameters,
    code_keys,
    events_from,
    instance_row,
)
from anabranch.engine.store.sqlite import sqlite_claim
from anabranch.engine.store.sqlite import sqlite_statements as statements
from anabranch.engine.store.sqlite.sqlite_commit import cancel, commit_transitions, one_list, values_of_events, wake
from anabranch.engine.store.value_table import keep_values, parts_of
from anabranch.triggers.failure_recording import record_failures

_BEGIN = "BEGIN IMMEDIATE"

# 10 s: a commit of another process takes milliseconds. A longer wait means a leaked lock (a shell with an open
# transaction), which should be reported.
BUSY_TIMEOUT_MS = 10_000

# 8 MB of page cache a connection: the inner pages of the indexes of a million log rows. Leaves come from the operating
# system's cache; 64 MB tripled the memory of an idle worker without benefit.
CACHE_KIB = 8_192

# 32 logs per statement: their texts are joined into one value, which SQLite limits to 1 GB. Each is at most 4 MB.
LOGS_PER_STATEMENT = 32

# 1 MB per step: some ten milliseconds, in which commits wait.
PAGES_GIVEN_BACK = 256

# 100 ms for readers to finish with the log; otherwise it is truncated next time.
CHECKPOINT_WAIT_MS = 100

# The value of `PRAGMA auto_vacuum` for incremental vacuum.
INCREMENTAL_VACUUM = 2

_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOLFS,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}
_REFUSED = {sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG}
_DUPLICATE = {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}


class SqliteDialect:
    """A SQLite file."""

    commits_in_flight_max = 2
    commit_threads = 1
    reading_threads = 2
    writing_threads = 0
    row_lock = ""
    clock = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    given_rows = "json_each(:given) AS p"
    payload_size = "length(CAST(l.payload AS BLOB))"
    parts_size = "coalesce((SELECT sum(x.value ->> 2) FROM json_each(l.parts) AS x), 0)"
    payload_without_output = "json_remove(l.payload, '$.output')"
    is_remote = False
    line_of_history = None
    among_ids = "instance_id IN (SELECT value FROM json_each(:ids))"
    index_names = "SELECT name FROM sqlite_master WHERE type = 'index'"
    ended_children = statements.ENDED_CHILDREN
    is_effective = statements.IS_EFFECTIVE

    def __init__(self, url: URL, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> None:
        self._url = url
        self._busy_timeout_ms = busy_timeout_ms
        self.path = Path(url.database or "").absolute()
        self.target = f"SQLite database {self.path}"

    def engine(self, *, commits: bool) -> Engine:
        """Both kinds of connections are alike here."""
        engine = create_engine(
            self._url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"check_same_thread": False, "timeout": self._busy_timeout_ms / 1000},
        )
        engine_events.listen(engine, "connect", _prepare_connection)
        return engine

    def async_commits(self, outages: Outages) -> None:
        """The calling thread writes the file, and the event loop must not wait for the disk."""

    def apply_outcome(self, connection: Connection) -> bool:
        """There is nothing to detect for a file."""
        return False

    def whole(self, connection: Connection, *, commits: bool) -> AbstractContextManager[None]:
        """Connections keep their settings."""
        return nullcontext()

    def migration(self, connection: Connection) -> AbstractContextManager[None]:
        """A write transaction excludes all other writers."""
        return self.transaction(connection)

    def sever(self, connection: Connection) -> None:
        """Interrupts the statement; a wait for the file's lock continues, at most `BUSY_TIMEOUT_MS`."""
        driver = connection.connection.driver_connection
        if isinstance(driver, sqlite3.Connection):
            driver.interrupt()

    def check_writable(self, connection: Connection) -> None:
        """Takes and releases the write lock."""
        with self.transaction(connection):
            pass

    def reader(self) -> Engine:
        """An engine that neither creates nor changes the file, which may belong to another program."""
        url = f"{self.path.as_uri()}?mode=rw"  # not `ro`: a write-ahead log needs its index beside it, even to be read

        def connect() -> sqlite3.Connection:
            timeout_s = self._busy_timeout_ms / 1000
            return sqlite3.connect(url, uri=True, timeout=timeout_s, check_same_thread=False, isolation_level=None)

        return create_engine("sqlite://", poolclass=NullPool, isolation_level="AUTOCOMMIT", creator=connect)

    def transaction(self, connection: Connection) -> AbstractContextManager[None]:
        """A write transaction, with the lock from the start, so that nothing read in it goes stale; uses an open
        one."""
        if _driver(connection).in_transaction:
            return nullcontext()
        return transaction(connection, _BEGIN, driver_error=sqlite3.Error)

    def snapshot(self, connection: Connection) -> AbstractContextManager[None]:
        """The write-ahead log provides the snapshot of the first read."""
        return transaction(connection, "BEGIN", driver_error=sqlite3.Error)

    def ids(self, instance_ids: Sequence[str]) -> str:
        """Every text is an id here."""
        return orjson.dumps(list(instance_ids)).decode()

    def now(self, connection: Connection) -> int:
        """The machine's clock, which all processes on the file share."""
        return time.time_ns() // 1_000_000

    def settled_until(self, connection: Connection) -> int:
        """With the write lock there is no other writer; only the clock may be set back."""
        return self.now(connection) - ENDS_SETTLE_MS

    def input_condition(self, wanted: WantedInput, number: int) -> TextClause:
        """Step by step through json_each: numbers by value, objects in any order of keys."""
        return sqlite_condition(wanted, number)

    def commit(self, connection: Connection, transitions: Sequence[Transition]) -> Outcome:
        """Read the guards under the write lock, then write the winners.

        Statements of every commit are executed by the driver: a run alone pays for each of them, one after the other.
        """
        driver = _driver(connection)
        try:
            events, has_large_values = values_of_events(transitions)
            with transaction(connection, _BEGIN, driver_error=sqlite3.Error, execute=driver.execute):
                written = commit_transitions(connection, driver, transitions, events, now=self.now(connection))
                if has_large_values:
                    winners = [each for each in transitions if each.instance_id in written.won]
                    if parts := parts_of(winners):
                        keep_values(connection, self, parts)
                return written
        except UnicodeError as problem:
            raise DataRefused(f"text that is not valid Unicode ({problem})") from None
        except sqlite3.Error as error:
            raise DBAPIError.instance(_BEGIN, None, error, sqlite3.Error) from error

    def claim(self, connection: Connection, wanted: ClaimRequest) -> list[ClaimedRow]:
        """Reads and takes due instances under the write lock."""
        with self.transaction(connection):
            now = self.now(connection)
            due = {
                "parked": wanted.parked is not None,
                "only": wanted.only is not None,
                "steal": wanted.steal,
                "knows": wanted.known_code is not None,
                "capacities": wanted.capacities is not None,
                "large": wanted.large,
            }
            parameters = claim_parameters(wanted) | {"now": now}
            if wanted.only is not None:
                parameters["ids"] = self.ids(wanted.only)
            if wanted.known_code is not None:
                parameters["known_code"] = orjson.dumps(code_keys(wanted.known_code)).decode()
                parameters["known_types"] = orjson.dumps(list(wanted.known_types or ())).decode()
            if wanted.capacities is not None:
                # As pairs, not as an object: SQLite would interpret a tenant's name as a JSON path.
                parameters |= {"capacities": orjson.dumps(list(wanted.capacities.of.items())).decode()}
            suspects = one_list(connection, sqlite_claim.suspects(**due, alone=wanted.suspects.alone), **parameters)
            found = [ClaimedRow(instance_id, None, company) for instance_id, company in suspects]
            if not any(company == 1 for _, company in suspects):
                capacity = {} if wanted.capacities is None else {"capacity": wanted.capacities.each}
                free = one_list(connection, sqlite_claim.claimable(**due), **parameters, **capacity)
                found += [ClaimedRow(*row) for row in free]
            if found and not any(one.lost_by for one in found):
                ids = self.ids([one.instance_id for one in found])
                lease = {"worker_id": wanted.worker_id, "available_at": now + wanted.lease_ms}
                connection.execute(sqlite_claim.TAKE, {"ids": ids, **lease})
        return found

    def append_external(self, connection: Connection, event: ExternalEvent, *, signals_max: int) -> InstanceRow | None:
        """Moves the run's row under its conditions, then writes the event, under the write lock."""
        with self.transaction(connection):
            now = self.now(connection)
            move = statements.advance_external(
                ends=event.ends,
                suspends=event.suspends is not None,
                resumes=event.resumes,
                unfit=event.is_about_unfit,
            )
            parameters = event.parameters
            if event.suspends is None:
                parameters["now"] = now
            if event.is_signal:
                parameters |= {"key": event.key, "signals_max": signals_max}
            values = connection.execute(move, parameters).one_or_none()
            if values is None:
                return None
            row = instance_row(tuple(values))
            connection.execute(
                statements.APPEND_EVENT,
                {
                    "instance_id": event.instance_id,
                    "seq": row.last_seq,
                    "now": now,
                    **event.row,
                },
            )
            if event.ends:
                if row.head.parent_id is not None and row.head.parent_waits:
                    wake(connection, [row.head.parent_id], now)
                cancel(connection, "parent_id", [event.instance_id], now)
                if event.ends is Status.FAILED:
                    record_failures(connection, {event.instance_id: event.payload.value}, now=now)
        return row

    def load(self, connection: Connection, instance_ids: Sequence[str], *, after_seq: int) -> dict[str, Loaded]:
        """Some logs a statement, each statement one row."""
        found: dict[str, Loaded] = {}
        for start in range(0, len(instance_ids), LOGS_PER_STATEMENT):
            ids = self.ids(instance_ids[start : start + LOGS_PER_STATEMENT])
            heads, logs = connection.execute(statements.LOAD, {"ids": ids, "after_seq": after_seq}).one()
            if logs is None:
                continue
            for values, payloads in zip(orjson.loads(heads), logs.split(LOG_SEPARATOR), strict=True):
                row = instance_row(values[:-1])
                found[row.head.instance_id] = Loaded(row, events_from(row.head.instance_id, values[-1], payloads))
        return found

    def read_log(
        self, connection: Connection, instance_id: str, *, after_seq: int, limit: int, bytes_max: int
    ) -> list[Event]:
        """The bytes are summed up by a window over the rows of the page."""
        page = {"instance_id": instance_id, "after_seq": after_seq, "limit": limit, "bytes_max": bytes_max}
        notes, payloads = connection.execute(statements.READ_LOG, page).one()
        return events_from(instance_id, orjson.loads(notes), payloads or "")

    def give_back_space(self, connection: Connection) -> bool:
        """The pages at the end of the file are moved into the holes.

        Files created without incremental vacuum keep their free pages until `compact`.
        """
        driver = _driver(connection)
        free = _number(driver, "PRAGMA freelist_count")
        if free and _number(driver, "PRAGMA auto_vacuum") == INCREMENTAL_VACUUM:
            # As a script: each step of a statement releases the interpreter lock, and there is one step per page.
            driver.executescript(f"PRAGMA incremental_vacuum({PAGES_GIVEN_BACK})")
            if 0 < _number(driver, "PRAGMA freelist_count") < free:
                return True
        self._truncate_log(driver)
        return False

    def compact(self, connection: Connection) -> None:
        """Rewrites the file, which also enables incremental vacuum."""
        driver = _driver(connection)
        if _number(driver, "PRAGMA auto_vacuum") != INCREMENTAL_VACUUM:
            driver.executescript("PRAGMA auto_vacuum = INCREMENTAL; VACUUM")
        while self.give_back_space(connection):
            pass

    def disk_bytes(self, connection: Connection) -> int:
        """The file and its write-ahead log."""
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def _truncate_log(self, driver: sqlite3.Connection) -> None:
        """Checkpoint and truncate the write-ahead log, unless a reader uses it; this shrinks the file."""
        driver.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAIT_MS}")
        try:
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            driver.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")

    def event_list(self, rows: str) -> str:
        """Notes by json_group_array, payloads joined as text."""
        return statements.event_list(rows)

    def number_list(self, rows: str) -> str:
        """By json_group_array."""
        return f"SELECT json_group_array(json_array(seq, number)) FROM ({rows})"  # noqa: S608  # our own statements

    def locked_transitions(self, connection: Connection, transitions: Sequence[Transition]) -> set[str]:
        """None: the holder of the write lock waits for no rows."""
        return set()

    def external_changes_possible(self, connection: Connection) -> bool:
        """Compares `data_version`, which moves when any other connection has committed."""
        version = connection.exec_driver_sql("PRAGMA data_version").scalar_one()
        before = connection.info.get("data_version")  # per connection: a new one starts again
        connection.info["data_version"] = version
        return bool(before != version)

    def others_wrote(self, connection: Connection) -> bool | None:
        """The same without waiting for a lock, and without noting it; None: a lock hides it."""
        driver = _driver(connection)
        driver.execute("PRAGMA busy_timeout = 0")
        try:
            version = _number(driver, "PRAGMA data_version")
        except sqlite3.Error:
            return None  # the next look by a thread says what is wrong
        finally:
            driver.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
        return bool(version != connection.info.get("data_version"))

    def error_kind_of(self, error: Exception) -> DatabaseErrorKind:
        """By SQLite's primary result code."""
        code = _result_code(error)
        primary = None if code is None else code & 0xFF
        if primary in _UNAVAILABLE:
            return DatabaseErrorKind.UNAVAILABLE
        if primary in _REFUSED or "malformed JSON" in str(error):
            return DatabaseErrorKind.REFUSED
        return DatabaseErrorKind.BUG

    def is_duplicate(self, error: Exception) -> bool:
        """True for a primary key or a unique index."""
        return _result_code(error) in _DUPLICATE

    def describe(self, error: Exception) -> str:
        """The file and SQLite's words."""
        words = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        return f"{self.target}: {words}"


def _prepare_connection(connection: sqlite3.Connection, _record: object) -> None:
    # auto_vacuum takes effect only before the first table, so it comes before anything that writes the header.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    # FULL: an acknowledged commit survives a power cut; NORMAL would lose the last ones in WAL mode.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")


def _driver(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection), "the dialect opened it"
    return driver


def _number(driver: sqlite3.Connection, pragma: str) -> int:
    return int(driver.execute(pragma).fetchone()[0])


def _result_code(error: Exception) -> int | None:
    original = error.orig if isinstance(error, DBAPIError) else error
    return getattr(original, "sqlite_errorcode", None)
