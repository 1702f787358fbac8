"""One engine on one store, and runs that are started on it and awaited.

Called by everything here that measures the real engine. Built as `app` builds it, but for
limits that a benchmark would meet on purpose.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from anabranch.durable.definition import WorkflowRegistry, register
from anabranch.durable.runner import Runner
from anabranch.engine.console.console import Console
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.handler_contract import HandlerRegistry, HandlerResult
from anabranch.engine.lifecycle import Engine
from anabranch.engine.ports import Clock, NewVersion, Store
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.store.opening import open_store
from anabranch.handlers.builtin import BUILTIN
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.spec import NodeTypeRegistry as NodeTypes
from anabranch.run_requests import StartOptions
from anabranch.service import ChildRuns, StepSignals, WorkflowService
from benchmarks.workloads import EFFECT_TYPE, Load

TENANT = "default"

# 2,000 starts under way at once: no crowd of clients is larger, and each is answered long before its patience ends.
STARTS_AT_ONCE = 2_000

# More PENDING runs than any measurement has: starts are to be counted, not refused.
PENDING_MAX = 10_000_000


async def _effect(config: Any, context: Any, helpers: Any) -> HandlerResult:
    return HandlerResult({"v": 1})


TYPES = {**BUILTIN, EFFECT_TYPE: HandlerSpec(type=EFFECT_TYPE, title="Effect", config=None, execute=_effect)}
"""The built-in node types, and one with effects that does nothing."""


class Bench:
    """An engine with its service, and how many of its runs have ended."""

    def __init__(
        self,
        store: Store,
        *,
        options: EngineOptions | None = None,
        clock: Clock | None = None,
        handlers: HandlerRegistry | None = None,
        code: WorkflowRegistry | None = None,
        console: Console | None = None,
    ) -> None:
        """With `code` it runs coded workflows, too, once they are registered (`start`)."""
        children, signals = ChildRuns(), StepSignals()
        self._runner = Runner(code or WorkflowRegistry(), children=children, signals=signals)
        types = handlers or NodeTypes(TYPES)
        self.engine = Engine(
            store=store,
            handlers=types,
            functions=self._runner,
            options=options or EngineOptions(),
            clock=clock,
            code=self._runner.registries,
            console=console,
        )
        self.service = WorkflowService(
            engine=self.engine, node_types=types, retention_days_max=365, pending_max=PENDING_MAX
        )
        children.connect(self.engine, self.service)
        signals.connect(self.service)
        self._runner.connect(self.engine)
        self._left = 0
        self._all_ended = asyncio.Event()
        self._room = asyncio.Semaphore(0)
        """One for each run that may start because another has ended (`run_steadily`)."""
        self.engine.observers.add(self)

    async def start(self) -> None:
        """Start the engine, when what it can run is registered."""
        await register(self.engine.store, self._runner.registry)
        await self.engine.start()

    async def stop(self) -> None:
        """Stop the engine."""
        await self.engine.stop()
        self._runner.stop()

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """The engine announces what it has written."""
        if status.is_terminal:
            assert status is Status.COMPLETED, f"run {instance_id} ended {status}: {events[-1].payload}"
            self._left -= 1
            self._room.release()
            if self._left == 0:
                self._all_ended.set()

    async def save(self, load: Load) -> None:
        """Store the workflow if it is new."""
        store = self.engine.store
        if await store.get_workflow(tenant_id=TENANT, workflow=load.name) is None:
            await store.save_workflow(NewVersion(name=load.name, definition=load.document), tenant_id=TENANT)

    async def run_all(self, load: Load, count: int | None = None) -> tuple[float, float]:
        """Start so many runs at once (default: the flock); seconds until all are accepted, until all have ended."""
        count = count or load.flock
        ended = self.expect_ends(count)
        began = time.perf_counter()
        await self.start_all(load, count)
        accepted = time.perf_counter() - began
        await ended.wait()
        return accepted, time.perf_counter() - began

    async def run_steadily(self, load: Load, *, at_once: int) -> None:
        """Run the flock, with so many runs open at a time: each that ends is followed by the next one, as long as there
        is one. Returns when all have ended."""
        left, ended = load.flock, self.expect_ends(load.flock)
        self._room = asyncio.Semaphore(at_once)

        async def client() -> None:
            nonlocal left
            while left:
                left -= 1
                await self._room.acquire()
                await self._start(load.name, load.input, None)

        await asyncio.gather(*(client() for _ in range(min(left, at_once))))
        await ended.wait()

    def expect_ends(self, count: int) -> asyncio.Event:
        """Set once so many runs, counted from now, have ended."""
        self._left = count
        self._all_ended.clear()
        return self._all_ended

    async def start_all(self, load: Load, count: int, *, available_at: int | None = None) -> None:
        """Start so many runs, as many at once as clients would; return when all are durable."""
        left = count

        async def client() -> None:
            nonlocal left
            while left:
                left -= 1
                await self._start(load.name, load.input, available_at)

        await asyncio.gather(*(client() for _ in range(min(count, STARTS_AT_ONCE))))

    async def _start(self, workflow: str, input_: Any, available_at: int | None) -> None:
        await self.service.execute_workflow(workflow, input_, StartOptions(available_at=available_at), tenant_id=TENANT)


@asynccontextmanager
async def open_store_at(url: str) -> AsyncIterator[Store]:
    """A started store."""
    store = open_store(url)
    await store.start()
    try:
        yield store
    finally:
        await store.stop()


@asynccontextmanager
async def engine_on(
    store: Store, *loads: Load, code: WorkflowRegistry | None = None, **options: Any
) -> AsyncIterator[Bench]:
    """A started engine that has run each load a little: plans compiled, statements prepared, connections open."""
    bench = Bench(store, options=EngineOptions(**options), code=code)
    await bench.start()
    try:
        for load in loads:
            await bench.run_all(load, max(1, min(load.flock, 1_000 // load.nodes_per_run)))
        gc.collect()
        yield bench
    finally:
        await bench.stop()


def cpu_s() -> float:
    """Processor seconds of this process so far, in all its threads. A database server's are not in it."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime
