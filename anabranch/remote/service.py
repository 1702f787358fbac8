"""The verbs: what a program asks a server of anabranch, and the documents that it gets.

Every verb is one call of REST (lists: one a page). What may be repeated without doing anything twice
is repeated where no answer came: reading, and whatever carries a key.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from anabranch.engine.rules.events import Status
from anabranch.engine.rules.instants import to_iso
from anabranch.errors import NameTaken, NotFound
from anabranch.remote.caller import Answer, Caller, Request

# 100 items a page, as many as a server gives: lists are read to their end.
PAGE_ITEMS = 100

# 30 s a request: half of what an answer is given, and what proxies let pass.
WAIT_ASKED_S = 30

# Between requests that the server does not let wait: soon at first, once a second in the end.
WAIT_FIRST_S = 0.05
WAIT_LONGEST_S = 1.0
WAIT_GROWTH = 1.5

# 5 tries to save under a name: each further one means that somebody else took or freed the name meanwhile.
SAVE_TRIES_MAX = 5


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A start's answer; `created` is False if the idempotency key met an earlier run."""

    instance_id: str
    status: str
    created: bool


class RemoteService:
    """The workflows and runs of the tenant that a key belongs to; use it with `async with`.

    `url` is `http(s)://host[:port][/prefix]`. Every verb raises the errors that the server answers
    (NotFound, NotAuthenticated, …; ServerRefusal for a code that this program does not know), and
    ServerUnreachable or ServerAnswerInvalid where there is no such answer. Values that are no plain
    JSON raise ValueNotStorable, requests over 16 MB ValueTooLarge.
    """

    def __init__(self, url: str, key: str) -> None:
        """Raises InvalidRequest for a URL or a key that cannot be one."""
        self._caller = Caller(url, key)

    async def open(self) -> None:
        """Be ready for calls; nothing is sent yet."""
        await self._caller.start()

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._caller.stop()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- workflows ------------------------------------------------------------------------
    async def list_workflows(self) -> list[dict[str, Any]]:
        """All workflows, by name, without their graphs."""
        return await self._all("v1", "workflows")

    async def get_workflow(self, workflow: str, *, version: int | None = None) -> dict[str, Any]:
        """One workflow by id or name, with nodes, edges and options; the newest version unless one is named."""
        query = {} if version is None else {"version": str(version)}
        return (await self._get("v1", "workflows", workflow, query=query)).workflow()

    async def list_versions(self, workflow: str) -> list[dict[str, Any]]:
        """The versions of a workflow, newest first."""
        return await self._all("v1", "workflows", workflow, "versions")

    async def export_workflow(self, workflow: str, *, version: int | None = None) -> dict[str, Any]:
        """The document of a drawn workflow as it was saved, with its name. Raises WorkflowIsCoded."""
        query = {} if version is None else {"version": str(version)}
        return (await self._get("v1", "workflows", workflow, "document", query=query)).workflow()

    async def create_workflow(self, document: dict[str, Any]) -> dict[str, Any]:
        """Save a new workflow: `{workflowID, name, version, warnings}`. Raises InvalidWorkflow, NameTaken."""
        return await self._do(Request("POST", ("v1", "workflows"), body=document))

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
        # Under If-Match a repetition would meet the version that the first one made.
        repeatable = expected_version is None
        path = ("v1", "workflows", workflow)
        request = Request("PUT", path, query=query, body=document, headers=headers, repeatable=repeatable)
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
        for _ in range(SAVE_TRIES_MAX - 1):
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
        await self._caller.call(Request("DELETE", ("v1", "workflows", workflow), query=query))

    async def validate(self, document: Any) -> dict[str, Any]:
        """What the server's validator says of a workflow; nothing is saved."""
        return await self._do(Request("POST", ("v1", "validate"), body=document, repeatable=True))

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
        """Start a run; it is durable when this returns. Times are milliseconds since the epoch.

        Without a key of the caller's one is made, so that a start whose answer was lost is repeated
        and met again instead of being done twice.
        """
        body = {
            "input": input_,
            "version": version,
            "idempotencyKey": f"once-{uuid.uuid4()}" if idempotency_key is None else idempotency_key,
            "retentionDays": retention_days,
            "availableAt": None if available_at is None else to_iso(available_at),
            "deadlineAt": None if deadline_at is None else to_iso(deadline_at),
        }
        answer = await self._caller.call(
            Request("POST", ("v1", "workflows", workflow, "runs"), body=body, repeatable=True)
        )
        run = answer.document()
        # Nobody else has a key that was made here: the run that it met is this one.
        created = answer.status == 201 or idempotency_key is None
        return StartedRun(str(run["instanceID"]), str(run["status"]), created)

    async def list_runs(
        self,
        *,
        limit: int = PAGE_ITEMS,
        cursor: str | None = None,
        workflow: str | None = None,
        statuses: Sequence[str] = (),
        since: int | None = None,
        until: int | None = None,
        version: int | None = None,
    ) -> dict[str, Any]:
        """A page of runs, newest first: `{items, nextCursor}`; at most 100. Times are milliseconds since the epoch."""
        query: dict[str, str | Sequence[str]] = {"limit": str(limit), "status": [str(status) for status in statuses]}
        if cursor is not None:
            query["cursor"] = cursor
        if since is not None:
            query["since"] = to_iso(since)
        if until is not None:
            query["until"] = to_iso(until)
        if version is not None:
            query["version"] = str(version)
        path = ("v1", "runs") if workflow is None else ("v1", "workflows", workflow, "runs")
        return await self._read(*path, query=query)

    async def get_run(self, instance_id: str) -> dict[str, Any]:
        """A run with its input, outcome and first 1,000 activations."""
        return await self._read("v1", "runs", instance_id)

    async def get_log(self, instance_id: str, *, after_seq: int = 0) -> list[dict[str, Any]]:
        """All events after `after_seq`, in log order."""
        return await self._all("v1", "runs", instance_id, "log", query={"after": str(after_seq)})

    async def get_steps(self, instance_id: str) -> list[dict[str, Any]]:
        """Every activation with timings, output and error, in the order of its first event."""
        return await self._all("v1", "runs", instance_id, "steps")

    def step_pages(self, instance_id: str) -> AsyncIterator[list[dict[str, Any]]]:
        """The same, page by page."""
        return self._pages("v1", "runs", instance_id, "steps")

    async def cancel_run(self, instance_id: str, *, reason: str) -> str:
        """Return once CANCELLED is committed; a cancelled run stays so. Raises RunIsTerminal if it ended otherwise."""
        path = ("v1", "runs", instance_id, "cancel")
        return str((await self._do(Request("POST", path, body={"reason": reason}, repeatable=True)))["status"])

    async def delete_run(self, instance_id: str) -> None:
        """Remove an ended run with its log. Raises RunIsOpen, NotFound."""
        await self._caller.call(Request("DELETE", ("v1", "runs", instance_id), query={"purge": "true"}))

    async def send_signal(self, instance_id: str, event: str, payload: Any, *, key: str | None = None) -> bool:
        """Keep a signal until it is consumed; True if a fitting wait was open. Raises RunIsTerminal, TooManySignals.

        Only with a `key` is it sent again where no answer came: without one it might arrive twice.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        path = ("v1", "runs", instance_id, "signals", event)
        request = Request("POST", path, body=payload, headers=headers, repeatable=key is not None)
        return bool((await self._do(request))["delivered"])

    async def wait_for_end(self, instance_id: str, *, timeout_s: float | None = None) -> dict[str, Any]:
        """The run, once it has ended. Raises TimeoutError after `timeout_s` seconds; the run goes on.

        It is looked at once at least, however long the first answer takes. Then the server answers when it has ended.
        """
        loop = asyncio.get_running_loop()
        until = None if timeout_s is None else loop.time() + timeout_s
        pause_s = WAIT_FIRST_S
        run = await self.get_run(instance_id)
        async with asyncio.timeout_at(until):
            while not Status(run["status"]).is_terminal:
                asked_at = loop.time()
                run = await self._read("v1", "runs", instance_id, query={"wait": f"{WAIT_ASKED_S}s"})
                if loop.time() - asked_at < WAIT_ASKED_S and not Status(run["status"]).is_terminal:
                    # Answered before the time: the server is stopping, or lets nobody else wait.
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * WAIT_GROWTH, WAIT_LONGEST_S)
        return run

    # -- test runs ------------------------------------------------------------------------
    async def start_test_run(self, graph: dict[str, Any], input_: Any) -> str:
        """Run `{nodes, edges, workflowOptions?}` without saving it; the run's id. Raises InvalidWorkflow."""
        request = Request("POST", ("v1", "test-runs"), body={**graph, "input": input_})
        return str((await self._do(request))["instanceID"])

    async def stop_test_run(self, instance_id: str) -> None:
        """Cancel a test run and remove it."""
        await self._caller.call(Request("DELETE", ("v1", "test-runs", instance_id)))

    # -- within ---------------------------------------------------------------------------
    async def _do(self, request: Request) -> dict[str, Any]:
        return (await self._caller.call(request)).document()

    async def _read(self, *path: str, query: dict[str, Any] | None = None) -> dict[str, Any]:
        return (await self._get(*path, query=query)).document()

    async def _get(self, *path: str, query: dict[str, Any] | None = None) -> Answer:
        return await self._caller.call(Request("GET", path, query=query or {}, repeatable=True))

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
