"""The composition root: the one room that knows everyone and wires them together."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from anabranch.engine.lifecycle import Engine, EngineOptions
from anabranch.engine.store import open_store
from anabranch.handlers import Services
from anabranch.handlers.registry import load_types
from anabranch.migrations import ensure_schema
from anabranch.service import ChildRuns, WorkflowService
from anabranch.settings import Settings

# The collector walks every live object when its oldest generation is due. With thousands of runs
# in memory the defaults (700, 10, 10) do so several times a second and find next to nothing: what
# a run leaves behind goes with its last reference, but for the cycle between a scope and its
# activations. These values cost a few megabytes and save a fifth of the processor time.
COLLECTION_THRESHOLDS = (50_000, 20, 100)


def collect_garbage_less_often() -> None:
    """Set the collector for a process that holds many runs. For the whole process: composition roots only."""
    gc.set_threshold(*COLLECTION_THRESHOLDS)


class App:
    """A configured anabranch: nothing is opened before `opened`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.node_types = load_types()
        """Good for checking; those that run have services, which need an open database."""

    @asynccontextmanager
    async def opened(
        self, *, works: bool, only: Sequence[str] | None = None, grace_s: float = 0.0
    ) -> AsyncIterator[tuple[Engine, WorkflowService]]:
        """The engine and the façade, on an open database with the current schema.

        `works` runs nodes here (an empty `only` adopts nothing until told what); otherwise starts,
        signals and cancels are accepted for other workers. Raises StoreUnavailable, SchemaMismatch.
        """
        collect_garbage_less_often()
        settings = self.settings
        wait_s = settings.database_wait_ms / 1000
        await asyncio.to_thread(
            ensure_schema, settings.database_url, auto_migrate=settings.auto_migrate, connect_wait_s=wait_s
        )
        store = open_store(settings.database_url, connect_wait_s=wait_s)
        await store.start()
        try:
            options = EngineOptions(
                lease_ms=settings.lease_ms,
                concurrency=settings.concurrency,
                held_max=settings.held_max,
                recoveries_max=settings.recovery_limit,
                works=works,
                only=only,
            )
            children = ChildRuns()
            node_types = load_types(Services(children=children))
            engine = Engine(store=store, handlers=node_types, options=options)
            service = WorkflowService(
                engine=engine,
                node_types=node_types,
                retention_days_max=settings.max_retention_days,
                pending_max=settings.pending_max,
            )
            children.connect(engine, service)
            await engine.start()
            try:
                yield engine, service
            finally:
                await engine.stop(grace_s=grace_s)
        finally:
            await store.stop()


def build(settings: Settings) -> App:
    """An application with these settings; cheap, opens nothing."""
    return App(settings)
