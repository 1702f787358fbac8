"""App: opens and closes the services of a process, each together with the services that it needs.

Used by all programs. `resources`, `run_services` and `trigger_services` have the parts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from anabranch.app.resources import (
    open_access,
    open_components,
    open_data,
    open_spans,
    open_store,
    secret_store,
)
from anabranch.app.run_services import ProcessRole, open_run_services, tune_interpreter
from anabranch.app.transports import open_executor
from anabranch.app.trigger_services import open_triggers, open_webhooks
from anabranch.app_services import AppServices, RunServices
from anabranch.deferred import deferred
from anabranch.durable.definition import DECLARED, WorkflowRegistry
from anabranch.egress import AllowList, Guard
from anabranch.grace import Grace
from anabranch.handlers import Services
from anabranch.handlers.registry import load_types
from anabranch.handlers.sandbox import Sandbox
from anabranch.handlers.spec import NodeTypeRegistry
from anabranch.queries.saved.data_service import DataService
from anabranch.secrets.secret_store import SecretStore
from anabranch.settings import Settings

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
        role = ProcessRole(grace, works, only=only, console_stream=console_stream)
        async with (
            open_store(self.settings, grace) as store,
            open_spans(self.settings, grace) as spans,
            open_components(self.settings, store, grace, makes_key=False) as components,
            open_run_services(self.settings, store, components, role, spans) as runs,
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
        role = ProcessRole(grace, works, code=code, counts=counts, leads=works, console_stream=console_stream)
        async with (
            open_store(self.settings, grace) as store,
            open_spans(self.settings, grace) as spans,
            open_components(self.settings, store, grace, makes_key=makes_key) as components,
            open_access(store, grace) as access,
            open_run_services(self.settings, store, components, role, spans) as runs,
            open_triggers(self.settings, store, runs, works=works) as (schedules, topics),
            open_webhooks(self.settings, store, components, runs, grace) as hooks,
        ):
            explanations = explaining.Explanations(
                store,
                runs.engine.plans,
                runs.workflows.checks,
                elsewhere=runs.elsewhere,
                dead_letters_of=components.dead_letters.letters_of_run,
            )
            drafts = drafting.DraftService(saved=draft_table.DraftTable(store), workflows=runs.workflows)
            clock, key = runs.engine.clock, self.settings.metrics_key
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
                preview=previewing.Preview(checks=runs.workflows.checks, explanations=explanations, clock=clock),
                waits=runs.waits,
                readiness=runs.readiness,
                meters=runs.meters,
                open_runs=counting.OpenRunCounts(store=store, clock=clock),
                webhooks=hooks.webhooks,
                callbacks=hooks.callbacks,
                test_hooks=hooks.tests,
                addresses=components.callbacks,
                job_seals=components.job_seals,
                dead_letters=components.dead_letters,
                variables=components.variables,
                metrics_key=None if key is None else key.get_secret_value(),
            )

    @asynccontextmanager
    async def open_executor(self, modules: Sequence[str]) -> AsyncIterator[JobExecutor]:
        """Open what executes jobs of the broker, without a database; of steps the functions in these modules.

        Raises SettingsError.
        """
        tune_interpreter()
        async with open_executor(self.settings, modules) as executor:
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


def build(settings: Settings) -> App:
    """An application with these settings; cheap, opens nothing."""
    return App(settings)
