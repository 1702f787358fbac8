"""The border to python-socketio: how a connection is read, and how a client's messages get onto it.

Called by the server. Here, and nowhere else, stands what is known of the insides of Engine.IO.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import socketio
from aiohttp import web
from engineio.async_drivers.aiohttp import WebSocket
from engineio.packet import MESSAGE, Packet
from socketio.packet import EVENT

from anabranch.sockets.requests import MESSAGE_BYTES_MAX

Parcel = Packet
"""A message on its way, encoded when it is first sent."""

# What clients do wrong is answered, and no news to an operator: the library would log it with a traceback.
# Below that it would log what was received, keys included.
_protocol_logger = logging.getLogger("anabranch.sockets.protocol")
_protocol_logger.setLevel(logging.CRITICAL)

# 8 binary parts of a message are taken in, and then refused with an answer; who announces more is cut off.
BINARY_PARTS_MAX = 8

# 30 s for a client to take something: after that it has not answered a ping either.
SEND_PATIENCE_S = 30.0


def open_protocol(*, origins: list[str] | None) -> Any:
    """A Socket.IO server. `origins`: pages that may connect; None: only those that it served itself."""
    server = socketio.AsyncServer(
        async_mode="aiohttp",
        # One request of a client after the other: it cannot leave a run before it has joined it.
        async_handlers=False,
        cors_allowed_origins=origins,
        cors_credentials=False,
        max_http_buffer_size=MESSAGE_BYTES_MAX,
        http_compression=False,
        logger=_protocol_logger,
        engineio_logger=_protocol_logger,
    )
    server.eio._async = {**server.eio._async, "websocket": CarefulWebSocket}
    return server


class CarefulWebSocket(WebSocket):  # type: ignore[misc]  # engineio has no types
    """A WebSocket that takes text of the protocol and nothing else.

    What is sent is not compressed: a message for 200 watchers would be compressed 200 times, and the
    engine shares the processor with that.
    """

    async def __call__(self, environ: dict[str, Any]) -> web.WebSocketResponse:
        self._sock = web.WebSocketResponse(max_msg_size=self.server.max_http_buffer_size, compress=False)
        await self._sock.prepare(environ["aiohttp.request"])
        self.environ = environ
        await self.handler(self)
        return self._sock

    async def send(self, message: str | bytes) -> None:
        """Give it to the client, which may read slowly but not stop reading. Raises TimeoutError."""
        async with asyncio.timeout(SEND_PATIENCE_S):
            await super().send(message)

    async def wait(self) -> Any:
        """What comes next. Raises OSError at the end, or for what ends the connection."""
        data = await super().wait()
        if isinstance(data, str) and data[:1] not in tuple("0123456b"):
            raise OSError("not a packet of the protocol")  # ends the connection; anything else would be a fault
        return data


class SocketOutlet:
    """The queue of one connection, which Engine.IO empties as fast as the client reads."""

    def __init__(self, server: Any, eio_sid: str) -> None:
        self._queue = server.eio.sockets[eio_sid].queue

    def waiting(self) -> int:
        """How many parcels were put in and not taken yet."""
        return int(self._queue.qsize())

    def put(self, parcel: Parcel) -> None:
        """Send this next."""
        self._queue.put_nowait(parcel)

    async def cleared(self) -> None:
        """Return when all were taken."""
        await self._queue.join()


def parcel_of(text: str) -> Parcel:
    """An event of the default namespace, given as its JSON: the name and the data."""
    return Parcel(MESSAGE, f"{EVENT}{text}")


async def hang_up(server: Any, eio_sid: str) -> None:
    """End a connection, if it is still there, without waiting for a client that does not listen."""
    socket = server.eio.sockets.get(eio_sid)
    if socket is not None:
        await socket.close(wait=False, reason=server.reason.SERVER_DISCONNECT)
        socket.queue.put_nowait(None)  # the writer ends, and the connection with it


def is_garbage(packet: object) -> bool:
    """Is this a packet that no client of the protocol sends, or that would make us keep without bound?"""
    if isinstance(packet, bytes):
        return False  # a part of a message; if none was announced, the library refuses it
    if not isinstance(packet, str):
        return True  # JSON that is no packet
    if packet[:1] not in ("5", "6"):
        return packet[:1] not in ("0", "1", "2", "3")
    parts, dash, _ = packet[1:].partition("-")
    return not dash or not parts.isascii() or not parts.isdigit() or len(parts) > 1 or int(parts) > BINARY_PARTS_MAX
