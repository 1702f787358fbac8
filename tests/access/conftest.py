"""A migrated, empty database of each kind, and the rooms on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from anabranch.audit.audit_table import AuditTable
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.sql.store import SqlStore
from anabranch.keys.key_table import KeyTable


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
