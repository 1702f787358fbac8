"""Routes of whole workflows and tenants: pause, resume, and the version that starts use."""

from __future__ import annotations

from anabranch.errors import HookPathTaken, NotFound, WorkflowIsCoded
from anabranch.keys.access import Role
from anabranch.rest.models.run_models import NoOptions
from anabranch.rest.models.workflow_models import ActivationModel, ActiveVersion, TenantPause, WorkflowPause
from anabranch.rest.routes.route import Reply, RouteCall, RouteTable
from anabranch.service.definitions.workflow_view import tenant_pause, workflow_pause

ROUTES = RouteTable("workflows")
_OF_WORKFLOW = ROUTES.below("/v1/workflows/{workflow}", errors=(NotFound,))


@_OF_WORKFLOW.put(
    "/active", Role.EDITOR, {200: ActiveVersion}, body=ActivationModel, errors=(HookPathTaken, WorkflowIsCoded)
)
async def activate_version(call: RouteCall) -> Reply:
    """Choose the version that starts take.

    From now on, starts, schedules, topics and parent runs that name no version use it; open runs keep theirs.

    A later save becomes active again, unless it has `activate: false`. 409 for a coded workflow: its workers decide.
    """
    active = await call.services.workflows.activate_version(
        call.path["workflow"], call.body.version, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply({"workflowID": active.workflow_id, "name": active.name, "activeVersion": active.active_version})


@_OF_WORKFLOW.post("/pause", Role.EDITOR, {200: WorkflowPause}, body=NoOptions, body_required=False)
async def pause_workflow(call: RouteCall) -> Reply:
    """Pause all runs of a workflow.

    Its runs stop: executions under way may end, nothing else starts, and new runs stay PENDING.

    Runs keep their status and show `pausedBy`; their deadlines count. Child runs of other workflows continue.
    """
    found = await call.services.workflows.pause_workflow(
        call.path["workflow"], tenant_id=call.tenant_id, by=call.actor, actor=call.actor
    )
    return Reply(workflow_pause(*found))


@_OF_WORKFLOW.post("/resume", Role.EDITOR, {200: WorkflowPause}, body=NoOptions, body_required=False)
async def resume_workflow(call: RouteCall) -> Reply:
    """Resume the runs of a paused workflow.

    A workflow that is not paused is not changed. Runs that are SUSPENDED themselves stay SUSPENDED.
    """
    found = await call.services.workflows.resume_workflow(
        call.path["workflow"], tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(workflow_pause(found, None))


@ROUTES.get("/v1/pause", Role.VIEWER, {200: TenantPause}, tag="runs")
async def get_pause(call: RouteCall) -> Reply:
    """Is the tenant paused?

    Whether all runs of the tenant are paused.
    """
    return Reply(tenant_pause(await call.services.workflows.pause_of_tenant(tenant_id=call.tenant_id)))


@ROUTES.post("/v1/pause", Role.ADMIN, {200: TenantPause}, body=NoOptions, body_required=False, tag="runs")
async def pause_tenant(call: RouteCall) -> Reply:
    """Pause all runs of the tenant.

    The same as for a workflow, for all runs of the tenant, including test runs and bulk runs.
    """
    pause = await call.services.workflows.pause_tenant(tenant_id=call.tenant_id, by=call.actor, actor=call.actor)
    return Reply(tenant_pause(pause))


@ROUTES.post("/v1/resume", Role.ADMIN, {200: TenantPause}, body=NoOptions, body_required=False, tag="runs")
async def resume_tenant(call: RouteCall) -> Reply:
    """Resume all runs of the tenant.

    Workflows that are paused themselves stay paused.
    """
    await call.services.workflows.resume_tenant(tenant_id=call.tenant_id, actor=call.actor)
    return Reply(tenant_pause(None))
