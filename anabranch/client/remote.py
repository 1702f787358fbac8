"""The gateway to a server: the same verbs over REST.

Loads neither engine nor database. Every verb is one REST call (lists: one per page). Reads, and everything with a key,
are repeated if no response comes, because a repetition has no effect.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anabranch.client.caller import Caller, ServerRequest, ServerResponse
from anabranch.client.gateway import Gateway
from anabranch.deferred import deferred
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.instants import to_iso, to_iso_or_none
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import InvalidInput, InvalidRequest, NameTaken, NotFound, ValueNotStorable, ValueTooLarge
from anabranch.run_requests import RETRY, SAME_INPUT, START_NOW, RetryOptions, StartedRun, StartOptions

if TYPE_CHECKING:
    from anabranch import settings
else:
    settings = deferred("anabranch.settings")

# 100 items per page, the maximum of a server; lists are read to their end.
PAGE_ITEMS = 100

# 30 s per request: half of the response timeout, and accepted by proxies.
WAIT_ASKED_S = 30

# Pauses between polls if the server does not let requests wait: short at first, then a second.
WAIT_FIRST_S = 0.05
WAIT_LONGEST_S = 1.0
WAIT_GROWTH = 1.5

# 5 attempts to save under a name: each further one means that the name was taken or freed meanwhile.
SAVE_ATTEMPTS_MAX = 5


# The tenant is not given: on a server the key decides.
DEFAULT_TENANT = "default"


class RemoteGateway:
    """The workflows and runs of the tenant that a key belongs to; use it with `async with`.

    `url` is `http(s)://host[:port][/prefix]`. Every verb raises the errors that the server answers (NotFound,
    NotAuthenticated, …; ServerRefusal for a code that this program does not know), and ServerUnreachable or
    ServerAnswerInvalid without a valid response.
    """

    def __init__(self, url: str, key: str) -> None:
        """Raises InvalidRequest for a URL or a key that cannot be one."""
        self._caller = Caller(url, key)

    async def __aenter__(self) -> Self:
        """Be ready for calls; nothing is sent yet."""
        await self._caller.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._caller.stop()

    # -- workflows ------------------------------------------------------------------------
    async def list_workflows(self) -> list[dict[str, Any]]:
        """All workflows, by name, without their graphs."""
        return await self._all("v1", "workflows")

    async def get_workflow(self, workflow: str, *, version: int | None = None) -> dict[str, Any]:
        """One workflow by id or name, with nodes, edges and options; the newest version unless one is named."""
        query = {} if version is None else {"version": str(version)}
        return (await self._get("v1", "workflows", workflow, query=query)).workflow()

    async def export_workflow(self, workflow: str, *, version: int | None = None) -> dict[str, Any]:
        """The document of a drawn workflow as it was saved, with its name. Raises WorkflowIsCoded."""
        query = {} if version is None else {"version": str(version)}
        return (await self._get("v1", "workflows", workflow, "document", query=query)).workflow()

    async def create_workflow(self, document: dict[str, Any]) -> dict[str, Any]:
        """Save a new workflow: `{workflowID, name, version, warnings}`. Raises InvalidWorkflow, NameTaken."""
        return await self._do(ServerRequest("POST", ("v1", "workflows"), body=document))

    async def update_workflow(
        self,
        workflow: str,
        document: dict[str, Any],
        *,
        expected_version: int | None = None,
        replace: bool = False,
    ) -> dict[str, Any]:
        """Save the next version; equal to the newest, it is that one. Raises InvalidWorkflow, VersionMismatch.

        Top-level fields that the document leaves out keep their value; with `replace` they are removed.
        """
        query = {"replace": "true"} if replace else {}
        headers = {} if expected_version is None else {"If-Match": f'"{expected_version}"'}
        # Not repeatable with If-Match: a repetition would conflict with the version that the first request created.
        repeatable = expected_version is None
        path = ("v1", "workflows", workflow)
        request = ServerRequest("PUT", path, query=query, body=document, headers=headers, repeatable=repeatable)
        return await self._do(request)

    async def save_workflow(self, document: dict[str, Any]) -> dict[str, Any]:
        """Save a file under its name, as a whole: new, the next version, or the newest again if nothing changed.

        Without a name it is a new workflow, whose name the server makes from the title. A file that was read
        from another server keeps its name and not its id.
        """
        document = {field: value for field, value in document.items() if field != "workflowID"}
        name = document.get("name")
        if not isinstance(name, str) or not name:
            return await self.create_workflow(document)
        for _ in range(SAVE_ATTEMPTS_MAX - 1):
            try:
                return await self.update_workflow(name, document, replace=True)
            except NotFound:
                pass
            try:
                return await self.create_workflow(document)
            except NameTaken:
                pass
        return await self.update_workflow(name, document, replace=True)

    async def delete_workflow(self, workflow: str, *, force: bool = False) -> None:
        """Delete a workflow; `force` cancels its open runs first. Raises WorkflowHasRuns without."""
        query = {"force": "true"} if force else {}
        await self._caller.call(ServerRequest("DELETE", ("v1", "workflows", workflow), query=query))

    async def activate_workflow(self, workflow: str, version: int) -> dict[str, Any]:
        """Let starts take this version: `{workflowID, name, activeVersion}`. Raises NotFound, WorkflowIsCoded."""
        path = ("v1", "workflows", workflow, "active")
        return await self._do(ServerRequest("PUT", path, body={"version": version}, repeatable=True))

    async def pause_workflow(self, workflow: str) -> dict[str, Any]:
        """Pause its runs: `{workflowID, name, paused}`. Raises NotFound."""
        return await self._do(ServerRequest("POST", ("v1", "workflows", workflow, "pause"), repeatable=True))

    async def resume_workflow(self, workflow: str) -> dict[str, Any]:
        """Resume its runs: `{workflowID, name, paused}`. Raises NotFound."""
        return await self._do(ServerRequest("POST", ("v1", "workflows", workflow, "resume"), repeatable=True))

    async def pause_tenant(self) -> dict[str, Any]:
        """Pause all runs of the tenant: `{paused}`."""
        return await self._do(ServerRequest("POST", ("v1", "pause"), repeatable=True))

    async def resume_tenant(self) -> dict[str, Any]:
        """Resume all runs of the tenant: `{paused}`."""
        return await self._do(ServerRequest("POST", ("v1", "resume"), repeatable=True))

    async def validate(self, document: Any) -> dict[str, Any]:
        """Validate a workflow on the server; nothing is saved."""
        return await self._do(ServerRequest("POST", ("v1", "validate"), body=document, repeatable=True))

    # -- runs -----------------------------------------------------------------------------
    async def start_run(self, workflow: str, input_: Any, options: StartOptions = START_NOW) -> StartedRun:
        """Start a run; it is durable when this returns.

        Without a key from the caller one is generated, so that a start whose response was lost can be repeated without
        a second run.
        """
        key = options.idempotency_key
        body = {
            "input": input_,
            "version": options.version,
            "idempotencyKey": f"once-{uuid.uuid4()}" if key is None else key,
            "retentionDays": options.retention_days,
            "availableAt": to_iso_or_none(options.available_at),
            "deadlineAt": to_iso_or_none(options.deadline_at),
        }
        return await self._start(
            ServerRequest("POST", ("v1", "workflows", workflow, "runs"), body=body, repeatable=True), key
        )

    async def rerun_run(
        self, instance_id: str, options: StartOptions = START_NOW, *, input_: Any = SAME_INPUT
    ) -> StartedRun:
        """Start a new run like another one; repeated under a key as a start is."""
        key = options.idempotency_key
        body = {"version": options.version} | ({} if input_ is SAME_INPUT else {"input": input_})
        headers = {"Idempotency-Key": f"once-{uuid.uuid4()}" if key is None else key}
        path = ("v1", "runs", instance_id, "rerun")
        return await self._start(ServerRequest("POST", path, body=body, headers=headers, repeatable=True), key)

    async def list_runs(
        self, wanted: RunFilter, *, limit: int = PAGE_ITEMS, cursor: str | None = None
    ) -> dict[str, Any]:
        """A page of runs, newest first: `{items, nextCursor}`; at most 100."""
        query: dict[str, str | Sequence[str]] = {
            "limit": str(limit),
            "status": [status.value for status in wanted.statuses],
            "reason": [reason.value for reason in wanted.reasons],
        }
        if cursor is not None:
            query["cursor"] = cursor
        if wanted.since is not None:
            query["since"] = to_iso(wanted.since)
        if wanted.until is not None:
            query["until"] = to_iso(wanted.until)
        if wanted.version is not None:
            query["version"] = str(wanted.version)
        if wanted.test:
            query["test"] = "true"
        path = ("v1", "runs") if wanted.workflow is None else ("v1", "workflows", wanted.workflow, "runs")
        return await self._read(*path, query=query)

    async def get_run(self, instance_id: str) -> dict[str, Any]:
        """A run with its input, outcome and first 1,000 activations."""
        return await self._read("v1", "runs", instance_id)

    async def explain_run(self, instance_id: str, node_id: str | None = None, *, scope: str = "") -> dict[str, Any]:
        """Explain the state of a run, or of one of its nodes in a scope."""
        if node_id is None:
            return await self._read("v1", "runs", instance_id, "why")
        query = {"scope": scope} if scope else {}
        return (await self._get("v1", "runs", instance_id, "nodes", node_id, "why", query=query)).document()

    async def get_log(self, instance_id: str, *, after_seq: int = 0) -> list[dict[str, Any]]:
        """All events after `after_seq`, in log order."""
        return await self._all("v1", "runs", instance_id, "log", query={"after": str(after_seq), "inline": "true"})

    async def get_history(self, instance_id: str) -> dict[str, Any]:
        """A run with its definition and its log."""
        head = (await self._get("v1", "runs", instance_id, "history")).document()
        return {**head, "log": await self.get_log(instance_id)}

    async def get_console(self, instance_id: str, *, after: int = 0, level: str = "debug") -> list[dict[str, Any]]:
        """All lines after the one with that number, of that level or above, oldest first."""
        return await self._all("v1", "runs", instance_id, "console", query={"after": str(after), "level": level})

    def step_pages(self, instance_id: str) -> AsyncIterator[list[dict[str, Any]]]:
        """Every activation with timings, output and error, page by page, in the order of its first event."""
        return self._pages("v1", "runs", instance_id, "steps", query={"inline": "true"})

    async def cancel_run(self, instance_id: str, *, reason: str) -> str:
        """Return once CANCELLED is committed; a cancelled run stays so. Raises RunIsTerminal if it ended otherwise."""
        path = ("v1", "runs", instance_id, "cancel")
        return str((await self._do(ServerRequest("POST", path, body={"reason": reason}, repeatable=True)))["status"])

    async def pause_run(self, instance_id: str, *, children: bool = True) -> str:
        """Return once it is SUSPENDED. Raises RunIsTerminal."""
        return await self._pause_or_resume(instance_id, "pause", children=children)

    async def resume_run(self, instance_id: str, *, children: bool = True) -> str:
        """Return once it is not SUSPENDED any more; its status then. Raises RunIsTerminal."""
        return await self._pause_or_resume(instance_id, "resume", children=children)

    async def _pause_or_resume(self, instance_id: str, verb: str, *, children: bool) -> str:
        query = {} if children else {"children": "false"}
        request = ServerRequest("POST", ("v1", "runs", instance_id, verb), query=query, repeatable=True)
        return str((await self._do(request))["status"])

    async def retry_run(self, instance_id: str, options: RetryOptions = RETRY) -> dict[str, Any]:
        """Continue a failed or cancelled run; returns what is executed again. Retried with a key, like a start."""
        body: dict[str, Any] = {
            "steps": "failed" if options.all_failed_steps else "cause",
            "newKeys": options.new_keys,
            "detach": options.detach,
            "dryRun": options.dry_run,
        }
        if options.reason is not None:
            body["reason"] = options.reason
        if options.deadline_ms is not None:
            body["deadline"] = f"{options.deadline_ms}ms"
        key = options.idempotency_key or f"once-{uuid.uuid4()}"
        request = ServerRequest(
            "POST",
            ("v1", "runs", instance_id, "retry"),
            body=body,
            headers={"Idempotency-Key": key},
            repeatable=True,
        )
        return await self._do(request)

    async def fork_run(self, instance_id: str, request: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Start a run with the outcomes of this one, or answer with the plan. Repeated under a key as a start is."""
        headers = {"Idempotency-Key": f"once-{uuid.uuid4()}" if key is None else key}
        path = ("v1", "runs", instance_id, "fork")
        return await self._do(ServerRequest("POST", path, body=dict(request), headers=headers, repeatable=True))

    async def start_bulk(self, request: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Start a bulk run. Retried with a key, like a start."""
        headers = {"Idempotency-Key": f"once-{uuid.uuid4()}" if key is None else key}
        return await self._do(
            ServerRequest("POST", ("v1", "runs", "bulk"), body=dict(request), headers=headers, repeatable=True)
        )

    async def get_bulk(self, bulk_id: str) -> dict[str, Any]:
        """The progress of a bulk run."""
        return await self._read("v1", "runs", "bulk", bulk_id)

    async def send_signal(self, instance_id: str, event: str, payload: Any, *, key: str | None = None) -> bool:
        """Send a signal, which is kept until consumed; True if a matching wait was open. Raises RunIsTerminal,
        TooManySignals.

        Retried only with a `key`: without one it could arrive twice.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        path = ("v1", "runs", instance_id, "signals", event)
        request = ServerRequest("POST", path, body=payload, headers=headers, repeatable=key is not None)
        with _refused_as_on_a_database("the signal's payload"):
            return bool((await self._do(request))["delivered"])

    async def wait_for_end(self, instance_id: str, *, timeout_s: float | None = None) -> dict[str, Any]:
        """The run once it has ended: the server answers when it has, or when the time is over."""
        loop = asyncio.get_running_loop()
        until = None if timeout_s is None else loop.time() + timeout_s
        wait_s = WAIT_ASKED_S if timeout_s is None else min(max(timeout_s, 0.0), WAIT_ASKED_S)
        pause_s = WAIT_FIRST_S
        asked_at = loop.time()
        run = await self._wait(instance_id, wait_s)
        async with asyncio.timeout_at(until):
            while not Status(run["status"]).is_terminal:
                if loop.time() - asked_at < wait_s:
                    # Answered early: the server is stopping, or its limit of waiting requests is reached.
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * WAIT_GROWTH, WAIT_LONGEST_S)
                wait_s, asked_at = WAIT_ASKED_S, loop.time()
                run = await self._wait(instance_id, wait_s)
        return run

    # -- within ---------------------------------------------------------------------------
    async def _wait(self, instance_id: str, wait_s: float) -> dict[str, Any]:
        """The run, when it has ended or at most after that time."""
        return await self._read("v1", "runs", instance_id, query={"wait": f"{wait_s * 1000:.0f}ms"})

    async def _do(self, request: ServerRequest) -> dict[str, Any]:
        return (await self._caller.call(request)).document()

    async def _read(self, *path: str, query: dict[str, Any] | None = None) -> dict[str, Any]:
        return (await self._get(*path, query=query)).document()

    async def _get(self, *path: str, query: dict[str, Any] | None = None) -> ServerResponse:
        return await self._caller.call(ServerRequest("GET", path, query=query or {}, repeatable=True))

    async def _start(self, request: ServerRequest, key: str | None) -> StartedRun:
        with _refused_as_on_a_database("the input"):
            answer = await self._caller.call(request)
        run = answer.document()
        # A generated key is unique, so the existing run is this one.
        created = answer.status == 201 or key is None
        newest = (run.get("newest") or {}).get("instanceID")
        return StartedRun(str(run["instanceID"]), Status(run["status"]), created, newest)

    async def _all(self, *path: str, query: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        return [item async for page in self._pages(*path, query=query) for item in page]

    async def _pages(self, *path: str, query: dict[str, Any] | None = None) -> AsyncIterator[list[dict[str, Any]]]:
        further = {**(query or {}), "limit": str(PAGE_ITEMS)}
        while True:
            page = await self._read(*path, query=further)
            yield page["items"]
            if page["nextCursor"] is None:
                return
            further["cursor"] = page["nextCursor"]


@asynccontextmanager
async def open_gateway(url: str, *, tenant_id: str, key: str | None) -> AsyncIterator[Gateway]:
    """The gateway to the server at this URL; nothing is sent yet. The key is `ANABRANCH_TOKEN` unless given.

    Raises InvalidRequest for a URL or a key that cannot be one, or if there is none; SettingsError.
    """
    if tenant_id != DEFAULT_TENANT:
        raise InvalidRequest(
            "a tenant can only be given for a database", hint="On a server the key decides the tenant."
        )
    if key is None:
        token = settings.Settings.load().token
        if token is None:
            raise InvalidRequest(
                "a server needs an API key",
                hint="Give it as Client(url, key=…), ANABRANCH_TOKEN or ANABRANCH_TOKEN_FILE;"
                " `anabranch keys create` makes one.",
            )
        key = token.get_secret_value()
    async with RemoteGateway(url, key) as gateway:
        yield gateway


@contextmanager
def _refused_as_on_a_database(what: str) -> Iterator[None]:
    """Refuse values that cannot be sent with the same error as the server's for values that it cannot store."""
    try:
        yield
    except (ValueNotStorable, ValueTooLarge) as refusal:
        raise InvalidInput(
            f"{what}: {refusal.message}", details=[{"code": refusal.code, "message": refusal.message}]
        ) from None
