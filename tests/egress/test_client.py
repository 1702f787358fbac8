"""The client speaks TLS to the name although it connects to an address, and lets go when nobody waits."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from anabranch.egress import AllowList, Guard, GuardedClient
from anabranch.egress.exchange import exchange
from anabranch.egress.request import EgressRequest
from anabranch.egress.targets import parse_target
from anabranch.errors import EgressRefused, HttpUnreachable
from anabranch.handlers.types.http_port import HttpCall
from tests.certificates import certificate_for
from tests.egress.servers import client_allowed, serving


def resolve(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def test_the_certificate_is_that_of_the_name_and_not_of_the_address(tmp_path: Path) -> None:
    file = certificate_for("api.test", tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    asked: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked.append(name)

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text=request.host)

    application = web.Application()

    async def lead_on(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"https://other.test:{port}/")

    application.router.add_get("/", hello)
    application.router.add_get("/to-another-origin", lead_on)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        port = runner.addresses[0][1]
        guard = Guard(AllowList.parse([f"127.0.0.1:{port}"]), resolve=resolve)
        client = GuardedClient(guard, tls=ssl.create_default_context(cafile=str(file)))

        answer = await client.fetch(HttpCall(method="get", url=f"https://api.test:{port}/"), timeout_s=10)
        assert (answer.body.decode(), asked) == (f"api.test:{port}", ["api.test"])

        for name in ("other.test", "127.0.0.1"):
            with pytest.raises(HttpUnreachable, match="certificate"):
                await client.fetch(HttpCall(method="GET", url=f"https://{name}:{port}/"), timeout_s=10)
        with pytest.raises(HttpUnreachable, match="certificate"):
            await GuardedClient(guard).fetch(HttpCall(method="GET", url=f"https://api.test:{port}/"), timeout_s=10)
        unchecked = HttpCall(method="GET", url=f"https://127.0.0.1:{port}/", check_certificate=False)
        assert (await client.fetch(unchecked, timeout_s=10)).status == 200
        elsewhere = replace(unchecked, url=f"https://127.0.0.1:{port}/to-another-origin")
        with pytest.raises(HttpUnreachable, match="certificate"):
            await client.fetch(elsewhere, timeout_s=10)
    finally:
        await runner.cleanup()


async def test_a_failed_connection_does_not_tell_the_address_of_an_inner_name() -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    client = GuardedClient(Guard(AllowList.parse(["loop.test"]), resolve=resolve))
    with pytest.raises(HttpUnreachable, match="refused") as failure:
        await client.fetch(HttpCall(method="GET", url=f"http://loop.test:{port}/"), timeout_s=10)
    assert "127.0.0.1" not in failure.value.message


async def test_a_request_that_nobody_waits_for_lets_its_connection_go() -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        asking = asyncio.ensure_future(
            client_allowed(port).fetch(HttpCall(method="GET", url=f"http://127.0.0.1:{port}/"), timeout_s=60)
        )
        await arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        async with asyncio.timeout(30):
            assert await gone.wait(), "the server has seen the end of the connection"


async def test_of_several_addresses_one_that_answers_is_enough() -> None:
    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello")

    application = web.Application()
    application.router.add_get("/", hello)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        guard = Guard(AllowList.parse(["127.0.0.0/8"]), resolve=lambda host, port: ["127.0.0.3", "127.0.0.1"])
        answer = await GuardedClient(guard).fetch(
            HttpCall(method="GET", url=f"http://several.test:{port}/"), timeout_s=10
        )
        assert answer.body == b"hello"
    finally:
        await runner.cleanup()


async def test_an_address_that_nobody_judged_is_not_connected_to_even_if_a_host_is_written_as_one() -> None:
    # The client's library asks no resolver about hosts that are addresses: the socket is the last place to look.
    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello")

    async with serving(hello) as server:
        request = EgressRequest("GET", parse_target(server.url), {}, None)
        with pytest.raises(EgressRefused, match="not checked"):
            await exchange(request, ["93.184.215.14"], bytes_max=1_000, tls=True)
        assert server.requests == []
        assert (await exchange(request, ["127.0.0.1"], bytes_max=1_000, tls=True)).body == b"hello"


async def test_names_are_resolved_beside_the_event_loop() -> None:
    loop_thread_free = asyncio.Event()
    loop = asyncio.get_running_loop()

    def resolve_slowly(host: str, port: int) -> Sequence[str]:
        # Returns only once the event loop has run other tasks: if this were its thread, it never would.
        asyncio.run_coroutine_threadsafe(_set(loop_thread_free), loop).result(timeout=30)
        return ["127.0.0.1"]

    guard = Guard(AllowList.parse(["127.0.0.1"]), resolve=resolve_slowly)
    assert await guard.check_soon("slow.test", 80) == ["127.0.0.1"]
    guard.close()


async def _set(event: asyncio.Event) -> None:
    event.set()
