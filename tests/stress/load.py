"""A crowd of runs on one store: started at once, advanced by several workers, some of them killed, and judged.

Called by `python -m tests.stress` and its tests. On the memory store the workers are engines in this process, whose
handlers take turns as the seed says. On SQLite and PostgreSQL they are `anabranch worker` processes; these are killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.handler_contract import Handler, HandlerRegistry
from anabranch.engine.lifecycle import Engine
from anabranch.engine.ports import Store
from anabranch.engine.rules.events import ENDINGS, Event
from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.engine.store.opening import open_store
from anabranch.handlers.registry import load_types
from anabranch.migrations import upgrade
from anabranch.service import WorkflowService
from anabranch.testing import MemoryDatabase, MemoryStore
from tests.stress.judging import Work, violations_of

TENANT = "default"

# A lease of a second: what a killed worker held is taken over soon. Without kills nobody's lease lapses.
LEASE_MS_WITH_KILLS = 1_000
LEASE_MS = 30_000

# 500 at once are started, and are read when they have ended.
AT_ONCE = 500

# Up to 5 turns of the loop for each execution: enough for any two branches to end in either order.
TURNS_MAX = 5

# A look at the runs that are open, ten times a second.
LOOK_S = 0.1


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    work: Sequence[Work]
    count: int
    url: str | None = None
    """The database; None: the memory store."""
    workers: int = 2
    kills: int = 0
    seed: int = 1
    patience_s: float = 300.0
    """How long the last run may take to end."""


@dataclass
class Report:
    """What was done, and what was found."""

    runs: int = 0
    nodes: int = 0
    kills: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


Told = Callable[[int, int], None]
"""How many runs have ended, of how many."""


async def stress(plan: Plan, told: Told) -> Report:
    """Do it."""
    report, dice = Report(), random.Random(plan.seed)
    async with _opened(plan, dice) as (store, service, workers):
        names = {}
        for number, work in enumerate(plan.work):
            document = {**work.document, "name": f"stress-{plan.seed}-{number}"}
            names[document["name"]] = work
            await service.save_workflow(document, tenant_id=TENANT)
        began = time.monotonic()
        killer = _Killer(workers, plan.kills, dice)
        started = await _start(service, names, plan.count, dice)
        await _all_ended(store, list(started), plan.patience_s, told, killer, report)
        report.kills = killer.kills
        report.seconds = time.monotonic() - began
        await _judge(store, started, report)
    return report


async def _start(
    service: WorkflowService, names: Mapping[str, Work], count: int, dice: random.Random
) -> dict[str, Work]:
    """The runs that were started, in crowds, of all workflows alike."""
    chosen = [list(names)[number % len(names)] for number in range(count)]
    dice.shuffle(chosen)
    started: dict[str, Work] = {}
    for first in range(0, count, AT_ONCE):
        crowd = chosen[first : first + AT_ONCE]
        runs = await asyncio.gather(
            *(service.execute_workflow(name, names[name].input, tenant_id=TENANT) for name in crowd)
        )
        started |= {run.instance_id: names[name] for run, name in zip(runs, crowd, strict=True)}
    return started


async def _all_ended(
    store: Store, left: list[str], patience_s: float, told: Told, killer: _Killer, report: Report
) -> None:
    count, give_up_at = len(left), time.monotonic() + patience_s
    while left:
        for first in range(0, len(left), AT_ONCE):
            rows = await asyncio.gather(*(store.get_instance(run) for run in left[first : first + AT_ONCE]))
            ended = {row.head.instance_id for row in rows if row is not None and row.status.is_terminal}
            if not ended:
                break  # those behind them were started later
            left[first : first + AT_ONCE] = [run for run in left[first : first + AT_ONCE] if run not in ended]
        told(count - len(left), count)
        await killer.look(1 - len(left) / count)
        if time.monotonic() > give_up_at:
            report.violations += [f"{run} has not ended within {patience_s:g} s" for run in left]
            return
        if left:
            await asyncio.sleep(LOOK_S)


async def _judge(store: Store, started: Mapping[str, Work], report: Report) -> None:
    runs = list(started)
    for first in range(0, len(runs), AT_ONCE):
        logs = await asyncio.gather(*(_log(store, run) for run in runs[first : first + AT_ONCE]))
        for run, log in zip(runs[first : first + AT_ONCE], logs, strict=True):
            report.runs += 1
            report.nodes += sum(1 for event in log if event.type in ENDINGS)
            work = started[run]
            # In a thread: a log of a thousand nodes takes a second, and leases are extended meanwhile.
            found = await asyncio.to_thread(lambda work=work, log=log: [*violations_of(work, log)])
            report.violations += [f"{work.name}, {run}: {problem}" for problem in found]


async def _log(store: Store, run: str) -> list[Event]:
    log: list[Event] = []
    while page := await store.read_log(run, after_seq=len(log)):
        log += page
    return log


class _Killer:
    """Kills a worker whenever so many runs have ended as the seed says, and starts another in its place."""

    def __init__(self, workers: Sequence[_Worker], kills: int, dice: random.Random) -> None:
        self.kills = 0
        self._workers = workers
        self._dice = dice
        # Not near the end: there would be nobody left to take anything over.
        self._due = sorted((dice.uniform(0.0, 0.8) for _ in range(kills)), reverse=True)

    async def look(self, ended: float) -> None:
        """Kill as often as is due when this part of all runs has ended."""
        while self._due and self._due[-1] <= ended:
            self._due.pop()
            await self._dice.choice(self._workers).restart()
            self.kills += 1


# -- stores and workers --------------------------------------------------------------------


@asynccontextmanager
async def _opened(plan: Plan, dice: random.Random) -> AsyncIterator[tuple[Store, WorkflowService, list[_Worker]]]:
    """The store with its workers, and the service that starts runs."""
    async with AsyncExitStack() as stack:
        if plan.url is None:
            database = MemoryDatabase(now=lambda: time.time_ns() // 1_000_000)
            engines = []
            for _ in range(plan.workers):
                types = _Shuffled(load_types(), random.Random(dice.random()))
                engines.append(await stack.enter_async_context(_engine(MemoryStore(database), types, works=True)))
            engine, workers = engines[0], []
        else:
            await asyncio.to_thread(upgrade, plan.url)
            store = open_store(plan.url)
            await store.start()
            stack.push_async_callback(store.stop)
            engine = await stack.enter_async_context(_engine(store, load_types(), works=False))
            workers = [_Worker(plan.url, has_kills=plan.kills > 0) for _ in range(plan.workers)]
            for worker in workers:
                stack.push_async_callback(worker.end)
                await worker.start()
        yield engine.store, _service(engine), workers


@asynccontextmanager
async def _engine(store: Store, types: HandlerRegistry, *, works: bool) -> AsyncIterator[Engine]:
    engine = Engine(store=store, handlers=types, options=EngineOptions(works=works, lease_ms=LEASE_MS))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


def _service(engine: Engine) -> WorkflowService:
    return WorkflowService(engine=engine, node_types=load_types(), retention_days_max=365, pending_max=10_000_000)


class _Worker:
    """A worker process."""

    def __init__(self, url: str, *, has_kills: bool) -> None:
        lease_ms = LEASE_MS_WITH_KILLS if has_kills else LEASE_MS
        self._environment = {
            **os.environ,
            "ANABRANCH_DATABASE_URL": url,
            "ANABRANCH_LEASE": str(lease_ms),
            "ANABRANCH_CRASH_LIMIT": "1000",
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it; returns when it is ready."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "anabranch", "worker", stdout=asyncio.subprocess.PIPE, env=self._environment
        )
        assert self._process.stdout is not None
        await self._process.stdout.readline()

    async def restart(self) -> None:
        """Kill it, and start another."""
        await self.end()
        await self.start()

    async def end(self) -> None:
        """Kill it."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()


class _Shuffled:
    """The node types, each of whose executions takes a few turns of the loop: results come in any order."""

    def __init__(self, types: HandlerRegistry, dice: random.Random) -> None:
        self._types = types
        self._dice = dice

    def get(self, type_name: str) -> NodeType | None:
        return self._types.get(type_name)

    def names(self) -> Sequence[str]:
        return self._types.names()

    def handler(self, type_name: str) -> Handler | None:
        handler = self._types.handler(type_name)
        return None if handler is None else _Late(handler, self._dice)


class _Late:
    def __init__(self, handler: Handler, dice: random.Random) -> None:
        self._handler = handler
        self._dice = dice

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Any) -> Any:
        for _ in range(self._dice.randint(0, TURNS_MAX)):
            await asyncio.sleep(0)
        return await self._handler.execute(config, context, helpers)
