"""Adapter to python-socketio: reads connections and writes messages.

Called by `server`. Only this module knows the internals of Engine.IO.
"""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import orjson
import socketio
from aiohttp import web
from engineio.async_drivers.aiohttp import WebSocket
from engineio.packet import MESSAGE, NOOP, Packet
from socketio.packet import EVENT
from socketio.packet import Packet as SocketPacket

from anabranch.sockets.requests import MESSAGE_BYTES_MAX

# What clients do wrong is answered, and no news to an operator: the library would log it with a traceback.
# Below that it would log what was received, keys included.
_protocol_logger = logging.getLogger("anabranch.sockets.protocol")
_protocol_logger.setLevel(logging.CRITICAL)

# Up to 8 binary parts of a message are read and then refused with a response; a client that announces more is
# disconnected.
BINARY_PARTS_MAX = 8

# 30 s for a client to take something: after that it has not answered a ping either.
SEND_PATIENCE_S = 30.0

HAS_SHOWN_KEY: web.RequestKey[Callable[[], bool]] = web.RequestKey("has_shown_key")
"""On the request that a WebSocket began with: has its client shown a valid key by now?"""

_FINAL_TEXT = 0x81
"""The first byte of a WebSocket frame that holds a whole text."""


OwnOrigin = Callable[[str, str], bool]
"""Whether a page of this Origin belongs to the server with this Host."""


def open_protocol(is_own_origin: OwnOrigin, has_shown_key: Callable[[str], bool]) -> Any:
    """A Socket.IO server that accepts its own pages and programs.

    `has_shown_key` is called with the id of a connection.
    """

    def may_connect(origin: str | None, environ: dict[str, Any]) -> bool:
        return origin is not None and is_own_origin(origin, environ["aiohttp.request"].host)

    server = socketio.AsyncServer(
        async_mode="aiohttp",
        # One request of a client after the other: it cannot leave a run before it has joined it.
        async_handlers=False,
        cors_allowed_origins=may_connect,
        cors_credentials=False,
        max_http_buffer_size=MESSAGE_BYTES_MAX,
        serializer=JsonPacket,
        http_compression=False,
        logger=_protocol_logger,
        engineio_logger=_protocol_logger,
    )
    server.eio._async = {**server.eio._async, "websocket": partial(TextWebSocket, has_shown_key)}
    server.eio.create_queue = SendQueue
    # The library waits until the client has fetched everything, including a refusal: a client that never does would
    # keep the request in memory forever.
    server.eio.disconnect = partial(hang_up, server)
    return server


class _FastJson:
    """The JSON module for the library: fast encoding; strict parsing is done by `read_request`."""

    loads = staticmethod(json.loads)

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        """Text without spaces."""
        return orjson.dumps(value).decode()


class JsonPacket(SocketPacket):  # type: ignore[misc]  # socketio has no types
    """A packet whose data is JSON. (Looking for bytes in it takes longer than all else, for a large snapshot.)"""

    uses_binary_events = False
    json = _FastJson


class EncodedMessage:
    """An event of the default namespace on its way, in the forms in which it may be sent; each is made once."""

    def __init__(self, text: str) -> None:
        """`text` is the JSON of the event: a list of its name and its data."""
        self.packet = Packet(MESSAGE, f"{EVENT}{text}")

    @cached_property
    def frame(self) -> bytes:
        """As a frame of a WebSocket. Those of a server are not masked: all clients get the same bytes."""
        payload: bytes = self.packet.encode().encode()
        size = len(payload)
        if size < 126:
            return struct.pack("!BB", _FINAL_TEXT, size) + payload
        if size < 65_536:
            return struct.pack("!BBH", _FINAL_TEXT, 126, size) + payload
        return struct.pack("!BBQ", _FINAL_TEXT, 127, size) + payload


class SendQueue(asyncio.Queue[Any]):
    """The queue of what Engine.IO sends on one connection, and whether it is idle."""

    def __init__(self) -> None:
        super().__init__()
        self.websocket: TextWebSocket | None = None
        self._waiting = 0

    async def get(self) -> Any:
        """The next packet, for the writer of the connection."""
        self._waiting += 1
        try:
            return await super().get()
        finally:
            self._waiting -= 1

    @property
    def is_idle(self) -> bool:
        """Whether the writer is idle."""
        return self._waiting > 0 and self.empty()


