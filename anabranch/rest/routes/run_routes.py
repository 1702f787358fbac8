"""Routes of runs: start, list, read, cancel, signal. Paths of one run also exist below its workflow.

`run_detail_routes` has those that read one run in detail.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from multidict import MultiDictProxy

from anabranch import run_requests
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.engine.rules.values import KEY_CHARACTERS_MAX
from anabranch.errors import (
    InvalidInput,
    InvalidRequest,
    InvalidWorkflow,
    NoManualStart,
    NotFound,
    NotPermitted,
    RunIsOpen,
    RunIsTerminal,
    RunTooLarge,
    ShuttingDown,
    StoreUnavailable,
    TooManyPending,
    TooManySignals,
)
from anabranch.keys.access import Role
from anabranch.rest.bodies import checked, one_problem
from anabranch.rest.error_responses import RETRY_AFTER_S
from anabranch.rest.lists import page_of
from anabranch.rest.models.base import Waiting
from anabranch.rest.models.run_models import (
    CancelRun,
    ChildrenQuery,
    Deletion,
    Delivered,
    NoOptions,
    Rerun,
    Run,
    RunList,
    RunPage,
    RunQuery,
    RunStateModel,
    StartedRunModel,
    StartedTestRun,
    StartRun,
    StartTestRun,
)
from anabranch.rest.routes.route import AnyJson, Checked, Header, Reply, RouteCall, RouteTable
from anabranch.run_requests import StartOptions
from anabranch.service.cursors import cut, read_run_cursor, run_cursor

_INPUT_PREFIX = "input."

_START_KEY = Header("Idempotency-Key", "A repeated key returns the first run.", KEY_CHARACTERS_MAX)
_SIGNAL_KEY = Header("Idempotency-Key", "A repeated key is delivered once, with the same response.", KEY_CHARACTERS_MAX)


def below_run(routes: RouteTable) -> RouteTable:
    """Routes below a run's path, which also exist below that of its workflow."""
    return routes.below("/v1/runs/{instanceID}", alias="/v1/workflows/{workflow}/runs/{instanceID}", errors=(NotFound,))


ROUTES = RouteTable("runs")
_OF_RUN = below_run(ROUTES)


@ROUTES.post(
    "/v1/workflows/{workflow}/runs",
    Role.OPERATOR,
    {201: StartedRunModel, 200: StartedRunModel},
    body=Checked(StartRun),
    query=Waiting,
    headers=(_START_KEY,),
    errors=(NotFound, InvalidInput, NoManualStart, TooManyPending, ShuttingDown),
)
async def start_run(call: RouteCall) -> Reply:
    """Start a run.

    201: the run is durable. 200 with the first run if the idempotency key was used before.

    With `wait` the response is sent when the run has ended or the time is over, and includes output and error.
    """
    workflow, key = call.path["workflow"], _start_key(call)
    try:
        asked = checked(call.body, StartRun)
    except InvalidRequest:
        # Whatever the body of a repeat is: the key returns its run.
        started = await call.services.workflows.find_first_run(
            workflow, key if isinstance(key, str) else None, tenant_id=call.tenant_id
        )
        if started is None:
            raise
    else:
        started = await call.services.workflows.execute_workflow(
            workflow,
            asked.input,
            StartOptions(
                version=asked.version,
                idempotency_key=key,
                retention_days=asked.retentionDays,
                available_at=asked.availableAt,
                deadline_at=asked.deadlineAt,
                started_by=call.actor,
            ),
            tenant_id=call.tenant_id,
        )
    return await _started(call, started)


def _start_key(call: RouteCall) -> Any:
    """The idempotency key of a start, unchecked: of its body or the header. Raises InvalidRequest if they differ."""
    in_body, in_header = call.body.get("idempotencyKey"), call.headers.get("Idempotency-Key")
    if in_header is None or in_body in (None, in_header):
        return in_body if in_header is None else in_header
    raise one_problem(
        "`idempotencyKey` in the body and the header Idempotency-Key differ",
        "/idempotencyKey",
        hint="Give the key in one place, or the same key in both.",
    )


async def _started(call: RouteCall, started: run_requests.StartedRun) -> Reply:
    """The answer to a start."""
    run: dict[str, Any] = {"instanceID": started.instance_id, "status": started.status.value}
    headers = {"Location": f"/v1/runs/{started.instance_id}"}
    if not started.created:
        newest = await call.services.workflows.newest_rerun(started.instance_id, tenant_id=call.tenant_id)
        run["newest"] = (
            None if newest is None else {"instanceID": newest.head.instance_id, "status": newest.status.value}
        )
    return await _after_wait(call, run, 201 if started.created else 200, headers)


