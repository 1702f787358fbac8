"""Run services: the engine of a process and the services of runs, opened together and ended within the grace.

Used by `composition` only, for the programs that execute, start or await runs.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TextIO

from anabranch.app.process_reports import ProcessReports
from anabranch.app.resources import CLOSING_S, Components
from anabranch.app.transports import sender_of_jobs
from anabranch.app_services import RunServices
from anabranch.bulk.bulk_actions import BulkActions
from anabranch.bulk.bulk_service import BulkService
from anabranch.bulk.bulk_workflow import bulk_workflow
from anabranch.dataclass import dataclass
from anabranch.durable.definition import DECLARED, WorkflowRegistry, register
from anabranch.durable.runner import Runner
from anabranch.durable.step_functions import StepPools
from anabranch.engine.console.console import Console
from anabranch.engine.console.console_rows import LEVELS
from anabranch.engine.console.console_writer import ConsoleOptions
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.handler_contract import HandlerRegistry
from anabranch.engine.lifecycle import Engine
from anabranch.engine.store.opening import open_hint_line, open_leader_rows, open_version_watch
from anabranch.engine.store.sql.console_table import ConsoleTable
from anabranch.engine.store.sql.store import SqlStore
from anabranch.engine.telemetry import Telemetry
from anabranch.forks.fork_check import SystemCode
from anabranch.forks.fork_service import ForkService
from anabranch.grace import Grace
from anabranch.handlers.registry import load_types
from anabranch.handlers.sandbox import LANGUAGES
from anabranch.secrets.secret_table import SecretTable
from anabranch.service import Readiness, References, RunWaits, StepSignals, WorkflowService
from anabranch.settings import ALL_POOLS, Settings
from anabranch.telemetry import CurrentAttempts, Meters, ShownNames, SpanSink, TelemetryRecorder, TracedHandlers
from anabranch.version import __version__

if TYPE_CHECKING:
    from anabranch.transport.job_sender import JobSender

# The collector walks every live object when its oldest generation is due. With thousands of runs
# in memory the defaults (700, 10, 10) do so several times a second and find next to nothing: what
# a run leaves behind goes with its last reference, but for the cycle between a scope and its
# activations. These values cost a few megabytes and save a fifth of the processor time.
COLLECTION_THRESHOLDS = (50_000, 20, 100)

# The interpreter's switch interval: a thread with a database response waits this long for a busy event loop, several
# times per commit. With the default of 5 ms the database was idle meanwhile; 1 ms gives a fifth more nodes a second on
# both databases; 0.3 ms gives no more.
SWITCH_INTERVAL_S = 0.001


def tune_interpreter() -> None:
    """Set collector and threads for a process that holds many runs. For the whole process: composition roots only."""
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)


@dataclass(frozen=True, slots=True)
class ProcessRole:
    """The role of a process: what it does with runs, and how long it may take to end."""

    grace: Grace
    works: bool
    """It executes runs; otherwise it leaves what it starts to other workers."""
    only: Sequence[str] | None = None
    """The runs that it adopts; None: all."""
    code: WorkflowRegistry = DECLARED
    counts: bool = True
    leads: bool = False
    """It also has schedules and topics, so that it may do the looks for all."""
    console_stream: TextIO | None = None


@asynccontextmanager
async def open_run_services(
    settings: Settings, store: SqlStore, components: Components, role: ProcessRole, spans: SpanSink | None
) -> AsyncIterator[RunServices]:
    """A started engine and the services of runs; all of it ends within the grace, also if a part cannot start.

    Raises StoreUnavailable, SettingsError.
    """
    tune_interpreter()
    parts = _RunParts(settings, store, components, role, spans)
    try:
        await parts.start()
        yield parts.services()
    finally:
        await parts.stop()


class _RunParts:
    """Everything around the engine of one process, made and connected; `start` begins to work."""

    def __init__(
        self, settings: Settings, store: SqlStore, components: Components, role: ProcessRole, spans: SpanSink | None
    ) -> None:
        self._settings, self._store, self._components, self._role = settings, store, components, role
        self._node_types = load_types(components.services)
        self._current = None if spans is None else CurrentAttempts(spans)
        self._telemetry = TelemetryRecorder(Meters(ShownNames(settings.shown_names)), spans, read_log=store.read_log)
        self._sender = self._new_sender() if role.works else None
        self._signals = StepSignals()
        self._actions = BulkActions()
        self._bulk = bulk_workflow(self._actions)
        code = role.code if role.works else WorkflowRegistry()
        self._forks = ForkService(code, system=(self._bulk.name,))
        self._runner = Runner(
            code,
            children=components.children,
            signals=self._signals,
            around=self._current,
            system=SystemCode([self._bulk], code, self._forks.check) if role.works else None,
            on_error=settings.on_error,
            pools=StepPools(ALL_POOLS if role.only is not None else settings.pools, self._sender),
        )
        self._engine = self._new_engine(telemetry=self._telemetry if role.counts or spans is not None else None)
        self._workflows = WorkflowService(
            engine=self._engine,
            node_types=self._node_types,
            retention_days_max=settings.max_retention_days,
            pending_max=settings.pending_max,
            pending_per_tenant_max=settings.pending_per_tenant_max,
            references=References(workflows=store, queries=components.data.saved, secrets=SecretTable(store)),
        )
        self._waits = RunWaits(self._engine)
        self._reports = ProcessReports(
            store, process_id=self._engine.worker_id, release=__version__, clock=self._engine.clock
        )
        self._connect()

    def _connect(self) -> None:
        """Hand each part what was made after it."""
        if self._current is not None:
            self._current.connect(self._engine.orchestrator.head_of)
        self._store.report_to(self._engine.notices)
        self._components.children.connect(self._engine, self._workflows)
        self._signals.connect(self._workflows)
        self._actions.connect(self._workflows, self._store)
        self._forks.connect(self._workflows, self._store)
        self._runner.connect(self._engine)

    async def start(self) -> None:
        """Begin to work. Raises StoreUnavailable."""
        await register(self._store, self._runner.registry, active=self._settings.active)
        await self._reports.start()
        await self._engine.start()
        if self._sender is not None:
            await self._sender.start()

    async def stop(self) -> None:
        """End everything within the grace, whether it was started or not."""
        grace = self._role.grace
        grace.begin()
        await self._waits.stop()
        if self._sender is not None:
            self._sender.leave()
        await self._engine.stop(grace_s=grace.executions_left_s(), within_s=grace.engine_left_s())
        if self._sender is not None:
            await self._sender.stop(patience_s=grace.closing_s(CLOSING_S))
        await self._reports.end(patience_s=grace.closing_s(CLOSING_S))
        await self._telemetry.stop(patience_s=grace.closing_s(CLOSING_S))
        self._runner.stop()

    def services(self) -> RunServices:
        """The services that APIs and commands use."""
        readiness = Readiness(store=self._store, sandbox=self._components.sandbox.health)
        readiness.when_stopping(self._waits.release)
        bulk = BulkService(workflows=self._workflows, store=self._store, actions=self._actions, system=self._bulk)
        return RunServices(
            self._engine,
            self._node_types,
            self._workflows,
            self._waits,
            readiness,
            self._telemetry.meters,
            bulk,
            self._forks,
            self._sender,
        )

    def _new_sender(self) -> JobSender | None:
        seals = self._components.job_seals
        return sender_of_jobs(
            self._settings,
            self._node_types,
            seals=seals,
            stored=self._store,
            letters=self._components.dead_letters,
        )

    def _new_engine(self, *, telemetry: Telemetry | None) -> Engine:
        store, components, runner = self._store, self._components, self._runner
        handlers: HandlerRegistry = self._node_types
        if self._current is not None:
            handlers = TracedHandlers(self._node_types, self._current)
        return Engine(
            store=store,
            handlers=handlers,
            functions=runner,
            options=self._engine_options(),
            line=open_hint_line(store),
            watch=open_version_watch(store),
            target=store.dialect.target,
            code=runner.registries,
            digests=runner.digests,
            telemetry=telemetry,
            gates={language: components.sandbox.gate(language) for language in LANGUAGES},
            console=Console(rows=ConsoleTable(store), options=self._console_options()),
            callbacks=components.callbacks,
            elsewhere=self._sender,
            leaders=open_leader_rows(store),
        )

    def _engine_options(self) -> EngineOptions:
        settings, role = self._settings, self._role
        return EngineOptions(
            release=__version__,
            lease_ms=settings.lease_ms,
            blocked_max_ms=settings.blocked_max_ms,
            concurrency=settings.concurrency,
            held_max=settings.held_max,
            held_per_tenant_max=settings.held_per_tenant_max,
            crashes_max=settings.crash_limit,
            sweep_interval_ms=settings.sweep_interval_ms,
            log_limit=settings.log_limit,
            audit_retention_days=settings.audit_retention_days,
            works=role.works,
            leads=role.leads,
            only=role.only,
            pools=settings.pools if role.only is None and self._sender is None else ALL_POOLS,
        )

    def _console_options(self) -> ConsoleOptions:
        settings = self._settings
        return ConsoleOptions(
            level=LEVELS[settings.log_level],
            run_bytes_max=settings.console_limit,
            tenant_bytes_max=settings.console_limit_per_tenant,
            retention_days=settings.console_retention_days,
            stream=self._role.console_stream,
        )
