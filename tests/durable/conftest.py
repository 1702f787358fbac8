"""Workers and servers on real databases: each stands for a process, and a test may have several on one database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from anabranch.app import build
from anabranch.app_services import AppServices
from anabranch.durable import calls
from anabranch.durable.definition import Workflow, WorkflowRegistry
from anabranch.engine.rules import transitions as transition
from anabranch.engine.rules.events import Event, Status
from anabranch.run_requests import StartOptions
from anabranch.settings import Settings
from tests.durable.breakable import WORLD

TENANT = "default"
# What waits for a worker process to start has as long as that: seconds, on a busy machine a minute.
PATIENCE_S = 120.0

# A tenth of the product's second: a run that is to sleep for a second and a bit is parked on a slow machine, too.
PARK_AFTER_MS = 100


class Parked:
    """The runs that this process has parked at least once, however soon it has taken them up again."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        if status is Status.WAITING:
            self.ids.add(instance_id)


class Process:
    """A process: its services, and the verbs that tests use most."""

    def __init__(self, services: AppServices) -> None:
        self.services = services
        self.parked = Parked()
        services.engine.observers.add(self.parked)

    async def start(self, workflow: str, input_: Any = None, **options: Any) -> str:
        """Start a run; its id."""
        started = await self.services.workflows.execute_workflow(
            workflow, input_, StartOptions(**options), tenant_id=TENANT
        )
        return started.instance_id

    async def run_of(self, run_id: str) -> dict[str, Any]:
        """The run as REST shows it."""
        return await self.services.workflows.get_run(run_id, tenant_id=TENANT)

    async def ended(self, run_id: str) -> dict[str, Any]:
        """The run, once it has ended."""
        return await self.until(run_id, lambda run: run["completedAt"] is not None)

    async def waiting(self, run_id: str) -> dict[str, Any]:
        """The run, once it has been WAITING and nobody holds it: a short sleep may be over before anybody looks."""

        def parked(run: dict[str, Any]) -> bool:
            has_waited = run["status"] == "WAITING" or run_id in self.parked.ids
            return has_waited and not self.services.engine.orchestrator.owns(run_id)

        return await self.until(run_id, parked)

    async def until(self, run_id: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The run, once the condition holds for it."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition(run := await self.run_of(run_id)):
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), 0.02)
        return run

    async def signal(self, run_id: str, event: str, payload: Any = None, key: str | None = None) -> bool:
        """Send a signal; was a fitting wait open?"""
        return await self.services.workflows.send_signal(run_id, event, payload, tenant_id=TENANT, key=key)

    async def rows(self, run_id: str) -> list[tuple[str, str, str, int]]:
        """The log in short: (event type, node id, scope, attempt)."""
        log = await self.services.workflows.get_log(run_id, tenant_id=TENANT)
        return [(row["eventType"], row["nodeID"], row["scope"], row["nodeAttempt"]) for row in log]


MakeProcess = Callable[..., Awaitable[Process]]


@pytest.fixture(autouse=True)
def nothing_is_broken() -> None:
    """Forget what the steps of earlier tests have done."""
    WORLD.forget()


@pytest.fixture(autouse=True)
def parked_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is due within a second be parked too, and only what is due at once keep its worker."""
    for module in (transition, calls):
        monkeypatch.setattr(module, "PARK_AFTER_MS", PARK_AFTER_MS)


@pytest.fixture
async def make_process(database_url: str) -> AsyncIterator[MakeProcess]:
    """Opens one more process on the test's database, with these coded workflows."""
    async with AsyncExitStack() as open_ones:

        async def make(*workflows: Workflow, works: bool = True, **settings: Any) -> Process:
            app = build(Settings(database_url=database_url, **settings))
            services = await open_ones.enter_async_context(
                app.open_services(works=works, code=WorkflowRegistry(workflows))
            )
            return Process(services)

        yield make
