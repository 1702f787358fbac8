"""The database as a server would answer for it: the façade's verbs for one tenant, as documents.

Called through `target` by the commands about runs and workflows, which do not know which of the two
they ask. Everything that is decided is decided by the façade.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from anabranch.cli.options import CLI_ACTOR
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.service import WorkflowService
from anabranch.service.cursors import cut, read_run_cursor, run_cursor
from anabranch.service.definitions.workflow_view import saved_summary
from anabranch.service.runs.run_view import NODES_SHOWN_MAX
from anabranch.service.workflow_service import StartedRun

# 500 workflows a statement: a list is read to its end.
PAGE_WORKFLOWS = 500


class LocalService:
    """The workflows and runs of one tenant, in the database that the façade stands on."""

    def __init__(self, service: WorkflowService, tenant_id: str) -> None:
        self._service = service
        self._tenant_id = tenant_id

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
        saved, report = await self._service.save_workflow(document, tenant_id=self._tenant_id, actor=CLI_ACTOR)
        return saved_summary(saved, report)

    async def delete_workflow(self, workflow: str, *, force: bool = False) -> None:
        """Delete a workflow; `force` cancels its open runs. Raises NotFound, WorkflowHasRuns."""
        await self._service.delete_workflow(workflow, tenant_id=self._tenant_id, force=force, actor=CLI_ACTOR)

    async def validate(self, document: Any) -> dict[str, Any]:
        """What the validator says of a workflow."""
        return (await self._service.check_workflow(document, tenant_id=self._tenant_id)).as_json()

    # -- runs -----------------------------------------------------------------------------
    async def start_run(
        self,
        workflow: str,
        input_: Any,
        *,
        version: int | None = None,
        idempotency_key: str | None = None,
        retention_days: int | None = None,
        available_at: int | None = None,
        deadline_at: int | None = None,
    ) -> StartedRun:
        """Start a run; it is durable when this returns. Times are milliseconds since the epoch."""
        return await self._service.execute_workflow(
            workflow,
            input_,
            tenant_id=self._tenant_id,
            version=version,
            idempotency_key=idempotency_key,
            retention_days=retention_days,
            available_at=available_at,
            deadline_at=deadline_at,
        )

    async def list_runs(
        self,
        *,
        limit: int,
        cursor: str | None = None,
        workflow: str | None = None,
        statuses: Sequence[Status] = (),
        since: int | None = None,
        until: int | None = None,
        version: int | None = None,
    ) -> dict[str, Any]:
        """A page of runs, newest first: `{items, nextCursor}`."""
        found = await self._service.list_runs(
            RunFilter(workflow=workflow, statuses=statuses, since=since, until=until, version=version),
            tenant_id=self._tenant_id,
            limit=limit + 1,  # one more tells whether there is another page
            before=read_run_cursor(cursor),
        )
        items, next_cursor = cut(found, limit, run_cursor)
        return {"items": items, "nextCursor": next_cursor}

    async def get_run(self, instance_id: str) -> dict[str, Any]:
        """A run with its input, outcome and activations. Raises NotFound."""
        return await self._service.get_run(instance_id, tenant_id=self._tenant_id)

    async def get_log(self, instance_id: str, *, after_seq: int = 0) -> list[dict[str, Any]]:
        """All events after `after_seq`, in log order. Raises NotFound."""
        return await self._service.get_log(instance_id, tenant_id=self._tenant_id, after_seq=after_seq)

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

    async def send_signal(self, instance_id: str, event: str, payload: Any, *, key: str | None = None) -> bool:
        """Keep a signal until it is consumed; True if a fitting wait was open. Raises NotFound, RunIsTerminal."""
        return await self._service.send_signal(instance_id, event, payload, tenant_id=self._tenant_id, key=key)
