"""Parents and children: what happens to the one when the other ends, in one transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from anabranch.engine.ports import ClaimRequest, InstanceRow, Store, Transition
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.stimuli import ChildEnded
from anabranch.engine.rules.values import Payload
from tests.conformance.building import (
    HOUR_MS,
    LEASE_MS,
    OTHER_WORKER,
    TENANT,
    WORKER,
    assert_unchanged,
    committed,
    completed,
    created,
    dispatched,
    ending,
    event,
    log_of,
    new_head,
    new_id,
    new_run,
    parked,
    row_of,
    skipped,
    transition,
)
from tests.conformance.locking import lock, waiting_backend

RACES = 20
only_postgresql = pytest.mark.only_on("postgresql", because="only there others may write while a row is locked")


def kin(parent: InstanceRow, *, node_id: str = "call", scope: str = "", waits: bool = True) -> dict[str, Any]:
    """What a child's head says of its parent."""
    head = parent.head
    return {
        "parent_id": head.instance_id,
        "parent_node_id": node_id,
        "parent_scope": scope,
        "parent_waits": waits,
        "depth": head.depth + 1,
        "root_id": head.root_id or head.instance_id,
    }


async def child_of(parent: InstanceRow, store: Store, **changes: Any) -> InstanceRow:
    """A child that is created, of an activation of `parent`."""
    return await created(store, **kin(parent, **changes))


async def birth_below(parent: InstanceRow, store: Store, **changes: Any) -> Transition:
    """The transition that makes a child."""
    return new_run(new_head(now=await store.now(), **kin(parent, **changes)))


def failing(row: InstanceRow, *cancels: str) -> Transition:
    """The transition that fails an instance, which may have children."""
    last = event(EventType.INSTANCE_FAILED, payload={"code": "X"}, error_message="x")
    return transition(row, last, status=Status.FAILED, release=True, cancels=cancels, **wakes(row))


def wakes(row: InstanceRow) -> dict[str, Any]:
    """Whom a terminal transition wakes."""
    return {"wakes": row.head.parent_id if row.head.parent_waits else None}


async def assert_cancelled(store: Store, row: InstanceRow) -> None:
    """Closed by one event that names the parent, whoever held it."""
    after = await row_of(store, row.head.instance_id)
    assert (after.status, after.version, after.last_seq) == (Status.CANCELLED, row.version + 1, row.last_seq + 1)
    assert (after.worker_id, after.available_at, after.completed_at is None) == (None, None, False)
    last = (await store.read_log(row.head.instance_id))[-1]
    assert (last.seq, last.type, last.node_id, last.attempt) == (after.last_seq, EventType.INSTANCE_CANCELLED, "", 0)
    assert last.payload.value == f"its parent, run {row.head.parent_id}, does not wait for it any more"


# -- a child ends ---------------------------------------------------------------------------------
async def test_the_end_of_a_child_raises_the_version_of_its_parent_and_leaves_its_lease(store: Store) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    outcome = await store.commit(
        [transition(child, completed("x"), status=Status.COMPLETED, release=True, **wakes(child))]
    )
    after = await row_of(store, parent.head.instance_id)
    assert outcome.won == {child.head.instance_id}
    assert dict(outcome.woken) == {parent.head.instance_id: parent.version + 1}
    assert (after.version, after.last_seq) == (parent.version + 1, parent.last_seq)
    assert (after.worker_id, after.available_at, after.status) == (
        parent.worker_id,
        parent.available_at,
        parent.status,
    )
    assert (await store.commit([transition(parent, dispatched("a"))])).won == set(), (
        "who has not heard of it cannot win"
    )


@pytest.mark.parametrize("wait_ms", [None, HOUR_MS])
async def test_the_end_of_a_child_makes_a_parked_parent_available_now(store: Store, wait_ms: int | None) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    wake_at = None if wait_ms is None else await store.now() + wait_ms
    parent = await committed(
        store, transition(parent, dispatched("call"), status=Status.WAITING, release=True, available_at=wake_at)
    )
    await store.commit([failing(child)])
    (claimed,) = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=9, lease_ms=LEASE_MS))
    assert claimed.row.head == parent.head and claimed.row.blame is None


