"""A child: seals itself, does one job, reports the result, and ends.

Called by the fork server right after the fork. Children are forked ahead and wait, sealed except for the last step,
until the service sends the limits of their job. Only after the last step do they read anything that a tenant wrote.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from anabranch.handlers.sandbox.inside import hardening
from anabranch.handlers.sandbox.inside import sealed_wire as wire
from anabranch.handlers.sandbox.inside.languages import Failure, Frame, Language, LanguageEngine

# 1 MB that is freed when memory runs out, so that the error can be reported.
_RESERVE_BYTES = 1_048_576


def live(connection: int, language: Language, *, slot: int, parent: int, requires_seccomp: bool) -> NoReturn:
    """The whole life of a child. Never returns into the fork server's stack."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        report: hardening.Report = {}
        hardening.harden(report, keep=connection, slot=slot, parent=parent)
        engine = language()
        line = _ChildLine(connection)
        address_bytes, cpu_seconds = wire.LIMITS.unpack(line.read(wire.LIMITS.size))
        hardening.seal(report, address_bytes=address_bytes, cpu_seconds=cpu_seconds)
        if requires_seccomp and report["seccomp"] != "yes":
            line.send({"error": _error("SANDBOX_UNAVAILABLE", "SandboxUnavailable", f"seccomp: {report['seccomp']}")})
        else:
            _work(line, engine)
        os._exit(0)
    except MemoryError:
        os._exit(wire.EXIT_OUT_OF_MEMORY)
    except BaseException:  # noqa: BLE001 -- whatever it was, nothing of it may reach the fork server's code
        os._exit(1)


def report_layers(connection: int, *, parent: int) -> NoReturn:
    """Build all walls, run against them, and send the report: what the probe does."""
    report: hardening.Report = {}
    try:
        hardening.harden(report, keep=connection, slot=hardening.UIDS - 1, parent=parent)
        hardening.seal(report, address_bytes=0, cpu_seconds=1)
        if report["seccomp"] == "yes" and (still_possible := _still_possible()):
            report["seccomp"] = f"no (installed, but {', '.join(still_possible)} still possible)"
        _ChildLine(connection).send(report)
    finally:
        os._exit(0)


def _still_possible() -> list[str]:
    attempts: Mapping[str, Callable[[], object]] = {
        "opening a file": lambda: os.open("/", os.O_RDONLY),
        "making a socket": lambda: socket.socket(),
        "starting a process": _start_a_process,
    }
    found = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError:
            continue
        found.append(name)
    return found


def _start_a_process() -> None:
    if os.fork() == 0:
        os._exit(0)


def _work(line: _ChildLine, engine: LanguageEngine) -> None:
    # Mapped, not touched: it counts against the limit, and costs nothing.
    reserve = mmap.mmap(-1, _RESERVE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        job = json.loads(line.read_frame())
        if job.get("check"):
            line.send({"problems": [problem._asdict() for problem in engine.compile(job["code"])]})
            return
        job["ctx"] = line.read_frame().decode()
        value = engine.run(job, _Log(line))
        if len(value) > wire.RESULT_BYTES_MAX:
            raise Failure("VALUE_TOO_LARGE", "ValueTooLarge", _too_large(len(value)))
        line.send_raw(b'{"result":' + value + b"}")
    except Failure as failure:
        reserve.close()
        line.send({"error": _error(failure.code, failure.type_name, failure.message, failure.frames)})
    except MemoryError:
        reserve.close()
        line.send({"error": _error("CODE_MEMORY", "MemoryError", "the code needed more memory than it may have")})


def _too_large(size: int) -> str:
    return f"the code returned {size} bytes of JSON, the limit is {wire.RESULT_BYTES_MAX}"


def _error(code: str, type_name: str, message: str, frames: Sequence[Frame] = ()) -> dict[str, Any]:
    text = message[: wire.MESSAGE_CHARACTERS_MAX]
    shown = [[line, column, name[: wire.NAME_CHARACTERS_MAX]] for line, column, name in frames[-wire.FRAMES_MAX :]]
    return {"code": code, "type": type_name[: wire.NAME_CHARACTERS_MAX], "message": text, "frames": shown}


class _ChildLine:
    """The one connection to the service. Plain reads and writes: the service may hang up at any time."""

    def __init__(self, connection: int) -> None:
        self._connection = connection

    def read(self, size: int) -> bytes:
        parts = []
        while size:
            part = os.read(self._connection, min(size, 1_048_576))
            if not part:
                os._exit(0)  # the service has closed the socket
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def read_frame(self) -> bytes:
        (length,) = wire.LENGTH.unpack(self.read(wire.LENGTH.size))
        return self.read(length)

    def send(self, message: object) -> None:
        self.send_raw(json.dumps(message).encode())

    def send_raw(self, body: bytes) -> None:
        rest = memoryview(wire.frame(body))
        while rest:
            rest = rest[os.write(self._connection, rest) :]


class _Log:
    """The interface of the code to the service: requests, and a log that is cut at its limit."""

    def __init__(self, line: _ChildLine) -> None:
        self._line = line
        self._bytes = 0
        self._lines = 0

    def log(self, level: str, text: str) -> None:
        if self._lines >= wire.LOG_LINES_MAX or self._bytes >= wire.LOG_BYTES_MAX:
            return
        data = text[: wire.LOG_LINE_BYTES_MAX].encode("utf-8", "replace")[: wire.LOG_LINE_BYTES_MAX]
        self._lines += 1
        self._bytes += len(data)
        if self._lines >= wire.LOG_LINES_MAX or self._bytes >= wire.LOG_BYTES_MAX:
            level, data = "truncated", b"the log of this node is full; further lines are dropped"
        self._line.send({"log": [level, data.decode("utf-8", "ignore")]})

    def ask(self, request: Mapping[str, Any]) -> bool:
        """Send a request to the service; False, and nothing is sent, if it is larger than requests may be."""
        body = json.dumps({"fetch": request}, ensure_ascii=False).encode()
        if len(body) > wire.REQUEST_BYTES_MAX:
            return False
        self._line.send_raw(body)
        return True

    def answer(self) -> Any:
        return json.loads(self._line.read_frame())
