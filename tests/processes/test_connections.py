"""Clients that send half of something and stay: a real server with few descriptors goes on answering."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.processes.conftest import Installation
from tests.processes.launching import Staying, until

pytestmark = pytest.mark.timeout(180)

DESCRIPTORS = 400
HALF_HEAD = b"GET /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: "
HALF_BODY = b"POST /v1/validate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"
SOCKET_HANDSHAKE = (
    b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
LONG_POLL = b"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def few_descriptors(sqlite_installation: Installation) -> Iterator[Staying]:
    """A server that may have 400 descriptors in all."""
    key = sqlite_installation.make_key()
    arguments: tuple[str | Path, ...] = ("serve", "--port", "0")
    server = Staying(arguments, sqlite_installation.folder, sqlite_installation.environment, descriptors=DESCRIPTORS)
    try:
        server.ready().key = key
        yield server
    finally:
        server.close()


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    """Closes what a test has connected."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        yield stack
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(server: Staying, sockets: ExitStack, sent: bytes) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    connection = sockets.enter_context(socket.create_connection((host, int(port)), timeout=30))
    connection.sendall(sent)
    return connection


def is_ended(connection: socket.socket) -> bool:
    """Has the server ended it? What it said before is read."""
    connection.settimeout(0.01)
    try:
        while connection.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(HALF_HEAD, id="half a head"),
        pytest.param(HALF_BODY, id="half a body"),
        pytest.param(SOCKET_HANDSHAKE, id="a socket without a key"),
        pytest.param(LONG_POLL, id="a long poll without a key"),
    ],
)
def test_health_is_answered_beside_more_silent_connections_than_descriptors(
    few_descriptors: Staying, sockets: ExitStack, sent: bytes
) -> None:
    held = []
    for number in range(600):
        held.append(connect(few_descriptors, sockets, sent))
        if number % 100 == 99:
            assert few_descriptors.ask("GET", "/healthz").status == 200
            assert few_descriptors.ask("GET", "/v1/runs").status == 200
    until(lambda: sum(map(is_ended, held)) >= 400)
    assert psutil.Process(few_descriptors.pid).num_fds() < DESCRIPTORS - 64, "the engine keeps room"
    few_descriptors.saw("connections are open, and there is room for 200")
    assert few_descriptors.stop() == 0
    complaints = [line for line in few_descriptors.err if "connection" in line]
    assert len(complaints) == 1, "it is told in one line"


def test_a_run_works_beside_them(few_descriptors: Staying, sockets: ExitStack) -> None:
    few_descriptors.save(
        {
            "name": "code",
            "nodes": [
                {"id": "start", "type": "start"},
                {"id": "code", "type": "python", "config": {"code": "return 1"}},
                {"id": "end", "type": "end"},
            ],
            "edges": [
                {"upstreamNodeID": "start", "downstreamNodeID": "code"},
                {"upstreamNodeID": "code", "downstreamNodeID": "end"},
            ],
        }
    )
    for _ in range(500):
        connect(few_descriptors, sockets, HALF_HEAD)
    assert few_descriptors.ended_run(few_descriptors.start("code"))["status"] == "COMPLETED"


def test_the_soft_limit_of_descriptors_is_raised(sqlite_installation: Installation) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        worker = Staying(("worker",), sqlite_installation.folder, sqlite_installation.environment)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        worker.ready()
        assert psutil.Process(worker.pid).rlimit(psutil.RLIMIT_NOFILE) == (hard, hard)
        assert worker.stop() == 0
    finally:
        worker.close()
