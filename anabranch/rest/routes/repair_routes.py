"""Routes that repair runs."""

from __future__ import annotations

from dataclasses import replace

from anabranch.bulk.bulk_actions import BulkRequest
from anabranch.engine.rules.values import KEY_CHARACTERS_MAX
from anabranch.errors import (
    ForkRefused,
    InvalidInput,
    InvalidWorkflow,
    NoManualStart,
    NotFound,
    ParentNotWaiting,
    PlanChanged,
    RetryRefused,
    RetryWouldRepeat,
    RunIsCompleted,
    RunIsOpen,
    RunTooLarge,
    TooManyPending,
)
from anabranch.keys.access import Role
from anabranch.rest.models.repair_models import (
    Bulk,
    BulkProgress,
    Fork,
    ForkAnswer,
    Forked,
    Retried,
    Retry,
    StartedBulk,
)
from anabranch.rest.models.run_models import RunStateModel
from anabranch.rest.routes.route import Header, Reply, RouteCall, RouteTable
from anabranch.rest.routes.run_routes import below_run, run_id_of
from anabranch.run_requests import RetryOptions, read_fork

_RETRY_KEY = Header("Idempotency-Key", "A repeated key returns the result of the first retry.", KEY_CHARACTERS_MAX)
_FORK_KEY = Header("Idempotency-Key", "A repeated key returns the first fork.", KEY_CHARACTERS_MAX)
_BULK_KEY = Header("Idempotency-Key", "A repeated key returns the first bulk run.", KEY_CHARACTERS_MAX)


ROUTES = RouteTable("runs")
_OF_RUN = below_run(ROUTES)


@_OF_RUN.post(
    "/fork",
    Role.EDITOR,
    {201: Forked, 200: ForkAnswer, 202: RunStateModel},
    body=Fork,
    body_required=False,
    headers=(_FORK_KEY,),
    errors=(InvalidInput, InvalidWorkflow, NoManualStart, ForkRefused, PlanChanged, RunTooLarge, TooManyPending),
)
async def fork_run(call: RouteCall) -> Reply:
    """Start a run with the outcomes of this one.

    201 for a new run, and 200 with the first one if the key was used before.

    For a `dryRun` 200 with the plan, or 202 with the run whose output will be the plan.
    """
    asked: Fork = call.body or Fork.model_validate({})
    given = asked.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    if "input" in asked.model_fields_set:
        given["input"] = asked.input
    options, _ = read_fork(given)
    options = replace(options, idempotency_key=call.headers.get("Idempotency-Key"), started_by=call.actor)
    answer = await call.services.forks.fork(
        await run_id_of(call), given, options, tenant_id=call.tenant_id, waits=call.services.waits
    )
    if "rows" in answer:
        return Reply(answer)
    location = {"Location": f"/v1/runs/{answer['instanceID']}"}
    if options.dry_run:
        return Reply(answer, status=202, headers=location)
    return Reply(answer, status=200 if answer["plan"] is None else 201, headers=location)


@ROUTES.post(
    "/v1/runs/bulk",
    Role.OPERATOR,
    {202: StartedBulk},
    body=Bulk,
    headers=(_BULK_KEY,),
    errors=(NotFound, InvalidInput, NoManualStart, TooManyPending),
)
async def start_bulk(call: RouteCall) -> Reply:
    """Perform an action on many runs.

    202; a system run selects the runs and performs the action, page by page.
    """
    asked: Bulk = call.body
    request = BulkRequest.from_json(asked.model_dump(mode="json", exclude_none=True))
    key = call.headers.get("Idempotency-Key")
    started = await call.services.bulk.start(request, tenant_id=call.tenant_id, by=call.actor, key=key)
    return Reply(started, status=202, headers={"Location": f"/v1/runs/bulk/{started['bulkID']}"})


@ROUTES.get("/v1/runs/bulk/{bulkID}", Role.VIEWER, {200: BulkProgress}, errors=(NotFound,))
async def get_bulk(call: RouteCall) -> Reply:
    """Read the progress of a bulk run.

    The progress of a bulk run, and the runs that were refused.
    """
    return Reply(await call.services.bulk.get(call.path["bulkID"], tenant_id=call.tenant_id))


@_OF_RUN.post(
    "/retry",
    Role.OPERATOR,
    {200: Retried},
    body=Retry,
    body_required=False,
    headers=(_RETRY_KEY,),
    errors=(
        InvalidInput,
        RunIsCompleted,
        RunIsOpen,
        RetryWouldRepeat,
        ParentNotWaiting,
        RetryRefused,
        RunTooLarge,
        TooManyPending,
    ),
)
async def retry_run(call: RouteCall) -> Reply:
    """Continue a failed or cancelled run.

    The run continues where it ended, and what failed is executed again; a SUSPENDED one is resumed.
    """
    asked: Retry = call.body or Retry.model_validate({})
    options = RetryOptions(
        reason=asked.reason,
        all_failed_steps=asked.steps == "failed",
        new_keys=asked.newKeys,
        detach=asked.detach,
        deadline_ms=asked.deadline,
        idempotency_key=call.headers.get("Idempotency-Key"),
        dry_run=asked.dryRun,
    )
    return Reply(
        await call.services.workflows.retry_run(await run_id_of(call), options, tenant_id=call.tenant_id, by=call.actor)
    )
