"""Connections to the broker that break off in unusual ways: senders try again, and nothing waits for ever."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from secrets import token_hex
from types import SimpleNamespace
from typing import Any, cast

import aio_pika
import pytest

from anabranch.engine.pool_worker import bare_head
from anabranch.engine.rules.stimuli import Completed
from anabranch.transport import rabbitmq_transport
from anabranch.transport.job_messages import DeadMessage, JobReport, JobSearch, NodeJob
from anabranch.transport.rabbitmq_transport import CANCELLED, REPORTS_PREFIX, SOUGHT, RabbitTransport
from anabranch.transport.transport_ports import JobDelivery, TransportUnavailable
from tests.rabbitmq import RabbitMQ
from tests.transport.local_transport import LocalBroker, LocalTransport
from tests.transport.test_faults import DISPATCH, World, node, running, until
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

    async def declare_queue(self, name: str, *arguments: Any, **options: Any) -> None:
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
    transport._registered_all.set()
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


class Connection:
    """Its channels are fakes."""

    def __init__(self) -> None:
        self.close_callbacks: set[Callable[..., None]] = set()

    async def channel(self, **options: Any) -> Any:
        channel = Channel()
        channel.close_callbacks = set()  # type: ignore[attr-defined]
        channel.declare_exchange = channel.declare_queue  # type: ignore[attr-defined]
        return channel

    async def close(self) -> None:
        """Nothing to close."""


async def connect_to_fakes(*arguments: Any, **options: Any) -> Any:
    return Connection()


async def test_a_transport_is_connected_when_all_consumers_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aio_pika.connect", connect_to_fakes)
    transport = RabbitTransport("amqp://nowhere/", name="test")
    order, begun, may_go, connected = list[str](), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def consume_reports() -> None:
        begun.set()
        await may_go.wait()
        order.append("reports")

    async def consume_letters() -> None:
        order.append("letters")

    def note_connected() -> None:
        order.append("connected")
        connected.set()

    await transport._register(consume_reports)
    await transport._register(consume_letters)
    transport.when_connected(note_connected)
    await transport.start()
    await begun.wait()
    assert not transport.is_connected
    with pytest.raises(TransportUnavailable):
        await transport.add_node_job(job("p"))
    may_go.set()
    await connected.wait()
    assert (transport.is_connected, order) == (True, ["reports", "letters", "connected"])
    await transport.add_node_job(job("p"))
    await transport.stop()
    assert not transport.is_connected


async def test_an_answer_that_does_not_come_is_asked_for_on_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aio_pika.connect", connect_to_fakes)
    monkeypatch.setattr(rabbitmq_transport, "RECONNECT_S", 0.0)
    monkeypatch.setattr(rabbitmq_transport, "ANSWER_S_MAX", 0.0)
    transport, connected, tries = RabbitTransport("amqp://nowhere/", name="test"), asyncio.Event(), list[None]()

    async def consume() -> None:
        tries.append(None)
        if len(tries) == 1:
            await rabbitmq_transport._answered(asyncio.Event().wait())

    await transport._register(consume)
    transport.when_connected(connected.set)
    await transport.start()
    async with asyncio.timeout(30):
        await connected.wait()
    assert len(tries) == 2
    await transport.stop()


async def test_jobs_that_executors_got_before_their_worker_was_back_are_executed_when_it_is(
    broker: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rabbitmq_transport, "RECONNECT_S", 0.0)
    name, pool, world = f"w{token_hex(4)}", f"p{token_hex(4)}", World()
    to_worker, to_executor = RabbitTransport(broker.url, name="worker"), RabbitTransport(broker.url, name="executor")
    world.sender, world.worker = world.another_worker(name, to_worker)
    world.executor._transport, world.executor._pools = to_executor, [pool]
    dropped, may_take, may_register = set[str](), asyncio.Event(), asyncio.Event()
    add_result, take = to_executor.add_result, world.executor._accept
    add_job, confirmed = to_worker.add_node_job, set[str]()

    async def note(reply_to: str, report: JobReport) -> bool:
        there = await add_result(reply_to, report)
        if not there:
            dropped.add(report.job_id)
        return there

    async def add(sent: NodeJob) -> None:
        await add_job(sent)
        confirmed.add(sent.job_id)

    async def take_later(sent: NodeJob, delivery: JobDelivery) -> None:
        await may_take.wait()
        await take(sent, delivery)

    monkeypatch.setattr(to_executor, "add_result", note)
    monkeypatch.setattr(to_worker, "add_node_job", add)
    monkeypatch.setattr(world.executor, "_accept", take_later)
    async with running(world), await aio_pika.connect(broker.url) as another:
        runs = [f"run-{number}" for number in range(10)]
        await until(lambda: to_worker.is_connected)
        for run in runs:
            world.worker.execute(bare_head(run, "acme", "w"), DISPATCH, replace(node({}), pool=pool), {"input": 1})
        await until(lambda: len(confirmed) == len(runs))

        consume = to_worker._registered[0]

        async def consume_later() -> None:
            await may_register.wait()
            await consume()

        to_worker._registered[0] = consume_later
        connection = to_worker._connection
        assert connection is not None
        await connection.close()
        with suppress(aio_pika.exceptions.ChannelNotFoundEntity):
            await (await another.channel()).queue_delete(REPORTS_PREFIX + name)
        may_take.set()
        await until(lambda: len(dropped) == len(runs))
        assert not to_worker.is_connected
        assert not world.handler.calls
        may_register.set()
        outcomes = [await world.outcome() for _ in runs]
        assert all(isinstance(each, Completed) for each in outcomes)
        assert len(world.handler.calls) == len(runs)


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


async def test_an_executor_begins_with_a_job_when_all_its_consumers_are_registered(
    broker: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began before, and did not give back a job where it was stopped meanwhile."""
    pool, arrived, may_register, accepted = f"p{token_hex(4)}", asyncio.Event(), asyncio.Event(), asyncio.Event()
    worker, executor = RabbitTransport(broker.url, name="worker"), RabbitTransport(broker.url, name="executor")
    connected, could_give_back, executed = asyncio.Event(), list[bool](), executor._executed

    async def note_arrival(*message: Any) -> None:
        arrived.set()
        await executed(*message)

    async def accept(sent: NodeJob, delivery: JobDelivery) -> None:
        could_give_back.append(executor.is_connected)
        accepted.set()

    async def consume_later() -> None:
        await may_register.wait()

    monkeypatch.setattr(executor, "_executed", note_arrival)
    worker.when_connected(connected.set)
    await worker.start()
    await connected.wait()
    await worker.add_node_job(job(pool))
    ignored: Any = lambda _: None  # noqa: E731 -- two arguments are this
    await executor.register_task_worker(accept, pools=[pool], concurrency=1, cancelled=ignored, sought=ignored)
    await executor._register(consume_later)
    await executor.start()
    await arrived.wait()
    may_register.set()
    await accepted.wait()
    await executor.stop()
    await worker.stop()
    assert could_give_back == [True]


