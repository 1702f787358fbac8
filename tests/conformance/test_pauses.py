"""Pauses of workflows and tenants, and active versions, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.ports import ClaimRequest, NewVersion, Store, WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_TENANT_ID
from anabranch.errors import NotFound
from tests.conformance.building import LEASE_MS, OTHER_WORKER, TENANT, WORKER, created, new_head, new_run

pytestmark = pytest.mark.only_on("memory", "sqlite", "postgresql", because="a pooler changes no statement")

LONG_AGO = 1_600_000_000_000
OTHER_TENANT = "other"


async def saved(store: Store, name: str = "refunds", *, activate: bool = True, **known: Any) -> WorkflowVersion:
    """A version that no earlier one equals."""
    saved.count += 1  # type: ignore[attr-defined]
    definition = {"name": name, "nodes": [], "number": saved.count}  # type: ignore[attr-defined]
    version = NewVersion(name=name, definition=definition, activate=activate, **known)
    return await store.save_workflow(version, tenant_id=TENANT)


saved.count = 0  # type: ignore[attr-defined]


async def due(store: Store, workflow: WorkflowVersion | None = None, **head: Any) -> str:
    """A run that may be claimed."""
    head["workflow_id"] = None if workflow is None else workflow.workflow_id
    row = await created(store, worker_id=None, turn_changes={"available_at": LONG_AGO}, **head)
    return row.head.instance_id


async def claimed(store: Store, worker: str = WORKER) -> set[str]:
    found = await store.claim(ClaimRequest(worker_id=worker, limit=10, lease_ms=LEASE_MS))
    return {each.row.head.instance_id for each in found}


async def pause(store: Store, workflow: WorkflowVersion | None, tenant: str = TENANT) -> None:
    await store.pause(tenant_id=tenant, workflow_id=None if workflow is None else workflow.workflow_id, by="Ada")


async def unpause(store: Store, workflow: WorkflowVersion | None) -> bool:
    return await store.unpause(tenant_id=TENANT, workflow_id=None if workflow is None else workflow.workflow_id)


# -- pauses --------------------------------------------------------------------------------------
async def test_the_runs_of_a_paused_workflow_are_not_claimed_and_keep_their_status(store: Store) -> None:
    refunds, orders = await saved(store), await saved(store, "orders")
    held, free, test_run = await due(store, refunds), await due(store, orders), await due(store)
    before = await store.get_instance(held)
    await pause(store, refunds)
    assert await claimed(store) == {free, test_run}
    assert await store.get_instance(held) == before
    assert await unpause(store, refunds)
    assert await claimed(store) == {held}


async def test_no_run_of_a_paused_tenant_is_claimed_and_others_are(store: Store) -> None:
    refunds = await saved(store)
    mine, test_run = await due(store, refunds), await due(store)
    other = await due(store, tenant_id=OTHER_TENANT)
    await pause(store, None)
    assert await claimed(store) == {other}
    assert await unpause(store, None)
    assert await claimed(store) == {mine, test_run}


async def test_a_workflow_stays_paused_when_its_tenant_is_resumed(store: Store) -> None:
    refunds = await saved(store)
    held = await due(store, refunds)
    await pause(store, refunds)
    await pause(store, None)
    assert await unpause(store, None)
    assert await claimed(store) == set()
    assert await unpause(store, refunds)
    assert await claimed(store) == {held}


async def test_a_lost_worker_of_a_paused_run_is_judged_once_the_run_may_go_on(store: Store) -> None:
    refunds = await saved(store)
    row = await created(
        store, worker_id=OTHER_WORKER, turn_changes={"available_at": LONG_AGO}, workflow_id=refunds.workflow_id
    )
    await pause(store, refunds)
    assert await claimed(store) == set()
    now = await store.get_instance(row.head.instance_id)
    assert now is not None and now.blame is None
    await unpause(store, refunds)
    assert await claimed(store) == {row.head.instance_id}


async def test_a_paused_run_whose_deadline_has_passed_is_claimed_to_fail(store: Store) -> None:
    refunds = await saved(store)
    over = await due(store, refunds, deadline_at=LONG_AGO + 1)
    await due(store, refunds, deadline_at=await store.now() + 1_000_000)
    await pause(store, refunds)
    assert await claimed(store) == {over}


async def test_a_paused_run_is_not_suspended_for_want_of_a_worker(store: Store) -> None:
    refunds = await saved(store)
    await due(store, refunds, kind="coded")
    await pause(store, refunds)
    assert await store.suspend_unfit(overdue_ms=0, seen_ms=90_000, limit=10) == 0
    await unpause(store, refunds)
    assert await store.suspend_unfit(overdue_ms=0, seen_ms=90_000, limit=10) == 1


async def test_a_second_pause_is_the_first_and_a_second_resume_nothing(store: Store, other_store: Store) -> None:
    refunds = await saved(store)
    first = await store.pause(tenant_id=TENANT, workflow_id=refunds.workflow_id, by="Ada")
    again = await other_store.pause(tenant_id=TENANT, workflow_id=refunds.workflow_id, by="Bob")
    assert (again, first.paused_by) == (first, "Ada")
    tenants = await store.pause(tenant_id=TENANT, workflow_id=None, by="Ada")
    assert await store.pause(tenant_id=TENANT, workflow_id=None, by="Bob") == tenants
    assert {each.workflow_id for each in await other_store.pauses(tenant_id=TENANT)} == {refunds.workflow_id, None}
    assert await other_store.pauses(tenant_id=OTHER_TENANT) == []
    assert len(await other_store.pauses()) == 2
    assert (await unpause(other_store, refunds), await unpause(store, refunds)) == (True, False)


async def test_another_process_may_notice_a_pause(store: Store, other_store: Store) -> None:
    await other_store.external_changes_possible()
    await other_store.external_changes_possible()
    await pause(store, None)
    assert await other_store.external_changes_possible()


# -- active versions -----------------------------------------------------------------------------
async def active(store: Store, name: str = "refunds") -> int:
    found = await store.get_workflow(tenant_id=TENANT, workflow=name, active=True)
    assert found is not None and found.version == found.active_version
    return found.version


async def test_a_saved_version_is_active_unless_it_is_saved_without(store: Store) -> None:
    first = await saved(store)
    known = {"workflow_id": first.workflow_id}
    assert (first.active_version, await active(store)) == (1, 1)
    assert (await saved(store, activate=False, **known)).active_version == 1
    assert (await saved(store, activate=False, **known)).active_version == 1
    newest = await store.get_workflow(tenant_id=TENANT, workflow="refunds")
    assert newest is not None and (newest.version, newest.active_version) == (3, 1)
    assert (await saved(store, **known)).active_version == 4
    assert await active(store) == 4


async def test_an_older_version_is_made_active_and_the_newest_again(store: Store, other_store: Store) -> None:
    first = await saved(store)
    await saved(store, workflow_id=first.workflow_id)
    which = {"tenant_id": TENANT, "workflow_id": first.workflow_id}
    assert (await store.activate_version(**which, version=1)).active_version == 1
    assert await active(other_store) == 1
    entries = await other_store.list_versions(**which, limit=10)
    assert [(each.version, each.active_version) for each in entries] == [(2, 1), (1, 1)]
    assert (await other_store.list_workflows(tenant_id=TENANT, limit=10))[0].active_version == 1
    assert (await other_store.activate_version(**which, version=2)).active_version == 2
    assert await active(store) == 2


async def test_only_what_is_there_is_made_active(store: Store) -> None:
    first = await saved(store)
    absent = "00000000-0000-0000-0000-0000000000ff"
    for tenant, workflow_id, version in (
        (TENANT, first.workflow_id, 2),
        (OTHER_TENANT, first.workflow_id, 1),
        (TENANT, absent, 1),
    ):
        with pytest.raises(NotFound):
            await store.activate_version(tenant_id=tenant, workflow_id=workflow_id, version=version)


async def test_a_creation_that_asks_for_the_active_version_is_refused_at_another(store: Store) -> None:
    first = await saved(store)
    await saved(store, workflow_id=first.workflow_id)
    await store.activate_version(tenant_id=TENANT, workflow_id=first.workflow_id, version=1)
    now = await store.now()
    transitions = [
        new_run(new_head(now=now, workflow_id=first.workflow_id, workflow_version=version), only_active=True)
        for version in (1, 2)
    ]
    outcome = await store.commit(transitions)
    assert outcome.won == {transitions[0].instance_id}
    assert outcome.rejected == {transitions[1].instance_id}


async def test_code_is_active_if_it_is_newer_or_says_so(store: Store) -> None:
    async def register(version: int, *, active: bool = False) -> int:
        found = await store.register_code(name="greets", version=version, definition={"v": version}, active=active)
        assert (found.tenant_id, found.version) == (CODED_TENANT_ID, version)
        return found.active_version

    assert await register(1) == 1
    assert await register(3) == 3
    assert await register(2) == 3, "an older one is not"
    assert await register(1, active=True) == 1
    assert await register(3) == 1, "it was known before"
    assert (await active(store, "greets")) == 1
    assert await register(4) == 4
