"""The limit of PENDING runs: it holds for every start, and costs a count a second."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.engine.clock import SystemClock
from anabranch.errors import StoreUnavailable, TooManyPending
from anabranch.service.runs.pending_limit import COUNT_KEPT_S, PendingLimit
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import Faults, MemoryStore
from tests.conformance.building import TENANT, new_head, new_run

NOON_MS = 1_800_000_000_000


class HandClock(SystemClock):
    """A clock that is moved by hand."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class Wire(Faults):
    """Notes what is asked of the store, and may be cut."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cut = False

    async def before(self, operation: str) -> None:
        self.asked.append(operation)
        await asyncio.sleep(0)
        if self.cut:
            raise StoreUnavailable("the wire is cut")


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(wire: Wire) -> MemoryStore:
    return MemoryStore(MemoryDatabase(now=lambda: NOON_MS), faults=wire)


async def test_starts_within_a_second_share_one_count_and_still_meet_the_limit(
    store: MemoryStore, clock: HandClock, wire: Wire
) -> None:
    limit = PendingLimit(store=store, clock=clock, runs_max=3)
    answers = await asyncio.gather(*(limit.admit(TENANT) for _ in range(5)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [type(None)] * 3 + [TooManyPending] * 2
    assert wire.asked == ["count_pending"]


async def test_a_second_later_what_has_begun_or_ended_meanwhile_has_left_its_place(
    store: MemoryStore, clock: HandClock
) -> None:
    waiting = [new_run(new_head(now=NOON_MS), worker_id=None) for _ in range(2)]
    await store.commit(waiting)
    limit = PendingLimit(store=store, clock=clock, runs_max=2)
    with pytest.raises(TooManyPending):
        await limit.admit(TENANT)
    await store.append_cancel(tenant_id=TENANT, instance_id=waiting[0].instance_id, reason="")
    clock.seconds += COUNT_KEPT_S
    await limit.admit(TENANT)
    with pytest.raises(TooManyPending):
        await limit.admit(TENANT)


async def test_a_count_that_did_not_come_is_asked_for_again(store: MemoryStore, clock: HandClock, wire: Wire) -> None:
    limit = PendingLimit(store=store, clock=clock, runs_max=1)
    wire.cut = True
    with pytest.raises(StoreUnavailable):
        await limit.admit(TENANT)
    wire.cut = False
    await limit.admit(TENANT)
    assert wire.asked == ["count_pending"] * 2


async def test_a_tenant_at_its_own_limit_leaves_the_rest_to_the_others(store: MemoryStore, clock: HandClock) -> None:
    await store.commit([new_run(new_head(now=NOON_MS), worker_id=None)])
    limit = PendingLimit(store=store, clock=clock, runs_max=4, runs_per_tenant_max=2)
    await limit.admit(TENANT)
    with pytest.raises(TooManyPending) as refused:
        await limit.admit(TENANT)
    assert "2 runs of tenant 'default'" in refused.value.message
    assert refused.value.details == {"limit": 2, "scope": "tenant"}
    await limit.admit("another")
    await limit.admit("another")
    with pytest.raises(TooManyPending, match="4 runs are already waiting"):
        await limit.admit("a third")
