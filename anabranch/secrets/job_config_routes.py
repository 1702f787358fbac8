"""The route by which executors open configs with secrets."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any

from pydantic import Field

from anabranch.errors import NotFound, NotPermitted, SecretKeyMissing, SecretKeyWrong
from anabranch.keys.access import Role
from anabranch.rest.models.base import RequestModel, ResponseModel
from anabranch.rest.routes.route import Reply, RouteCall, RouteTable
from anabranch.secrets.job_seals import JobIdentity


class SealedConfigForm(RequestModel):
    """The part of a job that asks for its config."""

    tenantID: str = Field(max_length=64)
    instanceID: str = Field(max_length=64)
    pool: str = Field(max_length=64)
    jobID: str = Field(max_length=255)
    sealed: str


class OpenedConfig(ResponseModel):
    """A config with its secrets."""

    config: Any
    secrets: dict[str, str]


ROUTES = RouteTable("data")


@ROUTES.post(
    "/v1/jobs/config",
    Role.EXECUTOR,
    {200: OpenedConfig},
    body=SealedConfigForm,
    errors=(NotFound, SecretKeyMissing, SecretKeyWrong),
)
async def open_job_config(call: RouteCall) -> Reply:
    """Open the config of a job.

    For executors of the job's pool, with a key for its tenant, as long as its run has not ended.
    """
    form: SealedConfigForm = call.body
    tenant_id = call.principal.tenant_for(form.tenantID)
    if not call.principal.serves(form.pool):
        raise NotPermitted(
            f"the key is not for jobs of the pool {form.pool!r}", hint="`anabranch keys create --role executor --pools`"
        )
    run = await call.services.workflows.get_run_status(form.instanceID, tenant_id=tenant_id)
    if run.status.is_terminal:
        raise NotFound(f"run {form.instanceID} has ended: nobody awaits its jobs")
    identity = JobIdentity(tenant_id, form.instanceID, form.pool, form.jobID)
    return Reply(call.services.job_seals.open(identity, form.sealed))
