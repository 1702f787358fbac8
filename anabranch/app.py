"""The composition root: the one module that knows everyone and wires them together."""

from __future__ import annotations

import asyncio
import gc
import math
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

from anabranch.app_services import AppServices
from anabranch.audit.audit_log import AuditLog
from anabranch.audit.audit_table import AuditTable
from anabranch.drafts.draft_service import DraftService
from anabranch.drafts.draft_table import DraftTable
from anabranch.durable.definition import DECLARED, Registry
from anabranch.durable.registration import register
from anabranch.durable.runner import Runner
from anabranch.egress import AllowList, Guard, GuardedClient
from anabranch.engine.clock import SystemClock
from anabranch.engine.handling import HandlerRegistry
from anabranch.engine.lifecycle import Engine, EngineOptions
from anabranch.engine.store.opening import open_hint_line, open_store, open_version_watch
from anabranch.engine.store.sql.store import SqlStore
from anabranch.engine.store.sqlite.sqlite_dialect import SqliteDialect
from anabranch.engine.telemetry import Telemetry, unsurrounded
from anabranch.errors import SettingsError
from anabranch.grace import Grace
from anabranch.handlers import Services
from anabranch.handlers.registry import Registry as NodeTypes
from anabranch.handlers.registry import load_types
from anabranch.handlers.sandbox import LANGUAGES, Sandbox
from anabranch.keys.access import AccessService
from anabranch.keys.failed_logins import FailedLogins
from anabranch.keys.key_table import KeyTable
from anabranch.migrations import ensure_schema
from anabranch.queries.engine import QueryEngine
from anabranch.queries.saved.data_service import DataService
from anabranch.queries.saved.query_tables import DataQueries
from anabranch.queries.sources import Places
from anabranch.queries.urls import SourceUrls
from anabranch.secrets.cipher import SecretCipher
from anabranch.secrets.key import find_key
from anabranch.secrets.secret_store import SecretStore
from anabranch.secrets.secret_table import SecretTable
from anabranch.service import (
    ChildRuns,
    Explanations,
    OpenRunCounts,
    Preview,
    Purge,
    Readiness,
    References,
    RunWaits,
    StepSignals,
    WorkflowService,
)
from anabranch.settings import EMBEDDED_DATABASE_URL, Settings
from anabranch.telemetry import CurrentAttempts, Feed, Meters, Names, SpanSink, TracedHandlers
from anabranch.triggers.schedules.schedule_service import ScheduleService
from anabranch.triggers.schedules.schedule_table import ScheduleTable
from anabranch.triggers.schedules.scheduler import Scheduler
from anabranch.triggers.topics.publisher import Publisher
from anabranch.triggers.topics.topic_service import TopicService
from anabranch.triggers.topics.topic_tables import TopicTable

# The SDK of OpenTelemetry is an extra, and takes half a second to import: only for who exports spans.
_OTLP = "anabranch.telemetry.otlp"

# The collector walks every live object when its oldest generation is due. With thousands of runs
# in memory the defaults (700, 10, 10) do so several times a second and find next to nothing: what
# a run leaves behind goes with its last reference, but for the cycle between a scope and its
# activations. These values cost a few megabytes and save a fifth of the processor time.
COLLECTION_THRESHOLDS = (50_000, 20, 100)


# A thread that has heard from the database must wait this long until the event loop's thread lets it
# go on, several times for each commit. With the default of 5 ms the database stood idle meanwhile:
# 1 ms gives a fifth more nodes a second on both databases; 0.3 ms gives no more.
SWITCH_INTERVAL_S = 0.001


# 500 ms for the database to finish statements that nobody waits for; longer ones are abandoned.
CLOSING_S = 0.5

# 1 s for the last spans: what a collector does not take by then is lost.
EXPORT_S = 1.0


def tune_interpreter() -> None:
    """Set collector and threads for a process that holds many runs. For the whole process: composition roots only."""
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)


@dataclass(frozen=True, slots=True, eq=False)
class _Components:
    """Services beside the engine."""

    services: Services
    data: DataService
    secrets: SecretStore
    sandbox: Sandbox


