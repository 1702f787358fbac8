"""Real engines on real stores: each stands for a process, and a test may have several on one database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import text

from anabranch.engine.console.console import Console
from anabranch.engine.console.console_writer import ConsoleOptions
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.store.opening import open_hint_line, open_leader_rows, open_store, open_version_watch
from anabranch.engine.store.sql.console_table import ConsoleTable
from anabranch.errors import StoreUnavailable
from anabranch.handlers import Services
from anabranch.handlers.registry import load_types
from anabranch.run_requests import StartOptions
from anabranch.service import ChildRuns, WorkflowService
from tests.engine import nodes

TENANT = "default"
PATIENCE_S = 30.0


class Log:
    """What one engine announced as committed; a test awaits what it needs to see."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []
        self._news = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        self.events += [(instance_id, event) for event in events]
        task = asyncio.ensure_future(self._tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def saw(self, event_type: str, node_id: str = "", *, instance_id: str | None = None, count: int = 1) -> None:
        """Return when that many such events were announced."""

        def enough() -> bool:
            found = [
                event
                for of, event in self.events
                if event.type == event_type and event.node_id == node_id and instance_id in (None, of)
            ]
            return len(found) >= count

        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(enough)


class Process:
    """An engine with its service and what it announced."""

    def __init__(self, engine: Engine, children: ChildRuns, *, pending_max: int) -> None:
        self.engine = engine
        self.log = Log()
        engine.observers.add(self.log)
        self.service = WorkflowService(
            engine=engine, node_types=load_types(), retention_days_max=365, pending_max=pending_max
        )
        children.connect(engine, self.service)

    async def run(self, document: dict[str, Any], input_: Any = None, **options: Any) -> str:
        """Save and start; the run's id."""
        saved, _ = await self.service.save_workflow(document, tenant_id=TENANT)
        started = await self.service.execute_workflow(saved.name, input_, StartOptions(**options), tenant_id=TENANT)
        return started.instance_id

    async def ended(self, instance_id: str) -> dict[str, Any]:
        """The run, once it has ended (whoever ends it)."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                row = await self.service.get_run_status(instance_id, tenant_id=TENANT)
                if row.status.is_terminal:
                    return await self.service.get_run(instance_id, tenant_id=TENANT)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.log.saw("INSTANCE_COMPLETED", instance_id=instance_id), 0.05)

    async def log_has(self, instance_id: str, event_type: str) -> None:
        """Return when the run has such a row, whoever wrote it."""
        async with asyncio.timeout(PATIENCE_S):
            while event_type not in [each.type for each in await self.engine.store.read_log(instance_id)]:
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), 0.01)

    def crash(self) -> None:
        """As kill -9 would: everything stops where it is, nothing is handed over, nothing written."""
        asked = (
            "commit",
            "release",
            "extend",
            "claim",
            "load",
            "read_log",
            "versions",
            "ended_children",
            "get_instance",
            "report_worker",
        )
        for name in (*asked, "fail_full"):
            setattr(self.engine.store, name, _gone)

    async def ends_leases_of(self, lost: Process) -> None:
        """Let the leases of a process that has crashed lapse, as if their time had passed."""
        lapse = text("UPDATE workflow_instances SET available_at = 1 WHERE worker_id = :lost")
        names = {"lost": lost.engine.orchestrator.worker_id}
        await self.engine.store.write(lambda connection: connection.execute(lapse, names))  # type: ignore[attr-defined]


async def until(condition: Callable[[], object]) -> None:
    """Return when the condition holds; looks ten times in a tenth of a second, fails after `PATIENCE_S`."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0.01)


async def turns_until(condition: Callable[[], object]) -> None:
    """Return at the first turn of the event loop at which the condition holds: before what takes longer has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


async def _gone(*_: Any, **__: Any) -> Any:
    raise StoreUnavailable("this process is dead")


MakeProcess = Callable[..., Awaitable[Process]]


@pytest.fixture(autouse=True)
def fresh_nodes() -> None:
    """Forget what earlier tests counted, and their gates: events belong to one event loop."""
    nodes.calls.clear()
    nodes.stopped.clear()
    nodes.gates.clear()
    nodes.threads.clear()


@pytest.fixture
async def make_process(database_url: str) -> AsyncIterator[MakeProcess]:
    """Starts one more engine on the test's database."""
    started: list[Process] = []

    async def make(
        *,
        pending_max: int = 1_000,
        hinted: bool = False,
        leads: bool = False,
        knows_leader: bool = False,
        target: str | None = None,
        **options: Any,
    ) -> Process:
        store = open_store(database_url)
        await store.start()
        children = ChildRuns()
        types = load_types(Services(children=children))
        line = open_hint_line(store) if hinted else None
        watch = open_version_watch(store) if hinted else None
        engine = Engine(
            store=store,
            handlers=types,
            options=EngineOptions(leads=leads, **options),
            line=line,
            watch=watch,
            target=target,
            leaders=open_leader_rows(store) if leads or knows_leader else None,
            console=Console(rows=ConsoleTable(store), options=ConsoleOptions()),
        )
        if hinted or target is not None:
            store.report_to(engine.hints)
        process = Process(engine, children, pending_max=pending_max)
        started.append(process)
        await engine.start()
        return process

    yield make
    for process in started:
        await process.engine.stop()
        await process.engine.store.stop()


@pytest.fixture
async def process(make_process: MakeProcess) -> Process:
    """One engine with the usual options."""
    return await make_process()
