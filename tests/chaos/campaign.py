"""One campaign: workers on one database, work for them, and a killer; then peace, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.store.opening import open_store
from anabranch.errors import AnabranchError, NotFound, RunIsTerminal, StoreUnavailable
from anabranch.handlers.registry import load_types
from anabranch.run_requests import StartOptions
from anabranch.service import WorkflowService
from tests.chaos import nodes
from tests.chaos.ledger import Ledger
from tests.chaos.shapes import SHAPES, child, diamond, family
from tests.chaos.verdict import violations_of, what_is_stored_is_wrong

TENANT = "default"
LEASE_MS = 1_000

# 4 families are acted upon in a pause: so many are under way at once.
FAMILIES_MAX = 4

POOL = "chaos"

# A number that no campaign feeds.
EXTRA_FIRST = 1_000_000
PROBE_FIRST = 2_000_000

# A minute until a process has begun to work: it takes two seconds, and thirty where the machine does much else.
START_S_MAX = 60.0

# 5 minutes: whatever has not recovered by then does not by itself.
RECOVERY_S_MAX = 300.0


Fault = Callable[[], Awaitable[bool]]
"""Strikes once; did it find something to strike?"""


@dataclass
class Plan:
    """How much of what."""

    workers: int
    kills: int
    instances: int
    pauses: int = 5
    seed: int = 1
    pace_s: float = 0.06
    """The longest pause between two starts."""
    executors: int = 0
    """Processes that execute the nodes of the pool, with a broker; without any, the workers do."""
    partitions: int = 0
    """How often the workers are cut off from the database, in one direction or both, for longer than their leases."""
    clock_offsets_s: Sequence[float] = (0.0,)
    """How far the workers' clocks are from the database's, in turn."""
    peace_s: float = 90.0
    """How long everything may take to end once nobody is killed any more."""


@dataclass
class Report:
    """What was done, and what was found."""

    kills: int = 0
    pauses: int = 0
    instances: int = 0
    family_acts: int = 0
    """Cancels and signals of families whose worker was paused."""
    database_crashes: int = 0
    executor_ends: int = 0
    """Executors that were killed, or stopped in order."""
    broker_crashes: int = 0
    cuts: int = 0
    withheld: int = 0
    partitions: int = 0
    half_open: int = 0
    freezes: int = 0
    """How often all processes of the database stood still."""
    recovery_s: float = 0.0
    """From the last fault until every run had ended."""
    recoveries_s: dict[str, float] = field(default_factory=dict)
    """From the end of each standstill and cut, by its name, until a run that began then had ended."""
    seen: dict[str, int] = field(default_factory=dict)
    """What clients of servers got, by what they asked for."""
    effects: int = 0
    repeated_effects: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


@dataclass
class Campaign:
    """Runs a plan. `worker_url` may lead through a proxy; `client_url` is the way that starts take."""

    plan: Plan
    worker_url: str
    client_url: str
    more_faults: list[Fault] = field(default_factory=list)
    """Further faults that the killer may choose; at least one of them happens."""
    broker_url: str | None = None
    """With a broker, workers and executors are what users start; all nodes are of a pool of the executors."""
    story: Callable[[ChaosClient, list[ChaosProcess], list[ChaosProcess]], Awaitable[dict[str, float]]] | None = None
    """What happens to workers and executors, instead of the killer; returns the recoveries."""

    async def run(self) -> Report:
        report, dice = Report(), random.Random(self.plan.seed)
        began = time.monotonic()
        with Ledger() as ledger:
            client = ChaosClient(self.client_url)
            await client.open(pool=None if self.broker_url is None else POOL)
            environ = {nodes.LEDGER_PORT: str(ledger.port)}
            workers = [ChaosProcess(*self._worker(environ, number)) for number in range(self.plan.workers)]
            executors = [ChaosProcess(*self._executor(environ)) for _ in range(self.plan.executors)]
            await asyncio.gather(*(each.start() for each in [*workers, *executors]))
            feeding = asyncio.create_task(client.feed(self.plan, random.Random(self.plan.seed + 1)))
            try:
                if self.story is None:
                    await self._kill(workers, executors, client, report, dice)
                else:
                    report.recoveries_s = await self.story(client, workers, executors)
                    client.has_enough = True
                await feeding
                calm = time.monotonic()
                ended = await client.all_ended(self.plan.peace_s)
                report.recovery_s = time.monotonic() - calm
            finally:
                feeding.cancel()
                await asyncio.gather(*(each.end() for each in [*workers, *executors]))
            loaded = await client.store.load([*client.started, *client.children])
            known = client.started | {run: number for run, number in client.children.items() if run in loaded}
            report.violations = [] if ended else ["not everything ended in time"]
            report.violations += violations_of(known, client.cancelled, loaded, ledger.entries)
            report.instances = len(client.started)
            report.effects = len(ledger.entries)
            report.repeated_effects = report.effects - len({(e["key"], e["attempt"]) for e in ledger.entries})
            await client.close()
        report.violations += await asyncio.to_thread(what_is_stored_is_wrong, self.client_url)
        report.seconds = time.monotonic() - began
        return report

    def _worker(self, environ: dict[str, str], number: int) -> tuple[list[str], dict[str, str]]:
        if self.broker_url is None:
            offset_s = self.plan.clock_offsets_s[number % len(self.plan.clock_offsets_s)]
            offset = {"ANABRANCH_TEST_CLOCK_OFFSET_S": str(offset_s)}
            return ["-m", "tests.chaos.worker", self.worker_url, str(LEASE_MS)], environ | offset
        own = {"DATABASE_URL": self.worker_url, "LEASE": f"{LEASE_MS}ms", "CRASH_LIMIT": "1000", "GRACE": "5s"}
        command = ["-m", "anabranch", "worker", "--import", str(Path(nodes.__file__))]
        return command, environ | self._settings(own)

    def _executor(self, environ: dict[str, str]) -> tuple[list[str], dict[str, str]]:
        command = ["-m", "anabranch", "executor", "--import", str(Path(nodes.__file__))]
        return command, environ | self._settings({"POOLS": POOL, "GRACE": "5s"})

    def _settings(self, own: dict[str, str]) -> dict[str, str]:
        return {
            f"ANABRANCH_{name}": value
            for name, value in {**own, "BROKER_URL": self.broker_url or "", "LOG_LEVEL": "error"}.items()
        }

    async def _kill(
        self,
        workers: list[ChaosProcess],
        executors: list[ChaosProcess],
        client: ChaosClient,
        report: Report,
        dice: random.Random,
    ) -> None:
        """Kill, pause, stop and whatever else, until the plan's numbers are reached.

        A pause counts when families were acted upon meanwhile: on a slow machine all may have ended before.
        """

        async def end_executor() -> bool:
            await dice.choice(executors).restart(dice.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
            report.executor_ends += 1
            return True

        faults = [*self.more_faults, *([end_executor] * 2 * len(executors))]
        families, has_struck = 0, not faults
        ends = self.plan.kills if executors else 0
        while (
            report.kills < self.plan.kills
            or report.pauses < self.plan.pauses
            or report.executor_ends < ends
            or not has_struck
        ):
            await asyncio.sleep(dice.uniform(0.1, 0.6))
            worker = dice.choice(workers)
            choice = dice.random()
            if faults and choice < 0.35:
                has_struck = await dice.choice(faults)() or has_struck
            elif choice < 0.55 and report.pauses < self.plan.pauses:
                await client.start_families(families)
                families += 1
                async with worker.paused():
                    # Whatever it was in the middle of, others act upon its families meanwhile.
                    acting = asyncio.create_task(client.act_on_families(random.Random(dice.random())))
                    await asyncio.sleep(LEASE_MS / 1000 * dice.uniform(1.2, 2.0))
                acts = await acting
                report.family_acts += acts
                report.pauses += acts > 0
            elif choice < 0.65:
                await worker.restart(signal.SIGTERM)
            else:
                await worker.restart(signal.SIGKILL)
                report.kills += 1


class ChaosProcess:
    """A worker or executor that is started again whenever it has ended."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._environment = {**os.environ, **environ}
        self._process: asyncio.subprocess.Process | None = None
        self.said = ""
        """The line that it printed when it had begun to work."""

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._arguments,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )

    async def restart(self, number: signal.Signals) -> None:
        """End the process by this signal and start another; after a while it has begun to work."""
        await self._end(number)
        await self.started()

    async def started(self) -> None:
        """Start it; after a while it has begun to work."""
        await self.start()
        assert self._process is not None and self._process.stdout is not None
        with contextlib.suppress(TimeoutError):
            self.said = (await asyncio.wait_for(self._process.stdout.readline(), START_S_MAX)).decode().strip()

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Freeze it, and let it go on afterwards as if nothing had happened."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGSTOP)
        yield
        with contextlib.suppress(ProcessLookupError):
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
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def children_of(parent: str) -> list[str]:
    """The ids that a family's children have, or will have."""
    return [child_id(parent, f"call{number}", "") for number in range(3)]