async def test_a_parent_is_woken_once_by_all_that_end_together(store: Store) -> None:
    parent = await created(store)
    children = [await child_of(parent, store, scope=f"each[{number}]") for number in range(3)]
    outcome = await store.commit([failing(child) for child in children])
    assert dict(outcome.woken) == {parent.head.instance_id: parent.version + 1}


async def test_a_parent_and_its_child_may_move_in_one_commit(store: Store) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    outcome = await store.commit([transition(parent, dispatched("a")), failing(child)])
    assert outcome.won == {parent.head.instance_id, child.head.instance_id}
    assert dict(outcome.woken) == {parent.head.instance_id: parent.version + 2}


async def test_an_end_that_does_not_win_wakes_nobody(store: Store) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    await committed(store, transition(child, dispatched("a")))
    outcome = await store.commit([failing(child)])
    assert (outcome.won, dict(outcome.woken)) == (set(), {})
    await assert_unchanged(store, parent)


async def test_the_end_of_a_child_does_not_touch_an_ended_parent(store: Store) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    parent = await committed(store, ending(parent))
    assert dict((await store.commit([failing(child)])).woken) == {}
    await assert_unchanged(store, parent)


async def test_a_cancel_of_a_child_wakes_its_parent_if_that_waits(store: Store) -> None:
    parent = await created(store)
    awaited, free = await child_of(parent, store), await child_of(parent, store, scope="b", waits=False)
    for child in (free, awaited):
        await store.append_cancel(tenant_id=TENANT, instance_id=child.head.instance_id, reason="no")
    after = await row_of(store, parent.head.instance_id)
    assert (after.version, after.last_seq) == (parent.version + 1, parent.last_seq)


async def test_the_ends_of_children_are_told_as_they_were(store: Store) -> None:
    parent = await created(store)
    done, broken, running = [await child_of(parent, store, scope=scope) for scope in "abc"]
    result = event(EventType.INSTANCE_COMPLETED, payload={"n": [1]})
    await committed(store, transition(done, result, status=Status.COMPLETED, release=True))
    await committed(store, failing(broken))
    removed = new_id()
    asked = [row.head.instance_id for row in (done, broken, running)] + [removed]
    ended = {child.child_id: child for child in await store.ended_children(asked)}
    assert ended.keys() == {done.head.instance_id, broken.head.instance_id, removed}
    assert ended[done.head.instance_id] == ChildEnded(
        done.head.instance_id, Status.COMPLETED, Payload.trusted({"n": [1]})
    )
    assert ended[broken.head.instance_id].outcome.value == {"code": "X"}
    assert ended[removed].status is Status.CANCELLED, "what is not there will never end by itself"
    assert await store.ended_children([]) == []


# -- a parent ends --------------------------------------------------------------------------------
async def test_children_that_are_not_awaited_any_more_end_with_the_turn_that_says_so(store: Store) -> None:
    parent = await created(store)
    child, other = await child_of(parent, store, scope="a"), await child_of(parent, store, scope="b")
    grandchild = await child_of(child, store)
    sleeping = await child_of(grandchild, store)
    sleeping = await committed(
        store, transition(sleeping, dispatched("x"), status=Status.WAITING, release=True, available_at=None)
    )
    outcome = await store.commit([transition(parent, skipped("call"), cancels=[child.head.instance_id, new_id()])])
    assert outcome.cancelled == {row.head.instance_id for row in (child, grandchild, sleeping)}
    for row in (child, grandchild, sleeping):
        await assert_cancelled(store, row)
    await assert_unchanged(store, other)
    assert (await row_of(store, parent.head.instance_id)).version == parent.version + 1, "nobody wakes who knows"


