"""`Client`: start, signal and watch runs, from a program that executes none of them.

Importing it does not load the engine, which is imported when a database is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from anabranch.client.gateway import PAGE_RUNS_MAX, Gateway
from anabranch.deferred import deferred
from anabranch.errors import InvalidRequest, RunCancelled, RunFailed
from anabranch.run_requests import (
    SAME_INPUT,
    RetryArguments,
    StartOptions,
    check_limit,
    check_moment,
    check_seconds,
    check_start,
    check_start_key,
    retry_options,
)

if TYPE_CHECKING:
    from anabranch.client import local, remote
    from anabranch.engine.rules import events, run_filter, values
else:
    local = deferred("anabranch.client.local")
    remote = deferred("anabranch.client.remote")
    events = deferred("anabranch.engine.rules.events")
    run_filter = deferred("anabranch.engine.rules.run_filter")
    values = deferred("anabranch.engine.rules.values")

_DATABASES, _SERVERS = ("sqlite", "postgresql"), ("http", "https")


class RunHandle:
    """A handle on one run."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self.run_id = run_id

    async def get(self) -> dict[str, Any]:
        """The run with input, output, error and steps, as REST shows it. Raises NotFound."""
        return await self._client.get(self.run_id)

    async def result(self, *, timeout: float | None = None) -> Any:  # noqa: ASYNC109 -- as the contract has it
        """Wait for the run's output. `timeout` in seconds; 0 checks once.

        Raises RunFailed, RunCancelled, NotFound, InvalidRequest, TimeoutError (the run continues).
        """
        return await self._client.result(self.run_id, timeout=timeout)

    async def signal(self, event: str, payload: Any = None, *, key: str | None = None) -> bool:
        """Send a signal; True if a fitting wait was open, else it is kept. A repeated key is delivered once.

        Raises NotFound, RunIsTerminal, TooManySignals, InvalidInput, InvalidRequest.
        """
        return await self._client.signal(self.run_id, event, payload, key=key)

    async def cancel(self, *, reason: str = "cancelled by a client") -> None:
        """Return once CANCELLED is committed. Raises NotFound; RunIsTerminal if it ended otherwise."""
        await self._client.cancel(self.run_id, reason=reason)

    async def pause(self, *, children: bool = True) -> None:
        """Suspend the run and the runs that it awaits; executions under way end.

        Returns once it is SUSPENDED. Raises NotFound, RunIsTerminal.
        """
        await self._client.pause(self.run_id, children=children)

    async def resume(self, *, children: bool = True) -> None:
        """Resume a SUSPENDED run, and the paused runs that it awaits. Raises NotFound, RunIsTerminal."""
        await self._client.resume(self.run_id, children=children)

    async def retry(self, **how: Unpack[RetryArguments]) -> dict[str, Any]:
        """Continue a FAILED or CANCELLED run where it ended, or resume a SUSPENDED one; see `Client.retry`."""
        return await self._client.retry(self.run_id, **how)


class Client:
    """A connection for one tenant: to a database (`sqlite:///path`, `postgresql://…`) or a server (`https://…`).

    `async with Client(url) as client:` For a database give the `tenant`, for a server an API `key`
    (`ANABRANCH_TOKEN` unless given), which decides the tenant. All verbs do the same on both; to a server
    they may also raise NotAuthenticated, NotPermitted and ServerUnreachable.
    """

    def __init__(self, url: str, *, tenant: str = "default", key: str | None = None) -> None:
        self._url = url
        self._tenant = tenant
        self._key = key
        self._gateway: Gateway | None = None
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the connection, again if it was closed.

        Raises StoreUnavailable, SchemaMismatch, InvalidRequest for a URL of no known kind or if it is open already.
        """
        if self._gateway is not None:
            raise InvalidRequest("the client is already open", hint="Make another one, or close it first.")
        scheme = self._url.partition(":")[0].partition("+")[0]
        if scheme not in (*_DATABASES, *_SERVERS):
            known = ", ".join((*_DATABASES, *_SERVERS))
            raise InvalidRequest(f"a client cannot open {scheme!r} URLs; it supports {known}")
        open_gateway = local.open_gateway if scheme in _DATABASES else remote.open_gateway
        opening = open_gateway(self._url, tenant_id=self._tenant, key=self._key)
        self._gateway = await self._opened.enter_async_context(opening)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client; runs continue."""
        self._gateway = None
        await self._opened.aclose()

    async def start(
        self,
        workflow: str,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        available_at: datetime | None = None,
        deadline_at: datetime | None = None,
        retention_days: int | None = None,
        version: int | None = None,
    ) -> RunHandle:
        """Start a run of a workflow, drawn or coded; it is durable when this returns.

        A repeated `idempotency_key` returns the first run. Times are aware datetimes; `version` defaults to the active
        one and stays fixed. `retention_days` is limited to the operator's maximum. Raises NotFound, InvalidInput,
        InvalidRequest, TooManyPending.
        """
        check_start(version=version, retention_days=retention_days)
        if idempotency_key is not None:
            check_start_key(idempotency_key)
        check_moment(available_at, "available_at")
        check_moment(deadline_at, "deadline_at")
        options = StartOptions(
            version=version,
            idempotency_key=idempotency_key,
            retention_days=retention_days,
            available_at=_milliseconds(available_at),
            deadline_at=_milliseconds(deadline_at),
        )
        started = await self._open_gateway.start_run(workflow, input, options)
        return RunHandle(self, started.instance_id)

    async def rerun(
        self,
        run_id: str,
        *,
        input: Any = SAME_INPUT,
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> RunHandle:
        """Start a new run like another one: with its input and of its version, unless others are given.

        The new run is linked to it (`rerunOf`). Raises NotFound, InvalidInput, InvalidRequest, TooManyPending.
        """
        check_start(version=version, retention_days=None)
        if idempotency_key is not None:
            check_start_key(idempotency_key)
        options = StartOptions(version=version, idempotency_key=idempotency_key)
        started = await self._open_gateway.rerun_run(run_id, options, input_=input)
        return RunHandle(self, started.instance_id)

    def handle(self, run_id: str) -> RunHandle:
        """A handle of a run that was started elsewhere."""
        return RunHandle(self, run_id)

    async def get(self, run_id: str) -> dict[str, Any]:
        """A run with input, output, error and steps, as REST shows it. Raises NotFound."""
        return await self._open_gateway.get_run(run_id)

    async def list(
        self,
        *,
        workflow: str | None = None,
        status: str | Sequence[str] = (),
        version: int | None = None,
        limit: int = 50,
    ) -> Sequence[Mapping[str, Any]]:
        """The newest runs first, of one workflow, status or version if named. Raises NotFound, InvalidRequest."""
        check_limit(limit)
        check_start(version=version, retention_days=None)
        statuses = [status] if isinstance(status, str) else status
        wanted = run_filter.RunFilter(workflow=workflow, statuses=[_status(each) for each in statuses], version=version)
        gateway = self._open_gateway
        page = await gateway.list_runs(wanted, limit=min(limit, PAGE_RUNS_MAX))
        runs: list[dict[str, Any]] = page["items"]
        while page["nextCursor"] is not None and len(runs) < limit:
            page = await gateway.list_runs(
                wanted, limit=min(limit - len(runs), PAGE_RUNS_MAX), cursor=page["nextCursor"]
            )
            runs += page["items"]
        return runs

    async def result(self, run_id: str, *, timeout: float | None = None) -> Any:  # noqa: ASYNC109 -- see RunHandle
        """A run's output, once it is there; see `RunHandle.result`."""
        check_seconds(timeout, "timeout")
        run = await self._open_gateway.wait_for_end(run_id, timeout_s=timeout)
        if run["status"] == "FAILED":
            error = run["error"]
            raise RunFailed(f"run {run_id} failed with {error['code']}: {error['message']}", details=error)
        if run["status"] == "CANCELLED":
            raise RunCancelled(f"run {run_id} was cancelled: {run['note']}")
        return run["output"]

    async def signal(self, run_id: str, event: str, payload: Any = None, *, key: str | None = None) -> bool:
        """Send a signal to a run; see `RunHandle.signal`."""
        values.check_key(event, "an event's name")
        if key is not None:
            values.check_key(key, "a signal's key")
        return await self._open_gateway.send_signal(run_id, event, payload, key=key)

    async def cancel(self, run_id: str, *, reason: str = "cancelled by a client") -> None:
        """Cancel a run; see `RunHandle.cancel`."""
        await self._open_gateway.cancel_run(run_id, reason=reason)

    async def pause(self, run_id: str, *, children: bool = True) -> None:
        """Suspend a run; see `RunHandle.pause`."""
        await self._open_gateway.pause_run(run_id, children=children)

    async def resume(self, run_id: str, *, children: bool = True) -> None:
        """Resume a suspended run; see `RunHandle.resume`."""
        await self._open_gateway.resume_run(run_id, children=children)

    async def activate(self, workflow: str, version: int) -> dict[str, Any]:
        """Make this version the default for starts: `{workflowID, name, activeVersion}`; open runs keep theirs.

        Raises NotFound; WorkflowIsCoded for a coded workflow, whose workers say which version is active.
        """
        check_start(version=version, retention_days=None)
        return await self._open_gateway.activate_workflow(workflow, version)

    async def pause_workflow(self, workflow: str) -> dict[str, Any]:
        """Pause all runs of a workflow until it is resumed: `{workflowID, name, paused}`. Raises NotFound.

        Executions under way end; starts stay PENDING. Runs keep their status and show `pausedBy`.
        """
        return await self._open_gateway.pause_workflow(workflow)

    async def resume_workflow(self, workflow: str) -> dict[str, Any]:
        """Resume the runs of a paused workflow: `{workflowID, name, paused}`. Raises NotFound."""
        return await self._open_gateway.resume_workflow(workflow)

    async def pause_tenant(self) -> dict[str, Any]:
        """The same for all runs of the tenant: `{paused}`."""
        return await self._open_gateway.pause_tenant()

    async def resume_tenant(self) -> dict[str, Any]:
        """Resume the runs of the tenant, except those of paused workflows: `{paused}`."""
        return await self._open_gateway.resume_tenant()

    async def retry(self, run_id: str, **how: Unpack[RetryArguments]) -> dict[str, Any]:
        """Continue a FAILED or CANCELLED run where it ended, and execute what it failed with again.

        Completed nodes and steps are not repeated. Returns `{instanceID, status, generation, redo, children,
        deadlineAt, warnings, dryRun}`. Raises NotFound, RunIsCompleted, RunIsOpen, RetryWouldRepeat, ParentNotWaiting,
        RetryRefused.
        """
        return await self._open_gateway.retry_run(run_id, retry_options(how))

    async def fork(
        self, run_id: str, request: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> dict[str, Any]:
        """Start a run that begins with the outcomes of another one: `{instanceID, status, plan}`.

        `request` is the body of `POST …/fork` (`at`, `version`, `graph`, `input`, `redo`, …); with `dryRun` the answer
        is the plan. Raises NotFound, InvalidRequest, InvalidInput, ForkRefused, PlanChanged, RunTooLarge.
        """
        return await self._open_gateway.fork_run(run_id, {} if request is None else request, key=key)

    async def bulk(
        self,
        action: str,
        filter: Mapping[str, Any],
        *,
        options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        key: str | None = None,
    ) -> str:
        """Perform an action on all runs that match a filter: `retry`, `cancel`, `rerun`, `resume` or `signal`.

        `filter` and `options` are those of `POST /v1/runs/bulk`. Returns the id of the bulk run, which a worker
        executes: `cancel` stops it after the current page, `bulk_progress` returns its progress. A repeated `key`
        returns the first bulk run. Raises InvalidRequest, NotFound.
        """
        request = {"action": action, "filter": filter, "options": {} if options is None else options, "dryRun": dry_run}
        return str((await self._open_gateway.start_bulk(request, key=key))["bulkID"])

    async def bulk_progress(self, bulk_id: str) -> dict[str, Any]:
        """The progress of a bulk run: `{status, total, done, succeeded, counts, refused, …}`. Raises NotFound."""
        return await self._open_gateway.get_bulk(bulk_id)

    @property
    def _open_gateway(self) -> Gateway:
        if self._gateway is None:
            raise InvalidRequest("the client is not open", hint="Use it in `async with Client(url) as client:`.")
        return self._gateway


def _milliseconds(at: datetime | None) -> int | None:
    """An aware time as milliseconds since the epoch."""
    return None if at is None else round(at.timestamp() * 1000)


def _status(name: str) -> events.Status:
    try:
        return events.Status(name.upper())
    except ValueError:
        raise InvalidRequest(f"{name!r} is not a status; statuses are {', '.join(events.Status)}") from None
