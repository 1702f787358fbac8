"""Races: however many processes reach for an instance, each version has one winner."""

from __future__ import annotations

import asyncio
import random

import psycopg
import pytest

from anabranch.engine.ports import ClaimRequest, Store
from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.values import Payload
from anabranch.errors import StoreUnavailable
from tests.conformance.building import (
    LEASE_MS,
    OTHER_WORKER,
    TENANT,
    assert_unchanged,
    born_many,
    committed,
    completed,
    created,
    dispatched,
    log_of,
    parked,
    row_of,
    transition,
)
from tests.conformance.conftest import StoreFactory
from tests.conformance.locking import lock, waiting_backend

ROUNDS = 30
only_postgresql = pytest.mark.only_on("postgresql", because="only PostgreSQL locks single rows")


async def test_two_commits_for_one_version_have_one_winner(store: Store, other_store: Store) -> None:
    row = await created(store)
    for number in range(ROUNDS):
        outcomes = await asyncio.gather(
            *(
                connection.commit([transition(row, dispatched(f"n{number}", attempt=attempt))])
                for attempt, connection in enumerate((store, other_store, store, other_store), 1)
            )
        )
        winners = sum(len(outcome.won) for outcome in outcomes)
        after = await row_of(store, row.head.instance_id)
        assert winners <= 1
        assert (after.version - row.version, after.last_seq - row.last_seq) == (winners, winners)
        row = after
    assert [seq for seq, _, _ in await log_of(store, row.head.instance_id)] == list(range(1, row.last_seq + 1))


async def test_commits_of_disjoint_instances_at_once_all_win(store: Store, other_store: Store) -> None:
    rows = await born_many(store, 40)
    outcomes = await asyncio.gather(
        *((store, other_store)[index % 2].commit([transition(row, dispatched("a"))]) for index, row in enumerate(rows))
    )
    assert sum(len(outcome.won) for outcome in outcomes) == len(rows)


async def test_two_branches_that_end_at_once_cannot_both_overlook_the_join(store: Store, other_store: Store) -> None:
    """Each branch saw only itself. One commits; the other loses, looks again and sees both."""
    row = await committed(store, transition(await created(store), dispatched("left"), dispatched("right")))
    left, right = await asyncio.gather(
        store.commit([transition(row, completed("left"))]), other_store.commit([transition(row, completed("right"))])
    )
    assert len(left.won) + len(right.won) <= 1
    late = "right" if left.won else "left"
    row = await row_of(store, row.head.instance_id)
    row = await committed(store, transition(row, completed(late), dispatched("join")))
    ended = [
        event.node_id for event in await store.read_log(row.head.instance_id) if event.type is EventType.NODE_COMPLETED
    ]
    assert late in ended


async def test_overlapping_batches_in_any_order_neither_deadlock_nor_double(
    store_factory: StoreFactory, store: Store
) -> None:
    rows = {row.head.instance_id: row for row in await born_many(store, 12)}
    connections = [store, await store_factory(), await store_factory()]
    wins = dict.fromkeys(rows, 0)
    dice = random.Random(7)
    for number in range(ROUNDS):
        batches = [
            [transition(row, dispatched(f"n{number}")) for row in dice.sample(list(rows.values()), 8)]
            for _ in connections
        ]
        outcomes = await asyncio.gather(
            *(connection.commit(batch) for connection, batch in zip(connections, batches, strict=True))
        )
        for outcome in outcomes:
            for instance_id in outcome.won:
                wins[instance_id] += 1
        rows = {instance_id: item.row for instance_id, item in (await store.load(list(rows))).items()}
    assert sum(wins.values()) > 0
    for instance_id, loaded in (await store.load(list(rows))).items():
        assert loaded.row.version == 1 + wins[instance_id], "as many versions as wins"
        assert [item.seq for item in loaded.events] == list(range(1, 2 + wins[instance_id]))


