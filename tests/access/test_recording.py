"""What people change is in the trail, in the same transaction; what was refused is not."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from anabranch.audit.audit_log import AuditLog, TrailVerification
from anabranch.audit.audit_table import AuditTable
from anabranch.engine.ports import NewVersion
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import DataSourceInUse, NameTaken, NotFound, VersionMismatch
from anabranch.queries.saved.query_tables import DataQueries
from anabranch.queries.saved.saved_queries import DataQuery, DataSource
from anabranch.secrets.secret_table import SecretTable

WHO: dict[str, Any] = {"tenant_id": "acme", "actor": "key_1"}


@pytest.fixture
async def data(store: SqlStore) -> AsyncIterator[DataQueries]:
    saved = DataQueries(store.dialect)
    saved.open_threads()
    yield saved
    await saved.close_threads()


async def recorded(trail: AuditTable) -> list[tuple[str, str, str]]:
    """Oldest first: action, target and details of every row, all of them the doing of one key."""
    rows = list(reversed(await trail.list_rows(tenant_id="acme", limit=100, before=None)))
    assert {row.actor for row in rows} <= {"key_1"}
    assert await AuditLog(trail).verify() == TrailVerification(len(rows), None)
    return [(row.action, row.target, row.details) for row in rows]


async def test_workflows_are_on_record_by_their_versions(store: SqlStore, trail: AuditTable) -> None:
    first = await store.save_workflow(NewVersion(name="orders", definition={}), **WHO)
    same: dict[str, Any] = {"name": "orders", "workflow_id": first.workflow_id}
    await store.save_workflow(NewVersion(**same, definition={}), **WHO)  # equal to the newest: nothing happened
    await store.save_workflow(NewVersion(**same, definition={"nodes": []}), **WHO)
    with pytest.raises(NameTaken):
        await store.save_workflow(NewVersion(name="orders", definition={}), **WHO)
    with pytest.raises(VersionMismatch):
        await store.save_workflow(NewVersion(**same, definition={"edges": []}, expected_version=1), **WHO)
    await store.delete_workflow(workflow_id=first.workflow_id, **WHO)
    with pytest.raises(NotFound):
        await store.delete_workflow(workflow_id=first.workflow_id, **WHO)

    assert await recorded(trail) == [
        ("workflow.saved", first.workflow_id, '{"name": "orders", "version": 1}'),
        ("workflow.saved", first.workflow_id, '{"name": "orders", "version": 2}'),
        ("workflow.deleted", first.workflow_id, '{"name": "orders", "version": 2}'),
    ]


async def test_secrets_are_on_record_by_name_and_never_by_value(store: SqlStore, trail: AuditTable) -> None:
    table = SecretTable(store)
    await table.put_secret(name="TOKEN", seal=lambda _: ("k", b"sealed"), **WHO)
    await table.put_secret(name="TOKEN", seal=lambda _: ("k", b"sealed"), **WHO)
    assert await table.delete_secret(name="TOKEN", **WHO)
    assert not await table.delete_secret(name="TOKEN", **WHO)
    assert await recorded(trail) == [
        ("secret.set", "TOKEN", '{"version": 1}'),
        ("secret.set", "TOKEN", '{"version": 2}'),
        ("secret.deleted", "TOKEN", "{}"),
    ]


async def test_data_sources_and_queries_are_on_record(data: DataQueries, trail: AuditTable) -> None:
    source_id, query_id = str(uuid.uuid4()), str(uuid.uuid4())
    source = DataSource(source_id, "acme", "shop", "sqlite", "shop.db", b"sqlite:///shop.db", False, 0, 0)
    query = DataQuery(query_id, "acme", "orders", source_id, "SELECT 1", {}, False, 1_000, 0, 0)
    await data.save_source(source, actor="key_1")
    await data.save_query(query, actor="key_1")
    with pytest.raises(DataSourceInUse):
        await data.delete_source(source_id, **WHO)
    await data.delete_query(query_id, **WHO)
    with pytest.raises(NotFound):
        await data.delete_query(query_id, **WHO)
    await data.delete_source(source_id, **WHO)
    assert await recorded(trail) == [
        ("data_source.saved", source_id, '{"name": "shop"}'),
        ("data_query.saved", query_id, '{"name": "orders"}'),
        ("data_query.deleted", query_id, '{"name": "orders"}'),
        ("data_source.deleted", source_id, '{"name": "shop"}'),
    ]


async def test_what_nobody_in_particular_does_is_not_on_record(store: SqlStore, trail: AuditTable) -> None:
    await store.save_workflow(NewVersion(name="orders", definition={}), tenant_id="acme")
    assert await recorded(trail) == []