class App:
    """A configured anabranch: nothing is opened before `opened`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def node_types(self) -> NodeTypes:
        """For validation only; executing nodes also needs services on an open database."""
        return load_types(Services(sandbox=Sandbox(unsafe=self.settings.sandbox_unsafe)))

    @asynccontextmanager
    async def opened(
        self, *, works: bool, only: Sequence[str] | None = None
    ) -> AsyncIterator[tuple[Engine, WorkflowService]]:
        """Open the database and start an engine and the workflow service on it.

        With `works` nodes are executed here (an empty `only` adopts no runs at first); otherwise starts,
        signals and cancels are accepted for other workers. Raises StoreUnavailable, SchemaMismatch.
        """
        async with self.open_services(works=works, only=only) as services:
            yield services.engine, services.workflows

    @asynccontextmanager
    async def open_services(
        self,
        *,
        works: bool,
        only: Sequence[str] | None = None,
        grace: Grace | None = None,
        makes_key: bool = False,
        code: Registry = DECLARED,
        counts: bool = True,
    ) -> AsyncIterator[AppServices]:
        """Open all services that the APIs need: engine, workflows, data, secrets, keys, readiness.

        With `makes_key` a missing key for secrets is created in the directory of an embedded database.
        `code` holds the coded workflows that run here if `works`; by default all that imported modules have declared.
        Without `counts` no metrics are counted. Everything ends within the `grace`, by default that of a command.
        """
        tune_interpreter()
        grace = grace or Grace.of_command()
        settings = self.settings
        children, signals = ChildRuns(), StepSignals()
        async with (
            self._open_spans(grace) as spans,
            self._open_store(grace) as store,
            self._open_components(store, children, grace, makes_key=makes_key) as components,
            self._open_access(store, grace) as access,
        ):
            node_types = load_types(components.services)
            current = None if spans is None else CurrentAttempts(spans)
            runner = Runner(
                code if works else Registry(), children=children, signals=signals, around=current or unsurrounded
            )
            feed = Feed(Meters(Names(settings.shown_names)), spans, read_log=store.read_log)
            traced = node_types if current is None else TracedHandlers(node_types, current)
            telemetry = None if spans is None and not counts else feed
            engine = self._engine(store, traced, runner, telemetry, components.sandbox, works=works, only=only)
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
            runner.connect(engine)
            await register(store, runner.registry)
            await engine.start()
            waits = RunWaits(engine)
            readiness = Readiness(store=store, sandbox=components.sandbox.health)
            readiness.when_stopping(waits.release)
            try:
                # Who advances some runs only starts none by the clock.
                async with self._open_triggers(store, service, works=works and only is None) as (schedules, topics):
                    explanations = Explanations(store, engine.plans, service.checks)
                    yield AppServices(
                        engine=engine,
                        node_types=node_types,
                        workflows=service,
                        drafts=DraftService(saved=DraftTable(store), workflows=service),
                        data=components.data,
                        secrets=components.secrets,
                        access=access,
                        audit=AuditLog(AuditTable(store)),
                        schedules=schedules,
                        topics=topics,
                        explanations=explanations,
                        preview=Preview(checks=service.checks, explanations=explanations),
                        waits=waits,
                        readiness=readiness,
                        meters=feed.meters,
                        open_runs=OpenRunCounts(store=store, clock=engine.clock),
                        metrics_key=None if settings.metrics_key is None else settings.metrics_key.get_secret_value(),
                    )
            finally:
                grace.begin()
                await waits.stop()
                await engine.stop(grace_s=grace.executions_left_s(), within_s=grace.engine_left_s())
                await feed.stop(patience_s=grace.closing_s(CLOSING_S))
                runner.stop()

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
        async with self._open_store(Grace.of_command()) as store:
            yield self._secrets(store, makes_key=makes_key)

    @asynccontextmanager
    async def open_data(self, *, makes_key: bool) -> AsyncIterator[DataService]:
        """Open only data sources and queries, to save them or to run one by hand.

        With `makes_key` a missing key for URLs with passwords is created for an embedded database.
        Raises StoreUnavailable, SchemaMismatch, SettingsError.
        """
        grace = Grace.of_command()
        async with self._open_store(grace) as store:
            guard = Guard(AllowList.parse(self.settings.egress_allow))
            try:
                async with self._open_data(store, guard, grace, makes_key=makes_key) as data:
                    yield data
            finally:
                guard.close()

    @asynccontextmanager
    async def open_access(self) -> AsyncIterator[AccessService]:
        """Open only the API keys, to create and revoke them. Raises StoreUnavailable, SchemaMismatch."""
        grace = Grace.of_command()
        async with self._open_store(grace) as store, self._open_access(store, grace) as access:
            yield access

    @asynccontextmanager
    async def open_audit(self) -> AsyncIterator[AuditLog]:
        """Open only the audit trail, to read it. Raises StoreUnavailable, SchemaMismatch."""
        async with self._open_store(Grace.of_command()) as store:
            yield AuditLog(AuditTable(store))

    @asynccontextmanager
    async def open_purge(self) -> AsyncIterator[Purge]:
        """Open only `Purge`, which removes ended runs at once. Raises StoreUnavailable, SchemaMismatch."""
        async with self._open_store(Grace.of_command()) as store:
            yield Purge(store)

    def _engine(
        self,
        store: SqlStore,
        handlers: HandlerRegistry,
        runner: Runner,
        telemetry: Telemetry | None,
        sandbox: Sandbox,
        *,
        works: bool,
        only: Sequence[str] | None,
    ) -> Engine:
        settings = self.settings
        options = EngineOptions(
            lease_ms=settings.lease_ms,
            blocked_max_ms=settings.blocked_max_ms,
            concurrency=settings.concurrency,
            held_max=settings.held_max,
            held_per_tenant_max=settings.held_per_tenant_max,
            recoveries_max=settings.recovery_limit,
            sweep_interval_ms=settings.sweep_interval_ms,
            log_limit=settings.log_limit,
            audit_retention_days=settings.audit_retention_days,
            works=works,
            only=only,
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
            telemetry=telemetry,
            gates={language: sandbox.gate(language) for language in LANGUAGES},
        )
        store.tell(engine.notices)
        return engine

    @asynccontextmanager
    async def _open_spans(self, grace: Grace) -> AsyncIterator[SpanSink | None]:
        """Where spans go, if somebody wants them; what is left when all is over is exported. Raises SettingsError."""
        endpoint = self.settings.spans_endpoint
        if endpoint is None:
            yield None
            return
        try:
            otlp = import_module(_OTLP)
        except ModuleNotFoundError as absent:
            if absent.name is None or not absent.name.startswith("opentelemetry"):
                raise
            message = f"spans are to be exported to {endpoint}, and the SDK of OpenTelemetry is not installed"
            raise SettingsError(message, hint="pip install 'anabranch[otel]', or set OTLP_ENABLED=false.") from None
        sink: SpanSink = otlp.OtlpSpans(endpoint)
        try:
            yield sink
        finally:
            await sink.stop(patience_s=grace.closing_s(EXPORT_S))

    @asynccontextmanager
    async def _open_store(self, grace: Grace) -> AsyncIterator[SqlStore]:
        settings = self.settings
        wait_s = settings.database_wait_ms / 1000
        await asyncio.to_thread(
            ensure_schema, settings.database_url, auto_migrate=settings.auto_migrate, connect_wait_s=wait_s
        )
        store = open_store(
            settings.database_url,
            connect_wait_s=wait_s,
            lease_ms=settings.lease_ms,
            pooled=None if settings.database_pooled == "auto" else settings.database_pooled == "true",
        )
        await store.start()
        try:
            yield store
        finally:
            await store.stop(patience_s=grace.closing_s(CLOSING_S))

    @asynccontextmanager
    async def _open_components(
        self, store: SqlStore, children: ChildRuns, grace: Grace, *, makes_key: bool
    ) -> AsyncIterator[_Components]:
        """Services for node types and APIs; closed after the engine has stopped."""
        guard = Guard(AllowList.parse(self.settings.egress_allow))
        client = GuardedClient(guard)
        sandbox = Sandbox(fetcher=client, unsafe=self.settings.sandbox_unsafe)
        secrets = self._secrets(store, makes_key=makes_key)
        try:
            async with self._open_data(store, guard, grace, makes_key=makes_key) as data:
                services = Services(
                    http=client, secrets=secrets, sandbox=sandbox, queries=data.queries, children=children
                )
                yield _Components(services, data, secrets, sandbox)
        finally:
            await sandbox.stop()
            guard.close()

    @asynccontextmanager
    async def _open_access(self, store: SqlStore, grace: Grace) -> AsyncIterator[AccessService]:
        access = AccessService(KeyTable(store), FailedLogins(AuditTable(store)))
        try:
            yield access
        finally:
            with suppress(TimeoutError):  # last use of keys and failed logins are not worth a longer wait
                async with asyncio.timeout(grace.closing_s(CLOSING_S)):
                    await access.stop()

    @asynccontextmanager
    async def _open_triggers(
        self, store: SqlStore, workflows: WorkflowService, *, works: bool
    ) -> AsyncIterator[tuple[ScheduleService, TopicService]]:
        """Schedules and topics; with `works` what is due and unfinished is started here, until the end."""
        saved, saved_topics = ScheduleTable(store), TopicTable(store)
        scheduler = Scheduler(saved=saved, starter=workflows, clock=SystemClock(), store_now=store.now)
        publisher = Publisher(
            saved=saved_topics,
            starter=workflows,
            clock=SystemClock(),
            store_now=store.now,
            unfinished_max=self.settings.unfinished_max,
            unfinished_per_tenant_max=self.settings.unfinished_per_tenant_max,
        )
        if works:
            await scheduler.start()
            await publisher.start()
        try:
            yield (
                ScheduleService(saved=saved, workflows=workflows, store_now=store.now),
                TopicService(saved=saved_topics, workflows=workflows, publisher=publisher),
            )
        finally:
            await scheduler.stop()
            await publisher.stop()

    @asynccontextmanager
    async def _open_data(
        self, store: SqlStore, guard: Guard, grace: Grace, *, makes_key: bool
    ) -> AsyncIterator[DataService]:
        places = Places(
            data_directories=[Path(directory) for directory in self.settings.data_directories],
            socket_directories=[entry for entry in self.settings.egress_allow if entry.startswith("/")],
            own_file=store.dialect.path if isinstance(store.dialect, SqliteDialect) else None,
        )
        saved = DataQueries(store.dialect)
        find_box = self._box_finder(makes_key=makes_key)
        urls = SourceUrls(find_box=find_box, secrets=SecretStore(SecretTable(store), find_box))
        queries = QueryEngine(saved=saved, urls=urls, hosts=guard, places=places)
        saved.open_threads()
        try:
            yield DataService(saved=saved, urls=urls, queries=queries, places=places)
        finally:
            await queries.stop(patience_s=grace.closing_s(math.inf))
            await saved.close_threads(patience_s=grace.closing_s(CLOSING_S))

    def _secrets(self, store: SqlStore, *, makes_key: bool) -> SecretStore:
        return SecretStore(SecretTable(store), self._box_finder(makes_key=makes_key))

    def _box_finder(self, *, makes_key: bool) -> Callable[[], SecretCipher | None]:
        """Gives the box, and looks for the key again as long as there is none.

        A worker may have started before somebody set the first secret, which made the key.
        """
        box = self._box(makes_key=makes_key)

        def find() -> SecretCipher | None:
            nonlocal box
            if box is None:
                box = self._box(makes_key=False)
            return box

        return find

    def _box(self, *, makes_key: bool) -> SecretCipher | None:
        setting = self.settings.secret_key
        key = find_key(
            None if setting is None else setting.get_secret_value(),
            embedded=self.settings.database_url == EMBEDDED_DATABASE_URL,
            makes=makes_key,
        )
        return None if key is None else SecretCipher(key)


def build(settings: Settings) -> App:
    """An application with these settings; cheap, opens nothing."""
    return App(settings)
