"""A served engine: a real HTTP server on a free port, and Socket.IO clients that connect to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import socketio
from aiohttp import web

from anabranch.audit.audit_table import AuditTable
from anabranch.audit.counted_entries import CountedEntries
from anabranch.keys.access import AccessService, CreatedKey, Role
from anabranch.keys.key_table import KeyTable
from anabranch.rest.application import AllowedHosts
from anabranch.sockets import SocketServer
from tests.engine.conftest import MakeProcess, Process, fresh_nodes, make_process

__all__ = ["fresh_nodes", "make_process"]

PATIENCE_S = 30.0
TENANT = "default"


class Served:
    """One process with its engine and its API."""

    def __init__(self, process: Process, access: AccessService, api: SocketServer, url: str) -> None:
        self.process = process
        self.service = process.service
        self.access = access
        self.api = api
        self.url = url

    async def key(self, role: Role = Role.EDITOR, *, tenant: str = TENANT) -> CreatedKey:
        """A new key."""
        return await self.access.create_key(tenant_id=tenant, role=role, actor="test")


class Watcher:
    """A client that remembers all it was sent, in order."""

    def __init__(self) -> None:
        self.io = socketio.AsyncClient(reconnection=False)
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self._news = asyncio.Event()
        self.io.on("*", self._note)
        self.io.on("disconnect", lambda *_: self._news.set())

    async def _note(self, event: str, data: dict[str, Any]) -> None:
        self.messages.append((event, data))
        self._news.set()

    async def ask(self, event: str, payload: Any = None) -> Any:
        """The answer to a request; one that is refused, too."""
        return await self.io.call(event, payload, timeout=PATIENCE_S)

    def updates(self, run_id: str) -> list[tuple[str, dict[str, Any]]]:
        """The updates of a run, those in batches one by one."""
        found: list[tuple[str, dict[str, Any]]] = []
        for event, data in self.messages:
            parts = data["updates"] if event == "workflow_updates" else [{"event": event, **data}]
            found += [(part["event"], part) for part in parts if part["instanceID"] == run_id]
        return found

    def facts(self, run_id: str) -> list[tuple[Any, ...]]:
        """The updates of a run as (seq, node or "", scope, status)."""
        return [fact(data) for _, data in self.updates(run_id)]

    async def until(self, condition: Callable[[], object]) -> None:
        """Return when what was received makes the condition hold."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def ended(self, run_id: str) -> dict[str, Any]:
        """The update that tells the end of a run."""

        def last() -> dict[str, Any] | None:
            ends = [
                data
                for event, data in self.updates(run_id)
                if event == "workflow_status_update" and data["status"] in ("COMPLETED", "FAILED", "CANCELLED")
            ]
            return ends[0] if ends else None

        await self.until(last)
        found = last()
        assert found is not None
        return found


def fact(data: dict[str, Any]) -> tuple[Any, ...]:
    """What an update says, without what is large."""
    return data["seq"], data.get("nodeID", ""), data.get("scope", ""), data["status"]


Serve = Callable[[Process], Awaitable[Served]]
Connect = Callable[..., Awaitable[Watcher]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves the API of a process."""
    runners: list[tuple[web.AppRunner, AccessService]] = []

    async def start(process: Process) -> Served:
        store: Any = process.engine.store
        access = AccessService(KeyTable(store), CountedEntries(AuditTable(store)))
        application = web.Application()
        api = SocketServer(
            engine=process.engine,
            workflows=process.service,
            access=access,
            is_own_origin=AllowedHosts().is_own_origin,
        )
        api.mount(application)
        runner = web.AppRunner(application, shutdown_timeout=1.0)
        runners.append((runner, access))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        return Served(process, access, api, f"http://{host}:{port}")

    yield start
    for runner, access in runners:
        await runner.cleanup()
        await access.stop()


@pytest.fixture
async def served(make_process: MakeProcess, serve: Serve) -> Served:
    """One engine and its API."""
    return await serve(await make_process())


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connects clients, by default with a new editor's key."""
    watchers: list[Watcher] = []

    async def start(served: Served, key: CreatedKey | None = None, **options: Any) -> Watcher:
        watcher = Watcher()
        watchers.append(watcher)
        auth = {"key": (key or await served.key()).key}
        await watcher.io.connect(served.url, **{"auth": auth, "transports": ["websocket"], **options})
        return watcher

    yield start
    for watcher in watchers:
        await watcher.io.disconnect()


@pytest.fixture(autouse=True)
def no_complaints(caplog: pytest.LogCaptureFixture) -> Any:
    """Nothing that a client does is a fault of ours, so no test may leave an error in the log."""
    yield
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not errors, [record.getMessage() for record in errors]
