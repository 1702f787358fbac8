"""A loop that one decision does not finish, in a real engine: it ends, and nobody has to wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.store.opening import open_store
from anabranch.handlers.registry import builtin_types
from anabranch.service import WorkflowService

TENANT = "default"
PATIENCE_S = 60.0
ITEMS = 30_000


def looping(name: str, **config: Any) -> dict[str, Any]:
    return {
        "name": name,
        "nodes": [{"id": "start", "type": "start"}, {"id": "each", "type": "loop", "config": config}],
        "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "each"}],
    }


LONG = looping("long", source="{{ctx.input}}", **{"yield": "{{ctx.item + 1}}"})
SHORT = looping("short", source=[1])


class Endings:
    """The order in which runs end, and a signal for each end."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self._news = asyncio.Event()

    def committed(self, instance_id: str, events: list[Event], status: Status) -> None:
        if status.is_terminal:
            self.order.append(instance_id)
            self._news.set()

    async def of(self, *instance_ids: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not set(instance_ids) <= set(self.order):
                self._news.clear()
                await self._news.wait()


@pytest.fixture
async def engine(sqlite_url: str) -> AsyncIterator[Engine]:
    store = open_store(sqlite_url)
    await store.start()
    engine = Engine(store=store, handlers=builtin_types(), options=EngineOptions())
    await engine.start()
    yield engine
    await engine.stop()
    await store.stop()


@pytest.fixture
def service(engine: Engine) -> WorkflowService:
    return WorkflowService(engine=engine, node_types=builtin_types(), retention_days_max=1, pending_max=10)


@pytest.fixture
def endings(engine: Engine) -> Endings:
    endings = Endings()
    engine.observers.add(endings)
    return endings


async def start(service: WorkflowService, document: dict[str, Any], input_: Any = None) -> str:
    saved, _ = await service.save_workflow(document, tenant_id=TENANT)
    return (await service.execute_workflow(saved.name, input_, tenant_id=TENANT)).instance_id


async def output_of_loop(service: WorkflowService, run: str) -> Any:
    steps = await service.get_steps(run, tenant_id=TENANT)
    return next(step["output"] for step in steps if step["nodeID"] == "each")


async def test_a_long_loop_ends_and_short_ones_overtake_it(service: WorkflowService, endings: Endings):
    for document in (LONG, SHORT):
        await service.save_workflow(document, tenant_id=TENANT)
    started = await asyncio.gather(
        service.execute_workflow(LONG["name"], list(range(ITEMS)), tenant_id=TENANT),
        service.execute_workflow(SHORT["name"], None, tenant_id=TENANT),
    )
    long, short = (run.instance_id for run in started)
    await endings.of(long, short)
    assert endings.order == [short, long]
    assert await output_of_loop(service, long) == list(range(1, ITEMS + 1))


async def test_a_long_loop_is_cancelled_in_the_middle(service: WorkflowService, endings: Endings):
    long = await start(service, LONG, list(range(ITEMS)))
    assert await service.cancel_run(long, tenant_id=TENANT, reason="enough") is Status.CANCELLED
    assert await output_of_loop(service, long) is None
