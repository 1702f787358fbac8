"""Threads of queries: when a query's time begins, and how long a stop waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from anabranch.queries.lexing import SourceKind
from anabranch.queries.limits import Limits
from anabranch.queries.query_execution import THREADS_MAX, Executions
from anabranch.queries.query_results import QueryResult
from anabranch.queries.query_session import QueryExecution
from anabranch.queries.statement import read_statement

LIMITS = Limits(connect_timeout_ms=0, stop_wait_ms=50)


class Deaf:
    """A session that answers when the test says so, whatever else is asked of it."""

    def __init__(self, released: threading.Event) -> None:
        self._released = released

    def run(self, work: QueryExecution) -> QueryResult:
        assert self._released.wait(30)
        return QueryResult([], 0)

    def check(self) -> None:
        pass

    @property
    def is_reusable(self) -> bool:
        return False

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


class Quick:
    """A session that answers at once, and can be used again."""

    is_reusable = True
    closed = False

    def run(self, work: QueryExecution) -> QueryResult:
        return QueryResult([], 0)

    def check(self) -> None:
        pass

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def work(*, timeout_ms: int) -> QueryExecution:
    statement = read_statement("SELECT 1", SourceKind.SQLITE, writes=False)
    return QueryExecution(statement, {}, writes=False, timeout_ms=timeout_ms, limits=LIMITS)


async def test_the_time_of_a_query_begins_with_its_thread(released: threading.Event) -> None:
    executions = Executions(LIMITS)
    before = [
        asyncio.create_task(executions.run(str(number), lambda: Deaf(released), work(timeout_ms=60_000)))
        for number in range(THREADS_MAX)
    ]
    waits = asyncio.create_task(executions.run("late", lambda: Deaf(released), work(timeout_ms=1)))
    # Its time and the grace on top of it are 1.5 s.
    assert not (await asyncio.wait([waits], timeout=1.8))[0]
    released.set()
    assert (await waits).rows == []
    await asyncio.gather(*before)
    await executions.stop()


async def test_a_stop_does_not_wait_for_a_query_that_notices_nothing(released: threading.Event) -> None:
    executions = Executions(LIMITS)
    entered = threading.Event()

    def opening() -> Deaf:
        entered.set()
        return Deaf(released)

    query = asyncio.create_task(executions.run("deaf", opening, work(timeout_ms=60_000)))
    assert await asyncio.to_thread(entered.wait, 30)
    async with asyncio.timeout(30):
        await executions.stop()
    assert not query.done()
    released.set()
    await query


async def test_of_many_sources_the_oldest_connection_is_closed() -> None:
    executions = Executions(Limits(connections_idle_max=2))
    sessions = [Quick() for _ in range(4)]
    for number, session in enumerate(sessions):
        await executions.run(str(number), lambda session=session: session, work(timeout_ms=1_000))  # type: ignore[misc]
    assert executions.connections_open() == 2
    await executions.run("3", Quick, work(timeout_ms=1_000))
    await executions.stop()
    assert [session.closed for session in sessions] == [True] * 4
    assert executions.connections_open() == 0
