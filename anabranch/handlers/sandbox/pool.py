"""The pool of waiting children, and the fork server that creates them, which is replaced when lost.

Called by the sandbox; one pool per language, owned by one event loop. A child is used once. When the fork server is
lost, so are its children; the next request starts another one, after a pause that grows while starting fails.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from anabranch.dataclass import dataclass
from anabranch.handlers.sandbox.sealed_process import ChildProcess, ForkServer, ForkServerLost

logger = logging.getLogger(__name__)

# Pauses between starts of a fork server that was lost or would not start.
_PAUSE_SECONDS_FIRST = 0.05
_PAUSE_SECONDS_MAX = 5.0

# A fork server that lived this long did not fail at its start.
_HEALTHY_SECONDS = 10.0

# 1 second for the news that a killed child is gone: it takes a millisecond.
_DEATH_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child ended: its exit status (negative: the signal) and the processor time it used."""

    status: int
    cpu_ms: int


@dataclass(slots=True, eq=False)
class Child:
    """A child of this pool."""

    process: ChildProcess
    died: asyncio.Future[ChildExit | None]
    """None where the fork server was lost with it."""


class Pool:
    """Children of one language, `warm` of them forked ahead once there was a first job."""

    def __init__(
        self,
        language: str,
        *,
        warm: int,
        requires_seccomp: bool,
        on_start: Callable[[ForkServer], None],
        on_ready: Callable[[], None],
    ) -> None:
        """`on_start` is called with each new fork server; `on_ready` when a start that `is_ready` began is complete."""
        self._language = language
        self._warm = warm
        self._requires_seccomp = requires_seccomp
        self._on_start = on_start
        self._on_ready = on_ready
        self._start_ahead: asyncio.Task[None] | None = None
        self._not_started: ForkServerLost | None = None
        """Why the last start in advance failed: the next caller that needs a child gets this error."""
        self._server: ForkServer | None = None
        self._starting = asyncio.Lock()
        self._started_at = 0.0
        self._pause_s = 0.0
        self._idle: deque[Child] = deque()
        self._alive: dict[int, Child] = {}
        self._stopped = False
        self.starts = 0
        """How often a fork server was started."""

    @property
    def server_pid(self) -> int | None:
        """The process id of the fork server; None if there is none."""
        return None if self._server is None else self._server.pid

    @property
    def is_lost(self) -> bool:
        """Whether the fork server has ended and is not replaced yet."""
        return self._server is None and self.starts > 0

    def is_ready(self) -> bool:
        """Whether `take` would return at once. If not, this starts a fork server."""
        if self._server is not None or self._not_started is not None or self._stopped:
            return True
        if self._start_ahead is None:
            self._start_ahead = asyncio.create_task(self._make_ready(), name="sandbox-start")
        return False

    async def take(self) -> Child:
        """A child of one's own. Raises ForkServerLost if there is no way to get one."""
        if self._not_started is not None:
            lost, self._not_started = self._not_started, None
            raise lost
        for _ in range(2):
            server = await self._running_server()
            try:
                child = self._next_idle() or self._fork(server)
                # Replace the child after the job was sent, so that the job does not wait for that.
                asyncio.get_running_loop().call_soon(self._refill)
                return child
            except ForkServerLost as lost:
                self._lose(lost)
        raise ForkServerLost("it is lost as soon as it is started")

    def dismiss(self, child: Child) -> None:
        """End a child, even one that reports to be done."""
        if self._server is not None and child.process.slot in self._alive:
            self._server.kill(child.process)
        child.process.connection.close()

    async def bury(self, child: Child) -> ChildExit | None:
        """End a child, wait for its end, and return how it ended (None if unknown)."""
        self.dismiss(child)
        try:
            return await asyncio.wait_for(asyncio.shield(child.died), _DEATH_SECONDS_MAX)
        except TimeoutError:
            return None

    async def stop(self) -> None:
        """End the fork server and all children; returns when they are gone. It starts no other one."""
        self._stopped = True
        async with self._starting:
            server = self._server
            if server is not None:
                self._forget_server()
                await asyncio.to_thread(server.close)

    async def _make_ready(self) -> None:
        try:
            await self._running_server()
        except ForkServerLost as lost:
            self._not_started = lost
        finally:
            self._start_ahead = None
            self._on_ready()

    async def _running_server(self) -> ForkServer:
        async with self._starting:
            if self._stopped:
                raise ForkServerLost("it was stopped")
            if self._server is None:
                if self._pause_s:
                    await asyncio.sleep(self._pause_s)
                self._pause_s = min(max(self._pause_s * 2, _PAUSE_SECONDS_FIRST), _PAUSE_SECONDS_MAX)
                self.starts += 1
                # In a thread: starting an interpreter takes a tenth of a second.
                server = await asyncio.to_thread(
                    ForkServer.launch, self._language, requires_seccomp=self._requires_seccomp
                )
                self._server, self._started_at = server, time.monotonic()
                asyncio.get_running_loop().add_reader(server.control, self._listen)
                self._on_start(server)
            return self._server

    def _next_idle(self) -> Child | None:
        while self._idle:
            child = self._idle.popleft()
            if child.process.is_waiting():
                return child
            child.process.connection.close()  # it died a moment ago; the news is on its way
        return None

    def _refill(self) -> None:
        try:
            while self._server is not None and len(self._idle) < self._warm:
                self._idle.append(self._fork(self._server))
        except ForkServerLost as lost:
            self._lose(lost)

    def _fork(self, server: ForkServer) -> Child:
        process = server.fork()
        child = Child(process, asyncio.get_running_loop().create_future())
        self._alive[process.slot] = child
        return child

    def _listen(self) -> None:
        if self._server is None:
            return
        try:
            messages = self._server.messages()
        except ForkServerLost as lost:
            self._lose(lost)
            return
        for message in messages:
            child = self._alive.pop(message["died"], None)
            if child is not None:
                if child in self._idle:  # before it was used
                    self._idle.remove(child)
                    child.process.connection.close()
                if not child.died.done():
                    child.died.set_result(ChildExit(message["status"], message["cpuMs"]))

    def _lose(self, lost: ForkServerLost) -> None:
        server = self._server
        if server is None:
            return
        logger.warning("sandbox: the fork server for %s is lost: %s", self._language, lost)
        if time.monotonic() - self._started_at > _HEALTHY_SECONDS:
            self._pause_s = 0.0
        self._forget_server()
        server.abandon()

    def _forget_server(self) -> None:
        assert self._server is not None
        asyncio.get_running_loop().remove_reader(self._server.control)
        self._server = None
        for child in self._idle:
            child.process.connection.close()
        self._idle.clear()
        for child in self._alive.values():
            if not child.died.done():
                child.died.set_result(None)
        self._alive.clear()
