"""The client for programs without an event loop: the same verbs, each returning when it is done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from anabranch.durable.client import Client, RunHandle

Answer = TypeVar("Answer")


class SyncRunHandle:
    """One run; see `RunHandle`, whose verbs these are."""

    def __init__(self, client: SyncClient, handle: RunHandle) -> None:
        self._client = client
        self._handle = handle
        self.run_id = handle.run_id

    def get(self) -> dict[str, Any]:
        """The run as REST shows it. Raises NotFound."""
        return self._client.wait_for(self._handle.get())

    def result(self, *, timeout: float | None = None) -> Any:
        """The run's output, once it is there; `timeout` in seconds. Raises RunFailed, RunCancelled, TimeoutError."""
        return self._client.wait_for(self._handle.result(timeout=timeout))

    def signal(self, event: str, payload: Any = None, *, key: str | None = None) -> bool:
        """Send a signal; True if a fitting wait was open."""
        return self._client.wait_for(self._handle.signal(event, payload, key=key))

    def cancel(self, *, reason: str = "cancelled by a client") -> None:
        """Return once CANCELLED is committed."""
        self._client.wait_for(self._handle.cancel(reason=reason))


class SyncClient:
    """A `Client` with an event loop of its own in a thread. `with SyncClient(url) as client:`"""

    def __init__(self, url: str, *, tenant: str = "default", key: str | None = None) -> None:
        self._client = Client(url, tenant=tenant, key=key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="anabranch-client", daemon=True)

    def __enter__(self) -> Self:
        """Open the connection; see `Client`."""
        self._thread.start()
        try:
            self.wait_for(self._client.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; runs go on."""
        try:
            self.wait_for(self._client.__aexit__(kind, failure, trace))
        finally:
            self._stop()

    def start(self, workflow: str, input: Any = None, **options: Any) -> SyncRunHandle:
        """Start a run, with the options of `Client.start`; it is durable when this returns."""
        return SyncRunHandle(self, self.wait_for(self._client.start(workflow, input, **options)))

    def handle(self, run_id: str) -> SyncRunHandle:
        """A handle of a run that was started elsewhere."""
        return SyncRunHandle(self, self._client.handle(run_id))

    def get(self, run_id: str) -> dict[str, Any]:
        """A run as REST shows it. Raises NotFound."""
        return self.wait_for(self._client.get(run_id))

    def list(
        self, *, workflow: str | None = None, status: str | Sequence[str] = (), limit: int = 50
    ) -> Sequence[Mapping[str, Any]]:
        """The newest runs first."""
        return self.wait_for(self._client.list(workflow=workflow, status=status, limit=limit))

    def wait_for(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """What a coroutine of the client's loop returns; not to be called from that loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
