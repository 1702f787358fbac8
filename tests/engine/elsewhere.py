"""What one process does to a run of another, for every way on which they hear of each other without a poll."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, until
from tests.engine.drawing import drawn, node

NEVER_MS = 3_600_000
"""Longer than any test: a process that acts before that was told to."""

WAITING = drawn("waiting", node("wait", "waitForEvent", config={"event": "go"}))
HANGING = drawn("hanging", node("gate", "testGate", config={"gate": "API"}), node("after"))

MakeListening = Callable[..., Awaitable[Process]]


def listening(make_process: MakeProcess) -> MakeListening:
    """Starts processes that hear of each other, and by default never poll."""

    async def make(**options: object) -> Process:
        process = await make_process(**{"hinted": True, "poll_ms": NEVER_MS, **options})
        if process.engine.options.works:
            await until(lambda: process.engine.hints.listening)
        return process

    return make


async def assert_a_cancel_reaches_the_owner(make: MakeListening) -> None:
    owner, other = await make(), await make(works=False)
    run_id = await owner.run(HANGING)
    await owner.log.saw("NODE_DISPATCHED", "gate")

    await other.service.cancel_run(run_id, tenant_id=TENANT, reason="from outside")

    await owner.log.saw("INSTANCE_CANCELLED", instance_id=run_id)
    await until(lambda: nodes.stopped)
    assert nodes.stopped == ["gate"]
    assert (await owner.ended(run_id))["status"] == "CANCELLED"


async def assert_a_signal_reaches_a_parked_run(make: MakeListening) -> None:
    owner, other = await make(), await make(works=False)
    run_id = await owner.run(WAITING)
    await owner.log.saw("NODE_WAITING", "wait")
    await until(lambda: not owner.engine.orchestrator.owns(run_id))

    assert await other.service.send_signal(run_id, "go", None, tenant_id=TENANT)

    assert (await owner.ended(run_id))["status"] == "COMPLETED"
    await owner.log.saw("INSTANCE_COMPLETED", instance_id=run_id)
