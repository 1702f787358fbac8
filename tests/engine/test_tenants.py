"""Several tenants on one worker: none keeps another's runs from being taken up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.engine.ownership import claiming
from anabranch.engine.rules.events import Status
from tests.engine import nodes
from tests.engine.conftest import MakeProcess, Process, until
from tests.engine.drawing import drawn, node

BUSY, QUIET = "busy", "quiet"


async def test_a_tenant_with_many_due_runs_does_not_fill_a_worker(make_process: MakeProcess) -> None:
    api = await make_process(works=False)
    for _ in range(6):
        await _start(api, BUSY)
    worker = await make_process(held_max=4, held_per_tenant_max=2)
    held = worker.engine.orchestrator.owned
    await until(lambda: held.count_of(BUSY) == 2)

    quiet = await _start(api, QUIET)
    await until(lambda: held.count_of(QUIET) == 1)

    assert held.count_of(BUSY) == 2, "the other four wait in the database"
    nodes.open_gate("opened")
    await _ended(worker, quiet, QUIET)


async def test_a_tenant_at_its_limit_starts_runs_that_wait(make_process: MakeProcess) -> None:
    worker = await make_process(held_max=4, held_per_tenant_max=1)
    await _start(worker, BUSY)
    waiting = await _start(worker, BUSY)
    other = await _start(worker, QUIET)

    assert not worker.engine.orchestrator.owns(waiting)
    assert worker.engine.orchestrator.owns(other)
    nodes.open_gate("opened")
    await _ended(worker, waiting, BUSY)


async def test_others_runs_are_found_behind_those_of_a_tenant_that_has_most(
    make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims go by how long runs are overdue: every other one leaves out whoever had most of the last."""
    monkeypatch.setattr(claiming, "CLAIM_MAX", 4)
    api = await make_process(works=False)
    for _ in range(20):
        await _start(api, BUSY)
    await _start(api, QUIET)
    worker = await make_process(only=[])
    engine = worker.engine
    await engine.claimer.stop()
    claimer = claiming.Claimer(
        store=engine.store,
        orchestrator=engine.orchestrator,
        plans=engine.plans,
        observers=engine.observers,
        clock=engine.clock,
        options=replace(engine.options, held_max=100, held_per_tenant_max=100, only=None),
    )

    claims = [await claimer.claim_once() for _ in range(3)]

    assert claims == [4, 1, 4]
    assert worker.engine.orchestrator.owned.by_tenant == {BUSY: 8, QUIET: 1}
    while await claimer.claim_due():
        pass
    assert worker.engine.orchestrator.owned.by_tenant == {BUSY: 20, QUIET: 1}
    nodes.open_gate("opened")


async def _start(process: Process, tenant_id: str) -> str:
    if await process.engine.store.get_workflow(tenant_id=tenant_id, workflow="waits") is None:
        document = drawn("waits", node("gate", "testGate", config={"gate": "opened"}))
        await process.service.save_workflow(document, tenant_id=tenant_id)
    return (await process.service.execute_workflow("waits", None, tenant_id=tenant_id)).instance_id


async def _ended(process: Process, run: str, tenant_id: str) -> None:
    await process.log.saw("INSTANCE_COMPLETED", instance_id=run)
    assert (await process.service.get_run_status(run, tenant_id=tenant_id)).status is Status.COMPLETED
