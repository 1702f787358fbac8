"""Accept HTTP connections of a process, up to a limit, and close idle ones when it is reached.

Called by `process_lifecycle`. asyncio's own server accepts everything, and logs a traceback for each connection without
a free descriptor. Here the limit of connections is below that of descriptors. When it is reached, an idle connection is
closed for the new one; if all are busy, the new one gets 503. The log has one line a minute.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from anabranch.errors import TooManyConnections
from anabranch.process.connection import ClientTimeouts, Connection, ConnectionPriority, raw_answer, track_requests

logger = logging.getLogger("anabranch.process.connections")

# 1,024 connections may wait to be accepted (Linux cuts it to net.core.somaxconn): a burst of clients that reconnect.
BACKLOG = 1_024

# 16 at once, then the loop does other work; that many may briefly be open above the limit.
ACCEPTED_AT_ONCE = 16

# 0.5 s without accepting if descriptors have run out nevertheless, until some are closed.
PAUSE_S = 0.5

# 32 clients get a response that there is no room, and 2 s to read it: otherwise the kernel would discard the response
# because of unread data. Further connections are closed without a response.
REFUSALS_MAX = 32
REFUSAL_S = 2.0

# One line a minute, with how many it is about.
WARN_EVERY_S = 60.0

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@asynccontextmanager
async def accepting(
    application: web.Application,
    listener: socket.socket,
    *,
    connections_max: int,
    shutdown_s: float,
    timeouts: ClientTimeouts | None = None,
) -> AsyncIterator[None]:
    """Serve an application on a bound socket within; at the end requests under way have `shutdown_s`."""
    application.middlewares.insert(0, track_requests)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=shutdown_s)
    await runner.setup()
    assert runner.server is not None, "setup makes it"
    acceptor = Acceptor(listener, runner.server, connections_max=connections_max, timeouts=timeouts or ClientTimeouts())
    acceptor.start()
    try:
        yield
    finally:
        acceptor.stop()
        await runner.cleanup()


class Acceptor:
    """The connections of one listener. `start` once the server is ready; `stop` takes no more of them."""

    def __init__(
        self, listener: socket.socket, server: web.Server, *, connections_max: int, timeouts: ClientTimeouts
    ) -> None:
        self.connections_max = connections_max
        self._listener = listener
        self._server = server
        self._timeouts = timeouts
        self._open: set[Connection] = set()
        # Those that may be closed for others, least worthy first, each in the order of arrival.
        self._spare: dict[ConnectionPriority, dict[Connection, None]] = {
            ConnectionPriority.NEW: {},
            ConnectionPriority.UNAUTHENTICATED: {},
            ConnectionPriority.IDLE: {},
        }
        self._joining: set[asyncio.Task[Any]] = set()
        self._refused: set[_Refusal] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._unheard = 0
        self._warned_at: float | None = None

    def start(self) -> None:
        """Listen, and accept."""
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        self._loop.add_reader(self._listener, self._accept)
        self._look()

    def stop(self) -> None:
        """Close the port. Connections that are open stay: the server's owner closes them in order."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for timer in self._timers.values():
            timer.cancel()
        for refusal in list(self._refused):
            refusal.end()

    # -- Registry -------------------------------------------------------------------------
    def opened(self, connection: Connection) -> None:
        """Count a connection that was accepted, as one that may be closed when others need its place."""
        self._open.add(connection)
        self._spare[ConnectionPriority.NEW][connection] = None

    def changed(self, connection: Connection) -> None:
        """Update the position of a connection: its priority determines how early it is closed when the limit is
        reached."""
        for spare in self._spare.values():
            spare.pop(connection, None)
        # A request that has just begun has shown no key yet; if it does, it is found out when it would be closed.
        priority = min(connection.priority, ConnectionPriority.IDLE)
        if connection in self._open:
            self._spare[priority][connection] = None

    def closed(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)
        for spare in self._spare.values():
            spare.pop(connection, None)

    # -- accepting ------------------------------------------------------------------------
    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as refusal:
                if refusal.errno in _EXHAUSTED:
                    self._pause()
                    return
                continue  # the client has gone before it was accepted
            self._take(accepted)

    def _take(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        if len(self._open) + len(self._joining) < self.connections_max or self._close_spare():
            self._join(accepted, Connection(self._server, self, self._timeouts))
            return
        self._unheard += 1
        if len(self._refused) < REFUSALS_MAX:
            self._join(accepted, _Refusal(self._refused))
        else:
            accepted.close()

    def _join(self, accepted: socket.socket, protocol: asyncio.Protocol) -> None:
        joining = self._loop.create_task(self._loop.connect_accepted_socket(lambda: protocol, accepted))
        self._joining.add(joining)
        joining.add_done_callback(self._joined)

    def _joined(self, joining: asyncio.Task[Any]) -> None:
        self._joining.discard(joining)
        if not joining.cancelled():
            joining.exception()  # the client has gone meanwhile

    def _close_spare(self) -> bool:
        """Close the connection with the lowest priority; False if all are busy."""
        for spare in self._spare.values():
            for connection in list(spare):
                spare.pop(connection)
                if connection.priority is ConnectionPriority.AT_WORK:
                    continue  # it has shown its key meanwhile; it comes back when its request ends
                self._unheard += 1
                connection.close_for_another()
                return True
        return False

    def _pause(self) -> None:
        """Accept nothing for a moment: the process has no descriptor left, and asking again would keep it busy."""
        self._close_spare()
        self._unheard += 1
        self._loop.remove_reader(self._listener)
        self._timers["resume"] = self._loop.call_later(PAUSE_S, self._loop.add_reader, self._listener, self._accept)

    # -- looking --------------------------------------------------------------------------
    def _look(self) -> None:
        now = self._loop.time()
        for connection in list(self._open):
            connection.look(now)
        self._warn(now)
        self._timers["look"] = self._loop.call_later(self._timeouts.look_s, self._look)

    def _warn(self, now: float) -> None:
        if self._unheard == 0 or (self._warned_at is not None and now - self._warned_at < WARN_EVERY_S):
            return
        logger.warning(
            "%d connections are open, and there is room for %d: closed or refused %d since the last such line; "
            "`ulimit -n` and ANABRANCH_CONNECTIONS_MAX bound them",
            len(self._open),
            self.connections_max,
            self._unheard,
        )
        self._unheard, self._warned_at = 0, now


class _Refusal(asyncio.Protocol):
    """Tells one client that there is no room, and goes."""

    def __init__(self, refused: set[_Refusal]) -> None:
        self._refused = refused
        self._wire: asyncio.Transport | None = None
        self._end: asyncio.TimerHandle | None = None
        refused.add(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "sockets have both directions"
        self._wire = transport
        transport.write(raw_answer(TooManyConnections("there are too many connections")))
        if transport.can_write_eof():
            transport.write_eof()
        self._end = asyncio.get_running_loop().call_later(REFUSAL_S, self.end)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._end is not None:
            self._end.cancel()
        self._refused.discard(self)

    def end(self) -> None:
        """Close the connection."""
        if self._wire is not None:
            self._wire.abort()
