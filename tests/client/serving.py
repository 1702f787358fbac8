"""Servers to call: a real one in a thread of its own, one that plays a script, and a proxy that loses answers.

A thread, because the command line runs loops of its own in the thread of the test.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

from anabranch.app import build
from anabranch.keys.access import Role
from anabranch.rest.application import build_application
from anabranch.settings import Settings

TENANT = "default"


@dataclass(frozen=True)
class Server:
    """A running server and worker; `keys` are by role."""

    url: str
    keys: dict[str, str]


@contextmanager
def in_a_thread(opened: Callable[[], AbstractAsyncContextManager[Any]]) -> Iterator[Any]:
    """What is opened in a loop of its own, until the caller is done with it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    manager = opened()
    try:
        value = asyncio.run_coroutine_threadsafe(manager.__aenter__(), loop).result()
        try:
            yield value
        finally:
            asyncio.run_coroutine_threadsafe(manager.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Server]:
    """A server on the database that the command line has in this folder."""
    database = folder / ".anabranch" / "anabranch.db"
    database.parent.mkdir(exist_ok=True)
    settings = Settings.load(environ={}, folder=folder, database_url=f"sqlite:///{database}")
    async with build(settings).open_services(works=True) as services:
        keys = {role.value: services.access.add_own_key(tenant_id=TENANT, role=role).key for role in Role}
        async with listening(build_application(services)) as url:
            yield Server(url, keys)


@dataclass
class Script:
    """A server that answers what it was told to, and writes down what it was asked."""

    answers: list[web.Response | None]
    """One after the other; None closes the connection without an answer."""
    url: str = ""
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    """Method, path with query, headers, body."""


@asynccontextmanager
async def scripted(*answers: web.Response | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Script]:
    """Such a server; with `tls` it speaks TLS."""
    script = Script(list(answers))

    async def answer(request: web.Request) -> web.StreamResponse:
        script.asked.append((request.method, request.path_qs, dict(request.headers), await request.read()))
        given = script.answers.pop(0)
        if given is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return given

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with listening(application, tls) as url:
        script.url = url
        yield script


@dataclass
class Proxy:
    """Stands before a server; loses the answers that it is told to lose."""

    url: str
    loses: Callable[[web.Request], bool]
    """Asked after the server has answered: is this answer lost?"""
    lost: list[str] = field(default_factory=list)


@asynccontextmanager
async def proxied(server_url: str, loses: Callable[[web.Request], bool]) -> AsyncIterator[Proxy]:
    """Such a proxy."""
    proxy = Proxy("", loses)

    async def forward(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with (
            ClientSession() as session,
            session.request(
                request.method, server_url + request.path_qs, data=body, headers=request.headers
            ) as answered,
        ):
            content = await answered.read()
            if proxy.loses(request):
                proxy.lost.append(f"{request.method} {request.path}")
                assert request.transport is not None
                request.transport.abort()
            return web.Response(body=content, status=answered.status, content_type=answered.content_type)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", forward)
    async with listening(application) as url:
        proxy.url = url
        yield proxy


@asynccontextmanager
async def listening(application: web.Application, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL at which an application answers."""
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