class TextWebSocket(WebSocket):  # type: ignore[misc]  # engineio has no types
    """A WebSocket that takes text of the protocol and nothing else.

    What is sent is not compressed: a message for 200 watchers would be compressed 200 times, and the
    engine shares the processor with that.
    """

    def __init__(self, has_shown_key: Callable[[str], bool], handler: Any, server: Any) -> None:
        super().__init__(handler, server)
        self._has_shown_key = has_shown_key

    async def __call__(self, environ: dict[str, Any]) -> web.WebSocketResponse:
        request = environ["aiohttp.request"]
        request[HAS_SHOWN_KEY] = partial(self._has_shown_key, self.handler.__self__.sid)
        self._sock = web.WebSocketResponse(max_msg_size=self.server.max_http_buffer_size, compress=False)
        await self._sock.prepare(request)
        self.environ = environ
        self._transport = request.transport
        socket = self.handler.__self__
        socket.queue.websocket = self
        await self.handler(self)
        return self._sock

    def write(self, frame: bytes) -> bool:
        """Send at once what the client can take at once; False if it cannot."""
        transport = self._transport
        if self._sock.closed or transport is None or transport.is_closing() or transport.get_write_buffer_size():
            return False
        transport.write(frame)
        return True

    async def send(self, message: str | bytes) -> None:
        """Give it to the client, which may read slowly but not stop reading. Raises TimeoutError."""
        async with asyncio.timeout(SEND_PATIENCE_S):
            await super().send(message)

    async def wait(self) -> Any:
        """The next packet. Raises OSError at the end, or for what ends the connection."""
        data = await super().wait()
        if isinstance(data, str) and data[:1] not in tuple("0123456b"):
            raise OSError("not a packet of the protocol")  # ends the connection; anything else would be a fault
        return data


class SocketOutlet:
    """Sends messages over one connection."""

    def __init__(self, server: Any, eio_sid: str) -> None:
        self._socket = server.eio.sockets[eio_sid]
        self._queue: SendQueue = self._socket.queue

    def waiting(self) -> int:
        """How many messages were put in and not taken yet."""
        return self._queue.qsize()

    def put(self, message: EncodedMessage) -> None:
        """Send this next.

        Where nothing is under way it goes past Engine.IO's queue and writer: with 200 watchers these
        cost more than all else together.
        """
        queue, websocket = self._queue, self._queue.websocket
        if websocket is not None and self._socket.upgraded and queue.is_idle and websocket.write(message.frame):
            return
        queue.put_nowait(message.packet)

    async def cleared(self) -> None:
        """Return when all were taken."""
        await self._queue.join()


async def hang_up(server: Any, eio_sid: str) -> None:
    """End a connection, if it is still there, without waiting for a client that does not listen."""
    socket = server.eio.sockets.get(eio_sid)
    if socket is not None:
        await socket.close(wait=False, reason=server.reason.SERVER_DISCONNECT)
        socket.queue.put_nowait(None)  # the writer ends, and the connection with it
        server.eio.sockets.pop(eio_sid, None)  # the connection is gone


def evict(server: Any, eio_sid: str) -> None:
    """Answer the request with which a client that has gone still waits for news: the library forgets it."""
    socket = server.eio.sockets.get(eio_sid)
    if socket is not None and not socket.upgraded:
        socket.queue.put_nowait(Packet(NOOP))


def is_garbage(packet: object) -> bool:
    """Whether a packet violates the protocol, or would use unbounded memory."""
    if isinstance(packet, bytes):
        return False  # a binary part; the library refuses it if none was announced
    if not isinstance(packet, str):
        return True  # JSON, but not a packet
    if packet[:1] not in ("5", "6"):
        return packet[:1] not in ("0", "1", "2", "3")
    parts, dash, _ = packet[1:].partition("-")
    return not dash or not parts.isascii() or not parts.isdigit() or len(parts) > 1 or int(parts) > BINARY_PARTS_MAX
