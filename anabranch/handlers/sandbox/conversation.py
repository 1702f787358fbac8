"""The protocol with one child about one job; the child is assumed to be hostile.

Called by the sandbox. No frame is read beyond its limit or parsed beyond its depth, every message must have the
expected form, log lines are counted again here, and requests go to the fetcher one by one within a budget. The caller
enforces the timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from socket import socket
from typing import Any

import orjson

from anabranch.errors import AnabranchError, NodeFailure
from anabranch.handlers.sandbox.code_jobs import LogLine
from anabranch.handlers.sandbox.inside import sealed_wire as wire
from anabranch.handlers.types.http_port import HttpCall, HttpSender

# Requests of one execution at once.
FETCHES_AT_ONCE_MAX = 8

# 8 MB of answers in one execution: they have to fit into the code's memory.
FETCHED_BYTES_MAX = 8_388_608

_TOO_MUCH_FETCHED = f"the answers of this execution together have more than {FETCHED_BYTES_MAX} bytes"

_CHUNK_BYTES = 262_144

_LEVELS = frozenset({"log", "info", "warn", "error", "debug", "truncated"})


class ChildProcessEnded(Exception):
    """The child hung up before it gave an answer."""


class ProtocolViolated(Exception):
    """The child sent what a sound child never sends."""


class ValueUnfit(Exception):
    """The child's value is JSON that cannot be read: nested too deep, or with broken text in it."""


