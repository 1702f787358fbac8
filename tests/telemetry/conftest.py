"""Processes that count and trace, a collector that receives spans as any does, and what `/metrics` says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import ClientSession, web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client.parser import text_string_to_metric_families

from anabranch.app import build
from anabranch.app_services import AppServices
from anabranch.durable.definition import Workflow, WorkflowRegistry
from anabranch.rest.application import build_application
from anabranch.settings import Settings
from tests.durable.conftest import Process

PATIENCE_S = 30.0

LABELS = ("workflow", "step", "event", "status")

Numbers = dict[tuple[str, ...], float]


@dataclass(frozen=True)
class Collected:
    """A span as the collector was told of it. Times in milliseconds."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    began_ms: int
    ended_ms: int
    attributes: dict[str, Any]
    is_error: bool


class Collector:
    """A collector of OTLP over HTTP, on a port of its own."""

    def __init__(self) -> None:
        self.spans: list[Collected] = []
        self.resources: list[dict[str, Any]] = []
        self.status = 200
        self._news = asyncio.Condition()
        self._runner = web.AppRunner(self._application(), access_log=None)
        self.url = ""

    def _application(self) -> web.Application:
        application = web.Application()
        application.router.add_post("/v1/traces", self._receive)
        return application

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def has(self, name: str, /, *, count: int = 1, **attributes: Any) -> list[Collected]:
        """The spans of this name with these attributes (dots are written `__`), once there are so many."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}

        def found() -> list[Collected]:
            return [span for span in self.spans if span.name == name and wanted.items() <= span.attributes.items()]

        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: len(found()) >= count)
        return found()

    async def _receive(self, request: web.Request) -> web.Response:
        if self.status != 200:
            return web.Response(status=self.status)
        message = ExportTraceServiceRequest.FromString(await request.read())
        for resource in message.resource_spans:
            self.resources.append(_attributes(resource.resource.attributes))
            self.spans += [_collected(span) for scope in resource.scope_spans for span in scope.spans]
        async with self._news:
            self._news.notify_all()
        return web.Response(content_type="application/x-protobuf")


class Watched(Process):
    """A process with its `/metrics`."""

    def __init__(self, services: AppServices, url: str, session: ClientSession) -> None:
        super().__init__(services)
        self.url = url
        self.session = session

    async def ended(self, run_id: str) -> dict[str, Any]:
        """The run, once it has ended and this process knows that: others see a commit before its answer is here."""

        def over(run: dict[str, Any]) -> bool:
            return run["completedAt"] is not None and not self.services.engine.orchestrator.owns(run_id)

        return await self.until(run_id, over)

    async def metrics(self) -> str:
        """What Prometheus is told."""
        async with self.session.get(f"{self.url}/metrics") as response:
            assert response.status == 200
            return await response.text()

    async def numbers(self) -> Numbers:
        """The samples of runs, steps and signals: (name, workflow, other labels…) → value, buckets left out."""
        families = text_string_to_metric_families(await self.metrics())
        return {
            (sample.name, *(sample.labels[label] for label in LABELS if label in sample.labels)): sample.value
            for family in families
            if family.name.startswith("workflow_")
            for sample in family.samples
            if "le" not in sample.labels
        }

    async def open_runs(self, workflow: str) -> dict[str, float]:
        """What the gauge of open runs says of a workflow, by status."""
        return {
            sample.labels["status"]: sample.value
            for family in text_string_to_metric_families(await self.metrics())
            if family.name == "anabranch_runs_open"
            for sample in family.samples
            if sample.labels["workflow"] == workflow
        }

    async def shows(self, sample: tuple[str, ...], value: float | None) -> None:
        """Return once a sample of runs has this value (None: it is not there); what is open is counted now and then."""
        await _until(partial(self._has, sample, value))

    async def evict(self, run_id: str) -> None:
        """Return when the run is held here no more."""

        async def is_gone() -> bool:
            return not self.services.engine.orchestrator.owns(run_id)

        await _until(is_gone)

    async def _has(self, sample: tuple[str, ...], value: float | None) -> bool:
        return (await self.numbers()).get(sample) == value

    async def save(self, name: str, *nodes: dict[str, Any]) -> None:
        """Save a drawn workflow of a start and these nodes, one after the other."""
        row = [{"id": "start", "type": "start"}, *nodes]
        edges = [
            {
                "upstreamNodeID": before["id"],
                "downstreamNodeID": after["id"],
                "sourceHandle": "done" if before["type"] == "loop" else "default",
            }
            for before, after in pairwise(row)
        ]
        document = {"name": name, "nodes": row, "edges": edges}
        await self.services.workflows.save_workflow(document, tenant_id="default")


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0.02)


Open = Callable[..., Awaitable[Watched]]


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """A database of its own. What is counted does not depend on its kind."""
    return sqlite_url


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    """A collector that listens."""
    made = Collector()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def processes() -> AsyncIterator[AsyncExitStack]:
    """What is open at the end of the test, closed then; a test may close it before."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def opened(database_url: str, processes: AsyncExitStack) -> Open:
    """Opens one more process on the test's database, with these coded workflows."""

    async def make(*workflows: Workflow, works: bool = True, **settings: Any) -> Watched:
        app = build(Settings(database_url=database_url, **settings))
        services = await processes.enter_async_context(app.open_services(works=works, code=WorkflowRegistry(workflows)))
        runner = web.AppRunner(build_application(services), access_log=None)
        await runner.setup()
        processes.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        session = await processes.enter_async_context(ClientSession())
        return Watched(services, f"http://127.0.0.1:{runner.addresses[0][1]}", session)

    return make


def _collected(span: Span) -> Collected:
    return Collected(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        began_ms=span.start_time_unix_nano // 1_000_000,
        ended_ms=span.end_time_unix_nano // 1_000_000,
        attributes=_attributes(span.attributes),
        is_error=span.status.code == span.status.STATUS_CODE_ERROR,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
