"""One HTTP connection: aiohttp's protocol with deadlines for the client, and errors in our format.

Made by `acceptor`, which checks each connection once a second. aiohttp has one timeout only, for a connection without
any request; a client that sends half a request, or does not read its response, could stay forever.
"""

from __future__ import annotations

import asyncio
import logging
from enum import IntEnum
from typing import Protocol, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from anabranch.dataclass import dataclass
from anabranch.errors import AnabranchError, BadHttp, RequestTimeout, TooManyConnections
from anabranch.rest.application import AUTHENTICATED
from anabranch.rest.error_responses import fault_response, response_of
from anabranch.sockets.socketio_adapter import HAS_SHOWN_KEY

# aiohttp logs what is not HTTP with a traceback; it is answered 400, which is no news to an operator.
_silent = logging.getLogger("anabranch.process.http.library")
_silent.setLevel(logging.CRITICAL)

# 64 KB in `stalled_s`: a client that reads 2 KB a second gets its answer, however large it is.
PROGRESS_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class ClientTimeouts:
    """How long a client may take, in seconds."""

    head_s: float = 15.0
    """To send the whole head of a request, from when it connects, or from the first byte of a later request.
    A head has a kilobyte: 15 s are enough for any line that can be worked with, and with pauses of retransmission."""
    body_s: float = 40.0
    """To send a body. The REST API waits 30 s and answers 408; this is for every other route."""
    stalled_s: float = 30.0
    """How long a client may read nothing of a response; the same as the timeout of a ping."""
    idle_s: float = 620.0
    """Between two requests. Proxies keep connections for 600 s at most, and must be the first to close: else
    they send a request into a connection that is just ending. When places are short, idle ones are closed first."""
    look_s: float = 1.0
    """How often each connection is looked at."""


class ConnectionPriority(IntEnum):
    """The priority of a connection when the limit is reached: the lowest is closed first."""

    NEW = 0
    """It has not sent a whole request yet."""
    UNAUTHENTICATED = 1
    """It has sent requests, but the latest has shown no valid key (so far)."""
    IDLE = 2
    """It has shown a key, and waits between two requests."""
    AT_WORK = 3
    """A request with a valid key is under way: never closed to make room."""


class ConnectionRegistry(Protocol):
    """Keeps the list of open connections."""

    def opened(self, connection: Connection) -> None:
        """It was accepted."""

    def changed(self, connection: Connection) -> None:
        """Its priority may have changed."""

    def closed(self, connection: Connection) -> None:
        """It is closed, and its descriptor is free."""


