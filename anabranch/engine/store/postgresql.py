"""PostgreSQL: one statement, one round trip, one transaction for everything that is hot.

Called by `state_manager`, `inquiries` and `definitions` through `dialect.Dialect`. Any number
of processes may share the database; row locks, versions and leases keep them apart.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import orjson
import psycopg
from psycopg.types.string import TextLoader
from sqlalchemy import URL, Connection, Engine, TextClause, create_engine
from sqlalchemy import event as engine_events
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from anabranch.engine.ports import InstanceRow, Loaded, TenantRooms, Turn
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.input_filters import WantedInput
from anabranch.engine.store import postgresql_statements as statements
from anabranch.engine.store.dialect import ENDS_SETTLE_MS, ForeignEvent, Taken, Written
from anabranch.engine.store.families import born_children, cancelled_children, touches_family, woken_parents
from anabranch.engine.store.faults import Fault
from anabranch.engine.store.input_conditions import postgresql_condition
from anabranch.engine.store.rows import (
    INSTANCE_COLUMNS,
    encode_births,
    encode_events,
    encode_turns,
    events_from,
    instance_row,
)
from anabranch.engine.store.transactions import transaction

# 5 s to connect, and 20 s for a server that has stopped answering on an open connection: well
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

# PostgreSQL plans the commit statement for tables as they are now, and a plan lives on while
# they grow. Fresh tables look so small that it would scan them; held to its indexes, a batch
# of 200 went from 42,000 to 73,000 units a second. One plan for all batches saves planning.
_COMMITTING = (
    "SET enable_seqscan = off",
    "SET enable_hashjoin = off",
    "SET enable_mergejoin = off",
    "SET plan_cache_mode = force_generic_plan",
    "SET jit = off",
)

_TRY_AGAIN_CLASS = "40"  # transaction rollback: deadlock, serialisation
_LOCK_NOT_AVAILABLE = "55P03"  # the server's lock_timeout: whoever has the lock may be gone by the next try
_REFUSED_CLASSES = {"22", "23", "54"}  # data exception, integrity violation, program limit exceeded
_UNAVAILABLE_CLASSES = {"08", "25", "28", "3D", "53", "57", "58", "XX"}
_DUPLICATE = "23505"


class PostgresqlDialect:
    """A PostgreSQL database."""

    commits_in_flight_max = 2
    reading_lanes = 4
    writes_apart = False
    row_lock = "FOR UPDATE SKIP LOCKED"
    is_remote = True
    given_rows = "json_array_elements(CAST(:given AS json)) AS p(value)"
    payload_size = "octet_length(CAST(l.payload AS text))"
    among_ids = "instance_id = ANY(CAST(:ids AS uuid[]))"
    ended_children = statements.ENDED_CHILDREN

    def __init__(self, url: URL) -> None:
        self._url = url.set(drivername="postgresql+psycopg")
        host = url.host or url.query.get("host", "the local socket")
        port = f":{url.port}" if url.port else ""
        self.place = f"PostgreSQL database {url.database or url.username or ''} at {host}{port}"

    def connect_arguments(self) -> dict[str, Any]:
        """How the driver connects by itself, as the engines do."""
        _, arguments = self._url.get_dialect()().create_connect_args(self._url)
        return {**_CONNECTING, **arguments}

    def engine(self, *, commits: bool) -> Engine:
        """See `Dialect.engine`; those for commits have their planner held to the indexes."""
        engine = create_engine(
            self._url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={
                **_CONNECTING,
                "application_name": "anabranch commits" if commits else "anabranch",
            },
        )

        def prepare(connection: psycopg.Connection[Any], _record: object) -> None:
            # Ids and payloads are text to us; decoding them would only have to be undone.
            connection.adapters.register_loader("uuid", TextLoader)
            connection.adapters.register_loader("json", TextLoader)
            for setting in _COMMITTING if commits else ():
                connection.execute(setting)
            if not connection.autocommit:
                connection.commit()

        engine_events.listen(engine, "connect", prepare)
        return engine

    def transaction(self, connection: Connection) -> AbstractContextManager[None]:
        """See `Dialect.transaction`."""
        return transaction(connection, "BEGIN", driver_error=psycopg.Error)

    def snapshot(self, connection: Connection) -> AbstractContextManager[None]:
        """See `Dialect.snapshot`."""
        return transaction(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", driver_error=psycopg.Error)

    def ids(self, instance_ids: Sequence[str]) -> str:
        """See `Dialect.ids`; a text that is no UUID names nothing here."""
        return "{" + ",".join(filter(_is_uuid, instance_ids)) + "}"

    def now(self, connection: Connection) -> int:
        """The server's clock (ms)."""
        return int(connection.execute(statements.NOW).scalar_one())

    def settled_until(self, connection: Connection) -> int:
        """See `Dialect.settled_until`: before whatever transaction is still writing, and the usual time ago.

        A row is given its end while it is written, so not before its transaction began. The time
        ago is for transactions that this connection may not see (of another role).
        """
        return int(connection.execute(statements.OLDEST_WRITER).scalar_one()) - ENDS_SETTLE_MS

    def input_condition(self, wanted: WantedInput, number: int) -> TextClause:
        """See `Dialect.input_condition`."""
        return postgresql_condition(wanted, number)

    def commit(self, connection: Connection, turns: Sequence[Turn]) -> Written:
        """See `Dialect.commit`: one statement; more only if a birth did not win, or for parents and children."""
        if not touches_family(turns):
            return self._write(connection, turns)
        with self.transaction(connection):
            # A turn that is not won wakes nobody, but who will win is not known yet.
            parents = woken_parents(turns, {turn.instance_id for turn in turns})
            if parents:
                connection.execute(statements.LOCK_PARENTS, {"ids": self.ids(parents)})
            unborn, orphaned = self._hindered_children(connection, turns)
            written = self._write(connection, [turn for turn in turns if turn.instance_id not in unborn])
            written.orphaned.update(orphaned)
            written.woken.update(self._wake(connection, woken_parents(turns, written.won)))
            children = cancelled_children(turns, written.won)
            written.cancelled.update(self._cancel(connection, "instance_id", children))
        return written

    def _hindered_children(self, connection: Connection, turns: Sequence[Turn]) -> tuple[set[str], set[str]]:
        """The births whose parents are just being written by somebody else, or do not want them; the latter alone."""
        children = born_children(turns)
        if not children:
            return set(), set()
        parents = sorted({parent for _, parent in children})
        shared = set(connection.execute(statements.SHARE_PARENTS, {"ids": self.ids(parents)}).scalars())
        asked = {"births": encode_births(turn for turn, _ in children)}
        unwanted = set(connection.execute(statements.UNWANTED_BIRTHS, asked).scalars())
        return unwanted | {turn.instance_id for turn, parent in children if parent not in shared}, unwanted

    def _wake(self, connection: Connection, parents: Sequence[str]) -> dict[str, int]:
        """Raise the versions of open parents whose children have ended; returns these versions."""
        if not parents:
            return {}
        return {row[0]: row[1] for row in connection.execute(statements.WAKE, {"ids": self.ids(parents)})}

    def _cancel(self, connection: Connection, by: str, ids: Sequence[str]) -> set[str]:
        """Cancel the open children that these ids name, or have, with all that they await; returns who was."""
        cancelled: set[str] = set()
        while ids:
            ids = list(connection.execute(statements.cancel_children(by), {"ids": self.ids(ids)}).scalars())
            cancelled.update(ids)
            by = "parent_id"  # from generation to generation
        return cancelled

    def _write(self, connection: Connection, turns: Sequence[Turn]) -> Written:
        """Write the turns whose guards hold."""
        births = [turn for turn in turns if turn.birth is not None]
        batch = {
            "turns": encode_turns(turn for turn in turns if turn.birth is None),
            "births": encode_births(births),
            "events": encode_events(turns),
        }
        winners, now = connection.execute(statements.COMMIT, batch).one()
        won = set(winners or ())
        unborn = [turn for turn in births if turn.instance_id not in won]
        existing: dict[str, str] = {}
        orphaned: set[str] = set()
        if unborn:
            # Only a new statement sees the rows of a batch that this one has waited for.
            asked = {"births": encode_births(unborn)}
            existing = {row[0]: row[1] for row in connection.execute(statements.KEY_HOLDERS, asked)}
            orphaned = set(connection.execute(statements.ORPHANS, asked).scalars()) - existing.keys()
        return Written(won, now, existing, orphaned)

    def claim(
        self,
        connection: Connection,
        *,
        worker_id: str,
        limit: int,
        lease_ms: int,
        only: Sequence[str] | None,
        steal: bool,
        known_code: Sequence[str] | None,
        rooms: TenantRooms | None,
        weight_max: int,
        large: bool,
    ) -> list[Taken]:
        """See `Dialect.claim`."""
        parameters: dict[str, Any] = {
            "worker_id": worker_id,
            "limit": limit,
            "lease_ms": lease_ms,
            "weight_max": weight_max,
        }
        if only is not None:
            parameters["ids"] = self.ids(only)
        if known_code is not None:
            parameters["known_code"] = list(known_code)
        if rooms is not None:
            parameters |= {
                "room": rooms.each,
                "rooms": orjson.dumps(rooms.of).decode(),
                "full": [tenant_id for tenant_id, room in rooms.of.items() if not room],
            }
        statement = statements.claim(
            only=only is not None, steal=steal, knows=known_code is not None, rooms=rooms is not None, large=large
        )
        rows = connection.execute(statement, parameters)
        return [Taken(*row) for row in rows]

    def append_foreign(self, connection: Connection, event: ForeignEvent, *, signals_max: int) -> InstanceRow | None:
        """See `Dialect.append_foreign`."""
        parameters: dict[str, Any] = {
            "instance_id": event.instance_id,
            "tenant_id": event.tenant_id,
            "event_type": event.event_type,
            "payload": event.payload,
            "message": event.message,
            "bytes": len(event.payload.encode()),
        }
        if event.ends is not None:
            return self._end_by_stranger(connection, parameters, event.ends)
        parameters |= {
            "key": event.key,
            "signals_max": signals_max,
            "bytes_max": event.log_limit.bytes_max,
            "rows_max": event.log_limit.rows_max,
        }
        values = connection.execute(statements.append_foreign(ends=None), parameters).one_or_none()
        return None if values is None else instance_row(tuple(values))

    def _end_by_stranger(self, connection: Connection, parameters: dict[str, Any], ends: Status) -> InstanceRow | None:
        """Close an instance, wake its parent and cancel its children; locks them from the top, as `commit` does."""
        with self.transaction(connection):
            asked = {name: parameters[name] for name in ("instance_id", "tenant_id")}
            parents = list(connection.execute(statements.FAMILY, asked).scalars())
            if parents:
                connection.execute(statements.LOCK_PARENTS, {"ids": self.ids(parents)})
            values = connection.execute(statements.append_foreign(ends=ends), parameters).one_or_none()
            if values is None:
                return None
            self._wake(connection, parents)
            self._cancel(connection, "parent_id", [parameters["instance_id"]])
        return instance_row(tuple(values))

    def load(self, connection: Connection, instance_ids: Sequence[str], *, after_seq: int) -> dict[str, Loaded]:
        """See `Dialect.load`."""
        found: dict[str, Loaded] = {}
        heads = len(INSTANCE_COLUMNS)
        for values in connection.execute(statements.LOAD, {"ids": self.ids(instance_ids), "after_seq": after_seq}):
            row = instance_row(values[:heads])
            found[row.head.instance_id] = Loaded(row, _events(values[heads], values[heads + 1]))
        return found

    def read_log(
        self, connection: Connection, instance_id: str, *, after_seq: int, limit: int, bytes_max: int
    ) -> list[Event]:
        """See `Dialect.read_log`."""
        page = {"instance_id": instance_id, "after_seq": after_seq, "limit": limit, "bytes_max": bytes_max}
        notes, payloads = connection.execute(statements.READ_LOG, page).one()
        return _events(notes, payloads)

    def event_list(self, rows: str) -> str:
        """See `Dialect.event_list`."""
        return statements.event_list(rows)

    def number_list(self, rows: str) -> str:
        """See `Dialect.number_list`."""
        return f"SELECT CAST(json_agg(json_build_array(seq, number)) AS text) FROM ({rows}) AS row"  # noqa: S608  # our own statements

    def foreign_changes_possible(self, connection: Connection) -> bool:
        """Always: PostgreSQL has no counter that would rule them out."""
        return True

    def fault_of(self, error: Exception) -> Fault:
        """By the class of its SQLSTATE; an error without one is a connection that broke."""
        state = _sqlstate(error)
        if state is None:
            original = error.orig if isinstance(error, DBAPIError) else error
            return Fault.UNAVAILABLE if isinstance(original, psycopg.OperationalError) else Fault.BUG
        if state[:2] == _TRY_AGAIN_CLASS or state == _LOCK_NOT_AVAILABLE:
            return Fault.TRY_AGAIN
        if state[:2] in _REFUSED_CLASSES:
            return Fault.REFUSED
        return Fault.UNAVAILABLE if state[:2] in _UNAVAILABLE_CLASSES else Fault.BUG

    def is_duplicate(self, error: Exception) -> bool:
        """True for a primary key or a unique index."""
        return _sqlstate(error) == _DUPLICATE

    def describe(self, error: Exception) -> str:
        """The place and the first line of PostgreSQL's words; the rest may repeat what was sent."""
        words = str(error.orig if isinstance(error, DBAPIError) else error)
        return f"{self.place}: {words.strip().splitlines()[0] if words.strip() else 'no answer'}"


def _events(notes: str | None, payloads: str | None) -> list[Event]:
    return [] if notes is None or payloads is None else events_from(orjson.loads(notes), payloads)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _sqlstate(error: Exception) -> str | None:
    return getattr(error.orig if isinstance(error, DBAPIError) else error, "sqlstate", None)
