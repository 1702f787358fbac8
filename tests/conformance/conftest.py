"""The three stores under test, one also behind a pooler, and as many connections to one database as a test wants.

Each connection is what one process would have. The memory store's clock ticks a millisecond
with every look, so that loops which wait for a time end there as they do on a real clock.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest

from anabranch.engine.ports import Store
from anabranch.engine.store.opening import open_store
from anabranch.testing.memory_store.memory_store import MemoryDatabase, MemoryStore

StoreFactory = Callable[[], Awaitable[Store]]

_MEMORY_CLOCK_START_MS = 1_700_000_000_000


@pytest.fixture(params=["memory", "sqlite", "postgresql", "pgbouncer"])
def backend(request: pytest.FixtureRequest) -> str:
    """The kind of store under test; a test for some kinds only says so with `only_on`."""
    marker = request.node.get_closest_marker("only_on")
    if marker is not None and request.param not in marker.args:
        pytest.skip(f"{marker.kwargs['because']}")
    return str(request.param)


@pytest.fixture
async def store_factory(backend: str, request: pytest.FixtureRequest) -> AsyncIterator[StoreFactory]:
    """Opens one more connection to the test's own database, as another process would."""
    opened: list[Store] = []
    make = _opener(backend, request)

    async def open_one() -> Store:
        store = make()
        opened.append(store)
        await store.start()
        return store

    yield open_one
    for store in opened:
        await store.stop()


@pytest.fixture
async def store(store_factory: StoreFactory) -> Store:
    """The first connection."""
    return await store_factory()


@pytest.fixture
async def other_store(store_factory: StoreFactory) -> Store:
    """Another process's connection to the same database."""
    return await store_factory()


@pytest.fixture
async def locker(postgres_url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """A bare connection that stands for another process in the middle of its transaction (PostgreSQL only)."""
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        yield connection


def _opener(backend: str, request: pytest.FixtureRequest) -> Callable[[], Store]:
    if backend == "memory":
        ticks = itertools.count(_MEMORY_CLOCK_START_MS)
        database = MemoryDatabase(now=lambda: next(ticks))
        return lambda: MemoryStore(database)
    if backend == "sqlite":
        url = request.getfixturevalue("sqlite_url")
    else:
        url = request.getfixturevalue("pooled_url" if backend == "pgbouncer" else "postgres_url")
    return lambda: open_store(url)
