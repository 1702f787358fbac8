"""Signals to a run that nobody holds: answered from the log, whose events are read once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.shared.signals import SIGNALS_KEPT_MAX
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.values import Payload
from anabranch.errors import TooManySignals
from anabranch.handlers.registry import builtin_types
from anabranch.service import WorkflowService
from anabranch.service.runs.signal_answers import RUNS_CACHED_MAX, SignalAnswers
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import MemoryStore

TENANT = "default"
NOON_MS = 1_800_000_000_000
SIGNALS = 40

WAITING = {
    "title": "waiting",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "wait", "type": "waitForEvent", "config": {"event": "go", "match": {"n": 1}}},
    ],
    "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "wait"}],
}


@pytest.fixture
async def service() -> AsyncIterator[WorkflowService]:
    """A service of a process that runs nothing, so that every signal goes past the engine."""
    store = MemoryStore(MemoryDatabase(now=lambda: NOON_MS))
    engine = Engine(store=store, handlers=builtin_types(), options=EngineOptions(works=False))
    facade = WorkflowService(engine=engine, node_types=builtin_types(), retention_days_max=1, pending_max=100)
    await engine.start()
    await facade.save_workflow(WAITING, tenant_id=TENANT)
    yield facade
    await engine.stop()


async def test_however_many_signals_are_asked_about_each_event_is_read_once(service: WorkflowService):
    runs = [(await service.execute_workflow("waiting", None, tenant_id=TENANT)).instance_id for _ in range(2)]
    for run in runs:
        for number in range(SIGNALS):
            await service.send_signal(run, "go", {"n": number}, tenant_id=TENANT, key=f"k{number}")
    read: list[Event] = []

    store = service._engine.store
    read_signal_waits = store.read_signal_waits

    async def noted(*arguments: Any, **named: Any) -> list[Event]:
        found = await read_signal_waits(*arguments, **named)
        read.extend(found)
        return found

    store.read_signal_waits = noted  # type: ignore[method-assign]
    arrivals = SignalAnswers(store)
    for run in runs:
        row = await service.get_run_status(run, tenant_id=TENANT)
        events = await service.get_events(run, tenant_id=TENANT)
        seqs = [event.seq for event in events if event.type is EventType.SIGNAL_RECEIVED]
        assert len(seqs) == SIGNALS
        # Nothing waits yet: whoever holds the run opens the wait.
        assert not any(await asyncio.gather(*(arrivals.was_delivered(row, seq) for seq in reversed(seqs))))
        assert await arrivals.first_answer(row, "k1") is False
        read.sort(key=lambda event: event.seq)
        assert [event.seq for event in read] == seqs, "each once, and nothing else of the log"
        read.clear()


async def test_the_runs_that_were_asked_for_last_are_kept_and_all_are_answered(service: WorkflowService):
    runs = [
        (await service.execute_workflow("waiting", None, tenant_id=TENANT)).instance_id
        for _ in range(RUNS_CACHED_MAX + 1)
    ]
    for _ in range(2):
        for run in runs:
            assert await service.send_signal(run, "go", {"n": 1}, tenant_id=TENANT) is False


async def test_the_signal_that_a_run_waits_for_gets_through_although_it_keeps_as_many_as_it_may():
    """It did not: who had filled a run with signals that nobody takes had stopped it for ever."""
    database = MemoryDatabase(now=lambda: NOON_MS)
    engine = Engine(store=MemoryStore(database), handlers=builtin_types(), options=EngineOptions())
    service = WorkflowService(engine=engine, node_types=builtin_types(), retention_days_max=1, pending_max=100)
    await engine.start()
    await service.save_workflow(WAITING, tenant_id=TENANT)
    run = (await service.execute_workflow("waiting", None, tenant_id=TENANT)).instance_id
    while True:
        if (await service.get_run_status(run, tenant_id=TENANT)).status is Status.WAITING:
            break
        await asyncio.sleep(0)
    await engine.stop()  # from here on every signal goes past it
    for number in range(SIGNALS_KEPT_MAX):
        database.append_signal(run, SignalSent("noise", Payload.of(number)), tenant_id=TENANT)
    for event, n in (("noise", 1), ("go", 2)):
        with pytest.raises(TooManySignals):
            await service.send_signal(run, event, {"n": n}, tenant_id=TENANT)
    assert await service.send_signal(run, "go", {"n": 1}, tenant_id=TENANT)
    with pytest.raises(TooManySignals):
        await service.send_signal(run, "go", {"n": 1}, tenant_id=TENANT)
