"""Coded workflows: registered by workers, seen by every tenant, and claimed first by those that know them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy import event as events

from anabranch.engine.ports import ClaimRequest, NewVersion, Store
from anabranch.engine.rules.coded.coded_plan import CODED_TENANT_ID
from anabranch.errors import NameTaken
from anabranch.testing.memory_store.memory_store import MemoryStore
from tests.conformance.building import HOUR_MS, LEASE_MS, OTHER_WORKER, TENANT, parked

OPTIONS = {"retention": "3d", "retry": None, "deadline": None}


async def drawn(store: Store, name: str = "greets", tenant_id: str = TENANT) -> str:
    """Save a drawn workflow; its id."""
    saved = await store.save_workflow(NewVersion(name=name, definition={"nodes": [], "edges": []}), tenant_id=tenant_id)
    return saved.workflow_id


async def test_every_tenant_finds_a_registered_workflow(store: Store, other_store: Store) -> None:
    registered = await store.register_code(name="greets", version=1, definition=OPTIONS)

    assert (registered.tenant_id, registered.kind, registered.version) == (CODED_TENANT_ID, "coded", 1)
    for tenant_id in (TENANT, "another"):
        assert await other_store.get_workflow(tenant_id=tenant_id, workflow="greets") == registered
        assert await other_store.get_workflow(tenant_id=tenant_id, workflow=registered.workflow_id) == registered
        listed = await other_store.list_workflows(tenant_id=tenant_id, limit=9)
        assert [(entry.name, entry.kind) for entry in listed] == [("greets", "coded")]
    assert await other_store.get_definition(registered.workflow_id, 1) == registered


async def test_a_start_by_name_costs_one_statement_whether_its_workflow_is_drawn_or_coded(store: Store) -> None:
    await store.register_code(name="greets", version=1, definition=OPTIONS)
    await drawn(store, "draws")
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        if "workflow_versions" in arguments[2]:
            statements.append(arguments[2])

    events.listen(Engine, "before_cursor_execute", note)
    try:
        for name in ("greets", "draws"):
            found = await store.get_workflow(tenant_id=TENANT, workflow=name, active=True)
            assert found is not None and found.name == name
    finally:
        events.remove(Engine, "before_cursor_execute", note)

    assert len(statements) == (0 if isinstance(store, MemoryStore) else 2)


async def test_versions_are_those_of_the_code_in_any_order(store: Store) -> None:
    third = await store.register_code(name="greets", version=3, definition=OPTIONS)
    first = await store.register_code(name="greets", version=1, definition=OPTIONS)

    assert first.workflow_id == third.workflow_id
    newest = await store.get_workflow(tenant_id=TENANT, workflow="greets")
    assert newest is not None and newest.version == 3
    assert await store.get_workflow(tenant_id=TENANT, workflow="greets", version=2) is None
    versions = await store.list_versions(tenant_id=TENANT, workflow_id=first.workflow_id, limit=9)
    assert [entry.version for entry in versions] == [3, 1]


async def test_registering_again_changes_only_the_options(store: Store) -> None:
    before = await store.register_code(name="greets", version=1, definition=OPTIONS)
    assert await store.register_code(name="greets", version=1, definition=OPTIONS) == before

    after = await store.register_code(name="greets", version=1, definition={**OPTIONS, "retention": "9d"})

    assert (after.workflow_id, after.version) == (before.workflow_id, 1)
    assert after.definition["retention"] == "9d"


async def test_two_workers_at_once_register_one_workflow(store: Store, other_store: Store) -> None:
    both = (each.register_code(name="greets", version=1, definition=OPTIONS) for each in (store, other_store))
    one, two = await asyncio.gather(*both)

    assert one.workflow_id == two.workflow_id


async def test_no_tenant_takes_the_name_of_code(store: Store) -> None:
    await store.register_code(name="greets", version=1, definition=OPTIONS)
    other = await drawn(store, "other")

    with pytest.raises(NameTaken):
        await drawn(store)
    with pytest.raises(NameTaken):
        await store.save_workflow(NewVersion(name="greets", definition={}, workflow_id=other), tenant_id=TENANT)


async def test_who_had_the_name_keeps_it_and_finds_the_code_by_its_id(store: Store) -> None:
    own_id = await drawn(store)
    registered = await store.register_code(name="greets", version=1, definition=OPTIONS)

    own = await store.get_workflow(tenant_id=TENANT, workflow="greets")
    assert own is not None and own.workflow_id == own_id
    assert await store.get_workflow(tenant_id=TENANT, workflow="greets", version=7) is None
    assert await store.get_workflow(tenant_id=TENANT, workflow=registered.workflow_id) == registered
    listed = await store.list_workflows(tenant_id=TENANT, limit=9)
    assert [entry.workflow_id for entry in listed] == [own_id]
    changed = await store.save_workflow(
        NewVersion(name="greets", title="still mine", definition={}, workflow_id=own_id), tenant_id=TENANT
    )
    assert changed.version == 2


# -- claims ----------------------------------------------------------------------------------------
async def claimed_by(store: Store, *known: tuple[str, int]) -> set[str]:
    """What a worker that knows this code claims."""
    claimed = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=9, lease_ms=LEASE_MS, known_code=known))
    return {one.row.head.instance_id for one in claimed}


async def test_a_claim_leaves_runs_of_unknown_code_to_others(store: Store) -> None:
    now = await store.now()
    due = now - 1
    mine = await parked(store, available_at=due, kind="coded", workflow_name="greets", workflow_version=2)
    older = await parked(store, available_at=due, kind="coded", workflow_name="greets", workflow_version=1)
    lonely = await parked(store, available_at=now - HOUR_MS, kind="coded", workflow_name="gone", workflow_version=1)
    drawn_one = await parked(store, available_at=due)
    ids = [row.head.instance_id for row in (mine, drawn_one)]

    assert await claimed_by(store, ("greets", 2), ("greets", 3)) == set(ids)
    assert await claimed_by(store, ("greets", 1)) == {older.head.instance_id}
    assert await claimed_by(store, ("gone", 1)) == {lonely.head.instance_id}


async def test_a_claim_that_names_no_code_takes_every_run(store: Store) -> None:
    row = await parked(store, available_at=await store.now() - 1, kind="coded")

    claimed = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=9, lease_ms=LEASE_MS))

    assert [one.row.head.instance_id for one in claimed] == [row.head.instance_id]
