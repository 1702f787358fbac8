"""Connections to the broker that break off in unusual ways: senders try again, and nothing waits for ever."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.transport import rabbitmq_transport
from anabranch.transport.job_messages import DeadMessage, JobReport, JobSearch
from anabranch.transport.local_transport import LocalBroker, LocalTransport
from anabranch.transport.rabbitmq_transport import CANCELLED, SOUGHT, RabbitTransport
from anabranch.transport.transport_ports import TransportUnavailable
from tests.transport.test_queues import job

FAULTS: list[Callable[[], BaseException]] = [
    lambda: asyncio.CancelledError("heartbeats stopped"),
    lambda: AttributeError("'NoneType' object has no attribute 'write'"),
    lambda: asyncio.InvalidStateError("invalid state"),
]


class Channel:
    """Answers as a broker does, but for the faults that it is given."""

    is_closed = False

    def __init__(self, *faults: BaseException) -> None:
        self.faults = deque(faults)
        self.published: list[str] = []
        self.default_exchange = self

    async def publish(self, message: Any, queue: str, **options: Any) -> None:
        await self._answer()
        self.published.append(queue)

    async def declare_queue(self, name: str, **options: Any) -> None:
        await self._answer()

    async def _answer(self) -> None:
        answer = asyncio.get_running_loop().create_future()
        if self.faults:
            answer.set_exception(self.faults.popleft())
        else:
            answer.set_result(None)
        await answer


def on(channel: Channel) -> RabbitTransport:
    """A transport that is connected by this channel."""
    transport = RabbitTransport("amqp://nowhere/", name="test")
    transport._channel = cast("Any", channel)
    transport._fanouts = cast("Any", {CANCELLED: channel, SOUGHT: channel})
    return transport


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_connection_that_breaks_off_is_unavailable_and_no_cancellation(
    fault: Callable[[], BaseException],
) -> None:
    sends: list[Callable[[RabbitTransport], Awaitable[object]]] = [
        lambda transport: transport.add_node_job(job("p")),
        lambda transport: transport.cancel("ticket"),
        lambda transport: transport.search(JobSearch("w", {})),
        lambda transport: transport.add_result("w", JobReport("job", "beat")),
    ]
    for send in sends:
        channel = Channel(fault())
        transport = on(channel)
        with pytest.raises(TransportUnavailable):
            await send(transport)
        await send(transport)
        assert channel.published, "the next one is sent"


@pytest.mark.parametrize("fault", FAULTS)
async def test_reports_that_wait_behind_a_broken_one_are_told(fault: Callable[[], BaseException]) -> None:
    channel = Channel(fault())
    transport = on(channel)
    huge = JobReport("job", "line", {"text": "x" * 700_000})
    told = await asyncio.gather(*(transport.add_result("w", huge) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in told] == [TransportUnavailable] * 3, "each is a message of its own"
    assert await transport.add_result("w", huge)


async def test_a_task_that_is_cancelled_while_it_sends_is_cancelled() -> None:
    channel = Channel()
    transport = on(channel)
    begun = asyncio.Event()

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    channel._answer = never  # type: ignore[method-assign]
    sending = asyncio.create_task(transport.cancel("ticket"))
    await begun.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_a_connection_that_breaks_off_while_it_is_made_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = asyncio.Queue[None]()

    async def connect(*arguments: Any, **options: Any) -> Any:
        tried.put_nowait(None)
        raise asyncio.CancelledError

    monkeypatch.setattr("aio_pika.connect", connect)
    monkeypatch.setattr(rabbitmq_transport, "RECONNECT_S", 0.0)
    transport = RabbitTransport("amqp://nowhere/", name="test")
    await transport.start()
    async with asyncio.timeout(30):
        await tried.get()
        await tried.get()
    await transport.stop()


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("amqp://user:p%40ss@broker/v%2Fhost", "amqp://user:p%40ss@broker/v%2Fhost?heartbeat=10"),
        ("amqps://broker/?cafile=/ca.pem", "amqps://broker/?cafile=/ca.pem&heartbeat=10"),
        ("amqp://broker/?heartbeat=30", "amqp://broker/?heartbeat=30"),
    ],
)
async def test_a_connection_has_heartbeats_that_notice_a_half_open_one_soon(
    monkeypatch: pytest.MonkeyPatch, url: str, asked: str
) -> None:
    tried = asyncio.Queue[str]()

    async def connect(tried_url: str, **options: Any) -> Any:
        tried.put_nowait(tried_url)
        raise ConnectionError

    monkeypatch.setattr("aio_pika.connect", connect)
    transport = RabbitTransport(url, name="test")
    await transport.start()
    async with asyncio.timeout(30):
        assert await tried.get() == asked
    await transport.stop()


class Letters:
    """Fails at first, as no code of ours does."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []
        self.has_failed = False

    async def keep(self, dead: DeadMessage) -> None:
        if not self.has_failed:
            self.has_failed = True
            raise LookupError("no such table")
        self.kept.append(dead.raw)


async def test_a_dead_letter_that_cannot_be_kept_is_kept_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbitmq_transport, "RECONNECT_S_MAX", 0.0)
    letters, acknowledged = Letters(), asyncio.Event()

    async def ack() -> None:
        acknowledged.set()

    message = cast("Any", SimpleNamespace(ack=ack))
    await on(Channel())._keep_dead(letters.keep, DeadMessage(b"raw", "q", "rejected"), message)
    assert (letters.kept, acknowledged.is_set()) == ([b"raw"], True)


async def test_a_dead_letter_of_this_process_that_cannot_be_kept_is_kept_with_the_next_one() -> None:
    letters, broker = Letters(), LocalBroker()
    broker.dead.append(DeadMessage(b"raw", "q", "rejected"))
    transport = LocalTransport(broker)
    await transport.register_dead_letters(letters.keep)
    await broker.keep_dead()
    assert letters.kept == [b"raw"]
