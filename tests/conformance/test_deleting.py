"""Deleting a workflow while runs of it are being created: one of the two happens, never both."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from anabranch.engine.ports import NewVersion, Store, Transition, WorkflowVersion
from anabranch.errors import WorkflowHasRuns
from tests.conformance.building import TENANT, committed, ending, new_head, new_id, new_run, row_of

RACES = 20
only_postgresql = pytest.mark.only_on("postgresql", because="only there others may write while a row is locked")


async def saved(store: Store, name: str = "orders") -> WorkflowVersion:
    """A workflow that is there."""
    return await store.save_workflow(NewVersion(name=name, definition={}), tenant_id=TENANT)


async def deleted(store: Store) -> WorkflowVersion:
    """A workflow that was there."""
    workflow = await saved(store)
    await store.delete_workflow(tenant_id=TENANT, workflow_id=workflow.workflow_id)
    return workflow


async def birth_on(store: Store, workflow_id: str, **head: str) -> Transition:
    """The transition that makes a run of a workflow."""
    return new_run(new_head(now=await store.now(), workflow_id=workflow_id, **head))


async def test_nothing_is_born_on_a_workflow_that_is_gone_and_its_neighbours_are(store: Store) -> None:
    there, gone = await saved(store, "there"), await deleted(store)
    new_runs = [await birth_on(store, id_) for id_ in (gone.workflow_id, there.workflow_id, new_id())]
    new_runs.append(new_run(new_head(now=await store.now())))
    outcome = await store.commit(new_runs)
    assert outcome.won == {new_runs[1].instance_id, new_runs[3].instance_id}, "a test run needs no stored workflow"
    assert outcome.rejected == {new_runs[0].instance_id, new_runs[2].instance_id}
    assert (dict(outcome.existing), dict(outcome.refused)) == ({}, {})
    assert await store.get_instance(new_runs[0].instance_id) is None


async def test_a_start_repeated_after_its_workflow_was_deleted_finds_its_run(store: Store) -> None:
    workflow = await saved(store)
    first = await birth_on(store, workflow.workflow_id, idempotency_key="order-1")
    await committed(store, ending(await committed(store, first)))
    await store.delete_workflow(tenant_id=TENANT, workflow_id=workflow.workflow_id)
    again = await birth_on(store, workflow.workflow_id, idempotency_key="order-1")
    outcome = await store.commit([again])
    assert dict(outcome.existing) == {again.instance_id: first.instance_id}
    assert not outcome.won and not outcome.rejected
    # The very same creation, because its first answer was lost, is not rejected either: it happened.
    outcome = await store.commit([first])
    assert not outcome.won and not outcome.rejected


async def test_a_birth_that_asks_for_the_newest_version_is_not_born_at_another(
    store: Store, other_store: Store
) -> None:
    first = await saved(store)
    await other_store.save_workflow(
        NewVersion(name="orders", definition={"n": 2}, workflow_id=first.workflow_id), tenant_id=TENANT
    )
    now = await store.now()
    old, pinned, new = (
        new_run(
            new_head(now=now, workflow_id=first.workflow_id, workflow_version=version, idempotency_key=f"key-{number}"),
            only_active=only_active,
        )
        for number, (version, only_active) in enumerate([(1, True), (1, False), (2, True)])
    )
    outcome = await store.commit([old, pinned, new])
    assert (outcome.won, outcome.rejected) == ({pinned.instance_id, new.instance_id}, {old.instance_id})
    assert (dict(outcome.existing), dict(outcome.refused)) == ({}, {})
    assert await store.get_instance(old.instance_id) is None


async def test_a_birth_of_the_newest_version_that_happened_is_not_orphaned_by_a_later_save(store: Store) -> None:
    first = await saved(store)
    transition = new_run(new_head(now=await store.now(), workflow_id=first.workflow_id), only_active=True)
    await committed(store, transition)
    await store.save_workflow(
        NewVersion(name="orders", definition={"n": 2}, workflow_id=first.workflow_id), tenant_id=TENANT
    )
    outcome = await store.commit([transition])
    assert not outcome.won and not outcome.rejected


async def test_a_birth_and_a_delete_at_once_never_both_succeed(store: Store, other_store: Store) -> None:
    for number in range(RACES):
        workflow = await saved(store, f"orders-{number}")
        transition = await birth_on(store, workflow.workflow_id)
        outcome, refusal = await asyncio.gather(
            store.commit([transition]),
            other_store.delete_workflow(tenant_id=TENANT, workflow_id=workflow.workflow_id),
            return_exceptions=True,
        )
        assert not isinstance(outcome, BaseException)
        if isinstance(refusal, WorkflowHasRuns):
            assert outcome.won == {transition.instance_id}, "only a run that was created keeps its workflow"
        else:
            assert refusal is None and not outcome.won, "a deleted workflow has no new run"


# -- row locks, held from a second connection -----------------------------------------------------
@only_postgresql
async def test_a_delete_under_way_holds_up_no_commit(store: Store, locker: psycopg.AsyncConnection) -> None:
    leaving, staying = await saved(store, "leaving"), await saved(store, "staying")
    await locker.execute("SELECT FROM workflows WHERE workflow_id = %s FOR UPDATE", [leaving.workflow_id])
    new_runs = [await birth_on(store, workflow.workflow_id) for workflow in (leaving, staying)]
    outcome = await store.commit(new_runs)
    assert outcome.won == {new_runs[1].instance_id}
    assert not outcome.rejected, "it is not known yet, so it is asked again"
    await locker.rollback()
    assert (await store.commit(new_runs)).won == {new_runs[0].instance_id}


@only_postgresql
async def test_a_delete_waits_for_the_births_under_way(store: Store, locker: psycopg.AsyncConnection) -> None:
    workflow = await saved(store)
    await locker.execute("SELECT FROM workflows WHERE workflow_id = %s FOR KEY SHARE", [workflow.workflow_id])
    delete = asyncio.create_task(store.delete_workflow(tenant_id=TENANT, workflow_id=workflow.workflow_id))
    transition = await birth_on(store, workflow.workflow_id)
    await locker.execute(
        """
        INSERT INTO workflow_instances (instance_id, tenant_id, workflow_id, workflow_name, workflow_version, kind,
            test, status, version, last_seq, starts_at, retention_days, created_at)
        VALUES (%s, %s, %s, 'orders', 1, 'drawn', false, 'PENDING', 1, 0, 0, 1, 0)
        """,
        [transition.instance_id, TENANT, workflow.workflow_id],
    )
    await locker.commit()
    with pytest.raises(WorkflowHasRuns):
        await delete
    assert (await row_of(store, transition.instance_id)).head.workflow_id == workflow.workflow_id


@only_postgresql
async def test_a_save_under_way_holds_up_no_new_run(store: Store, locker: psycopg.AsyncConnection) -> None:
    workflow = await saved(store)
    await locker.execute("UPDATE workflows SET newest_version = 2, name = 'refunds'")
    transition = await birth_on(store, workflow.workflow_id)
    assert (await store.commit([transition])).won == {transition.instance_id}
    await locker.rollback()
