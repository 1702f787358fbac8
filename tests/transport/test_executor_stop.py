"""Executors that stop in order give back what they have not begun, at once and as if they had never had it; what they
tell and keep is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from secrets import token_hex

import pytest

from anabranch.durable.step_functions import StepFunctionHandler
from anabranch.grace import Grace
from anabranch.handlers.spec import HandlerSpec, NodeTypeRegistry
from anabranch.transport import executor_lines, executor_results, rabbitmq_transport
from anabranch.transport.executor_lines import REPORTS_MAX, JobLines
from anabranch.transport.executor_results import KeptResults
from anabranch.transport.job_configs import ResolvedTypes
from anabranch.transport.job_executor import DELIVERIES_MAX, JobExecutor
from anabranch.transport.job_messages import LINE_CHARACTERS_MAX, JobReport, NodeJob
from anabranch.transport.rabbitmq_transport import RabbitTransport
from anabranch.transport.server_values import NoServer
from anabranch.transport.transport_ports import ANSWER_S_MAX, JobDelivery, Transport, TransportUnavailable
from tests.rabbitmq import RabbitMQ
from tests.transport.local_transport import LocalBroker, LocalQueue, LocalTransport
from tests.transport.test_faults import Crunch, until
from tests.transport.test_queues import Taken, connected, job

NORMAL: LocalQueue = ("gpu", "normal")
HIGH: LocalQueue = ("gpu", "high")


def patient(grace_s: float) -> Grace:
    """What executions have of it is said; the rest of a stop takes as long as it takes."""
    grace = Grace(120)
    grace.executions_s = grace_s
    return grace


def executor_of(transport: Transport, handler: Crunch, pool: str) -> JobExecutor:
    """An executor with one place."""
    spec = HandlerSpec("crunch", "Crunch", None, execute=handler.execute)
    handlers = ResolvedTypes(NodeTypeRegistry({"crunch": spec}), StepFunctionHandler([__name__]))
    return JobExecutor(transport=transport, handlers=handlers, values=NoServer(), pools=[pool], concurrency=1)


class Slow(LocalTransport):
    """Takes results when it may, and no jobs while it is away."""

    def __init__(self, broker: LocalBroker) -> None:
        super().__init__(broker)
        self.may_report, self.reporting, self.is_away = asyncio.Event(), asyncio.Event(), False
        self.may_report.set()

    async def add_result(self, reply_to: str, report: JobReport) -> bool:
        if report.kind == "result":
            self.reporting.set()
            await self.may_report.wait()
        return await super().add_result(reply_to, report)

    async def add_node_job(self, job: NodeJob) -> None:
        if self.is_away:
            raise TransportUnavailable("away")
        await super().add_node_job(job)


class Scene:
    """A broker, a worker that listens, and a handler that waits."""

    def __init__(self) -> None:
        self.broker, self.handler = LocalBroker(), Crunch()
        self.handler.may_end.clear()
        self.worker, self.to_executor = LocalTransport(self.broker), Slow(self.broker)
        self.reports: list[JobReport] = []
        self.broker.receivers["worker"] = self.reports.append

    @asynccontextmanager
    async def executor(self, *, grace_s: float) -> AsyncIterator[asyncio.Event]:
        """An executor with one place, until the event is set."""
        executor = executor_of(self.to_executor, self.handler, "gpu")
        asked, ready = asyncio.Event(), asyncio.Event()
        executing = asyncio.create_task(executor.run_until(asked, grace=patient(grace_s), ready=lambda _: ready.set()))
        await ready.wait()
        self.executing = executing
        yield asked
        asked.set()
        async with asyncio.timeout(30):
            await executing

    def waiting(self, queue: LocalQueue) -> list[int]:
        """The deliveries of each job that waits in a queue."""
        return [deliveries for _, deliveries in self.broker.queues.get(queue, ())]

    def told(self, job_id: str, kind: str) -> int:
        return sum((each.job_id, each.kind) == (job_id, kind) for each in self.reports)


async def test_an_executor_that_stops_gives_waiting_jobs_back_at_once_and_takes_no_more() -> None:
    scene = Scene()
    async with scene.executor(grace_s=30) as asked:
        await scene.worker.add_node_job(job("gpu", 1))
        await until(lambda: len(scene.handler.calls) == 1)
        await scene.worker.add_node_job(replace(job("gpu", 2), node_id="far", priority="high"))
        await until(lambda: scene.told("job-2", "started") == 1)
        asked.set()
        await until(lambda: scene.waiting(HIGH) == [0])
        await scene.worker.add_node_job(job("gpu", 3))
        scene.handler.may_end.set()
    assert (scene.told("job-1", "result"), len(scene.handler.calls)) == (1, 1), "what was under way has ended"
    assert (scene.waiting(HIGH), scene.waiting(NORMAL)) == ([0], [0])


async def test_a_result_that_the_broker_takes_late_is_reported_before_an_executor_ends() -> None:
    scene = Scene()
    scene.to_executor.may_report.clear()
    async with scene.executor(grace_s=30) as asked:
        await scene.worker.add_node_job(job("gpu", 1))
        await until(lambda: len(scene.handler.calls) == 1)
        asked.set()
        scene.handler.may_end.set()
        await scene.to_executor.reporting.wait()
        await asyncio.wait([scene.executing], timeout=0)  # the executor has noticed that the job has ended
        scene.to_executor.may_report.set()
    assert (scene.told("job-1", "result"), scene.waiting(NORMAL)) == (1, [])


async def test_an_executor_does_not_wait_to_give_jobs_back_to_a_broker_that_is_away() -> None:
    scene = Scene()
    await scene.worker.add_node_job(job("gpu", 1))
    async with scene.executor(grace_s=0):
        await until(lambda: len(scene.handler.calls) == 1)
        scene.to_executor.is_away = True
    assert scene.waiting(NORMAL) == [1], "it went back with the connection"


class Deaf(Slow):
    """Does not answer that no more jobs come."""

    async def stop_taking(self) -> None:
        await super().stop_taking()
        raise TransportUnavailable("no answer")


async def test_a_job_is_not_given_back_beside_a_broker_that_gives_it_to_others_by_itself() -> None:
    scene = Scene()
    scene.to_executor = Deaf(scene.broker)
    await scene.worker.add_node_job(job("gpu", 1))
    async with scene.executor(grace_s=0):
        await until(lambda: len(scene.handler.calls) == 1)
    assert scene.waiting(NORMAL) == [1], "it went back with the connection, and not as a new message"


class Leaving(Slow):
    """Keeps how long it may take to disconnect."""

    async def stop(self, *, patience_s: float = ANSWER_S_MAX) -> None:
        self.patience_s = patience_s
        await super().stop(patience_s=patience_s)


async def test_an_executor_leaves_the_broker_within_what_is_left_of_its_grace() -> None:
    scene = Scene()
    leaving = scene.to_executor = Leaving(scene.broker)
    grace = Grace(5)
    executor = executor_of(leaving, scene.handler, "gpu")
    asked = asyncio.Event()
    asked.set()
    await executor.run_until(asked, grace=grace, ready=lambda _: None)
    assert 0 < leaving.patience_s < grace.stop_s


async def test_a_result_is_not_waited_for_beside_a_broker_that_stands_still(
    broker: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was until the grace was over, and the process ended with another exit code."""
    monkeypatch.setattr(rabbitmq_transport, "ANSWER_S_MAX", 0.5)
    pool, scene, grace = f"p{token_hex(4)}", Scene(), Grace(20)
    worker, to_executor = RabbitTransport(broker.url, name="worker"), RabbitTransport(broker.url, name="executor")
    executor, asked, ready = executor_of(to_executor, scene.handler, pool), asyncio.Event(), asyncio.Event()
    await worker.register_results_worker("worker", scene.reports.append, missed=lambda: None)
    await worker.start()
    await until(lambda: worker.is_connected)
    executing = asyncio.create_task(executor.run_until(asked, grace=grace, ready=lambda _: ready.set()))
    await ready.wait()
    await worker.add_node_job(job(pool))
    await until(lambda: len(scene.handler.calls) == 1)
    with broker.frozen():
        grace.begin()
        asked.set()
        scene.handler.may_end.set()
        await executing
        assert grace.left_s() > 0, "it ends in order"
    await worker.stop()


