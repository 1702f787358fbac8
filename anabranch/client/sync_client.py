"""The client for programs without an event loop: the same verbs, each returning when it is done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from anabranch.client.client import Client
from anabranch.errors import InvalidRequest
from anabranch.run_requests import SAME_INPUT, RetryArguments

Answer = TypeVar("Answer")


class SyncRunHandle:
    """One run; see `RunHandle`, whose verbs these are."""

    def __init__(self, client: SyncClient, run_id: str) -> None:
        self._client = client
        self.run_id = run_id

    def get(self) -> dict[str, Any]:
        """The run as REST shows it. Raises NotFound."""
        return self._client.get(self.run_id)

    def result(self, *, timeout: float | None = None) -> Any:
        """The run's output, once it is there; see `RunHandle.result`."""
        return self._client.result(self.run_id, timeout=timeout)

    def signal(self, event: str, payload: Any = None, *, key: str | None = None) -> bool:
        """Send a signal; True if a fitting wait was open; see `RunHandle.signal`."""
        return self._client.signal(self.run_id, event, payload, key=key)

    def cancel(self, *, reason: str = "cancelled by a client") -> None:
        """Return once CANCELLED is committed; see `RunHandle.cancel`."""
        self._client.cancel(self.run_id, reason=reason)

    def pause(self, *, children: bool = True) -> None:
        """Return once it is SUSPENDED; see `RunHandle.pause`."""
        self._client.pause(self.run_id, children=children)

    def resume(self, *, children: bool = True) -> None:
        """Resume a SUSPENDED run; see `RunHandle.resume`."""
        self._client.resume(self.run_id, children=children)

    def retry(self, **how: Unpack[RetryArguments]) -> dict[str, Any]:
        """Let an ended run go on where it was; see `Client.retry`."""
        return self._client.retry(self.run_id, **how)


