"""Creating runs: one instance per id and per idempotency key, however often it is requested."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from anabranch.engine.ports import NewVersion, Store
from anabranch.engine.rules.events import Status
from tests.conformance.building import (
    HOUR_MS,
    LEASE_MS,
    TENANT,
    WORKER,
    committed,
    created,
    dispatched,
    ending,
    input_set,
    instance_completed,
    new_head,
    new_id,
    new_run,
    row_of,
    transition,
)


async def test_a_birth_keeps_everything_it_was_given(store: Store) -> None:
    now = await store.now()
    workflow = await store.save_workflow(NewVersion(name="orders", definition={}), tenant_id=TENANT)
    parent = await created(store)
    head = new_head(
        now=now,
        workflow_id=workflow.workflow_id,
        workflow_version=7,
        available_at=now + HOUR_MS,
        deadline_at=now + 2 * HOUR_MS,
        retention_days=3,
        idempotency_key="order-1",
        parent_id=parent.head.instance_id,
        parent_node_id="call",
        parent_scope="each[0]",
        parent_waits=True,
        depth=2,
        root_id=new_id(),
        kind="coded",
        test=True,
    )
    row = await committed(store, new_run(head, input_set({"a": 1}), worker_id=WORKER))
    assert row.head == head
    assert (row.status, row.worker_id, row.available_at) == (Status.RUNNING, WORKER, now + HOUR_MS + LEASE_MS)
    assert (row.started_at, row.completed_at) == (None, None)


async def test_a_birth_without_options_reads_back_as_it_was(store: Store) -> None:
    head = new_head(now=await store.now())
    row = await committed(store, new_run(head, worker_id=None))
    assert row.head == head
    assert (row.status, row.worker_id, row.available_at) == (Status.PENDING, None, head.available_at)


async def test_a_birth_may_be_ended_at_once(store: Store) -> None:
    head = new_head(now=await store.now())
    row = await committed(store, new_run(head, input_set(), instance_completed(), status=Status.FAILED, release=True))
    assert (row.status, row.worker_id, row.available_at) == (Status.FAILED, None, None)
    assert row.completed_at is not None


async def test_a_birth_repeated_after_a_lost_answer_changes_nothing(store: Store) -> None:
    newborn = new_run(new_head(now=await store.now()))
    row = await committed(store, newborn)
    neighbour = new_run(new_head(now=await store.now()))
    outcome = await store.commit([newborn, neighbour])
    assert outcome.won == {neighbour.instance_id}
    assert outcome.refused == {}, "nothing is wrong with its data; it is there already"
    assert await row_of(store, newborn.instance_id) == row


async def test_a_birth_with_a_used_key_names_the_instance_that_has_it(store: Store) -> None:
    first = await created(store, idempotency_key="order-1")
    second = new_run(new_head(now=await store.now(), idempotency_key="order-1"))
    outcome = await store.commit([second])
    assert outcome.won == set()
    assert outcome.existing == {second.instance_id: first.head.instance_id}
    assert await store.get_instance(second.instance_id) is None
    assert await store.read_log(second.instance_id) == []


async def test_a_repeated_birth_with_its_own_key_finds_itself(store: Store) -> None:
    newborn = new_run(new_head(now=await store.now(), idempotency_key="order-1"))
    await committed(store, newborn)
    outcome = await store.commit([newborn])
    assert (outcome.won, outcome.existing) == (set(), {newborn.instance_id: newborn.instance_id})


async def test_a_key_stays_taken_when_its_run_has_ended(store: Store) -> None:
    first = await created(store, idempotency_key="order-1")
    await committed(store, ending(first))
    second = new_run(new_head(now=await store.now(), idempotency_key="order-1"))
    outcome = await store.commit([second])
    assert outcome.existing == {second.instance_id: first.head.instance_id}


async def test_one_key_twice_in_one_batch_makes_one_instance(store: Store) -> None:
    now = await store.now()
    twins = [new_run(new_head(now=now, idempotency_key="order-1")) for _ in range(2)]
    neighbour = new_run(new_head(now=now))
    outcome = await store.commit([*twins, neighbour])
    winners = outcome.won - {neighbour.instance_id}
    assert neighbour.instance_id in outcome.won, "a twin's fate does not touch its neighbour"
    assert len(winners) == 1, "one of the twins is created"
    loser = next(twin for twin in twins if twin.instance_id not in winners)
    again = await store.commit([loser])
    assert again.existing == {loser.instance_id: winners.pop()}
    assert await store.read_log(loser.instance_id) == []


async def test_a_key_is_of_one_tenant_and_one_workflow_name(store: Store) -> None:
    head = new_head(now=await store.now(), idempotency_key="order-1")
    new_runs = [
        new_run(head),
        new_run(replace(head, instance_id=new_id(), tenant_id="other")),
        new_run(replace(head, instance_id=new_id(), workflow_name="refunds")),
        new_run(replace(head, instance_id=new_id(), workflow_version=2, idempotency_key="order-2")),
    ]
    assert len((await store.commit(new_runs)).won) == 4


async def test_births_without_a_key_never_meet(store: Store) -> None:
    now = await store.now()
    outcome = await store.commit([new_run(new_head(now=now)) for _ in range(3)])
    assert (len(outcome.won), dict(outcome.existing)) == (3, {})


async def test_one_key_raced_by_many_processes_makes_one_instance(store: Store, other_store: Store) -> None:
    for number in range(10):
        now = await store.now()
        new_runs = [new_run(new_head(now=now, idempotency_key=f"order-{number}")) for _ in range(4)]
        outcomes = await asyncio.gather(
            *((store, other_store)[index % 2].commit([newborn]) for index, newborn in enumerate(new_runs))
        )
        won = set().union(*(outcome.won for outcome in outcomes))
        assert len(won) == 1, f"key order-{number} made {len(won)} instances"
        (winner,) = won
        for newborn in new_runs:
            if newborn.instance_id != winner:
                # The race itself may leave the answer open; asked again, it is known.
                assert (await store.commit([newborn])).existing == {newborn.instance_id: winner}


async def test_one_id_raced_by_two_processes_is_born_once(store: Store, other_store: Store) -> None:
    for _ in range(10):
        head = new_head(now=await store.now())
        first, second = await asyncio.gather(
            store.commit([new_run(head, worker_id="one")]), other_store.commit([new_run(head, worker_id="two")])
        )
        assert len(first.won) + len(second.won) == 1
        row = await row_of(store, head.instance_id)
        assert row.worker_id == ("one" if first.won else "two")
        assert [item.seq for item in await store.read_log(head.instance_id)] == [1]


async def test_a_new_run_goes_on_from_its_creation(store: Store) -> None:
    row = await created(store, input_set(), dispatched("start"))
    after = await committed(store, transition(row, dispatched("a")))
    assert (after.version, after.last_seq) == (2, 3)