async def test_what_nobody_awaits_is_not_cancelled_with_its_parent(store: Store) -> None:
    parent = await created(store)
    free = await child_of(parent, store, waits=False)
    below = await child_of(free, store)
    outcome = await store.commit([failing(parent, free.head.instance_id)])
    assert outcome.cancelled == set()
    await store.append_cancel(tenant_id=TENANT, instance_id=parent.head.instance_id, reason="no")
    for row in (free, below):
        await assert_unchanged(store, row)


async def test_a_turn_that_does_not_win_cancels_nobody(store: Store) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    await committed(store, transition(parent, dispatched("a")))
    assert (await store.commit([failing(parent, child.head.instance_id)])).cancelled == set()
    await assert_unchanged(store, child)


async def test_a_child_that_has_ended_stays_as_it_ended(store: Store) -> None:
    parent = await created(store)
    child = await committed(store, ending(await child_of(parent, store)))
    assert (await store.commit([failing(parent, child.head.instance_id)])).cancelled == set()
    await assert_unchanged(store, child)


async def test_a_parent_and_its_child_may_end_in_one_commit(store: Store) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    outcome = await store.commit([failing(parent, child.head.instance_id), failing(child)])
    assert outcome.won == {parent.head.instance_id, child.head.instance_id}
    assert (outcome.cancelled, dict(outcome.woken)) == (set(), {})


async def test_a_cancel_from_elsewhere_takes_all_generations_along(store: Store, other_store: Store) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    grandchild = await child_of(child, store, scope="each[7]")
    await other_store.append_cancel(tenant_id=TENANT, instance_id=parent.head.instance_id, reason="no")
    for row in (child, grandchild):
        await assert_cancelled(store, row)
    assert (await log_of(store, parent.head.instance_id))[-1][1] is EventType.INSTANCE_CANCELLED


async def test_a_cancel_that_is_refused_cancels_nobody_below(store: Store) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    cancelled = await store.append_cancel(tenant_id="other", instance_id=parent.head.instance_id, reason="no")
    assert (cancelled.row, cancelled.seq) == (None, None), "other tenants have no such run"
    await assert_unchanged(store, child)


# -- creations -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("last", [completed("call"), skipped("call")])
async def test_no_child_is_born_for_an_activation_that_is_over(store: Store, last: Event) -> None:
    parent = await committed(store, transition(await created(store), last))
    late, timely = await birth_below(parent, store), await birth_below(parent, store, scope="each[1]")
    outcome = await store.commit([late, timely])
    assert (outcome.won, outcome.rejected) == ({timely.instance_id}, {late.instance_id})


async def test_no_child_is_born_to_a_parent_that_has_ended_or_is_not_there(store: Store) -> None:
    ended = await committed(store, ending(await created(store)))
    new_runs = [await birth_below(ended, store), new_run(new_head(now=await store.now(), parent_id=new_id()))]
    outcome = await store.commit(new_runs)
    assert (outcome.won, outcome.rejected) == (set(), {each.instance_id for each in new_runs})


async def test_a_child_that_was_born_before_is_not_orphaned_when_it_is_asked_for_again(store: Store) -> None:
    parent = await created(store)
    first = await birth_below(parent, store)
    await committed(store, first)
    await committed(store, ending(parent))
    outcome = await store.commit([first])
    assert not outcome.won and not outcome.rejected


async def test_a_birth_and_the_end_of_its_activation_at_once_leave_no_open_child(
    store: Store, other_store: Store
) -> None:
    for number in range(RACES):
        parent = await created(store)
        newborn = await birth_below(parent, store)
        skip = transition(parent, skipped("call"), cancels=[newborn.instance_id])
        born_, skipped_ = await asyncio.gather(store.commit([newborn]), other_store.commit([skip]))
        if not skipped_.won:  # the row was held for the creation: tried again, as the owner does
            assert (await other_store.commit([skip])).won
        if not born_.won and not born_.rejected:
            assert (await store.commit([newborn])).rejected
        child = await store.get_instance(newborn.instance_id)
        assert child is None or child.status is Status.CANCELLED, f"round {number}: a child that nobody awaits"