class Connection(web.RequestHandler):
    """A connection, from its acceptance to its end."""

    __slots__ = (
        "_has_begun_head",
        "_has_shown_key",
        "_head_since",
        "_registry",
        "_request",
        "_request_since",
        "_requests",
        "_resumed",
        "_timeouts",
        "_unsent",
        "_wire",
    )

    def __init__(self, server: web.Server, registry: ConnectionRegistry, timeouts: ClientTimeouts) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=timeouts.idle_s,
            access_log=None,  # type: ignore[arg-type]  # no log of requests: their addresses may hold keys
            logger=_silent,
            # The REST API refuses compressed bodies, so nothing is decompressed before it is needed.
            auto_decompress=False,
        )
        self._registry = registry
        self._timeouts = timeouts
        self._wire: asyncio.Transport | None = None
        self._head_since: float | None = loop.time()
        self._has_begun_head = False
        self._request: web.Request | None = None
        self._request_since = 0.0
        self._requests = 0
        self._has_shown_key = False
        self._unsent: tuple[int, float] | None = None
        self._resumed = False

    @property
    def priority(self) -> ConnectionPriority:
        """Its current priority."""
        if self._request is not None:
            return (
                ConnectionPriority.AT_WORK if _is_authenticated(self._request) else ConnectionPriority.UNAUTHENTICATED
            )
        if self._has_shown_key:
            return ConnectionPriority.IDLE
        return ConnectionPriority.UNAUTHENTICATED if self._requests else ConnectionPriority.NEW

    # -- requests ---------------------------------------------------------------------------
    def begin(self, request: web.Request) -> None:
        """A request has a whole head, and is about to be handled."""
        self._head_since, self._has_begun_head = None, False
        self._request, self._request_since = request, self._loop.time()
        self._requests += 1
        self._registry.changed(self)

    def end(self) -> None:
        """It has been handled."""
        if self._request is not None:
            self._has_shown_key = _is_authenticated(self._request)
        self._request = None
        self._registry.changed(self)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to invalid HTTP (400), or to a defect outside of the application."""
        if request.writer.output_size > 0:
            raise ConnectionError("half an answer is sent, and another cannot follow")
        if status < 500:
            # The library quotes the offending bytes on further lines.
            reason = (message or "").split("\n")[0][:200].rstrip(": ")
            response = response_of(BadHttp(f"this is not HTTP: {reason}" if reason else "this is not HTTP"))
        else:
            fault = exc if isinstance(exc, Exception) else RuntimeError(f"status {status}")
            response = fault_response(fault, f"{request.method} {request.path}")
        response.headers["Server"] = "anabranch"
        response.force_close()
        return response

    # -- asyncio's protocol -----------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to count this connection, then serve it as aiohttp does."""
        self._wire = cast(asyncio.Transport, transport)
        self._registry.opened(self)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop counting it."""
        self._wire = None
        self._registry.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note when the head of a request begins: from then on the client has a limited time for it."""
        if data and (self._request is None or self._request.content.is_eof()):  # it belongs to the next head
            self._has_begun_head = True
            if self._head_since is None:
                self._head_since = self._loop.time()
        super().data_received(data)

    def resume_writing(self) -> None:
        """The client has read much of the buffered response."""
        self._resumed = True
        super().resume_writing()

    # -- deadlines --------------------------------------------------------------------------
    def look(self, now: float) -> None:
        """Close it if the client has missed a deadline."""
        wire, request = self._wire, self._request
        if wire is None or self._is_reading(wire, now):
            return
        if request is not None and not request.content.is_eof():
            if now - self._request_since > self._timeouts.body_s:
                wire.abort()
        elif request is None and self._head_since is not None and now - self._head_since > self._timeouts.head_s:
            message = f"the head of a request did not arrive within {self._timeouts.head_s:g} s"
            self._refuse(RequestTimeout(message))

    def close_for_another(self) -> None:
        """Close it to make room for another one."""
        if self._wire is None:
            return
        if self._request is None:
            self._refuse(TooManyConnections("there are too many connections"))
        else:
            self._wire.abort()

    def _is_reading(self, wire: asyncio.Transport, now: float) -> bool:
        """Whether a response is being sent; if the client reads none of it, the connection is closed."""
        size = wire.get_write_buffer_size()
        resumed, self._resumed = self._resumed, False
        if size == 0:
            self._unsent = None
            return False
        if self._unsent is None or resumed or size <= self._unsent[0] - PROGRESS_BYTES:
            self._unsent = (size, now)
        elif size > self._unsent[0]:
            self._unsent = (size, self._unsent[1])  # there is more to take, and nothing has been taken
        if now - self._unsent[1] > self._timeouts.stalled_s:
            wire.abort()
        return True

    def _refuse(self, refusal: AnabranchError) -> None:
        """Send the reason, and close. A client that has sent nothing gets no response, which it would take for that to
        its next request."""
        assert self._wire is not None, "nothing is sent to a closed connection"
        if self._has_begun_head:
            self._wire.write(raw_answer(refusal))
        self.force_close()  # what was answered before is still sent, as long as the client takes it


def raw_answer(refusal: AnabranchError) -> bytes:
    """A refusal as raw HTTP, for a client that has not sent a whole request; the connection is closed after it."""
    response = response_of(refusal)
    assert isinstance(response.body, bytes), "an error is a JSON document"
    headers = {
        **response.headers,
        "Content-Length": str(len(response.body)),
        "Server": "anabranch",
        "Connection": "close",
    }
    lines = (f"HTTP/1.1 {response.status} {response.reason}", *(f"{name}: {text}" for name, text in headers.items()))
    return "\r\n".join([*lines, "", ""]).encode() + response.body


@web.middleware
async def track_requests(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Tell a connection when its requests begin and end. The outermost middleware."""
    connection = request.protocol
    assert isinstance(connection, Connection), "this application is served by an acceptor"
    connection.begin(request)
    try:
        return await handler(request)
    finally:
        connection.end()


def _is_authenticated(request: web.Request) -> bool:
    """Whether this request, or the socket, has a valid key."""
    has_shown_key = request.get(HAS_SHOWN_KEY)
    return AUTHENTICATED in request or (has_shown_key is not None and has_shown_key())