class SyncClient:
    """A `Client` for programs without an event loop; it runs one in a thread. `with SyncClient(url) as client:`

    Its methods have the same arguments, results and errors. It can be opened again after it was closed.
    """

    def __init__(self, url: str, *, tenant: str = "default", key: str | None = None) -> None:
        self._client = Client(url, tenant=tenant, key=key)
        self._loop: _LoopThread | None = None

    def __enter__(self) -> Self:
        """Open the connection; see `Client`. Raises InvalidRequest if it is open already."""
        if self._loop is not None:
            raise InvalidRequest("the client is already open", hint="Make another one, or close it first.")
        self._loop = _LoopThread()
        try:
            self._wait_for(self._client.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client; runs continue."""
        try:
            self._wait_for(self._client.__aexit__(kind, failure, trace))
        finally:
            self._stop()

    def start(
        self,
        workflow: str,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        available_at: datetime | None = None,
        deadline_at: datetime | None = None,
        retention_days: int | None = None,
        version: int | None = None,
    ) -> SyncRunHandle:
        """Start a run; it is durable when this returns; see `Client.start`."""
        handle = self._wait_for(
            self._client.start(
                workflow,
                input,
                idempotency_key=idempotency_key,
                available_at=available_at,
                deadline_at=deadline_at,
                retention_days=retention_days,
                version=version,
            )
        )
        return SyncRunHandle(self, handle.run_id)

    def rerun(
        self,
        run_id: str,
        *,
        input: Any = SAME_INPUT,
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> SyncRunHandle:
        """Start a new run like another one; see `Client.rerun`."""
        handle = self._wait_for(
            self._client.rerun(run_id, input=input, version=version, idempotency_key=idempotency_key)
        )
        return SyncRunHandle(self, handle.run_id)

    def handle(self, run_id: str) -> SyncRunHandle:
        """A handle of a run that was started elsewhere."""
        return SyncRunHandle(self, run_id)

    def get(self, run_id: str) -> dict[str, Any]:
        """A run as REST shows it. Raises NotFound."""
        return self._wait_for(self._client.get(run_id))

    def list(
        self,
        *,
        workflow: str | None = None,
        status: str | Sequence[str] = (),
        version: int | None = None,
        limit: int = 50,
    ) -> Sequence[Mapping[str, Any]]:
        """The newest runs first; see `Client.list`."""
        return self._wait_for(self._client.list(workflow=workflow, status=status, version=version, limit=limit))

    def result(self, run_id: str, *, timeout: float | None = None) -> Any:
        """A run's output, once it is there; see `RunHandle.result`."""
        return self._wait_for(self._client.result(run_id, timeout=timeout))

    def signal(self, run_id: str, event: str, payload: Any = None, *, key: str | None = None) -> bool:
        """Send a signal to a run; see `RunHandle.signal`."""
        return self._wait_for(self._client.signal(run_id, event, payload, key=key))

    def cancel(self, run_id: str, *, reason: str = "cancelled by a client") -> None:
        """Cancel a run; see `RunHandle.cancel`."""
        self._wait_for(self._client.cancel(run_id, reason=reason))

    def pause(self, run_id: str, *, children: bool = True) -> None:
        """Suspend a run; see `RunHandle.pause`."""
        self._wait_for(self._client.pause(run_id, children=children))

    def resume(self, run_id: str, *, children: bool = True) -> None:
        """Resume a suspended run; see `RunHandle.resume`."""
        self._wait_for(self._client.resume(run_id, children=children))

    def activate(self, workflow: str, version: int) -> dict[str, Any]:
        """Make a version the default for starts; see `Client.activate`."""
        return self._wait_for(self._client.activate(workflow, version))

    def pause_workflow(self, workflow: str) -> dict[str, Any]:
        """Pause all runs of a workflow; see `Client.pause_workflow`."""
        return self._wait_for(self._client.pause_workflow(workflow))

    def resume_workflow(self, workflow: str) -> dict[str, Any]:
        """Resume the runs of a paused workflow; see `Client.resume_workflow`."""
        return self._wait_for(self._client.resume_workflow(workflow))

    def pause_tenant(self) -> dict[str, Any]:
        """Pause all runs of the tenant; see `Client.pause_tenant`."""
        return self._wait_for(self._client.pause_tenant())

    def resume_tenant(self) -> dict[str, Any]:
        """Resume all runs of the tenant; see `Client.resume_tenant`."""
        return self._wait_for(self._client.resume_tenant())

    def retry(self, run_id: str, **how: Unpack[RetryArguments]) -> dict[str, Any]:
        """Let an ended run go on where it was; see `Client.retry`."""
        return self._wait_for(self._client.retry(run_id, **how))

    def fork(self, run_id: str, request: Mapping[str, Any] | None = None, *, key: str | None = None) -> dict[str, Any]:
        """Start a run that begins with the outcomes of another one; see `Client.fork`."""
        return self._wait_for(self._client.fork(run_id, request, key=key))

    def bulk(
        self,
        action: str,
        filter: Mapping[str, Any],
        *,
        options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        key: str | None = None,
    ) -> str:
        """Perform an action on all runs that match a filter; see `Client.bulk`."""
        return self._wait_for(self._client.bulk(action, filter, options=options, dry_run=dry_run, key=key))

    def bulk_progress(self, bulk_id: str) -> dict[str, Any]:
        """The progress of a bulk run; see `Client.bulk_progress`."""
        return self._wait_for(self._client.bulk_progress(bulk_id))

    def _wait_for(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        if self._loop is None:
            coroutine.close()
            raise InvalidRequest("the client is not open", hint="Use it in `with SyncClient(url) as client:`.")
        return self._loop.wait_for(coroutine)

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop()


class _LoopThread:
    """An event loop that runs in a thread until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="anabranch-client", daemon=True)
        self._thread.start()

    def wait_for(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine on the client's loop and return its result. Must not be called from that loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def stop(self) -> None:
        """Return once the thread has ended."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