def _is_family(number: int) -> bool:
    return SHAPES[number % len(SHAPES)] is family


class ChaosClient:
    """The client: starts runs, sends signals, cancels some, and remembers what was acknowledged."""

    def __init__(self, url: str) -> None:
        self.store = open_store(url, lease_ms=LEASE_MS)
        self.engine = Engine(store=self.store, handlers=load_types(), options=EngineOptions(works=False))
        self.service = WorkflowService(
            engine=self.engine, node_types=load_types(), retention_days_max=365, pending_max=100_000
        )
        self.started: dict[str, int] = {}
        self.cancelled: set[str] = set()
        self.has_enough = False
        self._probes = 0

    @property
    def children(self) -> dict[str, int]:
        """The children of the families that were started, with their inputs; not all of them need be created."""
        return {run: number for each, number in self.started.items() if _is_family(number) for run in children_of(each)}

    async def open(self, *, pool: str | None) -> None:
        await self.store.start()
        await self.engine.start()
        options = {} if pool is None else {"workflowOptions": {"pool": pool}}
        for shape in (child, *SHAPES):
            await self.service.save_workflow({**shape(), **options}, tenant_id=TENANT)

    async def close(self) -> None:
        await self.engine.stop()
        await self.store.stop()

    async def feed(self, plan: Plan, dice: random.Random) -> None:
        """Start everything in small crowds, until it is enough; a start that is not acknowledged is repeated under its
        key."""
        for number in range(plan.instances):
            if self.has_enough:
                return
            shape = SHAPES[number % len(SHAPES)]
            run_id = await self._persist(
                lambda number=number, shape=shape: self.service.execute_workflow(
                    shape()["name"], {"n": number}, StartOptions(idempotency_key=f"start-{number}"), tenant_id=TENANT
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
                self.cancelled.update([run_id.instance_id, *children_of(run_id.instance_id)])
                await self._persist(
                    lambda run_id=run_id: self.service.cancel_run(
                        run_id.instance_id, tenant_id=TENANT, reason="for a change"
                    )
                )
            await asyncio.sleep(dice.uniform(0.0, plan.pace_s))

    async def recovery_s(self) -> float:
        """How long a run takes that is started now."""
        began, self._probes = time.monotonic(), self._probes + 1
        n = (PROBE_FIRST + self._probes) * len(SHAPES) + SHAPES.index(diamond)
        run = await self._persist(
            lambda: self.service.execute_workflow(
                "chaos-diamond", {"n": n}, StartOptions(idempotency_key=f"start-{n}"), tenant_id=TENANT
            )
        )
        self.started[run.instance_id] = n
        give_up_at = began + RECOVERY_S_MAX
        while await self._is_open(run.instance_id) and time.monotonic() < give_up_at:  # noqa: ASYNC110 -- of others
            await asyncio.sleep(0.05)
        return time.monotonic() - began

    async def start_families(self, pause: int) -> None:
        """Start some families besides what is fed: some worker has them when it is paused."""
        for number in range(FAMILIES_MAX):
            n = (EXTRA_FIRST + FAMILIES_MAX * pause + number) * len(SHAPES) + SHAPES.index(family)
            run = await self._persist(
                lambda n=n: self.service.execute_workflow(
                    "chaos-family", {"n": n}, StartOptions(idempotency_key=f"start-{n}"), tenant_id=TENANT
                )
            )
            self.started[run.instance_id] = n

    async def act_on_families(self, dice: random.Random) -> int:
        """Cancel one of the families that are under way, and signal the children of all the others; how many acts."""
        families = [run for run, number in self.started.items() if _is_family(number)]
        open_ones = [run for run in families[-FAMILIES_MAX:] if await self._is_open(run)]
        if not open_ones:
            return 0
        to_cancel = dice.choice(open_ones)
        self.cancelled.add(to_cancel)
        cancel = self._persist(
            lambda: self.service.cancel_run(to_cancel, tenant_id=TENANT, reason="while it stood still")
        )
        self.cancelled.update(children_of(to_cancel))
        signalled = [run for parent in open_ones if parent != to_cancel for run in children_of(parent)]
        await asyncio.gather(cancel, *map(self._signal_child, signalled))
        return 1 + len(signalled)

    async def _signal_child(self, run: str) -> None:
        with contextlib.suppress(NotFound):  # not created yet
            await self._persist(lambda: self.service.send_signal(run, "go", {}, tenant_id=TENANT, key="once"))

    async def _is_open(self, run: str) -> bool:
        row = await self._persist(lambda: self.store.get_instance(run))
        return row is not None and not row.status.is_terminal

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
