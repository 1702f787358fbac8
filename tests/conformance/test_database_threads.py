"""DatabaseThreads: whatever goes wrong on a connection, the error that leaves is ours and the threads works again.

One threads with one thread, so that the call after a mishap meets the very connection that had it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError, PendingRollbackError, ResourceClosedError

from anabranch.engine.store.opening import dialect_of
from anabranch.engine.store.sql.component import TRIES_MAX, DatabaseThreads
from anabranch.errors import NameTaken, StoreUnavailable
from tests.postgres import PostgresServer

_END_OWN_SESSION = text("SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.fixture
def threads(postgres_url: str) -> Iterator[DatabaseThreads]:
    """One threads to PostgreSQL."""
    threads = DatabaseThreads(dialect_of(postgres_url), count=1, commits=False, name="test")
    yield threads
    threads.close()


@pytest.fixture
def sqlite_threads(tmp_path: Path) -> Iterator[DatabaseThreads]:
    """One threads to SQLite."""
    threads = DatabaseThreads(dialect_of(f"sqlite:///{tmp_path / 'threads.db'}"), count=1, commits=False, name="test")
    yield threads
    threads.close()


async def test_a_connection_that_breaks_within_a_transaction_does_not_poison_its_lane(
    threads: DatabaseThreads, postgres_url: str
) -> None:
    dialect = dialect_of(postgres_url)

    def break_off(connection: Connection) -> None:
        with dialect.transaction(connection):
            connection.execute(_END_OWN_SESSION)

    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"terminating connection|closed"):
            await threads.run(break_off)
    assert await threads.run(dialect.now) > 0


async def test_a_connection_that_is_lost_unnoticed_does_not_hide_why_a_transaction_was_given_up(
    threads: DatabaseThreads, postgres_url: str, postgres_server: PostgresServer
) -> None:
    dialect = dialect_of(postgres_url)

    def change_ones_mind(connection: Connection) -> None:
        with dialect.transaction(connection):
            postgres_server.set_reachable(postgres_url, reachable=False)
            postgres_server.set_reachable(postgres_url, reachable=True)
            raise NameTaken("another workflow is already named orders")

    with pytest.raises(NameTaken):
        await threads.run(change_ones_mind)
    assert await threads.run(dialect.now) > 0


@pytest.mark.parametrize("error", [PendingRollbackError("in the way"), ResourceClosedError("closed")], ids=type)
async def test_what_sqlalchemy_itself_complains_of_is_an_outage_on_a_connection_that_is_given_up(
    sqlite_threads: DatabaseThreads, error: Exception
) -> None:
    used: list[Connection] = []

    def complain(connection: Connection) -> None:
        used.append(connection)
        raise error

    with pytest.raises(StoreUnavailable, match=r"lanes\.db"):
        await sqlite_threads.run(complain)
    await sqlite_threads.run(used.append)
    assert used[0] is not used[1], "the next call has a connection of its own"


async def test_a_connection_that_breaks_at_the_last_try_is_an_outage(threads: DatabaseThreads) -> None:
    calls = 0

    def collide_then_break(_: Connection) -> None:
        nonlocal calls
        calls += 1
        trouble = psycopg.errors.AdminShutdown() if calls == TRIES_MAX else psycopg.errors.DeadlockDetected()
        raise OperationalError("UPDATE", None, trouble)

    await threads.run(lambda _: None)
    with pytest.raises(StoreUnavailable):
        await threads.run(collide_then_break, reads_only=True)
    assert calls == TRIES_MAX


async def test_a_lock_that_is_not_to_be_had_is_tried_again(threads: DatabaseThreads) -> None:
    answers: list[Callable[[], str]] = [_lock_not_available, lambda: "won"]
    assert await threads.run(lambda _: answers.pop(0)()) == "won"


def _lock_not_available() -> str:
    raise OperationalError("UPDATE", None, psycopg.errors.LockNotAvailable())
