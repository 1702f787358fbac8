"""The main loop of a driver process: receives requests over a socket, and sends rows or a failure.

It holds one connection to one database, and ends with the service: the service holds the other end of a pipe; when that
closes, SIGIO is raised here and ends the process.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import orjson

from anabranch.errors import NodeFailure
from anabranch.queries.drivers.driver_requests import DatabaseTarget, QueryRequest, value_of_json
from anabranch.queries.drivers.driver_wire import HEAD, Kind, frame
from anabranch.queries.drivers.memory import ProcessMemory
from anabranch.queries.query_faults import failed, failure_as_json, out_of_memory

# 1 MiB that is freed when memory runs out, so that the error can be reported.
_RESERVE_BYTES = 1 << 20

_DRIVERS = {
    "sqlite": ("anabranch.queries.drivers.sqlite", "SqliteDriver"),
    "postgresql": ("anabranch.queries.drivers.postgresql", "PostgresqlDriver"),
    "mysql": ("anabranch.queries.drivers.mysql", "MysqlDriver"),
}

Started = Callable[[], None]
"""Called by a driver when it is connected and the role is fit: the time of the query begins."""

Send = Callable[[bytes | bytearray], None]
"""Sends a list of rows in JSON."""


class Driver(Protocol):
    """A connection to a database; connects when it is first needed. Everything raises NodeFailure."""

    def check(self) -> None:
        """Connect, refuse a role that may do too much, and refuse anabranch's own database."""

    def run(self, request: QueryRequest, started: Started, send: Send) -> int:
        """Run a query in its own transaction; returns the number of rows read or changed. Afterwards the session is
        reset or disconnected.
        """


def serve(connection: int, lifeline: int, kind: str) -> None:
    """Answer requests until the service closes the socket."""
    _end_with(lifeline)
    line = _RequestLine(socket.socket(fileno=connection))
    module, name = _DRIVERS[kind]
    make = getattr(import_module(module), name)
    memory = ProcessMemory()
    memory.limit_connecting()
    _, target = line.receive()
    driver = make(DatabaseTarget(**orjson.loads(target)), memory)
    while True:
        asked, body = line.receive()
        if not _answer(line, driver, asked, body):
            return


def _answer(line: _RequestLine, driver: Driver, asked: Kind, body: bytes) -> bool:
    """Execute one request; False if this process should not take another."""
    # Mapped, not touched: it counts against the limit, and costs nothing.
    reserve = mmap.mmap(-1, _RESERVE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    reusable = True
    try:
        count = 0
        if asked is Kind.CHECK:
            driver.check()
        else:
            count = driver.run(_request(body), lambda: line.send(Kind.STARTED, {}), line.send_rows)
        line.send(Kind.DONE, {"rowCount": count, "reusable": True})
        return True
    except NodeFailure as caught:
        failure = caught
    except MemoryError:
        failure, reusable = out_of_memory(), False  # what is left of the address space is in pieces
    except Exception as caught:  # noqa: BLE001 -- what a driver makes of nonsense: an answer that is none
        failure, reusable = failed(f"the database's answer cannot be read: {type(caught).__name__}: {caught}"), False
    finally:
        reserve.close()
    line.send(Kind.FAILED, {"failure": failure_as_json(failure), "reusable": reusable})
    return reusable


def _request(body: bytes) -> QueryRequest:
    sent: dict[str, Any] = orjson.loads(body)
    return QueryRequest(**{**sent, "values": {name: value_of_json(value) for name, value in sent["values"].items()}})


def _end_with(lifeline: int) -> None:
    """Make the kernel end this process when the other end of the pipe is closed."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)
    try:
        closed = not os.read(lifeline, 1)
    except BlockingIOError:
        closed = False
    if closed:  # before the kernel was asked to tell
        os._exit(0)


class _RequestLine:
    """The connection to the service."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def receive(self) -> tuple[Kind, bytes]:
        """The next frame. Ends the process when the service has gone."""
        length, kind = HEAD.unpack(self._exactly(HEAD.size))
        return Kind(kind), self._exactly(length)

    def send(self, kind: Kind, document: object) -> None:
        self._connection.sendall(frame(kind, orjson.dumps(document)))

    def send_rows(self, body: bytes | bytearray) -> None:
        # In two pieces: one would be a copy of up to 10 MiB.
        self._connection.sendall(HEAD.pack(len(body), Kind.ROWS))
        self._connection.sendall(body)

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            part = self._connection.recv(size - len(found))
            if not part:
                os._exit(0)
            found += part
        return bytes(found)
