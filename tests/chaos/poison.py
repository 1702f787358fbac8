"""Runs that kill the process which executes them, among others: who is suspended, and after how many crashes.

A worker that dies is started again at once, as an operator's supervisor would. In the end all innocent runs have ended
well, and the poisonous ones are SUSPENDED, after no more crashes than promised.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.shared.blame import CRASH_DELAYS_MS, CRASHES_MAX
from anabranch.engine.store.opening import open_store
from anabranch.handlers.registry import load_types
from anabranch.service import WorkflowService
from tests.chaos import nodes, supervisor
from tests.chaos.campaign import LEASE_MS, TENANT
from tests.chaos.ledger import Ledger
from tests.chaos.shapes import drawn, ledger

LOOK_S = 0.1


@dataclass
class PoisonPlan:
    """How many of what."""

    poisons: int
    innocents: int = 20
    workers: int = 1
    patience_s: float = 240.0
    lease_ms: int = LEASE_MS
    crash_delays_ms: Sequence[int] = CRASH_DELAYS_MS
    """How long a run that has crashed alone is kept back after each crash."""

    @property
    def crashes_max(self) -> int:
        """1 + floor(log2 n) + the limit, for each run that kills."""
        return self.poisons * (1 + (self.poisons + self.innocents).bit_length() - 1 + CRASHES_MAX)


@dataclass
class PoisonReport:
    """What came of it."""

    crashes: int = 0
    seconds: float = 0.0
    statuses: dict[str, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


def innocent() -> dict[str, object]:
    return drawn("innocent", [ledger("a"), ledger("b")], [("start", "a"), ("a", "b")])


def poison() -> dict[str, object]:
    return drawn(
        "poison", [ledger("before"), {"id": "kills", "type": "poison"}], [("start", "before"), ("before", "kills")]
    )


async def poisoned(plan: PoisonPlan, url: str) -> PoisonReport:
    """Start all of them at once on a database, keep workers alive until nothing goes on, and judge."""
    report, began = PoisonReport(), time.monotonic()
    store = open_store(url, lease_ms=plan.lease_ms)
    types = load_types()
    engine = Engine(store=store, handlers=types, options=EngineOptions(works=False))
    service = WorkflowService(engine=engine, node_types=types, retention_days_max=365, pending_max=1_000)
    await store.start()
    await engine.start()
    for document in (innocent(), poison()):
        await service.save_workflow(document, tenant_id=TENANT)
    names = ["poison"] * plan.poisons + ["innocent"] * plan.innocents
    started = [(await service.execute_workflow(name, {"n": 1}, tenant_id=TENANT)).instance_id for name in names]
    with Ledger() as book:
        keepers = [asyncio.create_task(_keep_alive(plan, url, book.port, report)) for _ in range(plan.workers)]
        give_up_at = time.monotonic() + plan.patience_s
        is_over = False
        while not is_over and time.monotonic() < give_up_at:
            await asyncio.sleep(LOOK_S)
            is_over = await _is_over(store, started)
        if not is_over:
            report.violations.append(f"not everything is over after {plan.patience_s:.0f} s")
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
    for name, run in zip(names, started, strict=True):
        row = await store.get_instance(run)
        assert row is not None
        said = f"{row.status.value} {row.suspended_for or ''}".strip()
        report.statuses[run] = said
        guilty = row.status is Status.SUSPENDED and row.suspended_for is SuspendReason.CRASHED
        if guilty != (name == "poison") or (name == "innocent" and row.status is not Status.COMPLETED):
            report.violations.append(f"the {name} run {run} is {said}, {row.blame}")
    if report.crashes > plan.crashes_max:
        report.violations.append(f"{report.crashes} crashes, at most {plan.crashes_max} are promised")
    await engine.stop()
    await store.stop()
    report.seconds = time.monotonic() - began
    return report


async def _is_over(store: object, started: list[str]) -> bool:
    rows = [await store.get_instance(run) for run in started]  # type: ignore[attr-defined]
    return all(row.status.is_terminal or row.status is Status.SUSPENDED for row in rows)


async def _keep_alive(plan: PoisonPlan, url: str, ledger_port: int, report: PoisonReport) -> None:
    """Keep one worker alive, and count how often it has died."""
    environment = {
        **os.environ,
        nodes.LEDGER_PORT: str(ledger_port),
        "ANABRANCH_TEST_CRASHES_MAX": str(CRASHES_MAX),
        supervisor.CRASH_DELAYS_MS: ",".join(map(str, plan.crash_delays_ms)),
    }
    command = (sys.executable, "-m", "tests.chaos.supervisor", url, str(plan.lease_ms))
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            report.crashes += line.decode().strip() == supervisor.DIED
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with the worker that it keeps alive
        await process.wait()
