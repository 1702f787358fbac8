"""What only the memory store can do: fail on purpose, and be watched from inside each transaction."""

from __future__ import annotations

import itertools

import pytest

from anabranch.engine.ports import ClaimRequest, Transition
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.values import Payload
from anabranch.errors import StoreUnavailable
from anabranch.testing.memory_store.memory_store import Faults, MemoryDatabase, MemoryStore
from anabranch.testing.memory_store.records import Transaction
from tests.conformance.building import (
    OTHER_WORKER,
    TENANT,
    assert_unchanged,
    born_many,
    completed,
    created,
    dispatched,
    row_of,
    transition,
)


class Trouble(Faults):
    """Fails the operation named in `lose_request` or `lose_answer`, skips the instance in `locked`."""

    def __init__(self) -> None:
        self.lose_request = self.lose_answer = self.locked = ""

    async def before(self, operation: str) -> None:
        await super().before(operation)
        if operation == self.lose_request:
            raise StoreUnavailable("the request was lost")

    async def after(self, operation: str) -> None:
        if operation == self.lose_answer:
            raise StoreUnavailable("the answer was lost")

    def skip(self, transition: Transition) -> bool:
        return transition.instance_id == self.locked


@pytest.fixture
def transactions() -> list[Transaction]:
    """What `on_commit` was told."""
    return []


@pytest.fixture
def database(transactions: list[Transaction]) -> MemoryDatabase:
    """A database on a clock that ticks with every look."""
    ticks = itertools.count(1_700_000_000_000)
    return MemoryDatabase(now=lambda: next(ticks), on_commit=transactions.append)


async def test_a_lost_request_wrote_nothing(database: MemoryDatabase) -> None:
    store = MemoryStore(database, faults=(trouble := Trouble()))
    row = await created(store)
    trouble.lose_request = "commit"
    with pytest.raises(StoreUnavailable):
        await store.commit([transition(row, dispatched("a"))])
    await assert_unchanged(store, row)


async def test_a_lost_answer_wrote_everything(database: MemoryDatabase) -> None:
    store = MemoryStore(database, faults=(trouble := Trouble()))
    row = await created(store)
    trouble.lose_answer = "commit"
    with pytest.raises(StoreUnavailable):
        await store.commit([transition(row, dispatched("a"))])
    assert (await row_of(store, row.head.instance_id)).version == row.version + 1


@pytest.mark.parametrize("operation", ["claim", "release", "append_signal", "append_cancel", "load", "extend"])
async def test_every_operation_can_lose_its_request(database: MemoryDatabase, operation: str) -> None:
    store = MemoryStore(database, faults=(trouble := Trouble()))
    row = await created(store)
    ids = [row.head.instance_id]
    trouble.lose_request = operation
    calls = {
        "claim": lambda: store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=1, only=ids, steal=True)),
        "release": lambda: store.release(worker_id="worker-1"),
        "append_signal": lambda: store.append_signal(ids[0], SignalSent("e", Payload.of(1)), tenant_id=TENANT),
        "append_cancel": lambda: store.append_cancel(tenant_id=TENANT, instance_id=ids[0], reason=""),
        "load": lambda: store.load(ids),
        "extend": lambda: store.extend(worker_id="worker-1", instance_ids=ids, lease_ms=1),
    }
    with pytest.raises(StoreUnavailable):
        await calls[operation]()
    trouble.lose_request = ""
    await assert_unchanged(store, row)


async def test_a_skipped_turn_looks_like_a_lost_one_and_may_be_repeated(database: MemoryDatabase) -> None:
    store = MemoryStore(database, faults=(trouble := Trouble()))
    locked, free = await born_many(store, 2)
    trouble.locked = locked.head.instance_id
    batch = [transition(locked, dispatched("a")), transition(free, dispatched("a"))]
    assert (await store.commit(batch)).won == {free.head.instance_id}
    trouble.locked = ""
    assert (await store.commit(batch)).won == {locked.head.instance_id}


async def test_a_transaction_is_told_with_the_rows_before_and_after(
    database: MemoryDatabase, transactions: list[Transaction]
) -> None:
    store = MemoryStore(database)
    row = await created(store)
    step = transition(row, dispatched("a"))
    await store.commit([step])
    first, second = transactions
    assert (first.operation, [(change.before, change.after) for change in first.changes]) == ("commit", [(None, row)])
    (change,) = second.changes
    assert change.before == row
    assert change.after == await row_of(store, row.head.instance_id)
    assert change.events == step.events


async def test_a_transaction_that_wrote_nothing_is_not_told(
    database: MemoryDatabase, transactions: list[Transaction]
) -> None:
    store = MemoryStore(database)
    row = await created(store)
    transactions.clear()
    await store.commit([transition(row, dispatched("a"), expected_version=9)])
    await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=1))
    assert transactions == []


async def test_own_writes_are_no_external_changes(database: MemoryDatabase) -> None:
    store, other = MemoryStore(database), MemoryStore(database)
    row = await created(store)
    await store.external_changes_possible()
    await store.commit([transition(row, completed("a"))])
    assert not await store.external_changes_possible()
    await created(other)
    assert await store.external_changes_possible()
    assert not await store.external_changes_possible()


async def test_a_signal_through_the_same_connection_is_a_external_change(database: MemoryDatabase) -> None:
    """It did not come through the orchestrator that holds the instance, so it must look."""
    store = MemoryStore(database)
    row = await created(store)
    await store.external_changes_possible()
    await store.append_signal(row.head.instance_id, SignalSent("e", Payload.of(1)), tenant_id=TENANT)
    assert await store.external_changes_possible()