async def test_a_commit_and_a_claim_for_one_instance_have_one_winner(store: Store, other_store: Store) -> None:
    for _ in range(ROUNDS):
        row = await created(store, turn_changes={"available_at": 1})
        outcome, claimed = await asyncio.gather(
            store.commit([transition(row, dispatched("a"), available_at=await store.now() + LEASE_MS)]),
            other_store.claim(
                ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS, only=[row.head.instance_id])
            ),
        )
        assert len(outcome.won) + len(claimed) <= 1
        after = await row_of(store, row.head.instance_id)
        # That its worker was lost is judged in a step of its own, at once before a claim takes it: only a commit can
        # come between.
        judged = after.version - row.version - len(outcome.won) - len(claimed)
        assert len(claimed) <= judged <= 1


async def test_a_cancel_among_racing_commits_is_written_and_is_the_last_event(store: Store, other_store: Store) -> None:
    row = await created(store)
    instance_id = row.head.instance_id

    async def work() -> None:
        number = 0
        current = row
        while not current.status.is_terminal:
            await store.commit([transition(current, dispatched(f"n{number}"))])
            number += 1
            current = await row_of(store, instance_id)

    worker = asyncio.create_task(work())
    # Let the worker get going, so that the cancel meets commits under way.
    version = 0
    while version < 5:
        version = (await row_of(other_store, instance_id)).version
    result = await other_store.append_cancel(tenant_id=TENANT, instance_id=instance_id, reason="enough")
    await worker
    assert result.row is not None and result.seq == result.row.last_seq
    await assert_unchanged(store, result.row)


# -- row locks, held from a second connection -----------------------------------------------------
@only_postgresql
async def test_a_turn_whose_row_is_locked_is_unknown_and_may_be_repeated(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    locked, free = await born_many(store, 2)
    await lock(locker, locked.head.instance_id)
    batch = [transition(locked, dispatched("a")), transition(free, dispatched("a"))]
    outcome = await store.commit(batch)
    assert outcome.won == {free.head.instance_id}, "a neighbour does not wait for a lock"
    await locker.rollback()
    await assert_unchanged(store, locked)
    assert (await store.commit(batch)).won == {locked.head.instance_id}


@only_postgresql
async def test_a_claim_steps_over_locked_rows(store: Store, locker: psycopg.AsyncConnection) -> None:
    now = await store.now()
    locked, free = await parked(store, available_at=now - 10), await parked(store, available_at=now - 5)
    await lock(locker, locked.head.instance_id)
    (claimed,) = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS))
    assert claimed.row.head == free.head
    await locker.rollback()
    (claimed,) = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS))
    assert claimed.row.head == locked.head


@only_postgresql
async def test_a_signal_waits_for_the_commit_under_way_and_follows_it(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    row = await created(store)
    await lock(locker, row.head.instance_id)
    sending = asyncio.create_task(
        store.append_signal(row.head.instance_id, SignalSent("paid", Payload.of(1), "k1"), tenant_id=TENANT)
    )
    await waiting_backend(locker)
    # What the commit under way writes: a step that the signal's own snapshot has not seen.
    await locker.execute(
        "UPDATE workflow_instances SET version = version + 1 WHERE instance_id = %s", [row.head.instance_id]
    )
    await locker.commit()
    result = await sending
    assert result.row is not None
    assert (result.row.version, result.seq) == (row.version + 2, row.last_seq + 1)


@only_postgresql
async def test_a_connection_that_dies_in_the_middle_is_an_unknown_outcome_and_nothing_more(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    row = await created(store)
    await lock(locker, row.head.instance_id)
    sending = asyncio.create_task(
        store.append_signal(row.head.instance_id, SignalSent("paid", Payload.of(1)), tenant_id=TENANT)
    )
    backend = await waiting_backend(locker)
    await locker.execute("SELECT pg_terminate_backend(%s, 10000)", [backend])
    with pytest.raises(StoreUnavailable):
        await sending
    await locker.rollback()
    await assert_unchanged(store, row)
    await committed(store, transition(row, dispatched("a")))
