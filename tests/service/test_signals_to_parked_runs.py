"""Signals to runs that nobody owns: a process with a worker takes the run over, and decides the signal itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.events import EventType, Status
from anabranch.errors import NotFound, RunIsTerminal
from anabranch.handlers.registry import builtin_types
from anabranch.service import WorkflowService
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import MemoryStore

TENANT = "default"
NOON_MS = 1_800_000_000_000

WAITING = {
    "title": "waiting",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}},
    ],
    "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "wait"}],
}


class Process:
    """A service with an engine on a store of its own database connection."""

    def __init__(self, database: MemoryDatabase, **options: Any) -> None:
        self.store = MemoryStore(database)
        self.appended = 0
        append_signal = self.store.append_signal

        async def counted(*arguments: Any, **named: Any) -> Any:
            self.appended += 1
            return await append_signal(*arguments, **named)

        self.store.append_signal = counted  # type: ignore[method-assign]
        self.engine = Engine(store=self.store, handlers=builtin_types(), options=EngineOptions(**options))
        self.service = WorkflowService(
            engine=self.engine, node_types=builtin_types(), retention_days_max=1, pending_max=100
        )

    async def parked(self) -> str:
        """A run that waits, and that no worker owns."""
        run = (await self.service.execute_workflow("waiting", None, tenant_id=TENANT)).instance_id
        await self.until(run, Status.WAITING)
        return run

    async def until(self, run: str, status: Status) -> None:
        while (row := await self.service.get_run_status(run, tenant_id=TENANT)).status is not status:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert row.worker_id is None

    async def signal(self, run: str, event: str = "go", **more: Any) -> bool:
        return await self.service.send_signal(run, event, {"n": 1}, **{"tenant_id": TENANT, **more})

    async def types(self, run: str) -> list[EventType]:
        return [event.type for event in await self.service.get_events(run, tenant_id=TENANT)]


@pytest.fixture
def database() -> MemoryDatabase:
    return MemoryDatabase(now=lambda: NOON_MS)


@pytest.fixture
async def process(database: MemoryDatabase) -> AsyncIterator[Process]:
    process = Process(database)
    await process.engine.start()
    await process.service.save_workflow(WAITING, tenant_id=TENANT)
    yield process
    await process.engine.stop()


async def test_a_signal_to_a_parked_run_takes_a_claim_and_one_commit(process: Process) -> None:
    run = await process.parked()
    version = (await process.service.get_run_status(run, tenant_id=TENANT)).version
    assert await process.signal(run) is True
    await process.until(run, Status.COMPLETED)
    row = await process.service.get_run_status(run, tenant_id=TENANT)
    assert (row.version, process.appended) == (version + 2, 0)
    with pytest.raises(RunIsTerminal):
        await process.signal(run)


async def test_a_signal_that_nothing_waits_for_is_kept_and_the_run_is_parked_again(process: Process) -> None:
    run = await process.parked()
    assert await process.signal(run, "other", key="once") is False
    assert await process.signal(run, "other", key="once") is False
    await process.until(run, Status.WAITING)
    assert not process.engine.orchestrator.owned_ids
    assert (await process.types(run)).count(EventType.SIGNAL_RECEIVED) == 1
    assert await process.signal(run) is True


async def test_signals_of_many_at_once_are_each_kept_once(process: Process) -> None:
    runs = [await process.parked() for _ in range(5)]
    delivered = await asyncio.gather(*(process.signal(run, key=f"k{number}") for run in runs for number in range(3)),
                                     return_exceptions=True)  # fmt: skip
    for index, run in enumerate(runs):
        await process.until(run, Status.COMPLETED)
        of_run = delivered[3 * index : 3 * index + 3]
        assert of_run.count(True) == 1
        assert all(isinstance(each, bool | RunIsTerminal) for each in of_run)


async def test_another_tenant_neither_finds_nor_moves_the_run(process: Process) -> None:
    run = await process.parked()
    before = await process.service.get_run_status(run, tenant_id=TENANT)
    with pytest.raises(NotFound):
        await process.signal(run, tenant_id="another")
    assert await process.service.get_run_status(run, tenant_id=TENANT) == before


async def test_another_tenant_does_not_get_to_the_run_while_its_owner_signals_it(process: Process) -> None:
    for _ in range(20):
        run = await process.parked()
        both = (process.signal(run), process.signal(run, tenant_id="another"))
        own, other = await asyncio.gather(*both, return_exceptions=True)
        assert own is True
        assert isinstance(other, NotFound)


async def test_of_many_signals_at_once_one_claims_and_the_others_are_appended(process: Process) -> None:
    runs = [await process.parked() for _ in range(10)]
    claim, claims = process.store.claim, 0

    async def counted(wanted: Any) -> Any:
        nonlocal claims
        claims += wanted.parked is not None
        return await claim(wanted)

    process.store.claim = counted  # type: ignore[method-assign]
    assert await asyncio.gather(*(process.signal(run) for run in runs)) == [True] * len(runs)
    for run in runs:
        await process.until(run, Status.COMPLETED)
    assert (claims, process.appended) == (1, len(runs) - 1)


async def test_a_claim_that_ends_after_the_stop_adopts_nothing(process: Process, database: MemoryDatabase) -> None:
    stopped, goes_on = Process(database), asyncio.Event()
    run = await process.parked()
    claim, claiming = stopped.store.claim, asyncio.Event()

    async def slow(wanted: Any) -> Any:
        if wanted.parked is None:
            return []
        claiming.set()
        await goes_on.wait()
        return await claim(wanted)

    stopped.store.claim = slow  # type: ignore[method-assign]
    await stopped.engine.start()
    asking = asyncio.create_task(stopped.signal(run))
    await claiming.wait()
    await stopped.engine.stop()
    goes_on.set()
    assert await asking is True
    assert (stopped.appended, list(stopped.engine.orchestrator.owned_ids)) == (1, [])


async def test_a_caller_who_stops_waiting_leaves_no_run_without_an_owner(process: Process) -> None:
    run = await process.parked()
    claim = process.store.claim
    claiming = asyncio.Event()

    async def slow(*arguments: Any) -> Any:
        claiming.set()
        found = await claim(*arguments)
        await asyncio.sleep(0)
        return found

    process.store.claim = slow  # type: ignore[method-assign]
    asking = asyncio.create_task(process.signal(run))
    await claiming.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await process.until(run, Status.COMPLETED)


async def test_who_does_not_work_has_no_room_or_stops_appends_the_signal(
    process: Process, database: MemoryDatabase
) -> None:
    idle, full = Process(database, works=False), Process(database, held_max=0)
    for other in (idle, full):
        await other.engine.start()
        run = await process.parked()
        assert await other.signal(run) is True
        await process.until(run, Status.COMPLETED)
        await other.engine.stop()
        run = await process.parked()
        assert await other.signal(run) is True
        await process.until(run, Status.COMPLETED)
        assert other.appended == 2
