"""A broadcaster without a network: a log that grows behind its back, connections that lag, time that the test sets."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.drawn.drawn_state import InstanceHead
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.values import Payload
from anabranch.errors import StoreUnavailable
from anabranch.sockets.broadcaster import Broadcaster
from anabranch.sockets.clients import SocketClient
from anabranch.sockets.socketio_adapter import EncodedMessage

RUN = "0190b5a0-0000-7000-8000-000000000001"


class TestTimer:
    """Time that passes when the test says so."""

    __test__ = False

    def __init__(self) -> None:
        self._now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self._now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self._now + delay_s, next(self._numbers), callback))

    async def sleep(self, delay_s: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call_later(delay_s, lambda: None if woken.done() else woken.set_result(None))
        await woken

    async def pass_(self, seconds: float) -> None:
        """Let so much time pass, and everybody do what is due."""
        until = self._now + seconds
        while True:
            await apply_outcome()
            if not self._due or self._due[0][0] > until:
                break
            self._now, _, callback = heapq.heappop(self._due)
            callback()
        self._now = until


async def apply_outcome() -> None:
    """Let all tasks come to rest."""
    for _ in range(20):
        await asyncio.sleep(0)


class Log:
    """The store, as far as the broadcaster knows it: the log of one run."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.status = Status.PENDING
        self.version = 0
        self.removed = False
        self.away = False
        self.loads = 0

    def append(self, *types: tuple[EventType, str, Any], status: Status) -> list[Event]:
        """Commit one transition; its events."""
        new = [
            Event(
                seq=len(self.events) + 1 + offset,
                type=type_,
                node_id=node_id,
                scope="",
                attempt=1 if node_id else 0,
                payload=Payload.of(value),
                created_at=1_700_000_000_000,
            )
            for offset, (type_, node_id, value) in enumerate(types)
        ]
        self.events += new
        self.status = status
        self.version += 1
        return new

    async def get_instance(self, instance_id: str, *, tenant_id: str | None = None) -> InstanceRow | None:
        self.loads += 1
        await asyncio.sleep(0)
        self._check()
        if self.removed or not self.events:
            return None
        head = InstanceHead(RUN, "default", "w", "w", 1, 0, 0)
        row = InstanceRow(head, self.status, self.version, len(self.events), None, None)
        await asyncio.sleep(0)
        return row

    async def versions(self, instance_ids: Sequence[str]) -> dict[str, tuple[int, str | None]]:
        self._check()
        return {} if self.removed else {RUN: (self.version, None)}

    async def read_log(
        self, instance_id: str, *, after_seq: int = 0, limit: int = 1000, bytes_max: int | None = None
    ) -> list[Event]:
        await asyncio.sleep(0)
        self._check()
        return self.events[after_seq : after_seq + limit]

    def _check(self) -> None:
        if self.away:
            raise StoreUnavailable("away")


class Line:
    """A connection that takes what is put in, or (with `stuck`) nothing."""

    def __init__(self) -> None:
        self.messages: list[EncodedMessage] = []
        self.stuck = False
        self._taken = 0
        self._news = asyncio.Event()

    def waiting(self) -> int:
        return len(self.messages) - self._taken if self.stuck else 0

    def put(self, message: EncodedMessage) -> None:
        self.messages.append(message)
        if not self.stuck:
            self._taken = len(self.messages)

    async def cleared(self) -> None:
        while self.stuck:
            self._news.clear()
            await self._news.wait()

    def get_stuck(self) -> None:
        self.stuck, self._taken = True, len(self.messages)

    def get_loose(self) -> None:
        self.stuck, self._taken = False, len(self.messages)
        self._news.set()

    def heard(self) -> list[dict[str, Any]]:
        """All messages; updates of batches one by one."""
        found: list[dict[str, Any]] = []
        for message in self.messages:
            event, data = orjson.loads(message.packet.data[1:])
            found += data["updates"] if event == "workflow_updates" else [{"event": event, **data}]
        return found


class AppServices:
    """An broadcaster on a log, and its clients."""

    def __init__(self, *, held: bool = False) -> None:
        self.log = Log()
        self.timer = TestTimer()
        self.held = held
        self.broadcaster = Broadcaster(store=self.log, owns=lambda _: self.held, timer=self.timer)  # type: ignore[arg-type]  # as much of a store as it needs
        self.tasks: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> AppServices:
        await self.broadcaster.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broadcaster.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def client(self) -> tuple[SocketClient, Line]:
        """One more client."""
        line = Line()
        client = SocketClient(line)
        self.tasks.append(asyncio.create_task(client.deliver()))
        return client, line

    def commit(self, *types: tuple[EventType, str, Any], status: Status = Status.RUNNING, told: bool = True) -> None:
        """Commit a transition, here (`told`) or in another process."""
        events = self.log.append(*types, status=status)
        if told:
            self.broadcaster.committed(RUN, events, status)

    def begin(self) -> None:
        """Start the run."""
        self.commit((EventType.INPUT_SET, "", {"input": 1}), dispatched("a"))

    def end(self, *, told: bool = True) -> None:
        """Complete it."""
        self.commit((EventType.INSTANCE_COMPLETED, "", {"r": 1}), status=Status.COMPLETED, told=told)


def dispatched(node_id: str) -> tuple[EventType, str, Any]:
    return EventType.NODE_DISPATCHED, node_id, {}


def completed(node_id: str, output: Any = None) -> tuple[EventType, str, Any]:
    return EventType.NODE_COMPLETED, node_id, output


def node_seqs(heard: Sequence[dict[str, Any]]) -> list[int]:
    return [each["seq"] for each in heard if each["event"] == "workflow_node_update"]
