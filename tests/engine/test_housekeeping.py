"""What working engines do beside the work: remove, count, and finish what a forced delete has begun."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.engine.clock import SystemClock
from anabranch.engine.housekeeping import CANCELS_PAGE, COUNT_EVERY_MS, Housekeeping
from anabranch.engine.ports import NewVersion
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import NotFound, StoreUnavailable, WorkflowHasRuns
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import Faults, MemoryStore
from tests.conformance.building import committed, created, ending, row_of
from tests.engine.conftest import TENANT, MakeProcess, Process, turns_until, until
from tests.engine.drawing import drawn, node

NAPS = drawn("naps", node("nap", "delay", config={"duration": "1h"}))
INTERVAL_MS = 60_000
DAY_MS = 86_400_000


class QuickClock(SystemClock):
    """A clock on which every sleep is over at once."""

    seconds = 0.0
    slept_ms = 0

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, milliseconds: int) -> None:
        self.slept_ms += milliseconds
        self.seconds += milliseconds / 1000
        await asyncio.sleep(0)


class Wire(Faults):
    """Notes when what was asked of the store; may be cut."""

    def __init__(self, clock: QuickClock) -> None:
        self._clock = clock
        self.asked: list[tuple[str, int]] = []
        self.cut = False

    async def before(self, operation: str) -> None:
        self.asked.append((operation, self._clock.slept_ms))
        await asyncio.sleep(0)
        if self.cut:
            raise StoreUnavailable("the wire is cut")

    def times_of(self, operation: str) -> list[int]:
        """When this was asked (ms)."""
        return [at for name, at in self.asked if name == operation]


async def test_counts_are_folded_every_ten_seconds_and_a_sweep_comes_every_interval() -> None:
    clock = QuickClock()
    wire = Wire(clock)
    store = MemoryStore(MemoryDatabase(now=lambda: clock.slept_ms), faults=wire)
    keeping = Housekeeping(store=store, clock=clock, sweep_interval_ms=INTERVAL_MS, audit_retention_days=400)
    await keeping.start()
    await turns_until(lambda: len(wire.times_of("remove_expired")) == 3)
    await keeping.stop()
    first = COUNT_EVERY_MS
    assert wire.times_of("fold_counts")[:4] == [first, first * 2, first * 3, first * 4]
    assert wire.times_of("remove_expired") == [first, first + INTERVAL_MS, first + 2 * INTERVAL_MS]


async def test_an_outage_only_puts_it_off() -> None:
    clock = QuickClock()
    wire = Wire(clock)
    wire.cut = True
    store = MemoryStore(MemoryDatabase(now=lambda: clock.slept_ms), faults=wire)
    keeping = Housekeeping(store=store, clock=clock, sweep_interval_ms=INTERVAL_MS, audit_retention_days=400)
    await keeping.start()
    await turns_until(lambda: len(wire.times_of("fold_counts")) == 3)
    assert wire.times_of("remove_expired") == []
    wire.cut = False
    await turns_until(lambda: wire.times_of("remove_expired"))
    await keeping.stop()


async def test_a_run_is_there_for_its_retention_and_then_is_not() -> None:
    clock = QuickClock()
    store = MemoryStore(MemoryDatabase(now=lambda: clock.slept_ms))
    row = await committed(store, ending(await created(store, retention_days=2)))
    open_ = await created(store, retention_days=1)
    keeping = Housekeeping(store=store, clock=clock, sweep_interval_ms=INTERVAL_MS, audit_retention_days=400)
    clock.slept_ms = 2 * DAY_MS - 1
    assert await keeping.sweep()
    assert await row_of(store, row.head.instance_id) == row
    clock.slept_ms += 1
    assert await keeping.sweep()
    assert await store.get_instance(row.head.instance_id) is None
    assert await row_of(store, open_.head.instance_id) == open_


async def test_a_sweep_finishes_what_a_forced_delete_has_begun(process: Process) -> None:
    run = await process.run(NAPS)
    saved = await process.service.get_workflow_by_id("naps", tenant_id=TENANT)
    # The process that was asked for it crashed right after the first step.
    await process.engine.store.delete_workflow(tenant_id=TENANT, workflow_id=saved.workflow_id, force=True)
    assert not (await process.service.get_run_status(run, tenant_id=TENANT)).status.is_terminal
    assert await process.engine.housekeeping.sweep()
    ended = await process.ended(run)
    assert (ended["status"], ended["note"]) == ("CANCELLED", "its workflow was deleted")


async def test_a_forced_delete_leaves_no_run_open_however_many_are_started_meanwhile(make_process: MakeProcess) -> None:
    starting, deleting = await make_process(), await make_process()
    first = await starting.run(NAPS)
    with pytest.raises(WorkflowHasRuns):
        await deleting.service.delete_workflow("naps", tenant_id=TENANT)
    started = [first]

    async def start_until_refused() -> None:
        while True:
            try:
                run = await starting.service.execute_workflow("naps", {}, tenant_id=TENANT)
            except NotFound:
                return
            started.append(run.instance_id)

    starters = asyncio.gather(*(start_until_refused() for _ in range(8)))
    async with asyncio.timeout(30):
        await until(lambda: len(started) >= 50)
        await deleting.service.delete_workflow("naps", tenant_id=TENANT, force=True)
        await starters
    statuses = {(await deleting.service.get_run_status(run, tenant_id=TENANT)).status for run in started}
    assert statuses == {Status.CANCELLED}
    await starting.service.save_workflow(NAPS, tenant_id=TENANT)
    assert await deleting.service.list_runs(RunFilter(workflow="naps"), tenant_id=TENANT, limit=10) == [], (
        "a new workflow"
    )


async def test_thousands_of_runs_are_cancelled_in_pages() -> None:
    store = MemoryStore(MemoryDatabase(now=lambda: 1))
    saved = await store.save_workflow(NewVersion(name="naps", definition={}), tenant_id=TENANT)
    for _ in range(2 * CANCELS_PAGE + 1):
        await created(store, workflow_id=saved.workflow_id)
    await store.delete_workflow(tenant_id=TENANT, workflow_id=saved.workflow_id, force=True)
    assert await Housekeeping(
        store=store, clock=QuickClock(), sweep_interval_ms=INTERVAL_MS, audit_retention_days=400
    ).sweep()
    counts = await store.count_runs(tenant_id=TENANT)
    assert counts == {saved.workflow_id: {Status.CANCELLED: 2 * CANCELS_PAGE + 1}}
