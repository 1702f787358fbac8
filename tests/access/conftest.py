"""The tables of keys and of the audit trail, on each kind of database."""

from __future__ import annotations

import pytest

from anabranch.audit.audit_table import AuditTable
from anabranch.engine.store.sql.store import SqlStore
from anabranch.keys.key_table import KeyTable


@pytest.fixture
def keys(store: SqlStore) -> KeyTable:
    return KeyTable(store)


@pytest.fixture
def trail(store: SqlStore) -> AuditTable:
    return AuditTable(store)
