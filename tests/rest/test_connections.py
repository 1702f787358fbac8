"""Connections whose clients do not do their part: half a head, half a body, an answer that nobody reads, a hang-up."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
import struct
from collections.abc import AsyncIterator, Callable

import psutil  # type: ignore[import-untyped]
import pytest
from aiohttp import web

from anabranch.process import ClientTimeouts, accepting
from anabranch.settings import Settings
from tests.rest.conftest import Served, serving
from tests.rest.drawing import echo

SHORT = ClientTimeouts(head_s=0.2, body_s=0.2, stalled_s=0.2, look_s=0.02)


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One kind is enough: nothing of this reaches a database."""
    return sqlite_url


@pytest.fixture
async def impatient(settings_of: Callable[..., Settings]) -> AsyncIterator[Served]:
    """A server that waits for a fifth of a second."""
    async for each in serving(settings_of(), timeouts=SHORT):
        yield each


@pytest.fixture
async def crowded(settings_of: Callable[..., Settings]) -> AsyncIterator[Served]:
    """A server that has four places."""
    async for each in serving(settings_of(), connections_max=4):
        yield each


def get(served: Served, path: str, *, role: str = "viewer") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.keys[role]}\r\n\r\n".encode()


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[16:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: "))
    return int(head[9:12]), await reader.readexactly(length)


@pytest.mark.parametrize("sent", [b"G", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
async def test_half_a_head_is_answered_408_when_its_time_is_over(impatient: Served, sent: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient.port)
    writer.write(sent)
    status, body = await answer_of(reader)
    assert (status, json.loads(body)["error"]["code"]) == (408, "REQUEST_TIMEOUT")
    assert await reader.read() == b"", "the connection ends"
    writer.close()


async def test_who_says_nothing_is_closed_without_an_answer(impatient: Served):
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient.port)
    assert await reader.read() == b"", "an answer would be taken for that to its first request"
    writer.close()


async def test_a_later_request_has_the_same_time_for_its_head(impatient: Served):
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient.port)
    for _ in range(3):
        writer.write(get(impatient, "/v1/runs"))
        assert (await answer_of(reader))[0] == 200
    writer.write(b"GET /v1/runs HTT")
    assert (await answer_of(reader))[0] == 408
    assert await reader.read() == b""
    writer.close()


async def test_a_body_that_no_route_reads_does_not_hold_a_connection(impatient: Served):
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient.port)
    writer.write(b"POST /v1/validate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
    assert (await answer_of(reader))[0] == 401
    writer.close()


async def test_who_does_not_read_its_answers_is_cut_off(impatient: Served):
    loop, us = asyncio.get_running_loop(), psutil.Process()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", impatient.port))
        connection.setblocking(False)
        # 100 answers of 100 KB: more than the buffers between us hold.
        await loop.sock_sendall(connection, get(impatient, "/openapi.json") * 100)
        ends = (impatient.port, connection.getsockname()[1])

        def is_open() -> bool:
            found = us.net_connections("tcp4")
            return any((end.laddr.port, end.raddr.port) == ends for end in found if end.raddr)

        for wanted in (True, False):
            while is_open() is not wanted:
                assert (await impatient.ask("GET", "/healthz")).status == 200


async def test_an_idle_connection_gives_its_place_to_a_new_one_and_one_at_work_does_not(crowded: Served):
    await crowded.save(echo())
    await crowded.session.close()  # its own connection
    body = b'{"input": {}'
    head = (
        f"POST /v1/workflows/echo/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {crowded.keys['admin']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body) + 1}\r\nExpect: 100-continue\r\n\r\n"
    ).encode()
    at_work = [await asyncio.open_connection("127.0.0.1", crowded.port) for _ in range(3)]
    for reader, writer in at_work:
        writer.write(head)
        await reader.readuntil(b"100 Continue\r\n\r\n")
    idle = await asyncio.open_connection("127.0.0.1", crowded.port)
    idle[1].write(get(crowded, "/v1/runs"))
    assert (await answer_of(idle[0]))[0] == 200

    asker = await asyncio.open_connection("127.0.0.1", crowded.port)
    asker[1].write(head)
    await asker[0].readuntil(b"100 Continue\r\n\r\n")
    assert await idle[0].read() == b"", "the idle one has gone"

    refused = await asyncio.open_connection("127.0.0.1", crowded.port)
    status, answer = await answer_of(refused[0])
    assert (status, json.loads(answer)["error"]["code"]) == (503, "TOO_MANY_CONNECTIONS")

    for reader, writer in [*at_work, asker]:
        writer.write(body + b"}")
        assert (await answer_of(reader))[0] == 201, "nobody who works is disturbed"
    for _, writer in [*at_work, idle, asker, refused]:
        writer.close()


@pytest.mark.parametrize("sent", ['{"input": {}}', '{"input"'], ids=["after its request", "in its body"])
async def test_a_client_that_hangs_up_is_no_fault(served: Served, sent: str, caplog: pytest.LogCaptureFixture):
    await served.save(echo())
    caplog.set_level(logging.INFO)
    for _ in range(5):
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(
            f"POST /v1/workflows/echo/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.keys['admin']}\r\n"
            f"Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{sent}".encode()
        )
        await writer.drain()
        # Closed without lingering: the server is sent a reset.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    counted: dict[str, float] = {}
    while sum(counted.values()) < 5:
        metrics = (await served.ask("GET", "/metrics", role=None)).text
        counted = {
            line.split('status="')[1][:3]: float(line.split()[-1])
            for line in metrics.splitlines()
            if line.startswith("anabranch_http_requests_total{")
            and '"POST",route="/v1/workflows/{workflow}/runs"' in line
        }
    assert set(counted) <= {"201", "499"}, "an answer that arrives at nobody is counted as what it was"
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


class ShortOfDescriptors(socket.socket):
    """A listener that the system has no descriptor for, a few times."""

    shortages = 3

    def accept(self) -> tuple[socket.socket, object]:
        if self.shortages:
            type(self).shortages -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_a_process_without_descriptors_waits_and_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("anabranch.process.acceptor.PAUSE_S", 0.01)
    listener = ShortOfDescriptors(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="answered")

    application = web.Application()
    application.router.add_get("/", answer)
    async with accepting(application, listener, connections_max=10, shutdown_s=1.0, timeouts=SHORT):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await answer_of(reader) == (200, b"answered")
        writer.close()
    assert ShortOfDescriptors.shortages == 0
    told = [record for record in caplog.records if record.name.startswith(("anabranch", "asyncio"))]
    assert [record.levelname for record in told] == ["WARNING"], "one line, and no traceback"
    assert told[0].exc_info is None
