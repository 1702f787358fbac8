"""Connections to PostgreSQL on which no statement waits forever.

Opened by `postgresql_dialect` and `notify_line`. A frozen backend, or a proxy that acknowledges TCP but never answers,
can only be told from a slow one by time. When the time is over the connection is discarded.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import wait_async

Answer = TypeVar("Answer")

# 100 ms between two looks for an interrupt while a statement is under way: the driver's own choice.
_LOOK_S = 0.1


class NoAnswer(psycopg.OperationalError):
    """A statement got no response in time; its outcome is unknown, and its connection is closed."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when a statement is not answered in time."""

    answer_within_s: float | None = None
    """How long the answer to a statement may take; None: no limit."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._closing = threading.Lock()

    def wait(self, gen: PQGen[Answer], interval: float = _LOOK_S, timeout: float | None = None) -> Answer:
        """Consume a generator of the driver: every statement passes here. Raises NoAnswer, unless the driver gives
        a `timeout` of its own.
        """
        limit_s = self.answer_within_s
        if limit_s is None or timeout is not None:
            return super().wait(gen, interval, timeout)
        began = time.monotonic()
        try:
            return super().wait(gen, interval, limit_s)
        except psycopg.OperationalError:
            if self.closed or time.monotonic() - began < limit_s:
                raise
            self.sever()
            self.close()
            raise NoAnswer(f"a statement had no answer within {limit_s:.1f} s") from None

    def sever(self) -> None:
        """Shut down the socket, which wakes the waiting thread with an error. Thread-safe; does not wait."""
        with self._closing, suppress(OSError, psycopg.Error):
            _shut_down(self.pgconn.socket)

    def close(self) -> None:
        """Close it, but not while another thread severs it."""
        with self._closing:
            super().close()


class BoundedAsyncConnection(psycopg.AsyncConnection[Any]):
    """The same for coroutines."""

    answer_within_s: float | None = None
    """How long the answer to a statement may take; None: no limit."""

    async def wait(  # the driver names its own `timeout`
        self,
        gen: PQGen[Answer],
        interval: float = _LOOK_S,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Answer:
        """Consume a generator of the driver: every statement passes here. Raises NoAnswer, unless the driver gives a
        `timeout` of its own. A cancelled caller does not wait until the server has cancelled the statement.
        """
        limit_s = self.answer_within_s
        if limit_s is None or timeout is not None:
            return await super().wait(gen, interval, timeout)
        began = time.monotonic()
        try:
            return await wait_async(gen, self.pgconn.socket, interval, limit_s)
        except psycopg.OperationalError:
            if self.closed or time.monotonic() - began < limit_s:
                raise
            await self.close()
            raise NoAnswer(f"a statement had no answer within {limit_s:.1f} s") from None
        except asyncio.CancelledError:
            await self.close()  # within a statement: the state of the connection is unknown
            raise

    def sever(self) -> None:
        """Shut down the socket, which wakes waiting callers with an error."""
        with suppress(OSError, psycopg.Error):
            _shut_down(self.pgconn.socket)

    def send_at_once(self, size: int) -> None:
        """Let the system take statements of up to so many bytes at once, as far as it allows: what it does not take is
        sent when the event loop comes back to it. TCP's buffers grow by themselves."""
        with _duplicate(self.pgconn.socket) as line:
            if line.family == socket.AF_UNIX:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)


def _shut_down(descriptor: int) -> None:
    with _duplicate(descriptor) as line:
        line.shutdown(socket.SHUT_RDWR)


def _duplicate(descriptor: int) -> socket.socket:
    """The same socket under another descriptor, so that it cannot be closed and its number reused meanwhile."""
    return socket.socket(fileno=os.dup(descriptor))
