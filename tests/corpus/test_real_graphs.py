"""Workflows that people really drew, all at once through the whole engine, on each database.

Saved, started, executed by the real handlers, committed and read back: what completed and what
was skipped is exactly what is written down beside each graph.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.ports import Loaded
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.store.opening import open_store
from anabranch.handlers.registry import builtin_types
from anabranch.run_requests import StartOptions
from anabranch.service import WorkflowService

GRAPHS = [json.loads(line) for line in (Path(__file__).parent / "real_graphs.jsonl").read_text().splitlines()]
TENANT = "default"
# 2 minutes: on two busy cores they take ten seconds.
PATIENCE_S = 120


class Endings:
    """An observer that knows which runs have ended, and how."""

    def __init__(self) -> None:
        self.statuses: dict[str, Status] = {}
        self._changed = asyncio.Event()

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """Note an ended run."""
        if status.is_terminal:
            assert instance_id not in self.statuses, f"{instance_id} has ended twice"
            self.statuses[instance_id] = status
            self._changed.set()

    async def of(self, instance_ids: Sequence[str]) -> dict[str, Status]:
        """Return once all of these have ended."""
        while not self.statuses.keys() >= set(instance_ids):
            self._changed.clear()
            await self._changed.wait()
        return {instance_id: self.statuses[instance_id] for instance_id in instance_ids}


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[Engine]:
    """A whole engine on that database."""
    store = open_store(database_url)
    await store.start()
    engine = Engine(store=store, handlers=builtin_types(), options=EngineOptions())
    await engine.start()
    yield engine
    await engine.stop()
    await store.stop()


@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.parametrize("category", ["dag", "loop"])
async def test_every_real_graph_ends_as_written_down(engine: Engine, category: str) -> None:
    endings = Endings()
    engine.observers.add(endings)
    service = WorkflowService(engine=engine, node_types=builtin_types(), retention_days_max=365, pending_max=100_000)
    graphs = [graph for graph in GRAPHS if graph["category"] == category]
    cases = await _start(service, graphs)

    async with asyncio.timeout(PATIENCE_S):
        statuses = await endings.of(list(cases))

    assert set(statuses.values()) == {Status.COMPLETED}
    stored = await engine.store.load(list(cases))
    wrong = [name for instance_id, (name, case) in cases.items() if _differs(stored[instance_id], case)]
    assert not wrong, f"{len(wrong)} of {len(cases)} cases ended otherwise: {wrong[:5]}"


async def _start(service: WorkflowService, graphs: Sequence[dict[str, Any]]) -> dict[str, tuple[str, Any]]:
    """Save every graph and start every case of it at the same time: instance id to (name, case)."""

    async def start(graph: dict[str, Any], number: int, case: Any) -> tuple[str, tuple[str, Any]]:
        name = f"{graph['id']}-{number}"
        started = await service.execute_workflow(
            graph["id"], case["input"], StartOptions(idempotency_key=f"case-{number}"), tenant_id=TENANT
        )
        return started.instance_id, (name, case)

    for graph in graphs:
        await service.create_workflow({**graph["workflow"], "name": graph["id"]}, tenant_id=TENANT)
    starts = [start(graph, number, case) for graph in graphs for number, case in enumerate(graph["cases"])]
    return dict(await asyncio.gather(*starts))


def _differs(loaded: Loaded, case: Any) -> bool:
    events = loaded.events
    assert [event.seq for event in events] == list(range(1, loaded.row.last_seq + 1))
    assert loaded.row.status is Status.COMPLETED
    assert events[-1].type is EventType.INSTANCE_COMPLETED
    ended = {
        "completed": sorted([e.node_id, e.scope] for e in events if e.type is EventType.NODE_COMPLETED),
        "skipped": sorted([e.node_id, e.scope] for e in events if e.type is EventType.NODE_SKIPPED),
    }
    return any(ended[how] != sorted(case["expect"][how]) for how in ended)
