"""What a server sends can neither fill the memory, nor hold a worker, nor write into another request."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import socket
import ssl
import tracemalloc
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from anabranch.egress import GuardedClient
from anabranch.egress.exchange import _inflater
from anabranch.egress.request import BODY_BYTES_MAX, EgressRequest
from anabranch.errors import AnabranchError, HttpAnswerInvalid, HttpRefused, HttpTimeout, HttpUnreachable, ValueTooLarge
from anabranch.handlers.types.http_port import HttpAnswer, HttpCall
from tests.egress.servers import client_allowed, dripping, never_holding_up, serving

MEBIBYTE = 1_048_576
BOMB_BYTES = 64 * MEBIBYTE


async def get(client: GuardedClient, url: str, **options: Any) -> HttpAnswer:
    timeout_s = options.pop("timeout_s", 10.0)
    return await client.fetch(HttpCall(**{"method": "GET", "url": url, **options}), timeout_s=timeout_s)


def answering(body: bytes, headers: Mapping[str, str]) -> Any:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, headers=headers)

    return answer


# -- decompression -------------------------------------------------------------------------


def _raw_deflate(data: bytes) -> bytes:
    compress = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compress.compress(data) + compress.flush()


COMPRESSED = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "DEFLATE": _raw_deflate}


@pytest.mark.parametrize("encoding", COMPRESSED)
async def test_a_compressed_body_arrives_decompressed(encoding: str) -> None:
    data = b"many times the same " * 10_000
    async with serving(answering(COMPRESSED[encoding](data), {"Content-Encoding": encoding})) as server:
        assert (await get(client_allowed(server.port), server.url)).body == data


@pytest.mark.parametrize("encoding", COMPRESSED)
@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_a_compressed_body_may_arrive_in_pieces_of_any_size(encoding: str, size: int) -> None:
    """Whatever a later piece begins with: only the first one says which form of deflate it is."""
    data = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(256))
    compressed = COMPRESSED[encoding](data)
    inflate = _inflater(cast(EgressRequest, SimpleNamespace(target=SimpleNamespace(origin="http://a"))), encoding)
    assert inflate is not None
    pieces = [compressed[start : start + size] for start in range(0, len(compressed), size)]
    assert b"".join(inflate.inflate(piece, BODY_BYTES_MAX) for piece in pieces) == data
    assert inflate.complete


@pytest.fixture(scope="module")
def bombs() -> Iterator[Mapping[str, bytes]]:
    zeros = bytes(BOMB_BYTES)
    yield {"gzip": gzip.compress(zeros, mtime=0), "deflate": zlib.compress(zeros), "DEFLATE": _raw_deflate(zeros)}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "DEFLATE"])
async def test_a_decompression_bomb_ends_at_the_limit(bombs: Mapping[str, bytes], encoding: str) -> None:
    async with serving(answering(bombs[encoding], {"Content-Encoding": encoding})) as server, never_holding_up():
        tracemalloc.start()
        with pytest.raises(ValueTooLarge, match=str(BODY_BYTES_MAX)):
            await get(client_allowed(server.port), server.url)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 * BODY_BYTES_MAX < BOMB_BYTES, "more was decompressed than could be kept"


async def test_a_naive_client_fills_its_memory_with_the_bomb(bombs: Mapping[str, bytes]) -> None:
    async with (
        serving(answering(bombs["gzip"], {"Content-Encoding": "gzip"})) as server,
        aiohttp.ClientSession() as naive,
        naive.get(server.url) as answer,
    ):
        assert len(await answer.read()) == BOMB_BYTES


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        (gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "gzip, gzip", "content encoding"),
        (b"x", "br", "content encoding"),
        (b"x", "zstd", "content encoding"),
        (b"no gzip at all", "gzip", "not compressed as it says"),
        (gzip.compress(b"x" * 9_999, mtime=0)[:-9], "gzip", "is cut off"),
        (gzip.compress(b"x", mtime=0) * 1_000, "gzip", "continues after its end"),
        (gzip.compress(b"x", mtime=0) + b"tail", "gzip", "continues after its end"),
    ],
)
async def test_what_is_not_compressed_as_offered_is_refused(body: bytes, encoding: str, reason: str) -> None:
    async with serving(answering(body, {"Content-Encoding": encoding})) as server:
        with pytest.raises(HttpAnswerInvalid, match=reason):
            await get(client_allowed(server.port), server.url)


# -- size and time -------------------------------------------------------------------------


def _endless(sent: list[int], kind: str) -> Any:
    async def pour(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": kind})
        await answer.prepare(request)
        with suppress(ConnectionError):
            while sent[0] < 1_000 * MEBIBYTE:
                await answer.write(bytes(MEBIBYTE))
                sent[0] += MEBIBYTE
        return answer

    return pour


async def test_an_endless_body_ends_at_the_limit() -> None:
    sent = [0]
    async with serving(_endless(sent, "text/plain")) as server, never_holding_up():
        with pytest.raises(ValueTooLarge):
            await get(client_allowed(server.port), server.url)
    assert sent[0] < 4 * BODY_BYTES_MAX, "the server went on for long after we had enough"


async def test_a_naive_client_reads_an_endless_body_for_as_long_as_it_comes() -> None:
    sent = [0]
    async with (
        serving(_endless(sent, "text/plain")) as server,
        aiohttp.ClientSession() as naive,
        naive.get(server.url) as answer,
    ):
        assert len(await answer.content.readexactly(4 * BODY_BYTES_MAX)) == 4 * BODY_BYTES_MAX


@pytest.mark.parametrize("kind", ["text/event-stream", "Text/Event-Stream; charset=utf-8", "multipart/x-mixed-replace"])
async def test_a_stream_is_refused_by_its_kind(kind: str) -> None:
    sent = [0]
    async with serving(_endless(sent, kind)) as server:
        with pytest.raises(HttpAnswerInvalid, match="stream"):
            await get(client_allowed(server.port), server.url)


STALLS = {
    "nothing at all": b"",
    "a status line": b"HTTP/1.1 200 OK\r\n",
    "half a header": b"HTTP/1.1 200 OK\r\nX-Slow: a",
    "a body cut short": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12",
    "continue, continue": b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
}


@pytest.mark.parametrize("data", STALLS.values(), ids=STALLS)
async def test_a_server_that_stalls_holds_nobody_beyond_the_time_limit(data: bytes) -> None:
    async with dripping(data) as port, never_holding_up():
        with pytest.raises(HttpTimeout, match=r"0\.1 s"):
            await get(client_allowed(port), f"http://127.0.0.1:{port}/", timeout_s=0.1)


async def test_a_naive_client_waits_for_a_stalling_server() -> None:
    async with dripping(STALLS["half a header"]) as port, aiohttp.ClientSession() as naive:
        waiting = asyncio.ensure_future(naive.get(f"http://127.0.0.1:{port}/"))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        waiting.cancel()
    assert not done


BROKEN = {
    "closed at once": b"",
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "an endless header line": b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 2_000_000 + b"\r\n\r\n",
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 100_000 + b"\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a length below zero": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "a bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n123",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
async def test_a_broken_answer_is_worth_another_attempt(data: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, never_holding_up():
        with pytest.raises(HttpUnreachable):
            await get(client_allowed(port), f"http://127.0.0.1:{port}/")


async def test_a_port_where_nobody_listens_is_worth_another_attempt() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can answer there
        port = silent.getsockname()[1]
        with pytest.raises(HttpUnreachable, match=f"127.0.0.1:{port}"):
            await get(client_allowed(port), f"http://127.0.0.1:{port}/secret-path?token=abc")


async def test_messages_do_not_repeat_paths_and_queries() -> None:
    with pytest.raises(AnabranchError) as failure:
        await get(client_allowed(1), "http://127.0.0.1:1/secret-path?token=abc")
    assert "secret-path" not in failure.value.message and "abc" not in failure.value.message


async def test_a_server_without_a_trusted_certificate_is_not_spoken_to() -> None:
    async with serving(answering(b"x", {})) as server:
        with pytest.raises(HttpUnreachable):
            await get(client_allowed(server.port), server.url.replace("http:", "https:"))
    # The default trusts the system's authorities and checks names.
    context = ssl.create_default_context()
    assert context.check_hostname and context.verify_mode is ssl.CERT_REQUIRED


# -- headers -------------------------------------------------------------------------------

INJECTIONS = [
    {"X-A": "b\r\nX-Injected: 1"},
    {"X-A": "b\nX-Injected: 1"},
    {"X-A": "b\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n"},
    {"X-A": "b\rX-Injected: 1"},
    {"X-A": "b\x00c"},
    {"X-A\r\nX-Injected": "1"},
    {"X-A: 1\r\nX-Injected": "1"},
    {"X A": "1"},
    {"": "1"},
    {"X-\u00e4": "1"},
    {"Host": "inner.test"},
    {"Content-Length": "0"},
    {"Transfer-Encoding": "chunked"},
    {"transfer-encoding": "chunked"},
    {"Connection": "keep-alive, X-Api-Key"},
    {"Upgrade": "h2c"},
    {"Expect": "100-continue"},
    {"TE": "trailers"},
    {"Proxy-Authorization": "Basic eDp5"},
    {"X-A": "1", "x-a": "2"},
    {"X-A": "a" * 20_000},
    {f"X-{number}": "1" for number in range(101)},
]


@pytest.mark.parametrize("headers", INJECTIONS, ids=lambda headers: ascii(next(iter(headers.items())))[:40])
async def test_a_header_cannot_write_a_request_of_its_own(headers: Mapping[str, str]) -> None:
    async with serving(answering(b"x", {})) as server:
        with pytest.raises(HttpRefused):
            await get(client_allowed(server.port), server.url, headers=headers)
    assert server.requests == []


async def test_a_naive_client_sends_the_request_inside_the_header() -> None:
    async with serving(answering(b"x", {})) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for name, value in INJECTIONS[2].items():
            writer.write(f"GET /first HTTP/1.1\r\nHost: x\r\n{name}: {value}\r\n\r\n".encode())
        answer = b""
        while answer.count(b"HTTP/1.1 200") < 2:
            answer += await reader.read(65_536)
        writer.close()
    assert [path for _, path, _, _ in server.requests] == ["/first", "/second"]


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET /x HTTP/1.1\r\nX-A: b", ""])
async def test_only_methods_of_requests_are_sent(method: str) -> None:
    with pytest.raises(HttpRefused):
        await get(client_allowed(1), "http://127.0.0.1:1/", method=method)


async def test_headers_of_an_answer_become_text_that_can_be_stored() -> None:
    raw = b"HTTP/1.1 200 OK\r\nX-Bytes: \xff\xfe\r\nX-Twice: a\r\nx-twice: b\r\nContent-Length: 0\r\n\r\n"
    async with dripping(raw) as port:
        headers = (await get(client_allowed(port), f"http://127.0.0.1:{port}/")).headers
    assert headers["x-twice"] == "a, b"
    assert headers["x-bytes"].encode() == "\ufffd\ufffd".encode()
