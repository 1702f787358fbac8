"""App: opens the services of a process for as long as they are needed, each with what it is built on.

Used by all programs. `resources` and `trigger_services` have the parts.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from anabranch.app.process_reports import ProcessReports
from anabranch.app.resources import (
    CLOSING_S,
    Components,
    cipher_finder,
    open_access,
    open_components,
    open_data,
    open_spans,
    open_store,
    secret_store,
)
from anabranch.app.transports import open_executor, sender_of_jobs
from anabranch.app.trigger_services import open_triggers, open_webhooks
from anabranch.app_services import AppServices, RunServices
from anabranch.bulk.bulk_actions import BulkActions
from anabranch.bulk.bulk_service import BulkService
from anabranch.bulk.bulk_workflow import bulk_workflow
from anabranch.deferred import deferred
from anabranch.durable.definition import DECLARED, WorkflowRegistry, register
from anabranch.durable.runner import Runner
from anabranch.egress import AllowList, Guard
from anabranch.engine.console.console import LEVELS, Console, ConsoleOptions
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.handling import HandlerRegistry
from anabranch.engine.lifecycle import Engine
from anabranch.engine.store.opening import open_hint_line, open_version_watch
from anabranch.engine.store.sql.console_table import ConsoleTable
from anabranch.engine.store.sql.store import SqlStore
from anabranch.engine.telemetry import Telemetry
from anabranch.forks.fork_check import SystemCode
from anabranch.forks.fork_service import ForkService
from anabranch.grace import Grace
from anabranch.handlers import Services
from anabranch.handlers.registry import load_types
from anabranch.handlers.sandbox import LANGUAGES, Sandbox
from anabranch.handlers.spec import NodeTypeRegistry
from anabranch.queries.saved.data_service import DataService
from anabranch.secrets.secret_store import SecretStore
from anabranch.secrets.secret_table import SecretTable
from anabranch.service import (
    Readiness,
    References,
    RunWaits,
    StepSignals,
    WorkflowService,
)
from anabranch.settings import ALL_POOLS, Settings
from anabranch.telemetry import CurrentAttempts, Feed, Meters, Names, SpanSink, TracedHandlers
from anabranch.triggers.webhooks.test_addresses import TestAddresses
from anabranch.version import __version__

# Only the APIs need these; `anabranch run` does not import them.
if TYPE_CHECKING:
    from anabranch.audit import audit_log, audit_table
    from anabranch.backups import restore_check as restoring
    from anabranch.drafts import draft_service as drafting
    from anabranch.drafts import draft_table
    from anabranch.imports import import_service as importing
    from anabranch.keys import access as key_access
    from anabranch.service import preview as previewing
    from anabranch.service import purge as purging
    from anabranch.service.data_check import data_doctor
    from anabranch.service.explanations import explanations as explaining
    from anabranch.service.runs import run_counts as counting
    from anabranch.transport.job_executor import JobExecutor
    from anabranch.transport.job_sender import JobSender
    from anabranch.triggers.webhooks import callback_service as callbacks
    from anabranch.triggers.webhooks import test_hook_service
else:
    audit_log = deferred("anabranch.audit.audit_log")
    audit_table = deferred("anabranch.audit.audit_table")
    restoring = deferred("anabranch.backups.restore_check")
    drafting = deferred("anabranch.drafts.draft_service")
    draft_table = deferred("anabranch.drafts.draft_table")
    importing = deferred("anabranch.imports.import_service")
    key_access = deferred("anabranch.keys.access")
    previewing = deferred("anabranch.service.preview")
    purging = deferred("anabranch.service.purge")
    data_doctor = deferred("anabranch.service.data_check.data_doctor")
    explaining = deferred("anabranch.service.explanations.explanations")
    counting = deferred("anabranch.service.runs.run_counts")
    callbacks = deferred("anabranch.triggers.webhooks.callback_service")
    test_hook_service = deferred("anabranch.triggers.webhooks.test_hook_service")

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
class _Role:
    """The role of a process: whether it executes runs."""

    works: bool
    only: Sequence[str] | None = None
    code: WorkflowRegistry = DECLARED
    counts: bool = True
    console_stream: TextIO | None = None
    elsewhere: JobSender | None = None
    """Has jobs of other pools executed."""


class App:
    """A configured anabranch. Creating it opens nothing; each `open_…` method opens what it needs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def node_types(self) -> NodeTypeRegistry:
        """For validation only; executing nodes also needs services on an open database."""
        return load_types(Services(sandbox=Sandbox(unsafe=self.settings.sandbox_unsafe)))

    @asynccontextmanager
    async def open_runs(
        self, *, works: bool = True, only: Sequence[str] | None = None, console_stream: TextIO | None = None
    ) -> AsyncIterator[RunServices]:
        """Open the engine and the services for starting and awaiting runs, without APIs. With `works` nodes are
        executed here (an empty `only` adopts no runs at first); otherwise starts, signals and cancels are left to other
        workers.

        Console lines of user code also go to `console_stream`. Raises StoreUnavailable, SchemaMismatch.
        """
        grace = Grace.of_command()
        role = _Role(works=works, only=only, console_stream=console_stream)
        async with (
            open_store(self.settings, grace) as store,
            open_spans(self.settings, grace) as spans,
            open_components(self.settings, store, grace, makes_key=False) as components,
            self._open_engine(store, components, role, spans, grace) as runs,
        ):
            yield runs

    @asynccontextmanager
    async def open_services(
        self,
        *,
        works: bool,
        grace: Grace | None = None,
        makes_key: bool = False,
        code: WorkflowRegistry = DECLARED,
        counts: bool = True,
        console_stream: TextIO | None = None,
    ) -> AsyncIterator[AppServices]:
        """Open all services that the APIs need: engine, workflows, data, secrets, keys, readiness.

        With `makes_key` a missing key for secrets is created in the directory of an embedded database.
        `code` holds the coded workflows that run here if `works`; by default all that imported modules have declared.
        What user code says also goes to `console_stream`.
        Without `counts` no metrics are counted. Everything ends within the `grace`, by default that of a command.
        """
        grace = grace or Grace.of_command()
        role = _Role(works, code=code, counts=counts, console_stream=console_stream)
        async with (
            open_store(self.settings, grace) as store,
            open_spans(self.settings, grace) as spans,
            open_components(self.settings, store, grace, makes_key=makes_key) as components,
            open_access(store, grace) as access,
            self._open_engine(store, components, role, spans, grace) as runs,
            open_triggers(self.settings, store, runs.workflows, works=works) as (schedules, topics),
            open_webhooks(self.settings, store, components, runs, grace) as receiving,
        ):
            explanations = explaining.Explanations(
                store, runs.engine.plans, runs.workflows.checks, waits_for_broker=runs.waits_for_broker
            )
            key = self.settings.metrics_key
            saved_drafts = draft_table.DraftTable(store)
            drafts = drafting.DraftService(saved=saved_drafts, workflows=runs.workflows)
            called_back = callbacks.CallbackService(
                addresses=components.callbacks,
                workflows=runs.workflows,
                rows=store,
                clock=runs.engine.clock,
                body_bytes_max=self.settings.webhook_body_limit,
            )
            yield AppServices(
                engine=runs.engine,
                node_types=runs.node_types,
                workflows=runs.workflows,
                bulk=runs.bulk,
                forks=runs.forks,
                drafts=drafts,
                imports=importing.ImportService(drafts=drafts, node_types=runs.node_types),
                data=components.data,
                secrets=components.secrets,
                access=access,
                audit=audit_log.AuditLog(audit_table.AuditTable(store)),
                schedules=schedules,
                topics=topics,
                explanations=explanations,
                preview=previewing.Preview(
                    checks=runs.workflows.checks, explanations=explanations, clock=runs.engine.clock
                ),
                waits=runs.waits,
                readiness=runs.readiness,
                meters=runs.meters,
                open_runs=counting.OpenRunCounts(store=store, clock=runs.engine.clock),
                webhooks=receiving,
                callbacks=called_back,
                test_hooks=test_hook_service.TestHookService(
                    addresses=TestAddresses(
                        cipher_finder(self.settings, makes_key=makes_key), base_url=components.callbacks.base_url
                    ),
                    drafts=saved_drafts,
                    workflows=runs.workflows,
                    callbacks=called_back,
                    webhooks=receiving,
                ),
                addresses=components.callbacks,
                metrics_key=None if key is None else key.get_secret_value(),
            )

    @asynccontextmanager
    async def _open_engine(
        self, store: SqlStore, components: Components, role: _Role, spans: SpanSink | None, grace: Grace
    ) -> AsyncIterator[RunServices]:
        """A started engine and the services of runs; all of it ends within the grace."""
        tune_interpreter()
        settings = self.settings
        children, signals = components.children, StepSignals()
        node_types = load_types(components.services)
        current = None if spans is None else CurrentAttempts(spans)
        bulk_actions = BulkActions()
        bulk = bulk_workflow(bulk_actions)
        code = role.code if role.works else WorkflowRegistry()
        forks = ForkService(code, system=(bulk.name,))
        runner = Runner(
            code,
            children=children,
            signals=signals,
            around=current,
            system=SystemCode([bulk], code, forks.check) if role.works else None,
            on_error=settings.on_error,
        )
        feed = Feed(Meters(Names(settings.shown_names)), spans, read_log=store.read_log)
        traced = node_types if current is None else TracedHandlers(node_types, current)
        telemetry = None if spans is None and not role.counts else feed
        sender = sender_of_jobs(settings, node_types) if role.works else None
        engine = self._engine(store, traced, runner, telemetry, components, replace(role, elsewhere=sender))
        if current is not None:
            current.connect(engine.orchestrator.head_of)
        service = WorkflowService(
            engine=engine,
            node_types=node_types,
            retention_days_max=settings.max_retention_days,
            pending_max=settings.pending_max,
            pending_per_tenant_max=settings.pending_per_tenant_max,
            references=References(workflows=store, queries=components.data.saved, secrets=SecretTable(store)),
        )
        children.connect(engine, service)
        signals.connect(service)
        bulk_actions.connect(service, store)
        forks.connect(service, store)
        runner.connect(engine)
        await register(store, runner.registry, active=settings.active)
        reports = ProcessReports(store, process_id=engine.worker_id, release=__version__, clock=engine.clock)
        waits = RunWaits(engine)
        readiness = Readiness(store=store, sandbox=components.sandbox.health)
        readiness.when_stopping(waits.release)
        try:
            await reports.start()
            await engine.start()
            if sender is not None:
                await sender.start()
            bulk_service = BulkService(workflows=service, store=store, actions=bulk_actions, system=bulk)
            yield RunServices(
                engine,
                node_types,
                service,
                waits,
                readiness,
                feed.meters,
                bulk_service,
                forks,
                None if sender is None else sender.why_waiting,
            )
        finally:
            grace.begin()
            await waits.stop()
            if sender is not None:
                sender.leave()
            await engine.stop(grace_s=grace.executions_left_s(), within_s=grace.engine_left_s())
            if sender is not None:
                await sender.stop(patience_s=grace.closing_s(CLOSING_S))
            await reports.end(patience_s=grace.closing_s(CLOSING_S))
            await feed.stop(patience_s=grace.closing_s(CLOSING_S))
            runner.stop()

    @asynccontextmanager
    async def open_executor(self) -> AsyncIterator[JobExecutor]:
        """Open what executes jobs of the broker, without a database. Raises SettingsError."""
        tune_interpreter()
        async with open_executor(self.settings) as executor:
            yield executor

    async def probe_sandbox(self) -> Mapping[str, str]:
        """Report what this machine offers to sandbox code: layer → `yes…` or `no (why)`. Opens no database."""
        sandbox = Sandbox(unsafe=self.settings.sandbox_unsafe)
        try:
            return await sandbox.probe()
        finally:
            await sandbox.stop()

    @asynccontextmanager
    async def open_secrets(self, *, makes_key: bool) -> AsyncIterator[SecretStore]:
        """Open only the secrets. With `makes_key` a missing key is created for an embedded database.

        Raises StoreUnavailable, SchemaMismatch, SettingsError.
        """
        async with open_store(self.settings, Grace.of_command()) as store:
            yield secret_store(self.settings, store, makes_key=makes_key)

    @asynccontextmanager
    async def open_data(self, *, makes_key: bool) -> AsyncIterator[DataService]:
        """Open only data sources and queries, to save them or to run one by hand.

        With `makes_key` a missing key for URLs with passwords is created for an embedded database.
        Raises StoreUnavailable, SchemaMismatch, SettingsError.
        """
        grace = Grace.of_command()
        async with open_store(self.settings, grace) as store:
            guard = Guard(AllowList.parse(self.settings.egress_allow))
            try:
                async with open_data(self.settings, store, guard, grace, makes_key=makes_key) as data:
                    yield data
            finally:
                guard.close()

    @asynccontextmanager
    async def open_access(self) -> AsyncIterator[key_access.AccessService]:
        """Open only the API keys, to create and revoke them. Raises StoreUnavailable, SchemaMismatch."""
        grace = Grace.of_command()
        async with open_store(self.settings, grace) as store, open_access(store, grace) as access:
            yield access

    @asynccontextmanager
    async def open_audit(self) -> AsyncIterator[audit_log.AuditLog]:
        """Open only the audit trail, to read it. Raises StoreUnavailable, SchemaMismatch."""
        async with open_store(self.settings, Grace.of_command()) as store:
            yield audit_log.AuditLog(audit_table.AuditTable(store))

    @asynccontextmanager
    async def open_purge(self) -> AsyncIterator[purging.Purge]:
        """Open only `Purge`, which removes ended runs at once. Raises StoreUnavailable, SchemaMismatch."""
        async with open_store(self.settings, Grace.of_command()) as store:
            yield purging.Purge(store)

    @asynccontextmanager
    async def open_data_check(self) -> AsyncIterator[data_doctor.DataDoctor]:
        """Open only the check of all data, which writes nothing. Raises StoreUnavailable, SchemaMismatch."""
        async with open_store(self.settings, Grace.of_command()) as store:
            yield data_doctor.DataDoctor(store, self.node_types)

    @asynccontextmanager
    async def open_restore_check(self) -> AsyncIterator[restoring.RestoreCheck]:
        """Open only the check of a restored database. Raises StoreUnavailable, SchemaMismatch."""
        async with open_store(self.settings, Grace.of_command()) as store:
            yield restoring.RestoreCheck(store, self.node_types)

    def _engine(
        self,
        store: SqlStore,
        handlers: HandlerRegistry,
        runner: Runner,
        telemetry: Telemetry | None,
        components: Components,
        role: _Role,
    ) -> Engine:
        settings = self.settings
        options = EngineOptions(
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
            only=role.only,
            pools=settings.pools if role.only is None and role.elsewhere is None else ALL_POOLS,
        )
        engine = Engine(
            store=store,
            handlers=handlers,
            functions=runner,
            options=options,
            line=open_hint_line(store),
            watch=open_version_watch(store),
            place=store.dialect.place,
            known_code=runner.known,
            digests=runner.digests,
            telemetry=telemetry,
            gates={language: components.sandbox.gate(language) for language in LANGUAGES},
            console=Console(rows=ConsoleTable(store), options=self._console_options(role.console_stream)),
            callbacks=components.callbacks,
            elsewhere=role.elsewhere,
        )
        store.tell(engine.notices)
        return engine

    def _console_options(self, stream: TextIO | None) -> ConsoleOptions:
        settings = self.settings
        return ConsoleOptions(
            level=LEVELS[settings.log_level],
            run_bytes_max=settings.console_limit,
            tenant_bytes_max=settings.console_limit_per_tenant,
            retention_days=settings.console_retention_days,
            stream=stream,
        )


def build(settings: Settings) -> App:
    """An application with these settings; cheap, opens nothing."""
    return App(settings)
