"""Pause and resume whole workflows and tenants, and choose the version that starts use.

A mixin of `WorkflowService`, above `definition_verbs` and below `read_verbs`. A pause writes to no run: runs keep their
status, are not claimed by any worker, and show `pausedBy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.engine.ports import InstanceRow, Pause, Store, WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.errors import WorkflowIsCoded
from anabranch.service.definitions.definition_verbs import DefinitionVerbs
from anabranch.service.definitions.workflow_view import pause_as_json


class PauseVerbs(DefinitionVerbs):
    """Pauses, and active versions."""

    async def pause_workflow(
        self, workflow: str, *, tenant_id: str, by: str, actor: str | None = None
    ) -> tuple[WorkflowVersion, Pause]:
        """Pause the workflow: its runs are no longer claimed, and owners release theirs within a second. Raises
        NotFound."""
        found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id)
        pause = await self._store.pause(tenant_id=tenant_id, workflow_id=found.workflow_id, by=by, actor=actor)
        await self._engine.pauses_changed()
        return found, pause

    async def resume_workflow(self, workflow: str, *, tenant_id: str, actor: str | None = None) -> WorkflowVersion:
        """Return once its runs may be claimed; a workflow that is not paused is not changed. A pause of the tenant
        stays.

        Raises NotFound.
        """
        found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id)
        await self._unpause(tenant_id, found.workflow_id, actor)
        return found

    async def pause_tenant(self, *, tenant_id: str, by: str, actor: str | None = None) -> Pause:
        """The same for all runs of the tenant, test runs and bulk runs too."""
        pause = await self._store.pause(tenant_id=tenant_id, workflow_id=None, by=by, actor=actor)
        await self._engine.pauses_changed()
        return pause

    async def resume_tenant(self, *, tenant_id: str, actor: str | None = None) -> None:
        """Resume the runs of the tenant, except those of paused workflows."""
        await self._unpause(tenant_id, None, actor)

    async def pause_of_tenant(self, *, tenant_id: str) -> Pause | None:
        """The pause of the whole tenant; None if there is none."""
        found = await self._store.pauses(tenant_id=tenant_id)
        return next((pause for pause in found if pause.workflow_id is None), None)

    async def activate_version(
        self, workflow: str, version: int, *, tenant_id: str, actor: str | None = None
    ) -> WorkflowVersion:
        """Make this the version for starts and triggers; open runs keep theirs. Raises NotFound.

        Raises WorkflowIsCoded: all tenants start the same version of a coded workflow, and its workers say which.
        """
        found = await self.get_workflow_by_id(workflow, tenant_id=tenant_id)
        if found.kind == CODED_KIND:
            raise WorkflowIsCoded(
                f"workflow {found.name} is a coded workflow; its workers choose the active version",
                hint="Start a worker whose code declares that version with `--active`.",
            )
        return await self._store.activate_version(
            tenant_id=tenant_id, workflow_id=found.workflow_id, version=version, actor=actor
        )

    # -- within ---------------------------------------------------------------------------
    async def _unpause(self, tenant_id: str, workflow_id: str | None, actor: str | None) -> None:
        await self._store.unpause(tenant_id=tenant_id, workflow_id=workflow_id, actor=actor)
        await self._engine.pauses_changed()
        self._engine.claimer.soon()


async def paused_by(store: Store, rows: Sequence[InstanceRow], *, tenant_id: str) -> dict[str, dict[str, Any]]:
    """The `pausedBy` of runs whose workflow or tenant is paused, by id."""
    is_open = [row for row in rows if not row.status.is_terminal]
    pauses = await store.pauses(tenant_id=tenant_id) if is_open else []
    if not pauses:
        return {}
    by_workflow = {pause.workflow_id: pause for pause in pauses}
    of_tenant = by_workflow.pop(None, None)
    found = {row.head.instance_id: of_tenant or by_workflow.get(row.head.workflow_id) for row in is_open}
    return {
        instance_id: {"kind": "tenant" if pause.workflow_id is None else "workflow", **pause_as_json(pause)}
        for instance_id, pause in found.items()
        if pause is not None
    }
