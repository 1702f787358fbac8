"""The gateway to a database: calls the service in this process, for one tenant, and returns documents.

Imported when a database is opened. The service makes all decisions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from anabranch.app import build
from anabranch.app_services import AppServices
from anabranch.bulk.bulk_actions import BulkRequest
from anabranch.client.gateway import Gateway
from anabranch.engine.console.console_rows import LEVELS, LinesWanted
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import InvalidRequest
from anabranch.run_requests import (
    DATABASE_CLIENT,
    RETRY,
    SAME_INPUT,
    START_NOW,
    RetryOptions,
    StartedRun,
    StartOptions,
    read_fork,
)
from anabranch.service.cursors import cut, read_run_cursor, run_cursor
from anabranch.service.definitions.workflow_view import saved_summary, tenant_pause, workflow_pause
from anabranch.service.runs.read_verbs import no_run
from anabranch.service.runs.run_view import NODES_SHOWN_MAX, run_outcome
from anabranch.settings import Settings

# 500 workflows a statement: a list is read to its end.
PAGE_WORKFLOWS = 500


class LocalGateway:
    """The workflows and runs of one tenant, in the database of the services."""

    def __init__(self, services: AppServices, tenant_id: str, *, actor: str | None = None) -> None:
        """`actor` is the author of changes in the audit trail."""
        self._service = services.workflows
        self._waits = services.waits
        self._addresses = services.addresses
        self._bulk = services.bulk
        self._forks = services.forks
        self._explanations = services.explanations
        self._tenant_id = tenant_id
        self._actor = actor
        self._by = actor or DATABASE_CLIENT

    # -- workflows ------------------------------------------------------------------------
    async def list_workflows(self) -> list[dict[str, Any]]:
        """All workflows, by name, without their graphs."""
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["name"] if found else None
            page = await self._service.get_all_workflows(tenant_id=self._tenant_id, limit=PAGE_WORKFLOWS, after=after)
            found += page
            if len(page) < PAGE_WORKFLOWS:
                return found

    async def get_workflow(self, workflow: str, *, version: int | None = None) -> dict[str, Any]:
        """One workflow with its graph. Raises NotFound."""
        return await self._service.get_workflow_details(workflow, tenant_id=self._tenant_id, version=version)

    async def export_workflow(self, workflow: str, *, version: int | None = None) -> dict[str, Any]:
        """The document as it was saved, with its name. Raises NotFound, WorkflowIsCoded."""
        found = await self._service.get_drawn_workflow(workflow, tenant_id=self._tenant_id, version=version)
        return dict(found.definition)

    async def save_workflow(self, document: dict[str, Any]) -> dict[str, Any]:
        """Save a file under its name. Raises InvalidWorkflow."""
        saved, report = await self._service.save_workflow(document, tenant_id=self._tenant_id, actor=self._actor)
        return saved_summary(saved, report)

    async def delete_workflow(self, workflow: str, *, force: bool = False) -> None:
        """Delete a workflow; `force` cancels its open runs. Raises NotFound, WorkflowHasRuns."""
        await self._service.delete_workflow(workflow, tenant_id=self._tenant_id, force=force, actor=self._actor)

    async def activate_workflow(self, workflow: str, version: int) -> dict[str, Any]:
        """Let starts take this version: `{workflowID, name, activeVersion}`. Raises NotFound, WorkflowIsCoded."""
        active = await self._service.activate_version(workflow, version, tenant_id=self._tenant_id, actor=self._actor)
        return {"workflowID": active.workflow_id, "name": active.name, "activeVersion": active.active_version}

    async def pause_workflow(self, workflow: str) -> dict[str, Any]:
        """Pause its runs: `{workflowID, name, paused}`. Raises NotFound."""
        found = await self._service.pause_workflow(workflow, tenant_id=self._tenant_id, by=self._by, actor=self._actor)
        return workflow_pause(*found)

    async def resume_workflow(self, workflow: str) -> dict[str, Any]:
        """Resume its runs: `{workflowID, name, paused}`. Raises NotFound."""
        found = await self._service.resume_workflow(workflow, tenant_id=self._tenant_id, actor=self._actor)
        return workflow_pause(found, None)

    async def pause_tenant(self) -> dict[str, Any]:
        """Pause all runs of the tenant: `{paused}`."""
        pause = await self._service.pause_tenant(tenant_id=self._tenant_id, by=self._by, actor=self._actor)
        return tenant_pause(pause)

    async def resume_tenant(self) -> dict[str, Any]:
        """Resume all runs of the tenant: `{paused}`."""
        await self._service.resume_tenant(tenant_id=self._tenant_id, actor=self._actor)
        return tenant_pause(None)

    async def validate(self, document: Any) -> dict[str, Any]:
        """Validate a workflow."""
        return (await self._service.check_workflow(document, tenant_id=self._tenant_id)).as_json()

    # -- runs -----------------------------------------------------------------------------
    async def start_run(self, workflow: str, input_: Any, options: StartOptions = START_NOW) -> StartedRun:
        """Start a run; it is durable when this returns."""
        options = replace(options, started_by=self._actor)
        started = await self._service.execute_workflow(workflow, input_, options, tenant_id=self._tenant_id)
        return await self._with_newest(started)

    async def rerun_run(
        self, instance_id: str, options: StartOptions = START_NOW, *, input_: Any = SAME_INPUT
    ) -> StartedRun:
        """Start a new run like another one."""
        options = replace(options, started_by=self._actor)
        started = await self._service.rerun(instance_id, options, tenant_id=self._tenant_id, input_=input_)
        return await self._with_newest(started)

    async def _with_newest(self, started: StartedRun) -> StartedRun:
        if started.created:
            return started
        newest = await self._service.newest_rerun(started.instance_id, tenant_id=self._tenant_id)
        return started if newest is None else replace(started, newest=newest.head.instance_id)

    async def list_runs(self, wanted: RunFilter, *, limit: int, cursor: str | None = None) -> dict[str, Any]:
        """A page of runs, newest first."""
        found = await self._service.list_runs(
            wanted,
            tenant_id=self._tenant_id,
            limit=limit + 1,  # one more tells whether there is another page
            before=read_run_cursor(cursor),
        )
        items, next_cursor = cut(found, limit, run_cursor)
        return {"items": items, "nextCursor": next_cursor}

    async def get_run(self, instance_id: str) -> dict[str, Any]:
        """A run with its input, outcome and activations. Raises NotFound."""
        run = await self._service.get_run(instance_id, tenant_id=self._tenant_id)
        self._addresses.show(instance_id, run["nodes"], tenant_id=self._tenant_id)
        return run

    async def wait_for_end(self, instance_id: str, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait for the end of a run: woken by commits of this process, and by polls for those of others."""
        end = await self._waits.ended(instance_id, tenant_id=self._tenant_id, timeout_s=timeout_s)
        if end is None:
            raise no_run(instance_id)
        if end.status is Status.CANCELLED:  # the whole run has the reason
            return await self.get_run(instance_id)
        return run_outcome(instance_id, end.status, end.outcome)

    async def explain_run(self, instance_id: str, node_id: str | None = None, *, scope: str = "") -> dict[str, Any]:
        """Explain the state of a run, or of one of its nodes in a scope. Raises NotFound, RunTooLarge."""
        if node_id is None:
            return await self._explanations.why_run(instance_id, tenant_id=self._tenant_id)
        return await self._explanations.why_node(instance_id, node_id, tenant_id=self._tenant_id, scope=scope)

    async def get_log(self, instance_id: str, *, after_seq: int = 0) -> list[dict[str, Any]]:
        """All events after `after_seq`, in log order. Raises NotFound."""
        return await self._service.get_log(instance_id, tenant_id=self._tenant_id, after_seq=after_seq)

    async def get_history(self, instance_id: str) -> dict[str, Any]:
        """A run with its definition and its log. Raises NotFound."""
        head = await self._service.get_history(instance_id, tenant_id=self._tenant_id)
        return {**head, "log": await self.get_log(instance_id)}

    async def get_console(self, instance_id: str, *, after: int = 0, level: str = "debug") -> list[dict[str, Any]]:
        """All lines after the one with that number, of that level or above, oldest first. Raises NotFound."""
        lines: list[dict[str, Any]] = []
        number: int | None = after
        while number is not None:
            wanted = LinesWanted(after=number, level=LEVELS[level])
            page, number = await self._service.get_console(instance_id, wanted, tenant_id=self._tenant_id)
            lines += page
        return lines

    async def step_pages(self, instance_id: str) -> AsyncIterator[list[dict[str, Any]]]:
        """Every activation, page by page, in the order of its first event. Raises NotFound."""
        after_seq: int | None = 0
        while after_seq is not None:
            page, after_seq = await self._service.get_steps_page(
                instance_id, tenant_id=self._tenant_id, limit=NODES_SHOWN_MAX, after_seq=after_seq
            )
            yield page

    async def cancel_run(self, instance_id: str, *, reason: str) -> str:
        """Return once CANCELLED is committed. Raises NotFound, RunIsTerminal."""
        return await self._service.cancel_run(instance_id, tenant_id=self._tenant_id, reason=reason)

    async def pause_run(self, instance_id: str, *, children: bool = True) -> str:
        """Return once it is SUSPENDED. Raises NotFound, RunIsTerminal."""
        return await self._service.pause_run(instance_id, tenant_id=self._tenant_id, by=self._by, children=children)

    async def resume_run(self, instance_id: str, *, children: bool = True) -> str:
        """Return once it is not SUSPENDED any more; its status then. Raises NotFound, RunIsTerminal."""
        return await self._service.resume_run(instance_id, tenant_id=self._tenant_id, by=self._by, children=children)

    async def retry_run(self, instance_id: str, options: RetryOptions = RETRY) -> dict[str, Any]:
        """Continue a failed or cancelled run; returns what is executed again."""
        return await self._service.retry_run(instance_id, options, tenant_id=self._tenant_id, by=self._by)

    async def fork_run(self, instance_id: str, request: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Start a run with the outcomes of this one, or answer with the plan."""
        options, _ = read_fork(request)
        options = replace(options, idempotency_key=key, started_by=self._actor)
        return await self._forks.fork(instance_id, request, options, tenant_id=self._tenant_id, waits=self._waits)

    async def start_bulk(self, request: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Start a bulk run, which a worker on this database executes."""
        return await self._bulk.start(BulkRequest.from_json(request), tenant_id=self._tenant_id, by=self._by, key=key)

    async def get_bulk(self, bulk_id: str) -> dict[str, Any]:
        """The progress of a bulk run."""
        return await self._bulk.get(bulk_id, tenant_id=self._tenant_id)

    async def send_signal(self, instance_id: str, event: str, payload: Any, *, key: str | None = None) -> bool:
        """Keep a signal until it is consumed; True if a fitting wait was open. Raises NotFound, RunIsTerminal."""
        return await self._service.send_signal(instance_id, event, payload, tenant_id=self._tenant_id, key=key)


@asynccontextmanager
async def open_gateway(url: str, *, tenant_id: str, key: str | None) -> AsyncIterator[Gateway]:
    """The gateway to the database at this URL.

    Raises InvalidRequest for a key, which no database takes; StoreUnavailable, SchemaMismatch, SettingsError.
    """
    if key is not None:
        raise InvalidRequest("a key is for a server", hint="With a database, name the tenant.")
    async with build(Settings.load(database_url=url)).open_services(works=False) as services:
        yield LocalGateway(services, tenant_id)