@pytest.mark.parametrize("goes_to", ["the same executor", "another one"])
async def test_a_job_whose_connection_has_gone_is_given_back_by_the_broker_alone(
    broker: RabbitMQ, monkeypatch: pytest.MonkeyPatch, goes_to: str
) -> None:
    """The executor gave it back as well when it was stopped: then the job was there twice."""
    monkeypatch.setattr(rabbitmq_transport, "RECONNECT_S", 0.0)
    pool, scene = f"p{token_hex(4)}", Scene()
    worker, to_executor = (
        await connected(RabbitTransport(broker.url, name="worker")),
        RabbitTransport(broker.url, name="x"),
    )
    to_another, another = RabbitTransport(broker.url, name="another"), Taken()
    await worker.register_results_worker("worker", scene.reports.append, missed=lambda: None)
    executor, asked, connections = executor_of(to_executor, scene.handler, pool), asyncio.Event(), list[None]()
    arrivals, accept = list[NodeJob](), executor._accept

    async def note_arrival(arrived: NodeJob, delivery: JobDelivery) -> None:
        arrivals.append(arrived)
        await accept(arrived, delivery)

    monkeypatch.setattr(executor, "_accept", note_arrival)
    to_executor.when_connected(lambda: connections.append(None))
    executing = asyncio.create_task(executor.run_until(asked, grace=patient(0), ready=lambda _: None))
    await until(lambda: to_executor.is_connected)
    await worker.add_node_job(job(pool, 1))
    await until(lambda: len(scene.handler.calls) == 1)
    if goes_to == "another one":
        await another.register(await connected(to_another), pool)
    connection = to_executor._connection
    assert connection is not None
    await connection.close()
    await until(lambda: len(connections) == 2)
    await until(lambda: len(arrivals) + another.jobs.qsize() == 2)
    asked.set()
    await executing
    if goes_to == "the same executor":
        await another.register(await connected(to_another), pool)
    await worker.add_node_job(job(pool, 2))
    came = [(await another.next())[0]]
    while came[-1] != job(pool, 2):
        came.append((await another.next())[0])
    another.let_go.set()
    await to_another.stop()
    await worker.stop()
    assert came == [job(pool, 1), job(pool, 2)]


