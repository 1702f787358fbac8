"""A signal that meets the end of its run in one and the same transition."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.stimuli import CancelRequested
from anabranch.errors import RunIsTerminal
from anabranch.handlers.registry import builtin_types
from anabranch.service import WorkflowService
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import MemoryStore

TENANT = "default"
NOON_MS = 1_800_000_000_000

# A nap of less than a second keeps its worker, so cancel and signal are decided there, together.
NAPPING = {
    "title": "napping",
    "nodes": [{"id": "start", "type": "start"}, {"id": "nap", "type": "delay", "config": {"duration": "900ms"}}],
    "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "nap"}],
}


async def test_a_signal_that_comes_with_the_end_is_refused_and_not_swallowed():
    database = MemoryDatabase(now=lambda: NOON_MS)
    engine = Engine(store=MemoryStore(database), handlers=builtin_types(), options=EngineOptions())
    service = WorkflowService(engine=engine, node_types=builtin_types(), retention_days_max=1, pending_max=1)
    await engine.start()
    saved, _ = await service.save_workflow(NAPPING, tenant_id=TENANT)
    run = (await service.execute_workflow(saved.name, None, tenant_id=TENANT)).instance_id
    cancelled, sent = await asyncio.gather(
        engine.orchestrator.ask(run, CancelRequested("enough")),
        service.send_signal(run, "news", {}, tenant_id=TENANT),
        return_exceptions=True,
    )
    await engine.stop()
    assert not isinstance(cancelled, BaseException) and cancelled.status is Status.CANCELLED
    with pytest.raises(RunIsTerminal, match="CANCELLED already"):
        raise sent if isinstance(sent, BaseException) else AssertionError(f"answered {sent}, and nothing was kept")
