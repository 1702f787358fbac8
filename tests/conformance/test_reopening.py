"""Reopening ended runs: all of a family or none, once, with the counters and the keys of endings set right."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from anabranch.engine.ports import ClaimRequest, FamilyReopening, InstanceRow, Reopening, Store
from anabranch.engine.rules.event_payloads import Redo, RunReopened
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.store.sql.store import SqlStore
from tests.conformance.building import (
    HOUR_MS,
    LEASE_MS,
    TENANT,
    WORKER,
    committed,
    completed,
    created,
    dispatched,
    failed,
    log_of,
    new_head,
    new_run,
    row_of,
    transition,
)
from tests.conformance.test_housekeeping import MINUTE_MS, age, saved


async def ended(store: Store, **head: Any) -> InstanceRow:
    """A run whose node `a` has failed, and the run with it."""
    row = await created(store, **head)
    row = await committed(store, transition(row, dispatched("a"), started_at=row.head.created_at))
    await committed(store, transition(row, failed("a")))
    await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="enough")
    return await row_of(store, row.head.instance_id)


def reopening(row: InstanceRow, *, deadline_at: int | None = None, **changes: Any) -> Reopening:
    generation, last = row.head.generation + 1, row.last_seq
    said = RunReopened(generation, ((last - 1, last),), (Redo("a", "", 1),), 0, deadline_at, "spec")
    plain = Reopening(
        instance_id=row.head.instance_id,
        last_seq=last,
        reopened=said,
        left_out=(*row.head.left_out, (last - 1, last)),
        parent_waits=row.head.parent_waits,
    )
    return replace(plain, **changes)


def family(*rows: InstanceRow, **changes: Any) -> FamilyReopening:
    return FamilyReopening(tenant_id=TENANT, runs=[reopening(row) for row in rows], **changes)


async def test_a_reopened_run_is_open_and_available_with_one_more_row(store: Store, other_store: Store) -> None:
    row = await ended(store)
    deadline_at = await store.now() + HOUR_MS
    rows = await other_store.reopen(FamilyReopening(tenant_id=TENANT, runs=[reopening(row, deadline_at=deadline_at)]))
    after = await row_of(store, row.head.instance_id)
    assert rows == [after]
    assert (after.status, after.version, after.last_seq) == (Status.RUNNING, row.version + 1, row.last_seq + 1)
    assert (after.worker_id, after.completed_at, after.head.deadline_at) == (None, None, deadline_at)
    assert (after.head.generation, after.head.left_out) == (1, ((row.last_seq - 1, row.last_seq),))
    assert (await log_of(store, row.head.instance_id))[-1][1] is EventType.INSTANCE_REOPENED
    claimed = await store.claim(ClaimRequest(worker_id=WORKER, limit=9, lease_ms=LEASE_MS))
    assert [each.row.head.instance_id for each in claimed] == [row.head.instance_id]


async def test_an_activation_whose_end_was_left_out_may_end_again_once(store: Store) -> None:
    row = await ended(store)
    await store.reopen(family(row))
    row = (await store.claim(ClaimRequest(worker_id=WORKER, limit=1, lease_ms=LEASE_MS)))[0].row
    row = await committed(store, transition(row, dispatched("a", attempt=2), generation=1))
    row = await committed(store, transition(row, completed("a", attempt=2), generation=1))
    outcome = await store.commit([transition(row, completed("a", attempt=2), generation=1)])
    assert list(outcome.refused) == [row.head.instance_id]
    reading = await store.read_run(row.head.instance_id, activations_max=9)
    assert reading is not None
    assert [event.type for event in reading.activations.events if event.node_id == "a"] == [
        EventType.NODE_DISPATCHED,
        EventType.NODE_COMPLETED,
    ]


async def test_only_what_is_as_it_was_planned_is_reopened(store: Store) -> None:
    row, other = await ended(store), await ended(store)
    stale = reopening(row, last_seq=row.last_seq - 1)
    assert await store.reopen(FamilyReopening(tenant_id=TENANT, runs=[reopening(other), stale])) is None
    assert (await row_of(store, other.head.instance_id)) == other, "all or none"
    assert await store.reopen(FamilyReopening(tenant_id="somebody", runs=[reopening(row)])) is None
    assert await store.reopen(family(row)) is not None
    assert await store.reopen(family(row)) is None, "of two one wins"
    running = await created(store)
    assert await store.reopen(family(running)) is None


async def test_a_child_goes_on_only_while_its_parent_awaits_it(store: Store) -> None:
    parent = await created(store)
    parent = await committed(store, transition(parent, dispatched("call"), status=Status.RUNNING))
    parent_id = parent.head.instance_id
    of_parent = {"parent_id": parent_id, "parent_node_id": "call", "parent_scope": "", "parent_waits": True}
    child = await ended(store, **of_parent)
    before = await row_of(store, parent_id)
    assert await store.reopen(family(child, awaited_by=(parent_id, "call", ""))) is not None
    after = await row_of(store, parent_id)
    assert after.version == before.version + 1, "a decision that knows the old end loses"
    await store.append_cancel(tenant_id=TENANT, instance_id=child.head.instance_id, reason="again")
    child = await row_of(store, child.head.instance_id)
    await committed(store, transition(await row_of(store, parent_id), failed("call")))
    assert await store.reopen(family(child, awaited_by=(parent_id, "call", ""))) is None


async def test_a_child_is_created_although_an_end_of_its_activation_was_left_out(store: Store) -> None:
    parent = await ended(store)
    await store.reopen(family(parent))
    head = new_head(
        now=await store.now(),
        parent_id=parent.head.instance_id,
        parent_node_id="a",
        parent_scope="",
        parent_waits=True,
        root_id=parent.head.instance_id,
    )
    outcome = await store.commit([new_run(head)])
    assert outcome.won == {head.instance_id}


async def test_a_run_is_counted_once_however_often_it_ends(store: Store) -> None:
    orders = await saved(store)
    row = await ended(store, workflow_id=orders)
    if isinstance(store, SqlStore):
        await age(store, row, milliseconds=MINUTE_MS)
    await store.fold_counts(limit=100)
    assert await store.count_runs(tenant_id=TENANT) == {orders: {Status.CANCELLED: 1}}
    assert await store.reopen(family(await row_of(store, row.head.instance_id))) is not None
    assert await store.count_runs(tenant_id=TENANT) == {orders: {Status.RUNNING: 1}}
    await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="again")
    assert await store.count_runs(tenant_id=TENANT) == {orders: {Status.CANCELLED: 1}}


@pytest.mark.parametrize("seed", range(2))
async def test_counters_equal_rows_whatever_ends_is_counted_reopened_and_removed_in_which_order(
    store: Store, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, orders = random.Random(seed), await saved(store)
    runs: list[str] = []
    ends = itertools.count(await store.now() - HOUR_MS)
    if isinstance(store, SqlStore):  # which counts what has ended ten seconds ago
        monkeypatch.setattr(store.dialect, "settled_until", lambda connection: next(ends))

    async def start() -> None:
        row = await created(store, workflow_id=orders)
        runs.append((await committed(store, transition(row, dispatched("a")))).head.instance_id)

    async def end() -> None:
        row = await row_of(store, rng.choice(runs))
        if row.status.is_terminal:
            return
        if row.worker_id is not None:
            row = await committed(store, transition(row, failed("a", attempt=row.head.generation + 1)))
        await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="enough")
        ended_at = (await row_of(store, row.head.instance_id)).completed_at
        if isinstance(store, SqlStore):
            assert ended_at is not None
            await age(store, row, milliseconds=ended_at - next(ends))

    async def count() -> None:
        await store.fold_counts(limit=rng.choice((1, 100)))

    async def reopen() -> None:
        row = await row_of(store, rng.choice(runs))
        if row.status.is_terminal:
            assert await store.reopen(family(row)) is not None

    async def remove() -> None:
        run = rng.choice(runs)
        if (await row_of(store, run)).status.is_terminal and len(runs) > 1:
            runs.remove(run)
            assert await store.delete_run(tenant_id=TENANT, instance_id=run)

    await start()
    for _ in range(40):
        await rng.choice((start, end, end, count, count, reopen, reopen, remove))()
        rows = Counter([(await row_of(store, run)).status for run in runs])
        assert (await store.count_runs(tenant_id=TENANT))[orders] == dict(rows)


async def test_no_run_of_a_deleted_workflow_goes_on(store: Store) -> None:
    orders = await saved(store)
    row = await ended(store, workflow_id=orders)
    await store.delete_workflow(tenant_id=TENANT, workflow_id=orders)
    assert await store.reopen(family(row)) is None