@ROUTES.get(
    "/v1/workflows/{workflow}/runs",
    Role.VIEWER,
    {200: RunList},
    query=RunPage,
    open_query=_INPUT_PREFIX,
    errors=(NotFound,),
)
async def list_runs_of_workflow(call: RouteCall) -> Reply:
    """List the runs of a workflow, newest first.

    `input.a.b=v` filters by the value `v`, read as JSON or as text, at that path of a run's input.
    """
    return await list_runs(call)


@ROUTES.get("/v1/runs", Role.VIEWER, {200: RunList}, query=RunPage, open_query=_INPUT_PREFIX)
async def list_runs(call: RouteCall) -> Reply:
    """List the runs of all workflows, newest first.

    `input.a.b=v` lists only runs whose input has the value `v`, read as JSON or as text, at that path.
    """
    query: RunPage = call.query
    wanted = RunFilter(
        workflow=call.path.get("workflow"),
        statuses=query.status,
        reasons=query.reason,
        since=query.since,
        until=query.until,
        version=query.version,
        rerun_of=query.rerunOf,
        test=query.test,
        error=query.error,
        input_filters=_input_filters(call.raw_query),
    )
    found = await call.services.workflows.list_runs(
        wanted, tenant_id=call.tenant_id, limit=query.limit + 1, before=read_run_cursor(query.cursor)
    )
    shown, next_cursor = cut(found, query.limit, run_cursor)
    return Reply(page_of(shown, next_cursor))


@_OF_RUN.get("", Role.VIEWER, {200: Run}, query=RunQuery)
async def get_run(call: RouteCall) -> Reply:
    """Read a run.

    A run with its input, outcome and first 1,000 activations.
    """
    instance_id = await run_id_of(call)
    headers = await wait_for_end(call, instance_id)
    run = await call.services.workflows.get_run(instance_id, tenant_id=call.tenant_id, inline=call.query.inline)
    show_addresses(call, instance_id, run["nodes"])
    return Reply(run, headers=headers)


@_OF_RUN.post(
    "/cancel", Role.OPERATOR, {200: RunStateModel}, body=CancelRun, body_required=False, errors=(RunIsTerminal,)
)
async def cancel_run(call: RouteCall) -> Reply:
    """Cancel a run.

    Returns once CANCELLED is committed.
    """
    asked: CancelRun = call.body or CancelRun.model_validate({})
    instance_id = await run_id_of(call)
    status = await call.services.workflows.cancel_run(instance_id, tenant_id=call.tenant_id, reason=asked.reason)
    return Reply({"instanceID": instance_id, "status": status.value})


@_OF_RUN.post(
    "/rerun",
    Role.OPERATOR,
    {201: StartedRunModel, 200: StartedRunModel},
    body=Rerun,
    body_required=False,
    query=Waiting,
    headers=(_START_KEY,),
    errors=(InvalidInput, NoManualStart, TooManyPending, ShuttingDown),
)
async def rerun_run(call: RouteCall) -> Reply:
    """Start a new run like this one.

    A new run with the same input, or with `input`; of the same version, or of `version`. 200 for a repeated key.
    """
    asked: Rerun = call.body or Rerun.model_validate({})
    given = {"input_": asked.input} if "input" in asked.model_fields_set else {}
    options = StartOptions(
        version=asked.version, idempotency_key=call.headers.get("Idempotency-Key"), started_by=call.actor
    )
    started = await call.services.workflows.rerun(await run_id_of(call), options, tenant_id=call.tenant_id, **given)
    return await _started(call, started)


@_OF_RUN.post(
    "/pause",
    Role.OPERATOR,
    {200: RunStateModel},
    body=NoOptions,
    body_required=False,
    query=ChildrenQuery,
    errors=(RunIsTerminal,),
)
async def pause_run(call: RouteCall) -> Reply:
    """Suspend a run until it is resumed.

    Returns once SUSPENDED is committed; executions under way may end, and nothing else starts.
    """
    query: ChildrenQuery = call.query
    instance_id = await run_id_of(call)
    status = await call.services.workflows.pause_run(
        instance_id, tenant_id=call.tenant_id, by=call.actor, children=query.children
    )
    return Reply({"instanceID": instance_id, "status": status.value})


@_OF_RUN.post(
    "/resume",
    Role.OPERATOR,
    {200: RunStateModel},
    body=NoOptions,
    body_required=False,
    query=ChildrenQuery,
    errors=(RunIsTerminal,),
)
async def resume_run(call: RouteCall) -> Reply:
    """Resume a suspended run.

    A run that is not SUSPENDED stays as it is.
    """
    query: ChildrenQuery = call.query
    instance_id = await run_id_of(call)
    status = await call.services.workflows.resume_run(
        instance_id, tenant_id=call.tenant_id, by=call.actor, children=query.children
    )
    return Reply({"instanceID": instance_id, "status": status.value})


