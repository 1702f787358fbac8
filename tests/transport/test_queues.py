"""What both implementations of the queues between workers and executors promise: in one process, and on RabbitMQ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from secrets import token_hex
from typing import cast

import aio_pika
import pytest

from anabranch.engine.rules.graph.priorities import Priority
from anabranch.transport import rabbitmq_transport
from anabranch.transport.job_messages import DeadMessage, JobPart, JobReport, JobSearch, NodeJob, reports_in
from anabranch.transport.rabbitmq_transport import HIGH_SUFFIX, JOBS_PREFIX, REPORTS_PREFIX, RabbitTransport
from anabranch.transport.transport_ports import JobDelivery, Transport, TransportUnavailable
from tests.rabbitmq import Forwarder, RabbitMQ
from tests.transport.local_transport import LocalBroker, LocalTransport

PATIENCE_S = 30

Make = Callable[[str], Transport]


@pytest.fixture(params=["local", "rabbitmq"])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    """Makes transports of one broker, which are stopped at the end."""
    local, made = LocalBroker(), list[Transport]()
    url = request.getfixturevalue("broker").url if request.param == "rabbitmq" else ""

    def transport(name: str) -> Transport:
        made.append(RabbitTransport(url, name=name) if url else LocalTransport(local))
        return made[-1]

    yield transport
    for each in made:
        await each.stop()


async def connected(transport: Transport) -> Transport:
    there = asyncio.Event()
    transport.when_connected(there.set)
    await transport.start()
    async with asyncio.timeout(PATIENCE_S):
        await there.wait()
    return transport


def job(pool: str, number: int = 1) -> NodeJob:
    return NodeJob(
        job_id=f"job-{number}",
        instance_id="run",
        tenant_id="acme",
        node_id="n",
        scope="",
        attempt=1,
        type="crunch",
        config={"text": "\u00e4 {{not.a.template}}", "number": 2**60},
        context={"input": [1, None, 2.5]},
        idempotency_key="key",
        reply_to="worker",
        ticket=f"ticket-{number}",
        output_bytes_max=1_000,
        pool=pool,
    )


class Taken:
    """Takes jobs and keeps them until `let_go`."""

    def __init__(self) -> None:
        self.jobs: asyncio.Queue[tuple[NodeJob, int]] = asyncio.Queue()
        self.cancelled: asyncio.Queue[str] = asyncio.Queue()
        self.sought: asyncio.Queue[JobSearch] = asyncio.Queue()
        self.let_go = asyncio.Event()

    async def accept(self, job: NodeJob, delivery: JobDelivery) -> None:
        self.jobs.put_nowait((job, delivery.unacknowledged))
        await self.let_go.wait()

    async def register(self, transport: Transport, *pools: str, concurrency: int = 8) -> Taken:
        await transport.register_task_worker(
            self.accept,
            pools=pools,
            concurrency=concurrency,
            cancelled=self.cancelled.put_nowait,
            sought=self.sought.put_nowait,
        )
        return self

    async def next(self) -> tuple[NodeJob, int]:
        async with asyncio.timeout(PATIENCE_S):
            return await self.jobs.get()


async def test_a_job_arrives_unchanged_in_its_pool_and_its_reports_come_back_in_order(make: Make) -> None:
    pool, name = f"p{token_hex(4)}", f"w{token_hex(4)}"
    worker, executor = await connected(make("worker")), await connected(make("executor"))
    reports: asyncio.Queue[JobReport] = asyncio.Queue()
    await worker.register_results_worker(name, reports.put_nowait, missed=lambda: None)
    other, taken = await Taken().register(executor, f"{pool}-other"), await Taken().register(executor, pool)
    part = JobPart(("context", "input", 0), "ab" * 32, 70_000)
    sent = replace(job(pool), reply_to=name, sealed="c2VhbGVk", timeout_ms=5, deadline_at=9, workflow_id="w")
    sent = replace(sent, parts=(part,))
    await worker.add_node_job(sent)
    assert await taken.next() == (sent, 0)
    told = [JobReport("job-1", "line", {"text": str(n)}) for n in range(20)]
    for each in told:
        assert await executor.add_result(name, each)
    async with asyncio.timeout(PATIENCE_S):
        assert [await reports.get() for _ in told] == told
    assert not await executor.add_result("nobody", told[0]), "nobody listens there"
    assert other.jobs.empty()

    await worker.cancel("ticket-1")
    async with asyncio.timeout(PATIENCE_S):
        assert await taken.cancelled.get() == "ticket-1"
    search = JobSearch("other", {"job-1": "ticket-2", "job-2": "ticket-3"})
    await worker.search(search)
    async with asyncio.timeout(PATIENCE_S):
        assert await taken.sought.get() == search
    taken.let_go.set()


async def test_a_job_that_cannot_be_read_is_given_to_a_worker_as_a_dead_letter(make: Make) -> None:
    pool = f"p{token_hex(4)}"
    worker, executor = await connected(make("worker")), await connected(make("executor"))
    taken = await Taken().register(executor, pool)
    dead: asyncio.Queue[DeadMessage] = asyncio.Queue()

    async def keep(message: DeadMessage) -> None:
        if message.as_letter().letter_id == f"{pool}-1":
            dead.put_nowait(message)

    await worker.register_dead_letters(keep)
    unreadable = replace(job(pool), job_id=f"{pool}-1", node_id="far\0", priority=cast("Priority", "urgent"))
    await worker.add_node_job(unreadable)
    await worker.add_node_job(job(pool, 2))
    assert (await taken.next())[0].job_id == "job-2", "what follows it is not delayed"
    async with asyncio.timeout(PATIENCE_S):
        letter = (await dead.get()).as_letter()
    assert (letter.tenant_id, letter.instance_id, letter.attempt) == ("acme", "run", 1)
    assert "\0" not in letter.node_id, "a database can store it"
    assert "priority of a job" in letter.reason
    assert pool in letter.queue
    taken.let_go.set()


@pytest.mark.parametrize(
    "raw", [b"\xff\x00", b"[]", b'{"jobID": 7, "attempt": true, "tenantID": null}', b'{"attempt": -1}']
)
def test_anything_that_was_a_message_makes_a_dead_letter(raw: bytes) -> None:
    letter = DeadMessage(raw, "anabranch.jobs.gpu", "rejected").as_letter()
    assert (len(letter.letter_id), letter.tenant_id) == (64, "")
    assert letter.reason.startswith("executors cannot read it: ")
    assert "expired" in DeadMessage(raw, "q", "expired").as_letter().reason


async def test_a_full_executor_still_takes_jobs_of_high_priority(make: Make) -> None:
    pool = f"p{token_hex(4)}"
    worker, executor = await connected(make("worker")), await connected(make("executor"))
    taken = await Taken().register(executor, pool, concurrency=1)
    await worker.add_node_job(job(pool, 1))
    await worker.add_node_job(job(pool, 2))
    assert (await taken.next())[0].job_id == "job-1"
    await worker.add_node_job(replace(job(pool, 3), priority="high"))
    assert (await taken.next())[0].job_id == "job-3", "it does not wait behind those of its pool"
    taken.let_go.set()
    assert (await taken.next())[0].job_id == "job-2"


async def test_reports_to_a_worker_that_has_stopped_find_nobody(make: Make) -> None:
    worker, executor, name = await connected(make("worker")), await connected(make("executor")), f"w{token_hex(4)}"
    await worker.register_results_worker(name, lambda _: None, missed=lambda: None)
    assert await executor.add_result(name, JobReport("job-1", "started"))
    await worker.stop()
    assert not await executor.add_result(name, JobReport("job-1", "started"))


async def test_an_executor_holds_no_more_than_its_concurrency_and_what_it_leaves_goes_to_others(make: Make) -> None:
    pool = f"p{token_hex(4)}"
    worker, first = await connected(make("worker")), await connected(make("first"))
    slow = await Taken().register(first, pool, concurrency=2)
    for number in (1, 2, 3):
        await worker.add_node_job(job(pool, number))
    held = {(await slow.next())[0].job_id for _ in range(2)}
    second = await connected(make("second"))
    quick = await Taken().register(second, pool)
    waiting, deliveries = await quick.next()
    assert ({*held, waiting.job_id}, deliveries) == ({"job-1", "job-2", "job-3"}, 0)
    await first.stop()
    left = [await quick.next() for _ in range(2)]
    assert {each.job_id for each, _ in left} == held
    assert [deliveries for _, deliveries in left] == [1, 1], "an executor had them"
    quick.let_go.set()


async def test_an_executor_that_takes_no_more_leaves_jobs_to_others(make: Make) -> None:
    pool = f"p{token_hex(4)}"
    worker, first = await connected(make("worker")), await connected(make("first"))
    stopping = await Taken().register(first, pool)
    await worker.add_node_job(job(pool, 1))
    assert (await stopping.next())[0].job_id == "job-1"
    await first.stop_taking()
    await worker.add_node_job(job(pool, 2))
    going_on = await Taken().register(await connected(make("second")), pool)
    taken, deliveries = await going_on.next()
    assert (taken.job_id, deliveries) == ("job-2", 0)
    stopping.let_go.set()
    going_on.let_go.set()


Look = Callable[[str], Awaitable[tuple[int, int]]]


@asynccontextmanager
async def queues_of(broker: RabbitMQ, pool: str) -> AsyncIterator[Look]:
    """How many jobs of a priority wait in the pool's queue, and how many consumers it has, as the broker says."""
    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()

        async def look(suffix: str) -> tuple[int, int]:
            found = (await channel.declare_queue(JOBS_PREFIX + pool + suffix, passive=True)).declaration_result
            return found.message_count or 0, found.consumer_count or 0

        yield look


