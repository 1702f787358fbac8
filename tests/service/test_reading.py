"""What is read of runs: all of it, or that there is no such run."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.errors import NotFound
from anabranch.handlers.registry import builtin_types
from anabranch.service import WorkflowService
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import MemoryStore

TENANT = "default"
NOON_MS = 1_800_000_000_000
SLEEPS = {
    "title": "sleeps",
    "nodes": [{"id": "start", "type": "start"}, {"id": "nap", "type": "delay", "config": {"duration": "1h"}}],
    "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "nap"}],
}


@pytest.fixture
async def service() -> AsyncIterator[WorkflowService]:
    store = MemoryStore(MemoryDatabase(now=lambda: NOON_MS))
    engine = Engine(store=store, handlers=builtin_types(), options=EngineOptions())
    await engine.start()
    yield WorkflowService(engine=engine, node_types=builtin_types(), retention_days_max=1, pending_max=1)
    await engine.stop()


async def test_a_run_is_shown_with_its_log(service: WorkflowService):
    saved, _ = await service.save_workflow(SLEEPS, tenant_id=TENANT)
    run = (await service.execute_workflow(saved.name, {"n": 1}, tenant_id=TENANT)).instance_id
    assert (await service.get_run(run, tenant_id=TENANT))["input"] == {"n": 1}
    assert [step["nodeID"] for step in await service.get_steps(run, tenant_id=TENANT)][:1] == ["start"]


@pytest.mark.parametrize("run", ["00000000-0000-7000-8000-000000000009", "no id at all", "\ud800"])
async def test_what_is_no_run_is_not_found(service: WorkflowService, run: str):
    for read in (service.get_run, service.get_steps, service.get_log, service.get_run_status):
        with pytest.raises(NotFound, match="there is no run"):
            await read(run, tenant_id=TENANT)


async def test_the_run_of_another_tenant_is_not_found(service: WorkflowService):
    saved, _ = await service.save_workflow(SLEEPS, tenant_id=TENANT)
    run = (await service.execute_workflow(saved.name, None, tenant_id=TENANT)).instance_id
    for read in (service.get_run, service.get_steps, service.get_log, service.get_run_status):
        with pytest.raises(NotFound, match="there is no run"):
            await read(run, tenant_id="somebody-else")
