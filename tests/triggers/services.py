"""One process that starts runs: store, services, scheduler and publisher, with a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anabranch.engine.clock import SystemClock
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.instants import from_iso
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.sql.store import SqlStore
from anabranch.handlers.registry import load_types
from anabranch.service import WorkflowService
from anabranch.triggers.run_starter import Starter
from anabranch.triggers.schedules.schedule_service import ScheduleService
from anabranch.triggers.schedules.schedule_table import ScheduleTable
from anabranch.triggers.schedules.scheduler import Scheduler
from anabranch.triggers.topics.publisher import OWN_MS, Publisher
from anabranch.triggers.topics.topic_service import TopicService
from anabranch.triggers.topics.topic_tables import TopicTable
from tests.engine.drawing import drawn

TENANT = "acme"
MIDNIGHT = from_iso("2026-06-01T00:00:00Z")
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


class HandTime:
    """What the store's clock would say; all processes of a test share it."""

    def __init__(self) -> None:
        self.now = MIDNIGHT

    async def __call__(self) -> int:
        return self.now


class Office:
    """The rooms of one process; a test may have several on one database."""

    def __init__(
        self, store: SqlStore, time: HandTime, *, starter: Starter | None, pending_max: int, own_ms: int
    ) -> None:
        self.store = store
        # Nothing runs here: what is started stays PENDING, and can be counted.
        self.engine = Engine(store=store, handlers=load_types(), options=EngineOptions(works=False))
        self.workflows = WorkflowService(
            engine=self.engine, node_types=load_types(), retention_days_max=365, pending_max=pending_max
        )
        starter = starter or self.workflows
        saved, topics = ScheduleTable(store), TopicTable(store)
        self.saved_schedules, self.saved_topics = saved, topics
        self.scheduler = Scheduler(saved=saved, starter=starter, clock=SystemClock(), store_now=time)
        self.publisher = Publisher(saved=topics, starter=starter, clock=SystemClock(), store_now=time, own_ms=own_ms)
        self.schedules = ScheduleService(saved=saved, workflows=self.workflows, store_now=time)
        self.topics = TopicService(saved=topics, workflows=self.workflows, publisher=self.publisher)

    async def draw(self, name: str, *, tenant_id: str = TENANT, **options: Any) -> None:
        """Save a workflow of that name."""
        await self.workflows.save_workflow(drawn(name, **options), tenant_id=tenant_id)

    async def schedule(self, name: str, **fields: Any) -> str:
        """Save a schedule of the workflow `report`; its id."""
        document = {"name": name, "workflow": "report", **fields}
        return (await self.schedules.create_schedule(document, tenant_id=TENANT)).schedule_id

    async def look(self) -> None:
        """Look for what is due until nothing is."""
        while await self.scheduler.look_once():
            pass

    async def runs(self, *, tenant_id: str = TENANT, workflow: str | None = None) -> list[dict[str, Any]]:
        """All runs that the database has, newest first."""
        return await self.workflows.list_runs(RunFilter(workflow=workflow), tenant_id=tenant_id, limit=5_000)

    async def keys(self) -> list[str]:
        """The idempotency keys of all runs, sorted."""
        ids = [run["instanceID"] for run in await self.runs()]
        rows = [await self.workflows.get_run_status(instance_id, tenant_id=TENANT) for instance_id in ids]
        return sorted(str(row.head.idempotency_key) for row in rows)


@asynccontextmanager
async def opened_office(
    database_url: str,
    time: HandTime,
    *,
    starter: Starter | None = None,
    pending_max: int = 100_000,
    own_ms: int = OWN_MS,
) -> AsyncIterator[Office]:
    """A process on this database."""
    store = open_store(database_url)
    await store.start()
    office = Office(store, time, starter=starter, pending_max=pending_max, own_ms=own_ms)
    await office.engine.start()
    try:
        yield office
    finally:
        await office.scheduler.stop()
        await office.publisher.stop()
        await office.engine.stop()
        await store.stop()