@_OF_RUN.delete(
    "",
    Role.OPERATOR,
    {200: RunStateModel, 204: None},
    body=CancelRun,
    body_required=False,
    query=Deletion,
    errors=(RunIsOpen, RunIsTerminal),
)
async def delete_run(call: RouteCall) -> Reply:
    """Cancel a run; its log stays. Or remove one that has ended.

    Cancel the run; its log stays readable. With `purge`, remove an ended run: 204.
    """
    query: Deletion = call.query
    if not query.purge:
        return await cancel_run(call)
    if not call.principal.role.may(Role.EDITOR):
        raise NotPermitted(f"deleting a run needs the role {Role.EDITOR}; the key has {call.principal.role}")
    await call.services.workflows.delete_run(await run_id_of(call), tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


@_OF_RUN.post(
    "/signals/{event}",
    Role.OPERATOR,
    {202: Delivered},
    body=AnyJson(),
    body_required=False,
    headers=(_SIGNAL_KEY,),
    errors=(RunIsTerminal, TooManySignals, InvalidInput),
)
async def send_signal(call: RouteCall) -> Reply:
    """Send a signal to a run; the body is its payload.

    202; the signal is kept until something waits for it.
    """
    delivered = await call.services.workflows.send_signal(
        await run_id_of(call),
        call.path["event"],
        call.body,
        tenant_id=call.tenant_id,
        key=call.headers.get("Idempotency-Key"),
    )
    return Reply({"delivered": delivered}, 202)


@ROUTES.post(
    "/v1/test-runs",
    Role.EDITOR,
    {201: StartedTestRun},
    body=Checked(StartTestRun),
    query=Waiting,
    errors=(InvalidWorkflow, InvalidInput, NoManualStart, NotFound, RunTooLarge, TooManyPending, ShuttingDown),
)
async def start_test_run(call: RouteCall) -> Reply:
    """Run a graph without saving it.

    A run of an unsaved graph, kept for a day. Nodes that are pinned complete at once, with `"pinned": true`.
    """
    instance_id = await call.services.workflows.test_workflow(call.body, tenant_id=call.tenant_id)
    return await _after_wait(call, {"instanceID": instance_id}, 201, {"Location": f"/v1/runs/{instance_id}"})


@ROUTES.delete("/v1/test-runs/{instanceID}", Role.EDITOR, {204: None}, errors=(NotFound,))
async def stop_test_run(call: RouteCall) -> Reply:
    """Cancel a test run and remove it.

    Cancelled, and its rows removed.
    """
    await call.services.workflows.stop_test_workflow(call.path["instanceID"], tenant_id=call.tenant_id)
    return Reply(status=204)


async def wait_for_end(call: RouteCall, instance_id: str) -> dict[str, str]:
    """Wait for the end of a run if the query asks for it. Returns headers that say if too many requests wait."""
    wait_s = call.query.wait
    if wait_s is None:
        return {}
    has_waited = await call.services.waits.until_ended(
        instance_id, tenant_id=call.tenant_id, wait_s=wait_s, is_gone=call.is_gone
    )
    return {} if has_waited else {"Retry-After": str(RETRY_AFTER_S[429])}


async def _after_wait(call: RouteCall, run: dict[str, Any], status: int, headers: dict[str, str]) -> Reply:
    """The answer to a start: at once, or with the outcome once its end was waited for."""
    if call.query.wait is None:
        return Reply(run, status, headers)
    headers |= await wait_for_end(call, run["instanceID"])
    with suppress(NotFound, StoreUnavailable):  # the run has started, whatever happens next
        run |= await call.services.workflows.get_outcome(run["instanceID"], tenant_id=call.tenant_id)
    return Reply(run, status, headers)


async def run_id_of(call: RouteCall) -> str:
    """The run in the path; below a workflow's path it must be a run of that workflow. Raises NotFound."""
    instance_id = call.path["instanceID"]
    workflow = call.path.get("workflow")
    if workflow is not None:
        row = await call.services.workflows.get_run_status(instance_id, tenant_id=call.tenant_id)
        if workflow not in (row.head.workflow_id, row.head.workflow_name):
            raise NotFound(f"workflow {workflow!r} has no run {instance_id}")
    return instance_id


def show_addresses(call: RouteCall, instance_id: str, activations: Iterable[dict[str, Any]]) -> None:
    """Add the one-time addresses of waits, for callers that may signal the run anyway."""
    if call.principal.role.may(Role.OPERATOR):
        call.services.addresses.show(instance_id, activations, tenant_id=call.tenant_id)


def _input_filters(query: MultiDictProxy[str]) -> list[tuple[tuple[str, ...], str]]:
    found = [
        (tuple(name.removeprefix(_INPUT_PREFIX).split(".")), value)
        for name, value in query.items()
        if name.startswith(_INPUT_PREFIX)
    ]
    for path, _ in found:
        if not all(path):
            raise one_problem(f"input.{'.'.join(path)} has an empty part", "/input")
    return found
