"""Routes of whole workflows and tenants: pause, resume, and the version that starts use."""

from __future__ import annotations

from anabranch.errors import HookPathTaken, NotFound, WorkflowIsCoded
from anabranch.keys.access import Role
from anabranch.rest.models.workflow_models import ActivationModel, ActiveVersion, TenantPause, WorkflowPause
from anabranch.rest.routes.route import Reply, Route, RouteCall
from anabranch.service.definitions.workflow_view import tenant_pause, workflow_pause


async def activate_version(call: RouteCall) -> Reply:
    """From now on, starts, schedules, topics and parent runs that name no version use it; open runs keep theirs.

    A later save becomes active again, unless it has `activate: false`. 409 for a coded workflow: its workers decide.
    """
    active = await call.services.workflows.activate_version(
        call.path["workflow"], call.body.version, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply({"workflowID": active.workflow_id, "name": active.name, "activeVersion": active.active_version})


async def pause_workflow(call: RouteCall) -> Reply:
    """Its runs stop: executions under way may end, nothing else starts, and new runs stay PENDING.

    Runs keep their status and show `pausedBy`; their deadlines count. Child runs of other workflows continue.
    """
    found = await call.services.workflows.pause_workflow(
        call.path["workflow"], tenant_id=call.tenant_id, by=call.actor, actor=call.actor
    )
    return Reply(workflow_pause(*found))


async def resume_workflow(call: RouteCall) -> Reply:
    """A workflow that is not paused is not changed. Runs that are SUSPENDED themselves stay SUSPENDED."""
    found = await call.services.workflows.resume_workflow(
        call.path["workflow"], tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(workflow_pause(found, None))


async def get_pause(call: RouteCall) -> Reply:
    """Whether all runs of the tenant are paused."""
    return Reply(tenant_pause(await call.services.workflows.pause_of_tenant(tenant_id=call.tenant_id)))


async def pause_tenant(call: RouteCall) -> Reply:
    """The same as for a workflow, for all runs of the tenant, including test runs and bulk runs."""
    pause = await call.services.workflows.pause_tenant(tenant_id=call.tenant_id, by=call.actor, actor=call.actor)
    return Reply(tenant_pause(pause))


async def resume_tenant(call: RouteCall) -> Reply:
    """Workflows that are paused themselves stay paused."""
    await call.services.workflows.resume_tenant(tenant_id=call.tenant_id, actor=call.actor)
    return Reply(tenant_pause(None))


ROUTES = (
    Route(
        "PUT",
        "/v1/workflows/{workflow}/active",
        activate_version,
        "Choose the version that starts take.",
        Role.EDITOR,
        {200: ActiveVersion},
        body=ActivationModel,
        errors=(NotFound, HookPathTaken, WorkflowIsCoded),
        tag="workflows",
    ),
    Route(
        "POST",
        "/v1/workflows/{workflow}/pause",
        pause_workflow,
        "Pause all runs of a workflow.",
        Role.EDITOR,
        {200: WorkflowPause},
        errors=(NotFound,),
        tag="workflows",
    ),
    Route(
        "POST",
        "/v1/workflows/{workflow}/resume",
        resume_workflow,
        "Resume the runs of a paused workflow.",
        Role.EDITOR,
        {200: WorkflowPause},
        errors=(NotFound,),
        tag="workflows",
    ),
    Route("GET", "/v1/pause", get_pause, "Is the tenant paused?", Role.VIEWER, {200: TenantPause}, tag="runs"),
    Route(
        "POST",
        "/v1/pause",
        pause_tenant,
        "Pause all runs of the tenant.",
        Role.ADMIN,
        {200: TenantPause},
        tag="runs",
    ),
    Route(
        "POST",
        "/v1/resume",
        resume_tenant,
        "Resume all runs of the tenant.",
        Role.ADMIN,
        {200: TenantPause},
        tag="runs",
    ),
)
