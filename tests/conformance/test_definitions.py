"""Definitions: numbered versions that never change, names that are unique per tenant."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from anabranch.engine.ports import NewVersion, Store, WorkflowEntry, WorkflowVersion
from anabranch.errors import NameTaken, NotFound, VersionMismatch, WorkflowHasRuns
from tests.conformance.building import TENANT, committed, created, ending, new_head, new_id, new_run, row_of

GRAPH: dict[str, Any] = {"nodes": [{"id": "start", "type": "start"}], "edges": [], "title": "Bestellungen prüfen"}


async def save(store: Store, definition: Any = None, **changes: Any) -> WorkflowVersion:
    """Save one workflow called `orders` unless told otherwise."""
    tenant_id = changes.pop("tenant_id", TENANT)
    draft = NewVersion(**{"name": "orders", "title": "Orders", "definition": definition or GRAPH, **changes})
    return await store.save_workflow(draft, tenant_id=tenant_id)


def entry(version: WorkflowVersion, active_version: int) -> WorkflowEntry:
    """What lists show of a version."""
    return WorkflowEntry(
        version.workflow_id,
        version.name,
        version.title,
        version.kind,
        version.version,
        version.created_at,
        version.updated_at,
        active_version,
    )


async def test_a_new_workflow_is_version_one(store: Store) -> None:
    before = await store.now()
    saved = await save(store)
    assert (saved.version, saved.name, saved.title, saved.kind, saved.tenant_id) == (
        1,
        "orders",
        "Orders",
        "drawn",
        TENANT,
    )
    assert saved.definition == GRAPH
    assert before <= saved.created_at <= saved.updated_at <= await store.now()


async def test_a_workflow_reads_back_as_it_was_saved_by_id_and_by_name(store: Store, other_store: Store) -> None:
    saved = await save(store, title=None, kind="coded")
    assert await other_store.get_workflow(tenant_id=TENANT, workflow=saved.workflow_id) == saved
    assert await other_store.get_workflow(tenant_id=TENANT, workflow="orders") == saved
    assert await other_store.get_definition(saved.workflow_id, 1) == saved


async def test_versions_are_numbered_and_the_old_ones_stay_as_they_were(store: Store) -> None:
    first = await save(store)
    second = await save(store, {**GRAPH, "edges": [{"id": "e1"}]}, workflow_id=first.workflow_id)
    third = await save(store, GRAPH, workflow_id=first.workflow_id)
    assert [item.version for item in (first, second, third)] == [1, 2, 3]
    assert {item.workflow_id for item in (first, second, third)} == {first.workflow_id}
    assert third.created_at == first.created_at, "the workflow was made once"
    for saved in (first, second, third):
        found = await store.get_workflow(tenant_id=TENANT, workflow="orders", version=saved.version)
        assert found is not None and found.definition == saved.definition
    newest = await store.get_workflow(tenant_id=TENANT, workflow="orders")
    assert newest is not None and newest.version == 3


async def test_a_save_that_changes_nothing_is_the_newest_version_again(store: Store) -> None:
    first = await save(store)
    assert await save(store, workflow_id=first.workflow_id) == first
    assert await store.get_workflow(tenant_id=TENANT, workflow="orders", version=2) is None


async def test_a_number_in_place_of_true_is_a_change(store: Store) -> None:
    first = await save(store, {**GRAPH, "flag": True})
    assert (await save(store, {**GRAPH, "flag": 1}, workflow_id=first.workflow_id)).version == 2


async def test_a_new_title_or_name_alone_is_a_new_version(store: Store) -> None:
    first = await save(store)
    assert (await save(store, title="Triage", workflow_id=first.workflow_id)).version == 2
    renamed = await save(store, title="Triage", name="triage", workflow_id=first.workflow_id)
    assert (renamed.version, renamed.name) == (3, "triage")
    assert await store.get_workflow(tenant_id=TENANT, workflow="triage") == renamed
    assert await store.get_workflow(tenant_id=TENANT, workflow="orders") is None
    assert (await save(store)).workflow_id != first.workflow_id, "the old name is free"


async def test_what_is_saved_shares_nothing_with_what_was_given(store: Store) -> None:
    definition = {"nodes": [{"id": "start"}], "edges": []}
    saved = await save(store, definition)
    definition["nodes"].append({"id": "later"})
    found = await store.get_definition(saved.workflow_id, 1)
    assert found is not None and found.definition == {"nodes": [{"id": "start"}], "edges": []}


async def test_a_definition_keeps_its_key_order_and_numbers(store: Store) -> None:
    definition = {
        "nodes": [{"z": 1, "a": {"y": 1.0, "b": 2**63 - 1}, "m": [True, 1]}],
        "x-tool": orjson.Fragment(b'{"z" : [1e3, 1.0]}'),
        "edges": [],
    }
    saved = await save(store, definition)
    found = await store.get_definition(saved.workflow_id, 1)
    assert found is not None
    assert orjson.dumps(found.definition) == orjson.dumps(definition)
    assert repr(found.definition["nodes"]) == repr(definition["nodes"]), "1 is no 1.0"


async def test_a_taken_name_is_refused(store: Store) -> None:
    await save(store)
    refunds = await save(store, name="refunds")
    with pytest.raises(NameTaken):
        await save(store, {**GRAPH, "edges": [{}]})
    with pytest.raises(NameTaken):
        await save(store, workflow_id=refunds.workflow_id)
    assert await store.get_workflow(tenant_id=TENANT, workflow="refunds") == refunds


async def test_the_expected_version_must_be_the_newest(store: Store) -> None:
    first = await save(store)
    changed = {**GRAPH, "edges": [{"id": "e1"}]}
    second = await save(store, changed, workflow_id=first.workflow_id, expected_version=1)
    assert second.version == 2
    with pytest.raises(VersionMismatch):
        await save(store, GRAPH, workflow_id=first.workflow_id, expected_version=1)
    assert await store.get_workflow(tenant_id=TENANT, workflow="orders") == second


@pytest.mark.parametrize("workflow_id", ["00000000-0000-4000-8000-000000000001", "no id at all"])
async def test_a_version_of_an_unknown_workflow_is_not_found(store: Store, workflow_id: str) -> None:
    with pytest.raises(NotFound):
        await save(store, workflow_id=workflow_id)
    assert await store.get_workflow(tenant_id=TENANT, workflow=workflow_id) is None
    assert await store.get_definition(workflow_id, 1) is None


async def test_another_tenants_workflows_read_as_absent(store: Store) -> None:
    ours = await save(store)
    theirs = await save(store, tenant_id="other", title="Theirs")
    assert await store.get_workflow(tenant_id="other", workflow="orders") == theirs
    assert await store.get_workflow(tenant_id="other", workflow=ours.workflow_id) is None
    assert await store.list_workflows(tenant_id=TENANT, limit=100) == [entry(ours, ours.version)]
    with pytest.raises(NotFound):
        await save(store, title="Mine now", tenant_id="other", workflow_id=ours.workflow_id)
    with pytest.raises(NotFound):
        await store.delete_workflow(tenant_id="other", workflow_id=ours.workflow_id)


async def test_workflows_are_listed_by_name_with_their_newest_version(store: Store) -> None:
    second = await save(store, name="b")
    first = await save(store, name="a")
    newest = await save(store, title="New", name="a", workflow_id=first.workflow_id)
    deleted = await save(store, name="c")
    await store.delete_workflow(tenant_id=TENANT, workflow_id=deleted.workflow_id)
    assert await store.list_workflows(tenant_id=TENANT, limit=100) == [
        entry(newest, newest.version),
        entry(second, second.version),
    ]
    with_graphs = await store.list_workflows(tenant_id=TENANT, limit=100, with_definitions=True)
    assert [listed.definition for listed in with_graphs] == [newest.definition, second.definition]


async def test_workflows_are_paged_in_the_order_of_their_characters(store: Store) -> None:
    names = ["a", "a-1", "a0", "a_", "aa", "b", "b-", "ba"]  # as a dictionary would not have them
    for name in reversed(names):
        await save(store, name=name)
    seen: list[str] = []
    while page := await store.list_workflows(tenant_id=TENANT, limit=3, after=seen[-1] if seen else None):
        seen += [listed.name for listed in page]
    assert seen == sorted(names)


async def test_versions_are_paged_newest_first(store: Store) -> None:
    first = await save(store)
    saved = [first] + [await save(store, title=str(n), workflow_id=first.workflow_id) for n in range(2, 6)]
    asked = {"tenant_id": TENANT, "workflow_id": first.workflow_id, "limit": 3}
    newest = await store.list_versions(**asked)
    assert newest == [entry(version, 5) for version in reversed(saved[2:])]
    assert await store.list_versions(**asked, before=3) == [entry(saved[1], 5), entry(saved[0], 5)]
    assert await store.list_versions(**{**asked, "tenant_id": "other"}) == []
    assert await store.list_versions(**{**asked, "workflow_id": "no id at all"}) == []
    await store.delete_workflow(tenant_id=TENANT, workflow_id=first.workflow_id)
    assert await store.list_versions(**asked) == []


# -- deleting -------------------------------------------------------------------------------------
async def test_a_deleted_workflow_is_gone_and_its_name_is_free(store: Store) -> None:
    first = await save(store)
    await store.delete_workflow(tenant_id=TENANT, workflow_id=first.workflow_id)
    assert await store.get_workflow(tenant_id=TENANT, workflow="orders") is None
    assert await store.get_workflow(tenant_id=TENANT, workflow=first.workflow_id) is None
    again = await save(store)
    assert (again.version, again.workflow_id != first.workflow_id) == (1, True)
    for gone in (first.workflow_id, new_id(), "no id at all"):
        with pytest.raises(NotFound):
            await store.delete_workflow(tenant_id=TENANT, workflow_id=gone)
    with pytest.raises(NotFound):
        await save(store, title="Back again", name="orders-2", workflow_id=first.workflow_id)


async def test_an_open_run_keeps_its_workflow_from_being_deleted(store: Store) -> None:
    saved = await save(store)
    row = await created(store, workflow_id=saved.workflow_id)
    with pytest.raises(WorkflowHasRuns):
        await store.delete_workflow(tenant_id=TENANT, workflow_id=saved.workflow_id)
    assert await store.get_workflow(tenant_id=TENANT, workflow="orders") == saved
    await committed(store, ending(row))
    await store.delete_workflow(tenant_id=TENANT, workflow_id=saved.workflow_id)


async def test_a_forced_delete_names_the_runs_that_still_go_on(store: Store) -> None:
    forced, kept = await save(store), await save(store, name="kept")
    open_ = [(await created(store, workflow_id=forced.workflow_id)).head.instance_id for _ in range(3)]
    await committed(store, ending(await created(store, workflow_id=forced.workflow_id)))
    await created(store, workflow_id=kept.workflow_id)
    await created(store, test=True)
    assert await store.runs_of_deleted_workflows(limit=10) == []
    await store.delete_workflow(tenant_id=TENANT, workflow_id=forced.workflow_id, force=True)
    assert await store.get_workflow(tenant_id=TENANT, workflow="orders") is None
    for of in (None, forced.workflow_id):
        named = await store.runs_of_deleted_workflows(limit=10, workflow_id=of)
        assert sorted(named) == sorted((TENANT, instance_id) for instance_id in open_)
    assert len(await store.runs_of_deleted_workflows(limit=2)) == 2
    assert await store.runs_of_deleted_workflows(limit=10, workflow_id=kept.workflow_id) == []
    for instance_id in open_:
        await store.append_cancel(tenant_id=TENANT, instance_id=instance_id, reason="")
    assert await store.runs_of_deleted_workflows(limit=10) == []


async def test_nothing_is_born_after_a_forced_delete(store: Store) -> None:
    saved = await save(store)
    await store.delete_workflow(tenant_id=TENANT, workflow_id=saved.workflow_id, force=True)
    late = new_run(new_head(now=await store.now(), workflow_id=saved.workflow_id))
    assert (await store.commit([late])).rejected == {late.instance_id}


async def test_a_cancelled_run_does_not_keep_its_workflow(store: Store) -> None:
    saved = await save(store)
    row = await created(store, workflow_id=saved.workflow_id)
    await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="")
    await store.delete_workflow(tenant_id=TENANT, workflow_id=saved.workflow_id)
    assert await store.get_workflow(tenant_id=TENANT, workflow=saved.workflow_id) is None


async def test_the_definition_of_an_ended_run_outlives_its_workflow(store: Store) -> None:
    saved = await save(store)
    await save(store, title="Newer", workflow_id=saved.workflow_id)
    row = await created(store, workflow_id=saved.workflow_id)
    await committed(store, ending(row))
    await store.delete_workflow(tenant_id=TENANT, workflow_id=saved.workflow_id)
    assert (await row_of(store, row.head.instance_id)).head.workflow_id == saved.workflow_id
    pinned = await store.get_definition(saved.workflow_id, 1)
    assert pinned is not None and pinned.definition == GRAPH


# -- races ----------------------------------------------------------------------------------------
async def test_two_savers_at_once_get_different_numbers(store: Store, other_store: Store) -> None:
    first = await save(store)
    saved = await asyncio.gather(
        *(
            save((store, other_store)[index % 2], {**GRAPH, "edges": [index]}, workflow_id=first.workflow_id)
            for index in range(6)
        )
    )
    assert sorted(item.version for item in saved) == [2, 3, 4, 5, 6, 7]
    for item in saved:
        found = await store.get_definition(item.workflow_id, item.version)
        assert found is not None and found.definition == item.definition


async def test_one_of_two_savers_with_the_same_expectation_wins(store: Store, other_store: Store) -> None:
    first = await save(store)
    answers = await asyncio.gather(
        *(
            save(saver, {**GRAPH, "n": index}, workflow_id=first.workflow_id, expected_version=1)
            for index, saver in enumerate((store, other_store))
        ),
        return_exceptions=True,
    )
    assert {type(answer) for answer in answers} == {WorkflowVersion, VersionMismatch}


async def test_a_new_name_raced_by_two_is_taken_once(store: Store, other_store: Store) -> None:
    for number in range(5):
        answers = await asyncio.gather(
            *(save(saver, name=f"orders-{number}") for saver in (store, other_store)), return_exceptions=True
        )
        assert {type(answer) for answer in answers} == {WorkflowVersion, NameTaken}
