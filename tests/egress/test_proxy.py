"""Requests that go through an HTTP proxy: to an allowed target, and through an allowed proxy only."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from anabranch.egress import AllowList, Guard, GuardedClient
from anabranch.errors import EgressRefused, HttpUnreachable
from anabranch.handlers import Services, builtin_types
from anabranch.handlers.types.http_port import HttpCall
from tests.egress.servers import client_allowed, serving
from tests.handlers.http.calling import Given, call


@asynccontextmanager
async def proxying(answer: bytes) -> AsyncIterator[tuple[int, list[list[str]]]]:
    """A proxy that answers every request with this: its port, and the heads of the requests in lines."""
    heads: list[list[str]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head.decode().split("\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heads


OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nby the proxy"
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"


async def target(request: web.Request) -> web.Response:
    raise AssertionError("it was asked without the proxy")


async def test_a_request_is_sent_through_the_proxy_with_its_password() -> None:
    async with proxying(OK) as (port, heads), serving(target) as server:
        types = builtin_types(Services(http=client_allowed(port, server.port), secrets=Given({"PW": "p%40ss"})))
        config = {"url": f"{server.url}/a", "proxy": f"http://me:{{{{secret.PW}}}}@127.0.0.1:{port}", "finalURL": True}
        output = await call(server, config, types=types)
    assert (output["body"], output["url"]) == ("by the proxy", f"{server.url}/a")
    [head] = heads
    assert head[0] == f"GET {server.url}/a HTTP/1.1"
    assert "Proxy-Authorization: Basic " + base64.b64encode(b"me:p@ss").decode() in head


async def test_neither_a_target_nor_a_proxy_that_is_not_allowed_is_reached() -> None:
    async with proxying(OK) as (port, heads), serving(target) as server:
        sent = HttpCall(method="GET", url=server.url, proxy=f"http://127.0.0.1:{port}")
        for allowed in (port, server.port):
            with pytest.raises(EgressRefused):
                await client_allowed(allowed).fetch(sent, timeout_s=10)
    assert (heads, server.requests) == ([], [])


async def test_the_name_of_a_target_is_judged_before_the_proxy_is_asked() -> None:
    async with proxying(OK) as (port, heads):
        guard = Guard(AllowList.parse([f"127.0.0.1:{port}"]), resolve=lambda host, port: ["10.0.0.7"])
        with pytest.raises(EgressRefused):
            await GuardedClient(guard).fetch(
                HttpCall(method="GET", url="http://inside.test/", proxy=f"http://127.0.0.1:{port}"), timeout_s=10
            )
    assert heads == []


async def test_an_https_target_is_reached_by_a_tunnel() -> None:
    async with proxying(REFUSED) as (port, heads):
        with pytest.raises(HttpUnreachable):
            await client_allowed(port, 9).fetch(
                HttpCall(method="GET", url="https://127.0.0.1:9/", proxy=f"http://127.0.0.1:{port}"), timeout_s=10
            )
    assert [head[0] for head in heads] == ["CONNECT 127.0.0.1:9 HTTP/1.1"]


@pytest.mark.parametrize(
    "proxy", ["https://a.example:1", "a.example:1", "http://", "http://a b", "http://u:p@w@a.example", "socks5://a:1",
              "http://a.example/path", "http://169.254.169.254"],
)  # fmt: skip
async def test_what_is_no_proxy_is_refused_without_a_word_of_its_password(proxy: str) -> None:
    with pytest.raises(EgressRefused) as refusal:
        await client_allowed(1).fetch(HttpCall(method="GET", url="http://127.0.0.1:1/", proxy=proxy), timeout_s=10)
    assert "p@w" not in str(refusal.value)
