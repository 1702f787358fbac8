"""One campaign: workers on one database, work for them, and a killer; then peace, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from anabranch.engine.lifecycle import Engine, EngineOptions
from anabranch.engine.store import open_store
from anabranch.errors import AnabranchError, RunIsTerminal, StoreUnavailable
from anabranch.handlers.registry import load_types
from anabranch.service import WorkflowService
from tests.chaos import nodes
from tests.chaos.ledger import Ledger
from tests.chaos.shapes import SHAPES
from tests.chaos.verdict import violations_of

TENANT = "default"
LEASE_MS = 1_000


@dataclass
class Plan:
    """How much of what."""

    workers: int
    kills: int
    instances: int
    pauses: int = 5
    seed: int = 1
    peace_s: float = 90.0
    """How long everything may take to end once nobody is killed any more."""


@dataclass
class Report:
    """What was done, and what was found."""

    kills: int = 0
    pauses: int = 0
    instances: int = 0
    database_crashes: int = 0
    cuts: int = 0
    withheld: int = 0
    effects: int = 0
    repeated_effects: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


@dataclass
class Campaign:
    """Runs a plan. `worker_url` may lead through a proxy; `door_url` is the way that starts take."""

    plan: Plan
    worker_url: str
    door_url: str
    more_faults: list[Any] = field(default_factory=list)
    """Further faults (async functions without arguments) that the killer may choose."""

    async def run(self) -> Report:
        report, dice = Report(), random.Random(self.plan.seed)
        began = time.monotonic()
        with Ledger() as ledger:
            door = _Door(self.door_url)
            await door.open()
            workers = [_Worker(self.worker_url, ledger.port) for _ in range(self.plan.workers)]
            await asyncio.gather(*(worker.start() for worker in workers))
            feeding = asyncio.create_task(door.feed(self.plan.instances, random.Random(self.plan.seed + 1)))
            try:
                await self._kill(workers, report, dice)
                await feeding
                ended = await door.all_ended(self.plan.peace_s)
            finally:
                feeding.cancel()
                await asyncio.gather(*(worker.end() for worker in workers))
            loaded = await door.store.load(list(door.started))
            report.violations = [] if ended else ["not everything ended in time"]
            report.violations += violations_of(door.started, door.cancelled, loaded, ledger.entries)
            report.instances = len(door.started)
            report.effects = len(ledger.entries)
            report.repeated_effects = report.effects - len({(e["key"], e["attempt"]) for e in ledger.entries})
            await door.close()
        report.seconds = time.monotonic() - began
        return report

    async def _kill(self, workers: list[_Worker], report: Report, dice: random.Random) -> None:
        """Kill, pause, stop and whatever else, until the plan's numbers are reached."""
        while report.kills < self.plan.kills or report.pauses < self.plan.pauses:
            await asyncio.sleep(dice.uniform(0.1, 0.6))
            worker = dice.choice(workers)
            choice = dice.random()
            if self.more_faults and choice < 0.35:
                await dice.choice(self.more_faults)()
            elif choice < 0.55 and report.pauses < self.plan.pauses:
                await worker.pause(LEASE_MS / 1000 * dice.uniform(1.2, 2.0))
                report.pauses += 1
            elif choice < 0.65:
                await worker.restart(signal.SIGTERM)
            else:
                await worker.restart(signal.SIGKILL)
                report.kills += 1


class _Worker:
    """A worker process that is started again whenever it has ended."""

    def __init__(self, url: str, ledger_port: int) -> None:
        self._url = url
        self._environment = {**os.environ, nodes.LEDGER_PORT: str(ledger_port)}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.chaos.worker",
            self._url,
            str(LEASE_MS),
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )

    async def restart(self, number: signal.Signals) -> None:
        """End the process by this signal and start another; after a while it has begun to work."""
        await self._end(number)
        await self.start()
        assert self._process is not None and self._process.stdout is not None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.stdout.readline(), 10)

    async def pause(self, seconds: float) -> None:
        """Freeze it for longer than its lease, then let it go on as if nothing had happened."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self._process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        await self._end(signal.SIGKILL)

    async def _end(self, number: signal.Signals) -> None:
        process = self._process
        assert process is not None
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            await asyncio.wait_for(process.wait(), 15)
        except TimeoutError:
            process.kill()
            await process.wait()


class _Door:
    """The client: starts runs, sends signals, cancels some, and remembers what was acknowledged."""

    def __init__(self, url: str) -> None:
        self.store = open_store(url)
        self.engine = Engine(store=self.store, handlers=load_types(), options=EngineOptions(works=False))
        self.service = WorkflowService(
            engine=self.engine, node_types=load_types(), retention_days_max=365, pending_max=100_000
        )
        self.started: dict[str, int] = {}
        self.cancelled: set[str] = set()

    async def open(self) -> None:
        await self.store.start()
        await self.engine.start()
        for shape in SHAPES:
            await self.service.save_workflow(shape(), tenant_id=TENANT)

    async def close(self) -> None:
        await self.engine.stop()
        await self.store.stop()

    async def feed(self, instances: int, dice: random.Random) -> None:
        """Start everything in small crowds; a start that is not acknowledged is repeated under its key."""
        for number in range(instances):
            shape = SHAPES[number % len(SHAPES)]
            run_id = await self._persist(
                lambda number=number, shape=shape: self.service.execute_workflow(
                    shape()["name"], {"n": number}, tenant_id=TENANT, idempotency_key=f"start-{number}"
                )
            )
            self.started[run_id.instance_id] = number
            if shape.__name__ == "wait" and dice.random() < 0.5:
                await self._persist(
                    lambda run_id=run_id: self.service.send_signal(
                        run_id.instance_id, "go", {"n": 1}, tenant_id=TENANT, key="once"
                    )
                )
            elif dice.random() < 0.05:
                self.cancelled.add(run_id.instance_id)
                await self._persist(
                    lambda run_id=run_id: self.service.cancel_run(
                        run_id.instance_id, tenant_id=TENANT, reason="for a change"
                    )
                )
            await asyncio.sleep(dice.uniform(0.0, 0.06))

    async def _persist(self, call: Any) -> Any:
        while True:
            try:
                return await call()
            except StoreUnavailable:
                await asyncio.sleep(0.2)
            except RunIsTerminal:
                return None
            except AnabranchError:
                raise

    async def all_ended(self, patience_s: float) -> bool:
        """True once every acknowledged run has ended."""
        give_up_at = time.monotonic() + patience_s
        left = list(self.started)
        while left and time.monotonic() < give_up_at:
            with contextlib.suppress(StoreUnavailable):
                rows = [await self.store.get_instance(run_id) for run_id in left]
                left = [run_id for run_id, row in zip(left, rows, strict=True) if not (row and row.status.is_terminal)]
            await asyncio.sleep(0.3)
        return not left
