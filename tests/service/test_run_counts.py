"""Counts of runs are at most two seconds old, and a crowd that looks at them costs one read."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.engine.ports import NewVersion
from anabranch.engine.rules.events import Status
from anabranch.errors import StoreUnavailable
from anabranch.service.runs.run_counts import COUNTS_KEPT_S, DAY_MS, KEPT_TIMES, RunCounts
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import MemoryStore
from tests.conformance.building import TENANT, created
from tests.service.test_pending_limit import NOON_MS, HandClock, Wire


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(wire: Wire) -> MemoryStore:
    return MemoryStore(MemoryDatabase(now=lambda: NOON_MS), faults=wire)


async def orders_of(store: MemoryStore) -> str:
    return (await store.save_workflow(NewVersion(name="orders", definition={}), tenant_id=TENANT)).workflow_id


async def test_who_asks_at_once_or_within_two_seconds_shares_a_read(
    store: MemoryStore, clock: HandClock, wire: Wire
) -> None:
    orders = await orders_of(store)
    await created(store, workflow_id=orders)
    counts = RunCounts(store=store, clock=clock)
    wire.asked.clear()
    answers = await asyncio.gather(*(counts.of(TENANT) for _ in range(50)))
    assert answers == [{orders: {Status.RUNNING: 1}}] * 50
    assert len(wire.asked) <= 2, "one for the first, one for all who came after it had begun"
    wire.asked.clear()
    clock.seconds += COUNTS_KEPT_S / 2
    await counts.of(TENANT)
    assert wire.asked == []


async def test_after_two_seconds_a_count_is_read_anew(store: MemoryStore, clock: HandClock) -> None:
    orders = await orders_of(store)
    counts = RunCounts(store=store, clock=clock)
    assert await counts.of(TENANT) == {}
    await created(store, workflow_id=orders)
    clock.seconds += COUNTS_KEPT_S
    assert await counts.of(TENANT) == {orders: {Status.RUNNING: 1}}
    assert await counts.of("somebody-else") == {}


async def test_of_ended_runs_those_of_the_last_day_are_counted(clock: HandClock) -> None:
    times = [NOON_MS - 2 * DAY_MS]
    store = MemoryStore(MemoryDatabase(now=lambda: times[-1]))
    orders = await orders_of(store)
    for now in (NOON_MS - 2 * DAY_MS, NOON_MS):
        times.append(now)
        run = await created(store, workflow_id=orders)
        await store.append_cancel(tenant_id=TENANT, instance_id=run.head.instance_id, reason="")
        await created(store, workflow_id=orders)
    counts = RunCounts(store=store, clock=clock)
    assert await counts.of(TENANT) == {orders: {Status.RUNNING: 2, Status.CANCELLED: 2}}
    assert await counts.of_last_day(TENANT) == {orders: {Status.RUNNING: 2, Status.CANCELLED: 1}}
    assert await counts.of_last_day("somebody-else") == {}


async def test_a_count_of_the_last_day_that_took_long_is_kept_longer(
    store: MemoryStore, clock: HandClock, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = RunCounts(store=store, clock=clock)
    count_ended = store.count_ended

    async def slowly(*, within_ms: int) -> dict[str, dict[str, dict[Status, int]]]:
        clock.seconds += 3
        return await count_ended(within_ms=within_ms)

    monkeypatch.setattr(store, "count_ended", slowly)
    await counts.of_last_day(TENANT)
    for later, reads in ((3 * KEPT_TIMES - 4, 0), (2, 1)):
        clock.seconds += later
        wire.asked.clear()
        await counts.of_last_day(TENANT)
        assert wire.asked.count("count_ended") == reads


async def test_a_count_that_did_not_come_is_asked_for_again(store: MemoryStore, clock: HandClock, wire: Wire) -> None:
    counts = RunCounts(store=store, clock=clock)
    wire.cut = True
    with pytest.raises(StoreUnavailable):
        await counts.of(TENANT)
    wire.cut = False
    assert await counts.of(TENANT) == {}