class Conversation:
    """One job with one child."""

    def __init__(self, connection: socket, log: LogLine, fetcher: HttpSender | None, *, timeout_s: float) -> None:
        self._connection = connection
        self._log = log
        self._fetcher = fetcher
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._log_bytes = self._log_lines = 0
        self._fetches = self._fetched_bytes = 0
        self._sending = asyncio.Lock()
        self._fetching = asyncio.Semaphore(FETCHES_AT_ONCE_MAX)
        self._requests: set[asyncio.Task[None]] = set()

    async def hold(self, limits: bytes, job: bytes, context: bytes) -> Mapping[str, Any]:
        """Send the job and serve the child until it answers: `{"result": …}` or `{"error": {…}}`.

        Raises ChildEnded, ProtocolViolated, ValueUnfit.
        """
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have left a last word
                await self._loop.sock_sendall(self._connection, limits + wire.frame(job) + wire.frame(context))
            while True:
                answer = await self._take(await self._read_frame())
                if answer is not None:
                    return answer
        finally:
            for request in self._requests:
                request.cancel()
            await asyncio.gather(*self._requests, return_exceptions=True)

    async def _read_frame(self) -> bytes:
        await self._read_until(wire.LENGTH.size)
        (length,) = wire.LENGTH.unpack_from(self._received)
        if length > wire.REPLY_BYTES_MAX:
            raise ProtocolViolated("a frame over its limit")
        end = wire.LENGTH.size + length
        await self._read_until(end)
        body = bytes(self._received[wire.LENGTH.size : end])
        del self._received[:end]
        return body

    async def _read_until(self, size: int) -> None:
        while len(self._received) < size:
            try:
                part = await self._loop.sock_recv(self._connection, _CHUNK_BYTES)
            except ConnectionResetError:
                part = b""
            if not part:
                raise ChildProcessEnded
            self._received += part

    async def _take(self, body: bytes) -> Mapping[str, Any] | None:
        """The answer, or None if the frame was something else, which is done then."""
        if wire.is_deeper(body, wire.VALUE_DEPTH_MAX + wire.ENVELOPE_DEPTH):
            raise ValueUnfit("more than 64 levels of nesting")
        try:
            message = orjson.loads(body)
        except orjson.JSONDecodeError:
            if body.startswith(b'{"result":'):
                raise ValueUnfit("text with a lone surrogate, or no JSON") from None
            raise ProtocolViolated("a frame that is not JSON") from None
        match message:
            case {"result": _}:
                return {"result": message["result"]}
            case {"error": {"code": str(), "type": str(), "message": str(), "frames": list(frames)}} if _sound(frames):
                return {"error": message["error"]}
            case {"log": [str(level), str(text)]} if level in _LEVELS:
                self._take_log(level, text)
            case {"fetch": {"id": int(), "method": str(), "url": str(), "headers": dict(), "body": str() | None}}:
                await self._take_fetch(message["fetch"])
            case _:
                raise ProtocolViolated("a frame of no known form")
        # However fast it talks: the event loop has others to serve.
        await asyncio.sleep(0)
        return None

    def _take_log(self, level: str, text: str) -> None:
        self._log_lines += 1
        self._log_bytes += len(text)
        if self._log_lines <= wire.LOG_LINES_MAX and self._log_bytes <= wire.LOG_BYTES_MAX + wire.LOG_LINE_BYTES_MAX:
            self._log(level, text)

    # -- fetches ---------------------------------------------------------------------------

    async def _take_fetch(self, request: Mapping[str, Any]) -> None:
        self._fetches += 1
        if self._fetcher is None:
            await self._refuse(request, "EGRESS_REFUSED", "fetch is switched off for this node")
        elif self._fetches > wire.FETCHES_MAX:
            # Sent before the next frame is read: code that floods waits for itself.
            await self._refuse(request, "EGRESS_REFUSED", f"more than {wire.FETCHES_MAX} requests in one execution")
        else:
            task = asyncio.create_task(self._fetch(self._fetcher, request))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)

    async def _fetch(self, fetcher: HttpSender, request: Mapping[str, Any]) -> None:
        async with self._fetching:
            if self._fetched_bytes >= FETCHED_BYTES_MAX:
                await self._refuse(request, "VALUE_TOO_LARGE", _TOO_MUCH_FETCHED)
                return
            try:
                call = HttpCall(
                    method=request["method"],
                    url=request["url"],
                    headers={str(name): str(value) for name, value in request["headers"].items()},
                    body=None if request["body"] is None else request["body"].encode(),
                )
                response = await fetcher.fetch(call, timeout_s=self._timeout_s)
            except (NodeFailure, AnabranchError) as refusal:
                await self._refuse(request, refusal.code, str(refusal))
                return
            except Exception as failure:  # noqa: BLE001 -- the code is told, and may try something else
                await self._refuse(request, "FETCH_FAILED", f"{type(failure).__name__}: {failure}")
                return
        self._fetched_bytes += len(response.body)
        if self._fetched_bytes > FETCHED_BYTES_MAX:
            await self._refuse(request, "VALUE_TOO_LARGE", _TOO_MUCH_FETCHED)
            return
        body = response.body.decode("utf-8", "replace")
        await self._answer(
            {"id": request["id"], "url": request["url"], "status": response.status,
             "headers": dict(response.headers), "body": body}
        )  # fmt: skip

    async def _refuse(self, request: Mapping[str, Any], code: str, message: str) -> None:
        text = message[: wire.MESSAGE_CHARACTERS_MAX]
        await self._answer({"id": request["id"], "error": {"code": code, "message": f"{code}: {text}"}})

    async def _answer(self, answer: Mapping[str, Any]) -> None:
        async with self._sending:
            with contextlib.suppress(OSError):  # it has ended: reading will show that
                await self._loop.sock_sendall(self._connection, wire.frame(orjson.dumps(answer)))


def _sound(frames: list[Any]) -> bool:
    """Whether these are the frames of a traceback: line, column, function."""
    return len(frames) <= wire.FRAMES_MAX and all(_is_frame(each) for each in frames)


def _is_frame(given: object) -> bool:
    match given:
        case [int(line), int(column), str(name)]:
            return 0 < line <= wire.CODE_BYTES_MAX >= column >= 0 and len(name) <= wire.NAME_CHARACTERS_MAX
    return False