async def test_the_ends_of_a_parent_and_of_its_child_at_once_go_together(store: Store, other_store: Store) -> None:
    for _ in range(RACES):
        parent = await created(store)
        child = await child_of(parent, store)
        ended, failed = await asyncio.gather(
            store.commit([transition(child, completed("x"), status=Status.COMPLETED, release=True, **wakes(child))]),
            other_store.commit([failing(parent, child.head.instance_id)]),
        )
        child = await row_of(store, child.head.instance_id)
        assert not (ended.won and failed.cancelled), "it has ended by itself or was cancelled"
        if failed.won and not ended.won:
            assert child.status is Status.CANCELLED
        parent = await row_of(store, parent.head.instance_id)
        assert failed.won or parent.version == 1 + len(ended.woken), "a lost end changes nothing but what woke it"


# -- families and claims ----------------------------------------------------------------------------
async def test_a_claim_for_a_root_takes_the_family_below_it_and_nobody_else(store: Store) -> None:
    now = await store.now()
    root = await created(store, worker_id=None)
    child = await created(store, worker_id=None, **kin(root))
    grandchild = await created(store, worker_id=None, **kin(child))
    await parked(store, available_at=now - 1)
    claimed = await store.claim(
        ClaimRequest(worker_id=WORKER, limit=9, lease_ms=LEASE_MS, only=[root.head.instance_id])
    )
    assert {one.row.head.instance_id for one in claimed} == {row.head.instance_id for row in (root, child, grandchild)}


# -- row locks, held from a second connection ---------------------------------------------------------
@only_postgresql
async def test_a_birth_does_not_wait_for_its_parents_row(store: Store, locker: psycopg.AsyncConnection) -> None:
    busy, idle = await created(store), await created(store)
    new_runs = [await birth_below(row, store) for row in (busy, idle)]
    await lock(locker, busy.head.instance_id)
    outcome = await store.commit(new_runs)
    assert outcome.won == {new_runs[1].instance_id}
    assert not outcome.rejected, "it is not known yet, so it is asked again"
    await locker.rollback()
    assert (await store.commit(new_runs[:1])).won == {new_runs[0].instance_id}


@only_postgresql
async def test_the_end_of_a_child_waits_for_its_parents_turn_under_way(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    await lock(locker, parent.head.instance_id)
    ending_child = asyncio.create_task(store.commit([failing(child)]))
    await waiting_backend(locker)
    # The transition that parks the parent, decided by somebody who had not heard of the end.
    await locker.execute(
        "UPDATE workflow_instances SET version = version + 1, worker_id = NULL, available_at = NULL"
        " WHERE instance_id = %s",
        [parent.head.instance_id],
    )
    await locker.commit()
    outcome = await ending_child
    after = await row_of(store, parent.head.instance_id)
    assert dict(outcome.woken) == {parent.head.instance_id: parent.version + 2}
    assert after.available_at is not None and after.available_at <= await store.now(), "it is not left asleep"


@only_postgresql
async def test_a_cancel_finds_what_its_child_was_just_giving_birth_to(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    await lock(locker, child.head.instance_id, "SHARE")
    cancelling = asyncio.create_task(
        store.append_cancel(tenant_id=TENANT, instance_id=parent.head.instance_id, reason="no")
    )
    await waiting_backend(locker)
    grandchild = new_id()
    await locker.execute(
        """
        INSERT INTO workflow_instances (instance_id, tenant_id, workflow_name, workflow_version, kind, test, status,
            version, last_seq, starts_at, retention_days, created_at, parent_id, parent_waits)
        VALUES (%s, %s, 'orders', 1, 'drawn', false, 'PENDING', 1, 0, 0, 1, 0, %s, true)
        """,
        [grandchild, TENANT, child.head.instance_id],
    )
    await locker.commit()
    await cancelling
    assert (await row_of(store, grandchild)).status is Status.CANCELLED
