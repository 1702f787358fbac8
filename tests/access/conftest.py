"""A migrated, empty database of each kind, and the rooms on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from anabranch.engine.store import AuditTable, KeyTable, open_store
from anabranch.engine.store.state_manager import SqlStore
from anabranch.migrations import upgrade


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a migrated, empty database."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    url = f"sqlite:///{tmp_path / 'access.db'}"
    upgrade(url)
    return url


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[SqlStore]:
    store = open_store(database_url)
    await store.start()
    yield store
    await store.stop()


@pytest.fixture
def keys(store: SqlStore) -> KeyTable:
    return KeyTable(store)


@pytest.fixture
def trail(store: SqlStore) -> AuditTable:
    return AuditTable(store)