async def no_consumer(look: Look, suffix: str) -> None:
    """Returns when nobody takes jobs of a queue, or still has some."""
    async with asyncio.timeout(PATIENCE_S):
        while (await look(suffix))[1]:  # noqa: ASYNC110 -- the broker tells nobody
            await asyncio.sleep(0.005)


async def test_a_broker_that_answers_late_keeps_jobs_where_they_are(
    broker: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, way = f"p{token_hex(4)}", Forwarder(broker)
    await way.open()
    worker, executor = RabbitTransport(broker.url, name="worker"), RabbitTransport(way.url, name="executor")
    try:
        await connected(worker)
        taken = await Taken().register(await connected(executor), pool)
        await worker.add_node_job(job(pool, 1))
        assert (await taken.next())[0].job_id == "job-1"
        async with queues_of(broker, pool) as look:
            with monkeypatch.context() as patched:
                patched.setattr(rabbitmq_transport, "STOP_S", 0.0)  # what is sent may take no time, an answer its own
                way.may_answer.clear()
                stopping = asyncio.create_task(executor.stop_taking())
                await no_consumer(look, HIGH_SUFFIX)
                way.may_answer.set()
                async with asyncio.timeout(PATIENCE_S):
                    await stopping
            await worker.add_node_job(job(pool, 2))
            assert (await look(""))[0] == 1, "only what was sent later waits"
            taken.let_go.set()
            await executor.stop()
            await no_consumer(look, "")
            assert (await look(""))[0] == 1, "what was taken before is acknowledged"
        assert taken.jobs.empty()
    finally:
        way.cut()
        await executor.stop()
        await worker.stop()


async def test_what_was_taken_goes_to_others_if_the_broker_does_not_answer(
    broker: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, way = f"p{token_hex(4)}", Forwarder(broker)
    await way.open()
    worker, first = RabbitTransport(broker.url, name="worker"), RabbitTransport(way.url, name="first")
    second = RabbitTransport(broker.url, name="second")
    try:
        await connected(worker)
        taken = await Taken().register(await connected(first), pool)
        await worker.add_node_job(job(pool))
        await taken.next()
        way.may_answer.clear()
        with monkeypatch.context() as patched:
            patched.setattr(rabbitmq_transport, "ANSWER_S_MAX", 0.01)
            with pytest.raises(TransportUnavailable):
                await first.stop_taking()
            assert not first.is_connected, "what is reported waits for another connection"
        going_on = await Taken().register(await connected(second), pool)
        assert await going_on.next() == (job(pool), 1)
        going_on.let_go.set()
    finally:
        way.cut()
        for each in (first, second, worker):
            await each.stop()


@pytest.mark.parametrize("patience_s", [0.0, 0.2])
async def test_what_was_taken_goes_to_others_if_the_broker_stands_still_while_it_is_left(
    broker: RabbitMQ, patience_s: float
) -> None:
    """However little time there was: a process that goes on must not keep jobs that it does not execute."""
    pool, worker = f"p{token_hex(4)}", await connected(RabbitTransport(broker.url, name="worker"))
    first, second = RabbitTransport(broker.url, name="first"), RabbitTransport(broker.url, name="second")
    await first.register_results_worker(f"w{token_hex(4)}", lambda _: None, missed=lambda: None)
    taken = await Taken().register(await connected(first), pool)
    await worker.add_node_job(job(pool))
    await taken.next()
    with broker.frozen():
        await first.stop(patience_s=patience_s)
        assert not first.is_connected
    going_on = await Taken().register(await connected(second), pool)
    assert await going_on.next() == (job(pool), 1)
    going_on.let_go.set()
    await second.stop()
    await worker.stop()


async def test_a_deleted_queue_is_no_silent_loss_and_is_declared_again(broker: RabbitMQ) -> None:
    pool, worker = f"p{token_hex(4)}", RabbitTransport(broker.url, name="worker")
    try:
        await connected(worker)
        await worker.add_node_job(job(pool))
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            await channel.queue_delete(JOBS_PREFIX + pool)
            with pytest.raises(TransportUnavailable, match="deleted"):
                await worker.add_node_job(job(pool, 2))
            await worker.add_node_job(job(pool, 3))
            queue = await channel.get_queue(JOBS_PREFIX + pool)
            async with asyncio.timeout(PATIENCE_S), queue.iterator(no_ack=True) as messages:
                assert NodeJob.from_json((await anext(messages)).body) == job(pool, 3)
    finally:
        await worker.stop()


async def test_an_executor_whose_queue_was_deleted_takes_jobs_again(broker: RabbitMQ) -> None:
    pool, worker, executor = (
        f"p{token_hex(4)}",
        RabbitTransport(broker.url, name="worker"),
        RabbitTransport(broker.url, name="executor"),
    )
    try:
        await connected(worker)
        taken = await Taken().register(await connected(executor), pool)
        async with await aio_pika.connect(broker.url) as connection:
            again = asyncio.Event()
            executor.when_connected(again.set)
            await (await connection.channel()).queue_delete(JOBS_PREFIX + pool)
            async with asyncio.timeout(PATIENCE_S):
                await again.wait()
        await worker.add_node_job(job(pool))
        assert (await taken.next())[0] == job(pool)
        taken.let_go.set()
    finally:
        await executor.stop()
        await worker.stop()


async def test_reports_that_come_together_share_messages_in_their_order(broker: RabbitMQ) -> None:
    name, executor = f"w{token_hex(4)}", RabbitTransport(broker.url, name="executor")
    reports = [JobReport(f"job-{number}", "line", {"text": "x"}) for number in range(40)]
    huge = [JobReport(f"huge-{number}", "line", {"text": "x" * 700_000}) for number in range(3)]
    try:
        await connected(executor)
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(REPORTS_PREFIX + name)
            there = await asyncio.gather(*(executor.add_result(name, each) for each in [*reports, *huge]))
            assert all(there)
            messages: list[list[JobReport]] = []
            async with asyncio.timeout(PATIENCE_S), queue.iterator(no_ack=True) as arriving:
                while sum(len(each) for each in messages) < len(there):
                    messages.append(reports_in((await anext(arriving)).body)[0])
            assert [each for message in messages for each in message] == [*reports, *huge]
            assert len(messages) == 3, "all at once, but for those that are too large together"
            await channel.queue_delete(REPORTS_PREFIX + name)
        assert await asyncio.gather(*(executor.add_result(name, each) for each in reports)) == [False] * 40
    finally:
        await executor.stop()


def test_a_bad_report_spoils_no_other_one_of_its_message() -> None:
    good = JobReport("job", "beat")
    reports, refusals = reports_in(b'[{"kind": "shout"}, 7, ' + good.to_json() + b"]")
    assert reports == [good]
    assert [each.code for each in refusals] == ["BAD_MESSAGE", "BAD_MESSAGE"]
    assert reports_in(good.to_json()) == ([good], [])
