"""DatabaseThreads: an error on a connection becomes one of ours, and the pool works again.

One pool with one thread, so that the next call uses the same connection.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError, PendingRollbackError, ResourceClosedError

from anabranch.engine.store.opening import dialect_of
from anabranch.engine.store.sql.component import ATTEMPTS_MAX, DatabaseThreads
from anabranch.errors import NameTaken, StoreUnavailable
from tests.postgres import PostgresServer

_END_OWN_SESSION = text("SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.fixture
def pool(postgres_url: str) -> Iterator[DatabaseThreads]:
    """One pool to PostgreSQL."""
    pool = DatabaseThreads(dialect_of(postgres_url), count=1, commits=False, name="test")
    yield pool
    pool.close()


@pytest.fixture
def sqlite_pool(tmp_path: Path) -> Iterator[DatabaseThreads]:
    """One pool to SQLite."""
    pool = DatabaseThreads(dialect_of(f"sqlite:///{tmp_path / 'pool.db'}"), count=1, commits=False, name="test")
    yield pool
    pool.close()


async def test_a_connection_that_breaks_within_a_transaction_does_not_poison_its_lane(
    pool: DatabaseThreads, postgres_url: str
) -> None:
    dialect = dialect_of(postgres_url)

    def break_off(connection: Connection) -> None:
        with dialect.transaction(connection):
            connection.execute(_END_OWN_SESSION)

    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"terminating connection|closed"):
            await pool.run(break_off)
    assert await pool.run(dialect.now) > 0


async def test_a_connection_that_is_lost_unnoticed_does_not_hide_why_a_transaction_was_given_up(
    pool: DatabaseThreads, postgres_url: str, postgres_server: PostgresServer
) -> None:
    dialect = dialect_of(postgres_url)

    def change_ones_mind(connection: Connection) -> None:
        with dialect.transaction(connection):
            postgres_server.set_reachable(postgres_url, reachable=False)
            postgres_server.set_reachable(postgres_url, reachable=True)
            raise NameTaken("another workflow is already named orders")

    with pytest.raises(NameTaken):
        await pool.run(change_ones_mind)
    assert await pool.run(dialect.now) > 0


@pytest.mark.parametrize("error", [PendingRollbackError("in the way"), ResourceClosedError("closed")], ids=type)
async def test_what_sqlalchemy_itself_complains_of_is_an_outage_on_a_connection_that_is_given_up(
    sqlite_pool: DatabaseThreads, error: Exception
) -> None:
    used: list[Connection] = []

    def complain(connection: Connection) -> None:
        used.append(connection)
        raise error

    with pytest.raises(StoreUnavailable, match=r"pool\.db"):
        await sqlite_pool.run(complain)
    await sqlite_pool.run(used.append)
    assert used[0] is not used[1], "the next call has a connection of its own"


async def test_a_connection_that_breaks_at_the_last_attempt_is_an_outage(pool: DatabaseThreads) -> None:
    calls = 0

    def collide_then_break(_: Connection) -> None:
        nonlocal calls
        calls += 1
        trouble = psycopg.errors.AdminShutdown() if calls == ATTEMPTS_MAX else psycopg.errors.DeadlockDetected()
        raise OperationalError("UPDATE", None, trouble)

    await pool.run(lambda _: None)
    with pytest.raises(StoreUnavailable):
        await pool.run(collide_then_break, reads_only=True)
    assert calls == ATTEMPTS_MAX


async def test_a_lock_that_is_not_to_be_had_is_tried_again(pool: DatabaseThreads) -> None:
    answers: list[Callable[[], str]] = [_lock_not_available, lambda: "won"]
    assert await pool.run(lambda _: answers.pop(0)()) == "won"


async def test_a_call_whose_caller_is_cancelled_before_it_begins_is_not_made(sqlite_pool: DatabaseThreads) -> None:
    made: list[str] = []
    async with _busy(sqlite_pool):
        queued = asyncio.create_task(sqlite_pool.run(lambda _: made.append("queued")))
        await asyncio.sleep(0)
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
    await sqlite_pool.run(lambda _: made.append("next"))
    assert made == ["next"]


async def test_the_end_of_a_call_whose_caller_was_cancelled_meanwhile_is_unheeded(
    sqlite_pool: DatabaseThreads, caplog: pytest.LogCaptureFixture
) -> None:
    async with _busy(sqlite_pool) as busy:
        busy.cancel()
        with pytest.raises(asyncio.CancelledError):
            await busy
    await sqlite_pool.run(lambda _: None)
    assert not caplog.records, "nothing was wrong with it"


async def test_calls_that_a_close_abandons_before_they_begin_are_cancelled(sqlite_pool: DatabaseThreads) -> None:
    async with _busy(sqlite_pool):
        queued = asyncio.create_task(sqlite_pool.run(lambda _: None))
        await asyncio.sleep(0)
        await asyncio.to_thread(sqlite_pool.close, patience_s=0)
        with pytest.raises(asyncio.CancelledError):
            await queued


@asynccontextmanager
async def _busy(pool: DatabaseThreads) -> AsyncIterator[asyncio.Task[None]]:
    """A call that keeps the only thread of the pool until the context ends."""
    has_begun, may_end = threading.Event(), threading.Event()

    def keep(_: Connection) -> None:
        has_begun.set()
        may_end.wait()

    busy = asyncio.create_task(pool.run(keep))
    try:
        await asyncio.to_thread(has_begun.wait)
        yield busy
    finally:
        may_end.set()
        await asyncio.wait([busy])


def _lock_not_available() -> str:
    raise OperationalError("UPDATE", None, psycopg.errors.LockNotAvailable())


async def test_a_failed_call_keeps_nothing_until_the_next_collection(sqlite_pool: DatabaseThreads) -> None:
    class Refusal:
        def __call__(self, connection: Connection) -> None:
            raise NameTaken("another workflow is already named orders")

    async def refused() -> weakref.ref[Refusal]:
        work = Refusal()
        with suppress(NameTaken):
            await sqlite_pool.run(work)
        return weakref.ref(work)

    await refused()
    gc.collect()
    gc.disable()
    try:
        kept = [await refused() for _ in range(5)]
        await sqlite_pool.run(lambda _: None)  # the thread has nothing more to do with them
        assert [each() for each in kept] == [None] * 5
    finally:
        gc.enable()
