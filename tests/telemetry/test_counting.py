"""Each row counts once, however often its commit was asked for: on a store that loses requests and answers."""

from __future__ import annotations

import itertools
import time

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.events import Status
from anabranch.errors import StoreUnavailable
from anabranch.handlers import builtin_types
from anabranch.service import WorkflowService
from anabranch.telemetry import Meters, TelemetryRecorder
from anabranch.testing.memory_store.memory_store import Faults, MemoryDatabase, MemoryStore
from tests.engine.conftest import Log

RUNS = 20


class Trouble(Faults):
    """Loses every third answer to a commit, and every fifth commit."""

    def __init__(self) -> None:
        self._asked, self._answered = itertools.count(1), itertools.count(1)
        self.lost = 0

    async def before(self, operation: str) -> None:
        await super().before(operation)
        if operation == "commit" and next(self._asked) % 5 == 0:
            raise StoreUnavailable("the request was lost")

    async def after(self, operation: str) -> None:
        if operation == "commit" and next(self._answered) % 3 == 0:
            self.lost += 1
            raise StoreUnavailable("the answer was lost")


async def test_a_commit_without_an_answer_counts_once() -> None:
    trouble, meters = Trouble(), Meters()
    store = MemoryStore(MemoryDatabase(now=lambda: int(time.time() * 1000)), faults=trouble)
    types = builtin_types()
    engine = Engine(
        store=store, handlers=types, options=EngineOptions(evaluations_max=1), telemetry=TelemetryRecorder(meters)
    )
    service = WorkflowService(engine=engine, node_types=types, retention_days_max=365, pending_max=1_000)
    nodes = [
        {"id": "start", "type": "start"},
        *({"id": f"n{number}", "type": "set", "config": {"values": {}}} for number in range(5)),
    ]
    edges = [
        {"upstreamNodeID": before["id"], "downstreamNodeID": after["id"]} for before, after in itertools.pairwise(nodes)
    ]
    engine.observers.add(log := Log())
    await store.start()
    await service.save_workflow({"name": "line", "nodes": nodes, "edges": edges}, tenant_id="default")
    await engine.start()

    async def run() -> None:
        started = await service.execute_workflow("line", {}, tenant_id="default")
        await log.saw("INSTANCE_COMPLETED", instance_id=started.instance_id)

    for _ in range(RUNS):
        await run()
    await engine.stop()

    (meter,) = meters
    assert trouble.lost > RUNS
    assert (meter.started, meter.completed) == (RUNS, {Status.COMPLETED: RUNS})
    assert {label: sum(step.times.counts) for label, step in meter.steps.items()} == {"start": RUNS, "set": 5 * RUNS}
