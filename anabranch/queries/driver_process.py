"""A driver process, seen from the service: one connection to a data source in a separate process.

Created by `engine`, used by `query_execution` from worker threads. The database library runs in that process, under a
memory limit (`drivers/memory`). The service reads rows in JSON that were counted there, and counts them again. When its
time is over the process is killed, whatever it does.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from anabranch.queries.drivers.driver_requests import DatabaseTarget, value_as_json
from anabranch.queries.drivers.driver_wire import HEAD, Kind, frame
from anabranch.queries.lexing import SourceKind
from anabranch.queries.query_faults import Mask, driver_ended, failure_of_json, timed_out, unreachable
from anabranch.queries.query_results import QueryResult
from anabranch.queries.query_session import QueryExecution

# 500 ms more than the connect timeout, 1 s more than that of a query, so that the process can report its own timeout.
_CONNECT_GRACE_MS = 500
_QUERY_GRACE_MS = 1_000

# 2 MiB beside an answer's rows: the message of a failure, which is cut to far less.
_BESIDE_ROWS_BYTES = 2 << 20

# 5 s for a killed process to be gone: it takes a millisecond, unless its disk hangs.
_GONE_SECONDS_MAX = 5.0

_START = Path(__file__).parent / "drivers" / "start_driver.py"
_PACKAGE_FOLDER = str(Path(__file__).resolve().parents[2])

# Where certificates, and the user's own for libpq, are found; where SQLite puts temporary files. Nothing else of
# the environment reaches a driver, which would read passwords and options from there.
_VARIABLES = ("HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR", "SQLITE_TMPDIR")


class DriverProcess:
    """A `Session`. The process is started when this is made, and connects at its first use."""

    def __init__(self, kind: SourceKind, target: DatabaseTarget, mask: Mask) -> None:
        """Blocks for some milliseconds. Raises NodeFailure."""
        self._mask = mask
        self._connect_timeout_ms = target.connect_timeout_ms
        self._is_reusable = True
        self._socket, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 -- the interpreter we run in, and our own file
                [
                    sys.executable, "-I", "-S", "-B", "-X", "utf8", str(_START), str(theirs.fileno()), str(lifeline),
                    str(kind), _PACKAGE_FOLDER, *filter(None, sys.path),
                ],
                env={name: os.environ[name] for name in _VARIABLES if name in os.environ},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), lifeline),
                start_new_session=True,
            )  # fmt: skip
        except OSError as refusal:
            self._socket.close()
            os.close(self._lifeline)
            raise unreachable(f"the process for the database's driver cannot be started: {refusal}") from None
        finally:
            theirs.close()
            os.close(lifeline)
        with contextlib.suppress(OSError):  # it has ended; reading will show that
            self._socket.sendall(frame(Kind.TARGET, orjson.dumps(asdict(target))))

    @property
    def is_reusable(self) -> bool:
        """Whether another query may use it: not after an interruption or an unexpected response."""
        return self._is_reusable

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def run(self, work: QueryExecution) -> QueryResult:
        """The rows of a query, up to the limits of its `work`. Raises NodeFailure: QUERY_FAILED, SOURCE_REFUSED."""
        return self._answer(
            frame(Kind.RUN, orjson.dumps(_request(work))),
            timeout_ms=work.timeout_ms,
            rows_max=work.limits.rows_max,
            bytes_max=work.limits.bytes_max,
        )

    def check(self) -> None:
        """Connect and disconnect. Raises NodeFailure if the source cannot be reached or is refused."""
        self._answer(frame(Kind.CHECK, b"{}"), timeout_ms=0, rows_max=0, bytes_max=0)

    def interrupt(self) -> None:
        """Kill the process: readers get the end of the stream."""
        self._process.kill()

    def close(self) -> None:
        """Returns when the process is gone."""
        self._is_reusable = False
        self._process.kill()
        self._socket.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GONE_SECONDS_MAX)

    def _answer(self, request: bytes, *, timeout_ms: int, rows_max: int, bytes_max: int) -> QueryResult:
        # Until it answers to the contrary: leaving this method early leaves a process in an unknown state.
        self._is_reusable = False
        deadline = time.monotonic() + (self._connect_timeout_ms + _CONNECT_GRACE_MS) / 1000
        late = unreachable(f"the database did not accept the connection within {self._connect_timeout_ms} ms")
        rows: list[dict[str, Any]] = []
        bytes_left = bytes_max + _BESIDE_ROWS_BYTES
        try:
            self._socket.settimeout(self._connect_timeout_ms / 1000)
            self._socket.sendall(request)
            while True:
                kind, body = self._receive(deadline, bytes_left)
                if kind is Kind.STARTED:
                    deadline = time.monotonic() + (timeout_ms + _QUERY_GRACE_MS) / 1000
                    late = timed_out(timeout_ms)
                elif kind is Kind.ROWS:
                    bytes_left -= len(body)
                    rows += orjson.loads(body)
                    if len(rows) > rows_max:
                        raise driver_ended(None)
                else:
                    break
        except TimeoutError:
            self.interrupt()
            raise late from None
        except (OSError, EOFError):
            raise driver_ended(self._status()) from None
        answer = orjson.loads(body)
        self._is_reusable = answer["reusable"]
        if kind is Kind.FAILED:
            raise self._mask.failure(failure_of_json(answer["failure"]))
        return QueryResult(rows, answer["rowCount"])

    def _receive(self, deadline: float, bytes_left: int) -> tuple[Kind, bytearray]:
        """The next frame. Raises TimeoutError, EOFError and OSError."""
        length, kind = HEAD.unpack(self._exactly(HEAD.size, deadline))
        if length > bytes_left:
            raise EOFError("a frame over its limit")
        return Kind(kind), self._exactly(length, deadline)

    def _exactly(self, size: int, deadline: float) -> bytearray:
        found = bytearray(size)
        rest = memoryview(found)
        while rest:
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                raise TimeoutError
            self._socket.settimeout(seconds)
            count = self._socket.recv_into(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return found

    def _status(self) -> int | None:
        """How the process ended; None if it has not: then it is killed."""
        try:
            return self._process.wait(_GONE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.interrupt()
            return None


def _request(work: QueryExecution) -> dict[str, Any]:
    """A `QueryRequest` as JSON."""
    pieces = [piece if isinstance(piece, str) else [piece.value] for piece in work.statement.pieces]
    return {
        "pieces": pieces,
        "verb": work.statement.verb,
        "values": {name: value_as_json(value) for name, value in work.values.items()},
        "writes": work.writes,
        "timeout_ms": work.timeout_ms,
        "rows_max": work.limits.rows_max,
        "bytes_max": work.limits.bytes_max,
        "memory_max": work.limits.memory_max,
        "as_in_node": work.as_in_node,
    }