async def test_a_job_that_came_by_a_connection_that_has_gone_is_left_to_those_who_got_it_since(
    broker: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was begun with the next connection, beside the one to whom the broker had given it."""
    monkeypatch.setattr(rabbitmq_transport, "RECONNECT_S", 0.0)
    pool, arrived, registering = f"p{token_hex(4)}", asyncio.Queue[None](), list[None]()
    worker, executor = RabbitTransport(broker.url, name="worker"), RabbitTransport(broker.url, name="executor")
    connected, reconnected, accepted = asyncio.Event(), asyncio.Event(), asyncio.Queue[int]()
    executed = executor._executed

    async def note_arrival(*message: Any) -> None:
        arrived.put_nowait(None)
        await executed(*message)

    async def accept(sent: NodeJob, delivery: JobDelivery) -> None:
        accepted.put_nowait(delivery.unacknowledged)

    async def break_off_once() -> None:
        registering.append(None)
        if len(registering) == 1:
            await arrived.get()
            raise TransportUnavailable("the broker has gone while it was asked")

    monkeypatch.setattr(executor, "_executed", note_arrival)
    worker.when_connected(connected.set)
    await worker.start()
    await connected.wait()
    await worker.add_node_job(job(pool))
    ignored: Any = lambda _: None  # noqa: E731 -- two arguments are this
    await executor.register_task_worker(accept, pools=[pool], concurrency=1, cancelled=ignored, sought=ignored)
    await executor._register(break_off_once)
    executor.when_connected(reconnected.set)
    await executor.start()
    async with asyncio.timeout(30):
        await reconnected.wait()
        await arrived.get()
        assert await accepted.get() == 1, "the broker has given it a second time"
        await asyncio.gather(*executor._under_way)
    assert accepted.empty(), "the first time it was left alone"
    await executor.stop()
    await worker.stop()