async def test_no_number_of_orderly_stops_fails_a_job() -> None:
    scene = Scene()
    await scene.worker.add_node_job(job("gpu", 1))
    await scene.worker.add_node_job(replace(job("gpu", 2), node_id="far", priority="high"))
    for stops in range(1, DELIVERIES_MAX + 2):
        async with scene.executor(grace_s=0):
            await until(lambda stops=stops: len(scene.handler.calls) == stops)  # type: ignore[misc]
            await until(lambda stops=stops: scene.told("job-1", "started") == stops)  # type: ignore[misc]
        assert (scene.waiting(HIGH), scene.waiting(NORMAL)) == ([0], [0])
    assert not [each for each in scene.reports if each.kind == "result"]
    scene.handler.may_end.set()
    async with scene.executor(grace_s=30):
        await until(lambda: scene.told("job-1", "result") + scene.told("job-2", "result") == 2)


async def test_lines_that_the_broker_does_not_take_in_time_are_bounded_and_the_run_is_told_once() -> None:
    lines, told, may_go = JobLines("job"), list[JobReport](), asyncio.Event()

    async def send(report: JobReport) -> bool:
        await may_go.wait()
        told.append(report)
        return True

    sending = asyncio.create_task(lines.keep_sending(send))

    def print_much() -> None:
        for _ in range(2_000):
            lines.add_line(20, "x" * 10_000)

    for _ in range(5):
        await asyncio.to_thread(print_much)
    may_go.set()
    await lines.flush()
    sending.cancel()
    assert REPORTS_MAX < len(told) <= 2 * REPORTS_MAX + 1
    assert {len(each.body["text"]) for each in told if each.body["level"] == 20} == {LINE_CHARACTERS_MAX}
    assert [each.body["text"] for each in told if each.body["level"] == 30] == [
        f"lines are missing: more than {REPORTS_MAX} waited for the broker"
    ]


async def test_a_result_does_not_wait_for_lines_that_nobody_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_lines, "LAST_LINES_S", 0.01)
    lines = JobLines("job")

    async def send(report: JobReport) -> bool:
        await asyncio.Event().wait()
        return True

    sending = asyncio.create_task(lines.keep_sending(send))
    lines.add_line(20, "x")
    async with asyncio.timeout(30):
        await lines.flush()
    sending.cancel()


async def test_lines_are_lost_while_the_broker_is_away_and_later_ones_are_told() -> None:
    lines, told = JobLines("job"), list[str]()

    async def send(report: JobReport) -> bool:
        if report.body["text"] == "lost":
            raise TransportUnavailable("away")
        told.append(report.body["text"])
        return True

    sending = asyncio.create_task(lines.keep_sending(send))
    lines.add_line(20, "lost")
    await lines.flush()
    lines.add_line(20, "first")
    lines.add_line(20, "second")
    await lines.flush()
    sending.cancel()
    assert told == ["first", "second"]


def test_kept_results_are_bounded_by_number_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_results, "KEPT_MAX", 3)
    monkeypatch.setattr(executor_results, "KEPT_BYTES_MAX", 1_000)
    kept = KeptResults()
    for number in range(4):
        kept.add(JobReport(f"small-{number}", "result"))
    assert [kept.get(f"small-{number}") is not None for number in range(4)] == [False, True, True, True]
    kept.add(JobReport("large", "result", {"output": "x" * 2_000}))
    assert kept.get("large") is not None, "the last one is kept whatever its size is"
    assert kept.get("small-3") is None
    kept.add(JobReport("small-4", "result"))
    kept.add(JobReport("small-4", "result"))
    assert (kept.get("large"), kept.get("small-4")) == (None, JobReport("small-4", "result"))
