"""Leases: who may advance an instance, when it may be claimed, and how it is handed over."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection

from anabranch.engine.ports import SHORT_LOG_WEIGHT_MAX, ClaimRequest, InstanceRow, ParkedRun, Store, TenantCapacities
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.shared.log_limit import ROW_WEIGHT
from anabranch.engine.store.sql import store as store_module
from anabranch.engine.store.sql.store import SqlStore
from tests.conformance.building import (
    HOUR_MS,
    LEASE_MS,
    NAP_MS,
    OTHER_WORKER,
    WORKER,
    assert_unchanged,
    born_many,
    committed,
    created,
    dispatched,
    ending,
    input_set,
    new_head,
    new_id,
    new_run,
    parked,
    row_of,
    transition,
    waiting,
)
from tests.conformance.locking import lock

only_postgresql = pytest.mark.only_on("postgresql", because="only there others may write while a row is locked")
only_sql = pytest.mark.only_on("sqlite", "postgresql", because="the memory store has no threads")
LAPSED = {"available_at": 1_600_000_000_000}
"""Changes of a transition that let its lease end long ago."""


# -- claim ----------------------------------------------------------------------------------------
async def test_a_claim_gives_the_row_and_its_whole_log(store: Store) -> None:
    row = await created(store, input_set(1), dispatched("a"), turn_changes=LAPSED)
    before = await store.now()
    (claimed,) = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS))
    assert [item.seq for item in claimed.events] == [1, 2]
    assert claimed.events[0].payload.value == {"input": 1}
    assert claimed.row == await row_of(store, row.head.instance_id)
    assert claimed.row.worker_id == OTHER_WORKER
    assert claimed.row.available_at is not None
    assert before + LEASE_MS <= claimed.row.available_at <= await store.now() + LEASE_MS


async def test_a_claim_raises_the_version_so_that_the_old_holder_loses(store: Store, other_store: Store) -> None:
    stale = await created(store, turn_changes=LAPSED)
    (claimed,) = await other_store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS))
    assert claimed.row.version > stale.version
    assert claimed.row.last_seq == stale.last_seq
    outcome = await store.commit([transition(stale, dispatched("a"))])
    assert outcome.won == set(), "a paused worker that wakes after its lease must lose"
    await assert_unchanged(store, claimed.row)


async def test_even_a_reclaim_under_the_same_name_outdates_the_old_state(store: Store) -> None:
    stale = await created(store, worker_id=WORKER, turn_changes=LAPSED)
    (claimed,) = await store.claim(ClaimRequest(worker_id=WORKER, limit=1, lease_ms=LEASE_MS))
    assert claimed.row.blame is None, "only another worker's lease counts as lapsed"
    assert (await store.commit([transition(stale, dispatched("a"))])).won == set()


async def test_the_new_holder_goes_on_from_the_claim(store: Store) -> None:
    await created(store, turn_changes=LAPSED)
    (claimed,) = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS))
    after = await committed(store, transition(claimed.row, dispatched("a")))
    assert (after.worker_id, after.version) == (OTHER_WORKER, claimed.row.version + 1)


async def test_a_live_lease_is_not_claimed(store: Store) -> None:
    row = await created(store)
    assert await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS)) == []
    await assert_unchanged(store, row)


async def test_the_longest_overdue_come_first(store: Store) -> None:
    now = await store.now()
    ages = [300, 100, 400, 200]
    rows = {age: await parked(store, available_at=now - age) for age in ages}
    first = await store.claim(ClaimRequest(worker_id=WORKER, limit=2, lease_ms=LEASE_MS))
    rest = await store.claim(ClaimRequest(worker_id=WORKER, limit=10, lease_ms=LEASE_MS))
    order = [claimed.row.head.instance_id for claimed in (*first, *rest)]
    assert order == [rows[age].head.instance_id for age in sorted(ages, reverse=True)]


async def test_two_claims_at_once_give_disjoint_sets(store: Store, other_store: Store) -> None:
    now = await store.now()
    ids = {row.head.instance_id for row in await born_many(store, 20, available_at=now - 5)}
    taken: list[str] = []
    while len(taken) < len(ids):
        answers = await asyncio.gather(
            *(
                connection.claim(ClaimRequest(worker_id=f"worker-{index}", limit=3, lease_ms=LEASE_MS))
                for index, connection in enumerate([store, other_store, store, other_store])
            )
        )
        for index, claimed in enumerate(answers):
            assert all(item.row.worker_id == f"worker-{index}" for item in claimed)
            taken += [item.row.head.instance_id for item in claimed]
    assert sorted(taken) == sorted(ids), "each instance is claimed exactly once"


async def test_only_restricts_a_claim_and_changes_nothing_about_being_due(store: Store) -> None:
    now = await store.now()
    wanted, unwanted = await parked(store, available_at=now), await parked(store, available_at=now)
    early = await parked(store, available_at=now + HOUR_MS)
    only = [wanted.head.instance_id, early.head.instance_id, new_id()]
    claimed = await store.claim(ClaimRequest(worker_id=WORKER, limit=10, lease_ms=LEASE_MS, only=only))
    assert [item.row.head.instance_id for item in claimed] == [wanted.head.instance_id]
    await assert_unchanged(store, unwanted)
    await assert_unchanged(store, early)


async def test_only_nobody_claims_nobody(store: Store) -> None:
    await parked(store, available_at=await store.now())
    assert await store.claim(ClaimRequest(worker_id=WORKER, limit=10, lease_ms=LEASE_MS, only=[])) == []


async def test_steal_takes_a_live_lease_and_its_holder_loses(store: Store) -> None:
    held, neighbour = await born_many(store, 2)
    (claimed,) = await store.claim(
        ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS, only=[held.head.instance_id], steal=True)
    )
    assert claimed.row.worker_id == OTHER_WORKER
    assert claimed.row.blame is None, "its worker was alive"
    assert (await store.commit([transition(held, dispatched("a"))])).won == set()
    await assert_unchanged(store, neighbour)


async def test_what_was_parked_released_or_never_held_has_not_lapsed(store: Store) -> None:
    now = await store.now()
    await parked(store, available_at=now - 1)
    released = await created(store)
    await store.release(worker_id=WORKER, instance_ids=[released.head.instance_id])
    await created(store, worker_id=None)
    claimed = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS))
    assert [item.row.blame for item in claimed] == [None] * 3


async def test_a_claim_does_not_change_the_status(store: Store) -> None:
    pending = await created(store, worker_id=None)
    (claimed,) = await store.claim(ClaimRequest(worker_id=WORKER, limit=1, lease_ms=LEASE_MS))
    assert (pending.status, claimed.row.status) == (Status.PENDING, Status.PENDING)


async def test_a_pending_instance_is_not_claimed_before_its_time(store: Store) -> None:
    await created(store, worker_id=None, available_at=await store.now() + HOUR_MS)
    assert await store.claim(ClaimRequest(worker_id=WORKER, limit=1, lease_ms=LEASE_MS)) == []


async def test_a_parked_instance_is_claimed_at_its_time_and_not_before(store: Store) -> None:
    due = await store.now() + NAP_MS
    await parked(store, available_at=due)
    while not await store.claim(ClaimRequest(worker_id=WORKER, limit=1, lease_ms=LEASE_MS)):
        pass
    assert await store.now() >= due


async def test_an_instance_without_a_wake_time_is_never_claimed(store: Store) -> None:
    row = await parked(store, available_at=None)
    assert await store.claim(ClaimRequest(worker_id=WORKER, limit=1, lease_ms=LEASE_MS)) == []
    await assert_unchanged(store, row)


async def test_ended_instances_are_never_claimed_not_even_stolen(store: Store) -> None:
    row = await created(store, turn_changes=LAPSED)
    ended = await committed(store, ending(row))
    ids = [row.head.instance_id]
    assert await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS)) == []
    assert (
        await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS, only=ids, steal=True)) == []
    )
    await assert_unchanged(store, ended)


async def test_many_instances_are_claimed_and_loaded_at_once(store: Store) -> None:
    now = await store.now()
    events = [input_set(), *(dispatched(f"n{number}") for number in range(9))]
    new_runs = [new_run(new_head(now=now), *events, worker_id=None, available_at=now - 1) for _ in range(300)]
    await store.commit(new_runs)
    claimed = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1_000, lease_ms=LEASE_MS))
    assert len(claimed) == 300
    for item in claimed:
        assert [event.seq for event in item.events] == list(range(1, 11))


# -- extend ---------------------------------------------------------------------------------------
async def test_extending_moves_the_lease_and_not_the_version(store: Store) -> None:
    row = await created(store)
    before = await store.now()
    ours = await store.extend(worker_id=WORKER, instance_ids=[row.head.instance_id], lease_ms=5 * LEASE_MS)
    after = await row_of(store, row.head.instance_id)
    assert ours == {row.head.instance_id}
    assert after.version == row.version
    assert after.available_at is not None
    assert before + 5 * LEASE_MS <= after.available_at <= await store.now() + 5 * LEASE_MS


async def test_extending_tells_which_leases_are_still_ours(store: Store) -> None:
    ours, lost, ended, parked_by_us = await born_many(store, 4)
    others = await created(store, worker_id=OTHER_WORKER)
    await store.claim(
        ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS, only=[lost.head.instance_id], steal=True)
    )
    await committed(store, ending(ended))
    await committed(store, transition(parked_by_us, status=Status.WAITING, release=True))
    ids = [row.head.instance_id for row in (ours, lost, ended, parked_by_us, others)]
    kept = await store.extend(worker_id=WORKER, instance_ids=[*ids, new_id()], lease_ms=LEASE_MS)
    assert kept == {ours.head.instance_id}
    assert (await row_of(store, others.head.instance_id)).available_at == others.available_at


async def test_a_lapsed_lease_that_nobody_took_can_still_be_extended(store: Store) -> None:
    row = await created(store, turn_changes=LAPSED)
    ids = [row.head.instance_id]
    assert await store.extend(worker_id=WORKER, instance_ids=ids, lease_ms=LEASE_MS) == set(ids)
    assert await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS)) == []
    await committed(store, transition(row, dispatched("a")))


async def test_extending_nothing_is_nothing(store: Store) -> None:
    assert await store.extend(worker_id=WORKER, instance_ids=[], lease_ms=LEASE_MS) == set()


# -- release --------------------------------------------------------------------------------------
async def test_a_released_instance_is_anybodys_at_once(store: Store, other_store: Store) -> None:
    row = await created(store)
    assert await store.release(worker_id=WORKER, instance_ids=[row.head.instance_id]) == 1
    released = await row_of(store, row.head.instance_id)
    assert (released.worker_id, released.version, released.last_seq) == (None, row.version + 1, row.last_seq)
    (claimed,) = await other_store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS))
    assert claimed.row.head == row.head


async def test_who_released_an_instance_loses_its_next_commit(store: Store) -> None:
    row = await created(store)
    await store.release(worker_id=WORKER, instance_ids=[row.head.instance_id])
    assert (await store.commit([transition(row, dispatched("a"))])).won == set()


async def test_release_without_ids_hands_over_all_of_the_worker_and_nothing_else(store: Store) -> None:
    ours = await born_many(store, 3)
    others = await created(store, worker_id=OTHER_WORKER)
    waiting = await parked(store, available_at=None)
    assert await store.release(worker_id=WORKER) == 3
    for row in ours:
        assert (await row_of(store, row.head.instance_id)).worker_id is None
    await assert_unchanged(store, others)
    await assert_unchanged(store, waiting)


@only_postgresql
async def test_a_run_whose_last_commit_is_still_under_way_in_the_server_is_handed_over_after_it(
    store: SqlStore, locker: psycopg.AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, free = await created(store), await created(store)
    await lock(locker, locked.head.instance_id)
    tried = asyncio.Event()
    write = store.write_without_waiting

    async def write_and_tell(work: Callable[[Connection], object]) -> object:
        result = await write(work)
        tried.set()
        return result

    monkeypatch.setattr(store, "write_without_waiting", write_and_tell)
    # A machine that stands still for as long as a release tries again does not matter here.
    monkeypatch.setattr(store_module, "RELEASE_S", 60.0)
    releasing = asyncio.create_task(store.release(worker_id=WORKER))
    await tried.wait()
    assert (await row_of(store, free.head.instance_id)).worker_id is None

    await locker.rollback()

    assert await releasing == 2
    assert (await row_of(store, locked.head.instance_id)).worker_id is None


@only_sql
async def test_a_claim_that_is_under_way_when_its_caller_is_gone_keeps_no_run_from_being_handed_over(
    store: SqlStore, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = await parked(other_store, available_at=1)
    begun, may_go_on = threading.Event(), threading.Event()
    claim, drain = store._claim, store.drain_writing_without_waiting

    def claim_late(connection: Connection, wanted: ClaimRequest) -> object:
        begun.set()
        may_go_on.wait()
        return claim(connection, wanted)

    async def drain_then(**patience: float) -> None:
        may_go_on.set()
        await drain(**patience)

    monkeypatch.setattr(store, "_claim", claim_late)
    monkeypatch.setattr(store, "drain_writing_without_waiting", drain_then)
    monkeypatch.setattr(store_module, "RELEASE_S", 60.0)
    claiming = asyncio.create_task(store.claim(ClaimRequest(worker_id=WORKER, limit=1, lease_ms=LEASE_MS)))
    await asyncio.to_thread(begun.wait)
    claiming.cancel()
    await asyncio.wait([claiming])

    assert await store.release(worker_id=WORKER) == 1

    assert (await row_of(other_store, row.head.instance_id)).worker_id is None


@only_postgresql
async def test_a_release_gives_up_on_a_run_that_stays_locked_and_says_so(
    store: Store, locker: psycopg.AsyncConnection, caplog: pytest.LogCaptureFixture
) -> None:
    row = await created(store)
    await lock(locker, row.head.instance_id)
    assert await store.release(worker_id=WORKER) == 0
    assert "1 runs are locked by other sessions" in caplog.text
    await assert_unchanged(store, row)


async def test_release_touches_neither_ended_instances_nor_those_of_others(store: Store) -> None:
    ended = await committed(store, ending(await created(store)))
    others = await created(store, worker_id=OTHER_WORKER)
    ids = [ended.head.instance_id, others.head.instance_id, new_id()]
    assert await store.release(worker_id=WORKER, instance_ids=ids) == 0
    assert await store.release(worker_id=WORKER, instance_ids=[]) == 0
    await assert_unchanged(store, ended)
    await assert_unchanged(store, others)


# -- noticing -------------------------------------------------------------------------------------
async def test_versions_name_the_version_and_holder_of_each_instance_that_exists(store: Store) -> None:
    held, waiting = await created(store), await parked(store, available_at=None)
    found = await store.versions([held.head.instance_id, waiting.head.instance_id, new_id()])
    assert found == {held.head.instance_id: (1, WORKER), waiting.head.instance_id: (2, None)}


async def test_a_write_by_another_process_is_noticed(store: Store, other_store: Store) -> None:
    await store.external_changes_possible()
    row = await created(other_store)
    assert await store.external_changes_possible()
    await store.external_changes_possible()
    await other_store.append_cancel(
        tenant_id=row.head.tenant_id, instance_id=row.head.instance_id, reason="no longer needed"
    )
    assert await store.external_changes_possible()


# -- tenants ----------------------------------------------------------------------------------------
async def test_a_claim_takes_no_more_of_a_tenant_than_there_is_room_for(store: Store) -> None:
    busy = [await created(store, tenant_id="busy'{}", worker_id=None, turn_changes=LAPSED) for _ in range(4)]
    quiet = await created(store, tenant_id="quiet", worker_id=None, turn_changes=LAPSED)
    other = await created(store, tenant_id="other", worker_id=None, turn_changes=LAPSED)
    capacities = TenantCapacities(each=1, of={"busy'{}": 2})

    claimed = await store.claim(
        ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS, capacities=capacities)
    )

    taken = Counter(one.row.head.tenant_id for one in claimed)
    assert taken == {"busy'{}": 2, "quiet": 1, "other": 1}
    left = [row for row in busy if row.head.instance_id not in {one.row.head.instance_id for one in claimed}]
    for row in left:
        await assert_unchanged(store, row)
    assert {quiet.head.instance_id, other.head.instance_id} <= {one.row.head.instance_id for one in claimed}


async def test_a_tenant_without_room_takes_no_place_in_a_claim(store: Store) -> None:
    for _ in range(5):
        await created(store, tenant_id="busy", worker_id=None, turn_changes=LAPSED)
    late = await created(store, tenant_id="quiet", worker_id=None, turn_changes={"available_at": await store.now() - 1})
    capacities = TenantCapacities(each=5, of={"busy": 0})

    (claimed,) = await store.claim(
        ClaimRequest(worker_id=OTHER_WORKER, limit=2, lease_ms=LEASE_MS, capacities=capacities)
    )

    assert claimed.row.head.instance_id == late.head.instance_id


# -- from a thread ----------------------------------------------------------------------------------
async def test_a_lease_extended_from_a_thread_loses_no_turn_of_its_holder(store: Store) -> None:
    ours, theirs = await created(store), await created(store, worker_id=OTHER_WORKER)
    ids = [ours.head.instance_id, theirs.head.instance_id, new_id()]

    kept = await asyncio.to_thread(
        store.extend_blocking, worker_id=WORKER, instance_ids=ids, lease_ms=HOUR_MS, patience_s=10.0
    )

    assert kept == {ours.head.instance_id}
    extended = await row_of(store, ours.head.instance_id)
    assert ours.available_at is not None
    assert extended.available_at is not None
    assert extended.available_at > ours.available_at
    assert extended.version == ours.version
    await assert_unchanged(store, theirs)
    assert (await store.commit([transition(ours, dispatched("a"))])).won == {ours.head.instance_id}


# -- a claim of one parked run, for a signal ------------------------------------------------------
async def test_a_parked_run_can_be_taken_before_it_is_due(store: Store) -> None:
    due_never = await parked(store, available_at=None)
    due_later = await parked(store, available_at=await store.now() + HOUR_MS)
    for run in (due_never, due_later):
        assert await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS)) == []
        (claimed,) = await store.claim(for_signal(run))
        assert claimed.row == await row_of(store, run.head.instance_id)
        assert (claimed.row.worker_id, claimed.row.version) == (OTHER_WORKER, run.version + 1)
        assert len(claimed.events) == run.last_seq


async def test_only_a_waiting_run_without_an_owner_is_taken_before_it_is_due(store: Store) -> None:
    owned = await created(store)
    begins_later = await created(store, worker_id=None, available_at=await store.now() + HOUR_MS)
    waits = await parked(store, available_at=None)
    other_tenant = ClaimRequest(
        worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS, parked=ParkedRun(waits.head.instance_id, "another")
    )
    no_id = ClaimRequest(
        worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS, parked=ParkedRun("no-id", waits.head.tenant_id)
    )
    for wanted in (for_signal(owned), for_signal(begins_later), other_tenant, no_id):
        assert await store.claim(wanted) == []
    for row in (owned, begins_later, waits):
        await assert_unchanged(store, row)


async def test_a_parked_run_with_a_long_log_is_taken_only_when_it_is_due(store: Store) -> None:
    rows_max = SHORT_LOG_WEIGHT_MAX // ROW_WEIGHT
    for rows, is_taken in ((rows_max - 100, True), (rows_max, False)):
        row = await created(store, *(dispatched(f"n{number}") for number in range(rows)))
        await committed(store, transition(row, waiting("nap"), status=Status.WAITING, release=True, available_at=None))
        assert bool(await store.claim(for_signal(row))) is is_taken


async def test_a_parked_run_is_not_taken_against_the_limits_of_a_claim(store: Store) -> None:
    waits = await parked(store, available_at=None)
    limits: list[dict[str, Any]] = [
        {"capacities": TenantCapacities(1, {waits.head.tenant_id: 0})},
        {"known_code": (), "known_types": ("pool:of-others",)},
    ]
    for limit in limits:
        assert await store.claim(for_signal(waits, **limit)) == []
    await store.pause(tenant_id=waits.head.tenant_id, workflow_id=None, by="Ada")
    assert await store.claim(for_signal(waits)) == []
    await assert_unchanged(store, waits)


def for_signal(row: InstanceRow, **more: Any) -> ClaimRequest:
    """A claim of this run for a signal, by another worker."""
    run = ParkedRun(row.head.instance_id, row.head.tenant_id)
    return ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS, parked=run, **more)
