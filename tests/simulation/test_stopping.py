"""The task worker, told to stop what its timeout has just cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from anabranch.engine.clock import SystemClock
from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.engine.queues import LocalTaskQueue
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import NodeResult
from anabranch.engine.task_worker import TaskWorker
from tests.simulation.cases import probe_case
from tests.simulation.loop import SimulatedLoop

TIMEOUT_S = 120.0
CLEANUP_S = 5.0


class SlowToStop:
    """A handler that takes its time to clean up after a cancel."""

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        try:
            await asyncio.sleep(TIMEOUT_S * 2)
        finally:
            await asyncio.sleep(CLEANUP_S)
        return HandlerResult()


class OneHandler:
    """A registry of one."""

    def get(self, type_name: str) -> None:
        return None

    def names(self) -> list[str]:
        return []

    def handler(self, type_name: str) -> SlowToStop:
        return SlowToStop()


def test_stopping_what_its_timeout_has_cancelled_already_is_harmless():
    """It raised out of the batch in which the run was cancelled, and all runs of that batch were let go."""
    loop = SimulatedLoop(seed=1)
    results: list[NodeResult] = []
    with loop.running():
        loop.create_task(_time_out_and_stop(results)).add_done_callback(lambda done: done.result())
        while loop.step():
            pass
    assert results == [], "nobody awaits the result of what was stopped"


async def _time_out_and_stop(results: list[NodeResult]) -> None:
    clock, tasks = SystemClock(), LocalTaskQueue()
    clock.adjust(0)
    worker = TaskWorker(handlers=OneHandler(), tasks=tasks, clock=clock, concurrency=1)
    worker.report_to(lambda instance_id, result: results.append(result))
    await tasks.start()
    node = probe_case().plan.nodes["sleeper"]
    assert node.timeout_ms == TIMEOUT_S * 1000
    worker.execute(
        InstanceHead("run", "default", None, "probe", 1, 0, 0), Dispatch("sleeper", "", 1), node, ContextSnapshot(())
    )
    await asyncio.sleep(TIMEOUT_S + CLEANUP_S / 2)
    worker.stop_job("run", Dispatch("sleeper", "", 1))
    worker.stop_instance("run")
    await tasks.drain()
    await tasks.stop()
