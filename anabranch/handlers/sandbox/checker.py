"""Check that code compiles, in a sealed child: a parser can be attacked, too.

Called when a workflow is saved, through the sandbox, from any thread; blocks it for some milliseconds (a tenth of a
second the first time), because the validator is not a coroutine. It has fork servers of its own, since those of the
pool belong to an event loop. Results are cached by text: an editor asks about the same code again and again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from anabranch.deferred import deferred
from anabranch.handlers.sandbox.code_jobs import CodeProblem
from anabranch.handlers.sandbox.inside import sealed_wire as wire

# Needed only to check code:
if TYPE_CHECKING:
    from anabranch.handlers.sandbox import sealed_process
else:
    sealed_process = deferred("anabranch.handlers.sandbox.sealed_process")

# 2 seconds and 512 MB of address space for compiling 256 KiB at most.
_SECONDS_MAX = 2
_ADDRESS_BYTES = 512 << 20

# Two: the first attempt may fail on a busy machine.
_ATTEMPTS_MAX = 2

# 4 at once: what takes its 2 seconds does not hold up everybody else, and memory stays bounded.
_AT_ONCE_MAX = 4

# 512 answers: the code nodes of some hundred workflows.
_ANSWERS_MAX = 512

# The maximum of reported problems.
_PROBLEMS_MAX = 20


class _Unavailable(Exception):
    """This machine cannot seal a process, so it compiles nothing and runs nothing."""


class Checker:
    """Compiles code in sealed children, for its errors only."""

    def __init__(self, *, requires_seccomp: bool) -> None:
        self._requires_seccomp = requires_seccomp
        # Owned for orders and for what is kept, never while a child compiles.
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(_AT_ONCE_MAX)
        self._servers: dict[str, sealed_process.ForkServer] = {}
        self._answers: OrderedDict[tuple[str, str], list[CodeProblem]] = OrderedDict()
        self._stops = 0

    def check(self, language: str, code: str) -> list[CodeProblem]:
        """The places where the code does not compile; empty if that cannot be checked, since then it cannot run either.

        Waits for at most `_SECONDS_MAX` in each of `_ATTEMPTS_MAX` attempts; code without an answer by then is reported
        as faulty, until the next check.
        """
        with self._lock:
            known = self._answers.get((language, code))
            if known is not None:
                return known
            stops = self._stops
        with self._slots:
            for _ in range(_ATTEMPTS_MAX):
                try:
                    problems = self._ask(language, code, stops)
                except (sealed_process.ForkServerLost, _Unavailable):
                    return []
                except (OSError, ValueError, TypeError, KeyError):
                    continue
                self._keep(language, code, problems)
                return problems
        return [CodeProblem(1, 1, "the code cannot be compiled within the limits of time and memory for that")]

    def stop(self) -> None:
        """End the fork servers; the next question starts them again."""
        with self._lock:
            self._stops += 1
            while self._servers:
                self._servers.popitem()[1].close()

    def _ask(self, language: str, code: str, stops: int) -> list[CodeProblem]:
        with self._lock:
            if self._stops != stops:
                raise sealed_process.ForkServerLost("it was stopped")  # a question from before must not start it again
            server = self._server(language)
            child = server.fork()
        try:
            return _compile(child.connection, code)
        finally:
            with self._lock:
                server.kill(child)

    def _keep(self, language: str, code: str, problems: list[CodeProblem]) -> None:
        with self._lock:
            self._answers[language, code] = problems
            if len(self._answers) > _ANSWERS_MAX:
                self._answers.popitem(last=False)

    def _server(self, language: str) -> sealed_process.ForkServer:
        server = self._servers.get(language)
        if server is not None:
            try:
                server.messages()  # so that its reports do not accumulate
                return server
            except sealed_process.ForkServerLost:
                with contextlib.suppress(OSError):
                    server.close()
        server = self._servers[language] = sealed_process.ForkServer.launch(
            language, requires_seccomp=self._requires_seccomp
        )
        return server


def _compile(connection: socket.socket, code: str) -> list[CodeProblem]:
    """The child's answer about the code. Raises if it is not readable."""
    connection.settimeout(_SECONDS_MAX)
    job = json.dumps({"check": True, "code": code}).encode()
    connection.sendall(wire.LIMITS.pack(_ADDRESS_BYTES, _SECONDS_MAX) + wire.frame(job))
    (length,) = wire.LENGTH.unpack(_receive(connection, wire.LENGTH.size))
    if length > wire.REPLY_BYTES_MAX:
        raise ValueError("a reply over its limit")
    text = _receive(connection, length)
    if wire.is_deeper(text, wire.VALUE_DEPTH_MAX):
        raise ValueError("a reply that is nested too deep")
    return _problems(json.loads(text))


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 65_536))
        if not part:
            raise ValueError("the child ended")
        parts += part
    return bytes(parts)


def _problems(reply: object) -> list[CodeProblem]:
    match reply:
        case {"error": {"code": "SANDBOX_UNAVAILABLE"}}:
            raise _Unavailable
        case {"problems": list(found)}:
            pass
        case _:
            raise ValueError("no answer to the question")
    return [
        CodeProblem(int(each["line"]), int(each["column"]), str(each["message"])[: wire.MESSAGE_CHARACTERS_MAX])
        for each in found[:_PROBLEMS_MAX]
    ]
