"""Counts of runs, and the removal of runs whose time is over: exact whoever crashes, and however many do it."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from anabranch.audit.audit_table import AuditTable
from anabranch.engine.ports import InstanceRow, NewVersion, Store
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.engine.store.sql.dialect import ENDS_SETTLE_MS
from anabranch.engine.store.sql.housekeeping import sql_housekeeping
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import NotFound, RunIsOpen
from tests.conformance.building import (
    NAP_MS,
    TENANT,
    assert_unchanged,
    committed,
    completed,
    created,
    ending,
    new_head,
    new_run,
    parked,
    row_of,
    transition,
)
from tests.conformance.locking import waiting_backend

MINUTE_MS = 60_000
DAY_MS = 86_400_000
only_sql = pytest.mark.only_on("sqlite", "postgresql", because="the memory store keeps no counters")
only_postgresql = pytest.mark.only_on("postgresql", because="only there others may write while a row is locked")


async def saved(store: Store, name: str = "orders") -> str:
    """The id of a workflow that is there."""
    return (await store.save_workflow(NewVersion(name=name, definition={}), tenant_id=TENANT)).workflow_id


async def ended(store: Store, **head: Any) -> InstanceRow:
    """A run that has ended."""
    return await committed(store, ending(await created(store, **head)))


async def over(store: Store, **head: Any) -> InstanceRow:
    """A run that has ended and is to be kept no longer."""
    return await ended(store, **{"retention_days": 0, **head})


async def age(store: Store, row: InstanceRow, *, milliseconds: int = MINUTE_MS) -> None:
    """Make it look as if a run had ended so much earlier."""
    assert isinstance(store, SqlStore)
    earlier = text("UPDATE workflow_instances SET completed_at = completed_at - :by WHERE instance_id = :id")
    asked = {"by": milliseconds, "id": row.head.instance_id}
    await store.write(lambda connection: connection.execute(earlier, asked))


async def counters(store: Store) -> int:
    """How many runs the counter rows count."""
    assert isinstance(store, SqlStore)
    total = text("SELECT coalesce(sum(runs), 0) FROM run_counts")
    return await store.read(lambda connection: int(connection.execute(total).scalar_one()))


# -- counting -------------------------------------------------------------------------------------
async def test_runs_are_counted_by_workflow_and_status(store: Store) -> None:
    orders, refunds = await saved(store, "orders"), await saved(store, "refunds")
    await created(store, workflow_id=orders, worker_id=None)
    await created(store, workflow_id=orders)
    await parked(store, available_at=None, workflow_id=orders)
    for days in (1, 30, 365):
        await ended(store, workflow_id=orders, retention_days=days)
    cancelled = await created(store, workflow_id=refunds)
    await store.append_cancel(tenant_id=TENANT, instance_id=cancelled.head.instance_id, reason="")
    await created(store, workflow_id=None, test=True)
    await ended(store, workflow_id=orders, test=True)
    await ended(store, workflow_id=orders, tenant_id="other")
    assert await store.count_runs(tenant_id=TENANT) == {
        orders: {Status.PENDING: 1, Status.RUNNING: 1, Status.WAITING: 1, Status.COMPLETED: 3},
        refunds: {Status.CANCELLED: 1},
    }
    assert await store.count_runs(tenant_id="other") == {orders: {Status.COMPLETED: 1}}
    assert await store.count_runs(tenant_id="nobody") == {}


async def test_what_ended_lately_is_counted_for_all_tenants(store: Store) -> None:
    orders = await saved(store)
    for days in (1, 30):
        await ended(store, workflow_id=orders, retention_days=days)
    cancelled = await created(store, workflow_id=orders)
    await store.append_cancel(tenant_id=TENANT, instance_id=cancelled.head.instance_id, reason="")
    await created(store, workflow_id=orders)
    await ended(store, workflow_id=orders, tenant_id="other")
    await ended(store, workflow_id=orders, test=True)
    assert await store.count_ended(within_ms=MINUTE_MS) == {
        TENANT: {orders: {Status.COMPLETED: 2, Status.CANCELLED: 1}},
        "other": {orders: {Status.COMPLETED: 1}},
    }
    assert await store.count_ended(within_ms=-MINUTE_MS) == {}


@only_sql
async def test_of_what_was_folded_only_what_ended_lately_is_counted(store: Store) -> None:
    orders = await saved(store)
    await age(store, await ended(store, workflow_id=orders), milliseconds=2 * MINUTE_MS)
    await ended(store, workflow_id=orders)
    await store.fold_counts(limit=10)
    assert await store.count_ended(within_ms=MINUTE_MS) == {TENANT: {orders: {Status.COMPLETED: 1}}}


@only_sql
async def test_folding_changes_no_count_however_often_and_in_what_chunks(store: Store) -> None:
    orders = await saved(store)
    runs = [await ended(store, workflow_id=orders, retention_days=1 + number % 3) for number in range(10)]
    for number, row in enumerate(runs):
        await age(store, row, milliseconds=MINUTE_MS + number)
    await created(store, workflow_id=orders)
    before = await store.count_runs(tenant_id=TENANT)
    assert before == {orders: {Status.RUNNING: 1, Status.COMPLETED: 10}}
    assert await counters(store) == 0
    folds = 0
    while await store.fold_counts(limit=1):
        folds += 1
        assert await store.count_runs(tenant_id=TENANT) == before
    assert folds >= 3, "it went in chunks"
    assert await counters(store) == 10
    assert not await store.fold_counts(limit=2)
    assert await counters(store) == 10
    await age(store, await ended(store, workflow_id=orders), milliseconds=11_000)
    await store.fold_counts(limit=2)
    assert await counters(store) == 11
    assert await store.count_runs(tenant_id=TENANT) == {orders: {Status.RUNNING: 1, Status.COMPLETED: 11}}


@only_sql
async def test_many_that_ended_in_one_moment_are_one_chunk(store: Store) -> None:
    orders = await saved(store)
    new_runs = [new_run(new_head(now=await store.now(), workflow_id=orders)) for _ in range(9)]
    await store.commit(new_runs)
    rows = [await row_of(store, made.instance_id) for made in new_runs]
    await store.commit([ending(row) for row in rows])
    assert isinstance(store, SqlStore)
    await store.write(lambda connection: connection.execute(text("UPDATE workflow_instances SET completed_at = 1000")))
    while await store.fold_counts(limit=2):
        pass
    assert await counters(store) == 9


@only_sql
async def test_what_has_just_ended_is_counted_but_not_for_good(store: Store) -> None:
    orders = await saved(store)
    await ended(store, workflow_id=orders)
    assert not await store.fold_counts(limit=10)
    assert await counters(store) == 0
    assert await store.count_runs(tenant_id=TENANT) == {orders: {Status.COMPLETED: 1}}


@only_sql
async def test_many_processes_that_fold_at_once_count_everything_once(store: Store, other_store: Store) -> None:
    orders = await saved(store)
    for number in range(12):
        await age(store, await ended(store, workflow_id=orders), milliseconds=MINUTE_MS + number)
    for _ in range(20):
        await asyncio.gather(*(one.fold_counts(limit=1) for one in (store, other_store, store, other_store)))
        assert await store.count_runs(tenant_id=TENANT) == {orders: {Status.COMPLETED: 12}}
    assert await counters(store) == 12


@only_postgresql
async def test_nothing_is_settled_that_a_transaction_still_under_way_may_bring(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    assert isinstance(store, SqlStore)
    slow = await created(store)
    # Another process, stopped in the middle of its transaction, which has ended a run.
    await locker.execute(
        "UPDATE workflow_instances SET completed_at = 1 WHERE instance_id = %s", [slow.head.instance_id]
    )
    ended_by_then = await store.now()
    while await store.now() < ended_by_then + NAP_MS:
        pass
    settled = await store.write(store.dialect.settled_until)
    assert settled <= ended_by_then - ENDS_SETTLE_MS
    await locker.commit()
    assert await store.write(store.dialect.settled_until) >= settled + NAP_MS


@only_postgresql
async def test_a_count_shows_one_moment_even_if_a_fold_is_committed_within(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    orders = await saved(store)
    row = await ended(store, workflow_id=orders)
    await locker.execute("LOCK TABLE run_counts IN ACCESS EXCLUSIVE MODE")
    count = asyncio.create_task(store.count_runs(tenant_id=TENANT))
    await waiting_backend(locker)  # it has read the watermark, and waits for the counters
    await locker.execute("INSERT INTO run_counts VALUES (%s, %s, 'COMPLETED', 1)", [TENANT, orders])
    await locker.execute("INSERT INTO watermarks VALUES ('run_counts', %s)", [row.completed_at])
    await locker.commit()
    assert await count == {orders: {Status.COMPLETED: 1}}
    assert await store.count_runs(tenant_id=TENANT) == {orders: {Status.COMPLETED: 1}}


# -- removing -------------------------------------------------------------------------------------
async def test_what_has_ended_is_removed_with_its_log_when_its_time_is_over(store: Store) -> None:
    gone = await over(store, idempotency_key="order-1")
    kept, running = await ended(store, retention_days=1), await created(store, retention_days=0)
    waiting = await parked(store, available_at=None, retention_days=0)
    assert await store.remove_expired(limit=10) == 1
    assert await store.get_instance(gone.head.instance_id) is None
    assert await store.read_log(gone.head.instance_id) == []
    for row in (kept, running, waiting):
        await assert_unchanged(store, row)
    assert await store.remove_expired(limit=10) == 0
    again = await created(store, idempotency_key="order-1")
    assert again.head.instance_id != gone.head.instance_id, "its key has gone with it"


async def test_no_more_are_removed_at_once_than_asked(store: Store) -> None:
    for number in range(5):
        await over(store, retention_days=-number)
    assert [await store.remove_expired(limit=2) for _ in range(4)] == [2, 2, 1, 0]


@only_sql
async def test_runs_with_long_logs_are_removed_a_few_at_a_time(store: Store) -> None:
    half = sql_housekeeping.EVENTS_REMOVED_MAX // 2
    for _ in range(3):
        row = await created(store, retention_days=0)
        row = await committed(store, transition(row, *(completed(f"n{number}") for number in range(half))))
        await committed(store, ending(row))
    assert [await store.remove_expired(limit=100) for _ in range(3)] == [2, 1, 0]


@only_sql
async def test_the_retention_of_each_run_counts_from_its_end(store: Store) -> None:
    rows = {days: await ended(store, retention_days=days) for days in (1, 2, 30)}
    for row in rows.values():
        await age(store, row, milliseconds=2 * DAY_MS - MINUTE_MS)
    assert await store.remove_expired(limit=10) == 1
    assert await store.get_instance(rows[1].head.instance_id) is None
    await age(store, rows[2])
    assert await store.remove_expired(limit=10) == 1
    assert await store.get_instance(rows[30].head.instance_id) is not None


async def test_a_child_stays_as_long_as_its_parent_is_open(store: Store) -> None:
    parent = await created(store, retention_days=0)
    root_id = parent.head.instance_id
    family = {"parent_id": root_id, "root_id": root_id, "parent_node_id": "call", "parent_scope": "", "depth": 1}
    children = [await created(store, **family, retention_days=0, parent_waits=waits) for waits in (False, True)]
    for child in children:
        await committed(store, ending(child))
    assert await store.remove_expired(limit=10) == 0
    how = await store.ended_children([children[1].head.instance_id])
    assert [one.status for one in how] == [Status.COMPLETED]
    await committed(store, ending(await row_of(store, root_id)))
    assert await store.remove_expired(limit=10) == 3


@only_sql
async def test_what_is_removed_leaves_the_counts_whether_it_was_folded_or_not(store: Store) -> None:
    orders, refunds = await saved(store, "orders"), await saved(store, "refunds")
    for workflow_id in (orders, orders, refunds):
        await age(store, await over(store, workflow_id=workflow_id))
    await age(store, await ended(store, workflow_id=orders))
    await store.fold_counts(limit=10)
    await over(store, workflow_id=orders)
    assert await counters(store) == 4
    assert await store.count_runs(tenant_id=TENANT) == {orders: {Status.COMPLETED: 4}, refunds: {Status.COMPLETED: 1}}
    while await store.remove_expired(limit=1):
        pass
    assert await store.count_runs(tenant_id=TENANT) == {orders: {Status.COMPLETED: 1}}
    assert await counters(store) == 1


async def test_many_processes_that_remove_at_once_remove_everything_once(store: Store, other_store: Store) -> None:
    for _ in range(20):
        await over(store)
    kept = await ended(store)
    removed = 0
    for _ in range(20):
        answers = await asyncio.gather(*(one.remove_expired(limit=3) for one in (store, other_store)))
        removed += sum(answer or 0 for answer in answers)
    assert removed == 20
    assert await store.list_instances(tenant_id=TENANT, limit=10) == [kept]


@only_postgresql
async def test_a_run_that_somebody_holds_locked_is_left_for_the_next_time(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    locked, free = await over(store), await over(store)
    await locker.execute("SELECT FROM workflow_instances WHERE instance_id = %s FOR UPDATE", [locked.head.instance_id])
    assert await store.remove_expired(limit=10) == 1
    assert await store.get_instance(free.head.instance_id) is None
    await locker.rollback()
    assert await store.remove_expired(limit=10) == 1


@only_postgresql
async def test_nobody_waits_for_a_process_that_stands_still_in_its_housekeeping(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    row = await over(store, workflow_id=await saved(store))
    await store.fold_counts(limit=10)
    await locker.execute("SELECT FROM watermarks FOR UPDATE")
    assert await store.remove_expired(limit=10) is None, "another process is at it"
    assert not await store.fold_counts(limit=10)
    await assert_unchanged(store, row)
    assert (await store.count_runs(tenant_id=TENANT))[row.head.workflow_id or ""] == {Status.COMPLETED: 1}


# -- deleting one run -----------------------------------------------------------------------------
async def test_an_ended_run_is_deleted_with_its_log_and_its_count(store: Store) -> None:
    orders = await saved(store)
    to_cancel, kept = [await ended(store, workflow_id=orders) for _ in range(2)]
    if isinstance(store, SqlStore):
        for row in (to_cancel, kept):
            await age(store, row)
        await store.fold_counts(limit=10)
        assert await counters(store) == 2
    await store.delete_run(tenant_id=TENANT, instance_id=to_cancel.head.instance_id)
    assert await store.get_instance(to_cancel.head.instance_id) is None
    assert await store.read_log(to_cancel.head.instance_id) == []
    assert await store.get_instance(kept.head.instance_id) is not None
    assert await store.count_runs(tenant_id=TENANT) == {orders: {Status.COMPLETED: 1}}
    with pytest.raises(NotFound):
        await store.delete_run(tenant_id=TENANT, instance_id=to_cancel.head.instance_id)


async def test_an_ended_run_that_no_counter_has_yet_is_deleted_too(store: Store) -> None:
    orders = await saved(store)
    row = await ended(store, workflow_id=orders)
    await store.delete_run(tenant_id=TENANT, instance_id=row.head.instance_id)
    assert await store.count_runs(tenant_id=TENANT) == {}


async def test_open_runs_and_children_of_open_parents_are_not_deleted(store: Store) -> None:
    parent = await created(store)
    of_parent = {"parent_id": parent.head.instance_id, "parent_node_id": "n", "parent_scope": "", "parent_waits": False}
    child = await ended(store, **of_parent)
    for row in (parent, child):
        with pytest.raises(RunIsOpen):
            await store.delete_run(tenant_id=TENANT, instance_id=row.head.instance_id)
        await assert_unchanged(store, row)
    await store.append_cancel(tenant_id=TENANT, instance_id=parent.head.instance_id, reason="")
    await store.delete_run(tenant_id=TENANT, instance_id=parent.head.instance_id)
    assert await store.get_instance(child.head.instance_id) is not None, "a child goes by itself"
    await store.delete_run(tenant_id=TENANT, instance_id=child.head.instance_id)


@only_sql
async def test_a_deletion_is_on_record(store: Store) -> None:
    assert isinstance(store, SqlStore)
    row = await ended(store, workflow_id=await saved(store))
    await store.delete_run(tenant_id=TENANT, instance_id=row.head.instance_id, actor="somebody")
    (entry,) = await AuditTable(store).list_rows(tenant_id=TENANT, limit=10, before=None)
    assert (entry.actor, entry.action, entry.target) == ("somebody", "run.deleted", row.head.instance_id)


@only_postgresql
async def test_a_deletion_beside_a_sweep_is_to_be_tried_again(store: Store, locker: psycopg.AsyncConnection) -> None:
    row = await ended(store, workflow_id=await saved(store))
    await store.fold_counts(limit=10)
    await locker.execute("SELECT 1 FROM watermarks FOR UPDATE")
    assert not await store.delete_run(tenant_id=TENANT, instance_id=row.head.instance_id)
    await locker.commit()
    assert await store.delete_run(tenant_id=TENANT, instance_id=row.head.instance_id)


async def test_runs_are_counted_and_listed_by_version(store: Store) -> None:
    orders = await saved(store)
    for version in (1, 2, 2):
        await ended(store, workflow_id=orders, workflow_version=version)
    await created(store, workflow_id=orders, workflow_version=2)
    await ended(store, workflow_id=orders, workflow_version=2, test=True)
    counts = await store.count_runs_by_version(tenant_id=TENANT, workflow_id=orders)
    assert {version: sum(of.values()) for version, of in counts.items()} == {1: 1, 2: 3}
    assert counts[2][Status.COMPLETED] == 2
    assert await store.count_runs_by_version(tenant_id="other", workflow_id=orders) == {}
    listed = await store.list_instances(RunFilter(version=2), tenant_id=TENANT, limit=10)
    assert [row.head.workflow_version for row in listed] == [2, 2, 2]
