"""Servers for the tests: they count who comes, and misbehave on request.

`serving(handle)` runs a real HTTP server on a free port; `dripping(data)` a bare TCP server that
sends some bytes and then nothing more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from aiohttp import web

from anabranch.egress import AllowList, Guard, GuardedClient

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]

# A quarter of a second: what nothing may hold up the event loop for, in processor time of its thread.
GAP_S_MAX = 0.25


@dataclass
class Server:
    """Where it is, and what came."""

    port: int
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    """(method, path with query, headers by lower-case name, body)."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(handle: Handle, *, host: str = "127.0.0.1") -> AsyncIterator[Server]:
    """A server whose every path is answered by `handle`."""
    server = Server(0)

    async def record(request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        server.requests.append((request.method, request.path_qs, headers, await request.read()))
        return await handle(request)

    application = web.Application(client_max_size=64 * 1_048_576)
    application.router.add_route("*", "/{path:.*}", record)
    runner = web.AppRunner(application, shutdown_timeout=0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, 0).start()
        server.port = runner.addresses[0][1]
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def dripping(data: bytes) -> AsyncIterator[int]:
    """The port of a server that sends these bytes to whoever comes, and then neither more nor an end."""
    tasks: set[asyncio.Task[None]] = set()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
            while await reader.read(65_536):
                pass
        writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def client_allowed(*ports: int, **options: int) -> GuardedClient:
    """A client that may reach these ports of this machine, and no others."""
    return GuardedClient(Guard(AllowList.parse([f"127.0.0.1:{port}" for port in ports])), **options)


@asynccontextmanager
async def never_holding_up() -> AsyncIterator[None]:
    """Fails if anything inside keeps the event loop from its other work for `GAP_S_MAX`."""
    gaps = [0.0]

    async def tick() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.002)
            gaps.append(time.thread_time() - before)

    ticking = asyncio.create_task(tick())
    try:
        yield
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
    assert max(gaps) < GAP_S_MAX, f"the event loop stood still for {max(gaps):.3f} s"
