"""Commits on PostgreSQL on connections of the event loop, with the answers of the threads.

The other files commit that way, too, directly and behind a pooler; this one looks at what is different.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import psycopg
import pytest
from sqlalchemy import Connection, text

from anabranch.engine.ports import Transition
from anabranch.engine.rules.transitions import BATCH_TRANSITIONS_MAX
from anabranch.engine.rules.value_parts import PART_BYTES_MIN
from anabranch.engine.store.opening import dialect_of
from anabranch.engine.store.postgresql.async_commits import SENT_AT_ONCE_BYTES, PostgresqlAsyncCommits
from anabranch.engine.store.postgresql.postgresql_commit import writing
from anabranch.engine.store.postgresql.postgresql_connections import BoundedAsyncConnection
from anabranch.engine.store.postgresql.postgresql_dialect import COMMITTING, PostgresqlDialect
from anabranch.engine.store.sql.component import ATTEMPTS_MAX
from anabranch.engine.store.sql.database_errors import DuplicateRefused, LocksHeld
from anabranch.engine.store.sql.dialect import Outages
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import DatabaseUnreachable, StoreUnavailable
from tests.conformance.building import born_many, completed, created, dispatched, row_of, transition
from tests.conformance.locking import lock, waiting_backend
from tests.conformance.test_families import failing
from tests.conformance.test_silence import (
    ENDLESS,
    PATIENCE_S,
    async_backends,
    backends_named,
    committing_threads,
    creation,
    frozen,
    opened,
)


async def test_many_transitions_and_concurrent_commits_need_no_thread(postgres_url: str) -> None:
    async with opened(postgres_url, ENDLESS) as store:
        batches = [await born_many(store, BATCH_TRANSITIONS_MAX) for _ in range(store.commits_in_flight_max)]
        with frozen(*await committing_threads(store)):
            async with asyncio.timeout(PATIENCE_S):
                commits = (store.commit([transition(row, dispatched("a")) for row in rows]) for rows in batches)
                for outcome, rows in zip(await asyncio.gather(*commits), batches, strict=True):
                    assert outcome.won == {row.head.instance_id for row in rows}


async def test_large_values_failures_and_one_commit_more_go_to_threads(postgres_url: str) -> None:
    async with opened(postgres_url, ENDLESS) as store:
        rows = await born_many(store, 3 + store.commits_in_flight_max)
        large, broken, further, *waited_for = rows
        with frozen(*await async_backends(store)):
            async with asyncio.timeout(PATIENCE_S):
                assert (await store.commit([transition(large, completed("a", output="x" * (PART_BYTES_MIN + 1)))])).won
                assert (await store.commit([failing(broken)])).won
            waiting = [asyncio.create_task(store.commit([transition(row, dispatched("a"))])) for row in waited_for]
            await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE_S):
                assert (await store.commit([transition(further, dispatched("a"))])).won
            assert not any(commit.done() for commit in waiting)
        assert all(outcome.won for outcome in await asyncio.gather(*waiting))


async def test_one_commit_after_the_other_meets_the_same_connection(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        threads = await committing_threads(store)
        for _ in range(3):
            await created(store)
        assert len(await backends_named(store, COMMITTING) - threads) == 1


async def test_the_system_may_take_a_whole_batch_at_once(postgres_url: str) -> None:
    dialect = dialect_of(postgres_url, pooled=False)
    assert isinstance(dialect, PostgresqlDialect)
    connection = await dialect.connect_asynchronously(application_name="send buffer", settings=None)
    try:
        usual = send_buffer(connection)
        connection.send_at_once(SENT_AT_ONCE_BYTES)
        assert send_buffer(connection) > usual
    finally:
        await connection.close()


def send_buffer(connection: BoundedAsyncConnection) -> int:
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as line:
        assert line.family == socket.AF_UNIX, "the tests' server is reached by a socket in the file system"
        return line.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


@pytest.mark.parametrize("url", ["postgres_url", "pooled_url"])
async def test_what_an_administrator_has_set_is_overridden(
    postgres_url: str, url: str, request: pytest.FixtureRequest
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as administrator:
        name = administrator.info.dbname
        administrator.execute(f"ALTER DATABASE \"{name}\" SET lock_timeout = '1h'")
        try:
            async with (
                opened(request.getfixturevalue(url)) as store,
                await psycopg.AsyncConnection.connect(postgres_url) as locker,
            ):
                await locker.execute("LOCK TABLE workflow_instance_logs")
                async with asyncio.timeout(PATIENCE_S):
                    outcome = await store.commit([transition(await created_with(locker, store), dispatched("a"))])
                assert outcome.locked, "after our own limit of half a second"
        finally:
            administrator.execute(f'ALTER DATABASE "{name}" RESET lock_timeout')


async def created_with(locker: psycopg.AsyncConnection, store: SqlStore) -> Any:
    """A run that was made while the log was not locked."""
    await locker.rollback()
    row = await created(store)
    await locker.execute("LOCK TABLE workflow_instance_logs")
    return row


async def test_a_lost_connection_is_an_outage_and_replaced_with_those_of_the_threads(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        row, other, broken = await born_many(store, 3)
        threads, backends = await committing_threads(store), await async_backends(store)
        await ended(store, *backends)
        with pytest.raises(StoreUnavailable, match=r"terminating connection|closed"):
            await store.commit([transition(row, dispatched("a"))])
        renewed = await committing_threads(store)
        assert not threads & renewed
        backends = await async_backends(store)
        await ended(store, *renewed)
        with pytest.raises(StoreUnavailable):
            await store.commit([failing(broken)])
        assert (await store.commit([transition(other, dispatched("a"))])).won
        assert not backends & await async_backends(store)


async def ended(store: SqlStore, *backends: int) -> None:
    """End processes of the server, and wait until they are gone."""
    words = text("SELECT pg_terminate_backend(:pid, 10000)")

    def end(connection: Connection) -> bool:
        return all(connection.execute(words, {"pid": backend}).scalar_one() for backend in backends)

    assert await store.read(end)


async def test_who_is_cancelled_in_the_middle_of_a_commit_leaves_no_answer_behind(
    postgres_url: str, locker: psycopg.AsyncConnection
) -> None:
    async with opened(postgres_url) as store:
        row, other = await born_many(store, 2)
        await locker.execute("LOCK TABLE workflow_instance_logs")
        commit = asyncio.create_task(store.commit([transition(row, dispatched("a"))]))
        await waiting_backend(locker)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        await locker.rollback()
        outcome = await store.commit([transition(other, dispatched("a"))])
        assert outcome.won == {other.head.instance_id}


async def test_a_key_that_is_just_being_written_is_a_lock(postgres_url: str, locker: psycopg.AsyncConnection) -> None:
    async with opened(postgres_url) as store:
        row = await created(store)
        taken = await creation(store, idempotency_key="k")
        await lock(locker, row.head.instance_id)
        outcome = await store.commit([transition(row, dispatched("a"))])
        assert not outcome.won, "a row that is locked is passed over at once"
        await locker.rollback()
        assert (await store.commit([taken])).won
        again = await creation(store, idempotency_key="k")
        outcome = await store.commit([again])
        assert outcome.existing == {again.instance_id: taken.instance_id}
        assert (await row_of(store, row.head.instance_id)) == row


async def test_only_a_batch_with_new_runs_asks_the_server_to_create_some(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        step, birth = transition(await created(store), dispatched("a")), await creation(store)
        for batch, parameters, is_creating in (
            ([step], {"transitions", "events"}, False),
            ([step, birth], {"transitions", "events", "new_runs"}, True),
        ):
            statement, given = next(writing(batch))
            assert given.keys() == parameters
            assert ("INSERT INTO workflow_instances " in statement.text) is is_creating
            assert (await store.commit(batch)).won  # the step has moved before the second


# -- what an error means, without a server ------------------------------------------------------------
class Failing:
    """Stands for a connection whose statements fail in this way."""

    closed = False

    def __init__(self, error: psycopg.Error) -> None:
        self.error = error
        self.statements = 0

    def cursor(self) -> Failing:
        return self

    def send_at_once(self, size: int) -> None:
        assert size > 0

    async def execute(self, *_: object) -> None:
        self.statements += 1
        raise self.error

    async def close(self) -> None:
        self.closed = True


def commits_on(connect: Callable[[], Awaitable[object]], url: str) -> tuple[PostgresqlAsyncCommits, Outages]:
    dialect, outages = dialect_of(url, pooled=False), Outages()
    assert isinstance(dialect, PostgresqlDialect)
    connecting = cast("Callable[[], Awaitable[BoundedAsyncConnection]]", connect)
    return PostgresqlAsyncCommits(dialect, outages, connect=connecting, beginning=lambda: None), outages


@pytest.mark.parametrize(
    ("error", "told", "statements", "outages"),
    [
        (psycopg.errors.DeadlockDetected(), DatabaseUnreachable, ATTEMPTS_MAX, 0),
        (psycopg.errors.LockNotAvailable(), LocksHeld, 1, 0),
        (psycopg.errors.UniqueViolation(), DuplicateRefused, 1, 0),
        (psycopg.errors.AdminShutdown(), DatabaseUnreachable, 1, 1),
        (psycopg.OperationalError("the connection is closed"), DatabaseUnreachable, 1, 1),
        (psycopg.errors.UndefinedColumn(), psycopg.errors.UndefinedColumn, 1, 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_errors_mean_what_they_mean_in_a_thread(
    error: psycopg.Error, told: type[Exception], statements: int, outages: int
) -> None:
    connection = Failing(error)

    async def connect() -> Failing:
        return connection

    commits, counted = commits_on(connect, "postgresql://nobody@nowhere/none")
    with pytest.raises(told):
        await commits.commit(cast("Sequence[Transition]", []))
    assert (connection.statements, counted.count) == (statements, outages)


async def test_a_connection_that_comes_after_the_end_is_closed_again() -> None:
    arrives, connection = asyncio.Event(), Failing(psycopg.errors.AdminShutdown())

    async def connect() -> Failing:
        await arrives.wait()
        return connection

    commits, _ = commits_on(connect, "postgresql://nobody@nowhere/none")
    assert commits.takes([])
    given = [asyncio.create_task(commits.commit([])) for _ in range(PostgresqlDialect.commits_in_flight_max)]
    await asyncio.sleep(0)
    assert not commits.takes([])
    await commits.close(patience_s=0.01)
    arrives.set()
    for commit in given:
        with pytest.raises(StoreUnavailable, match="has been stopped"):
            await commit
    assert connection.closed and not connection.statements
