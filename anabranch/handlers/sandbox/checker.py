"""Does code compile? Asked when a workflow is saved, of a sealed child as well: a parser is code that can be attacked.

Called through the sandbox, from any thread, and blocks it for some milliseconds (a tenth of a
second the first time): the validator is no coroutine. It has fork servers of its own, since those of
the pool belong to an event loop. Answers are kept by text: an editor asks about the same code again and again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import OrderedDict

from anabranch.handlers.sandbox.inside import wire
from anabranch.handlers.sandbox.jobs import CodeProblem
from anabranch.handlers.sandbox.process import ForkServer, ForkServerLost

# 2 seconds and 256 MB for compiling 256 KiB at most.
_SECONDS_MAX = 2
_ADDRESS_BYTES = 512 << 20

# 512 answers: the code nodes of some hundred workflows.
_ANSWERS_MAX = 512

# Problems of one code that are told at once.
_PROBLEMS_MAX = 20


class Checker:
    """Compiles code in sealed children, for its errors only."""

    def __init__(self, *, requires_seccomp: bool) -> None:
        self._requires_seccomp = requires_seccomp
        self._lock = threading.Lock()
        self._servers: dict[str, ForkServer] = {}
        self._answers: OrderedDict[tuple[str, str], list[CodeProblem]] = OrderedDict()

    def check(self, language: str, code: str) -> list[CodeProblem]:
        """Where the code does not compile; nothing where that cannot be found out: there it cannot run either."""
        with self._lock:
            known = self._answers.get((language, code))
            if known is not None:
                return known
            try:
                problems = self._ask(language, code)
            except ForkServerLost:
                return []
            self._answers[language, code] = problems
            if len(self._answers) > _ANSWERS_MAX:
                self._answers.popitem(last=False)
            return problems

    def stop(self) -> None:
        """End the fork servers; the next question starts them again."""
        with self._lock:
            while self._servers:
                self._servers.popitem()[1].close()

    def _ask(self, language: str, code: str) -> list[CodeProblem]:
        server = self._server(language)
        child = server.fork()
        job = json.dumps({"check": True, "code": code}).encode()
        try:
            child.connection.settimeout(_SECONDS_MAX)
            child.connection.sendall(wire.LIMITS.pack(_ADDRESS_BYTES, _SECONDS_MAX) + wire.frame(job))
            (length,) = wire.LENGTH.unpack(_receive(child.connection, wire.LENGTH.size))
            if length > wire.REPLY_BYTES_MAX:
                raise ValueError("a reply over its limit")
            text = _receive(child.connection, length)
            if wire.is_deeper(text, wire.VALUE_DEPTH_MAX):
                raise ValueError("a reply that is nested too deep")
            return _problems(json.loads(text))
        except (OSError, ValueError, TypeError, KeyError):
            return [CodeProblem(1, 1, "the code cannot be compiled within the limits of time and memory for that")]
        finally:
            server.kill(child)

    def _server(self, language: str) -> ForkServer:
        server = self._servers.get(language)
        if server is not None:
            try:
                server.messages()  # so that what it reports does not pile up
                return server
            except ForkServerLost:
                with contextlib.suppress(OSError):
                    server.close()
        server = self._servers[language] = ForkServer.launch(language, requires_seccomp=self._requires_seccomp)
        return server


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 65_536))
        if not part:
            raise ValueError("the child ended")
        parts += part
    return bytes(parts)


def _problems(reply: object) -> list[CodeProblem]:
    if not isinstance(reply, dict) or "problems" not in reply:
        raise ValueError("no answer to the question")
    return [
        CodeProblem(int(each["line"]), int(each["column"]), str(each["message"])[: wire.MESSAGE_CHARACTERS_MAX])
        for each in reply["problems"][:_PROBLEMS_MAX]
    ]
