"""A queue between worker and executor that loses, repeats and delays: each job still has one outcome, and the first."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import orjson
import pytest

from anabranch.dead_letters.dead_letters import DeadLetterRows
from anabranch.durable.step_functions import StepFunctionHandler
from anabranch.engine.clock import SystemClock
from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.engine.pool_worker import PoolTaskQueue, PoolTaskWorker, bare_head
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.graph.plan import Body, PlanNode
from anabranch.engine.rules.shared.retry import RetryPolicy
from anabranch.engine.rules.stimuli import Completed, Failed, NodeResult
from anabranch.errors import SecretUnknown, StoreUnavailable
from anabranch.grace import Grace
from anabranch.handlers.spec import HandlerSpec, NodeTypeRegistry
from anabranch.secrets.cipher import SecretCipher
from anabranch.secrets.job_seals import JobIdentity, JobSeals
from anabranch.transport import job_sender
from anabranch.transport.job_configs import ConfigResolver, ResolvedTypes
from anabranch.transport.job_executor import JobExecutor, JobValues
from anabranch.transport.job_messages import JobReport, NodeJob
from anabranch.transport.job_sender import JobSender
from anabranch.transport.server_values import NoServer, ServerValues
from anabranch.transport.transport_ports import Transport
from tests.transport.local_transport import LocalBroker, LocalTransport

Message = TypeVar("Message", NodeJob, JobReport)

PATIENCE_S = 30
DISPATCH = Dispatch("n", "", 1)


def noted(seen: list[Message], message: Message) -> list[Message]:
    """Let it pass, and remember it."""
    seen.append(message)
    return [message]


def noted_raw(seen: list[bytes], job: NodeJob) -> list[NodeJob]:
    """Let a job pass, and remember its message."""
    seen.append(job.to_json())
    return [job]


def swallowed(seen: list[Message], message: Message) -> list[Message]:
    """Lose it, and remember it."""
    seen.append(message)
    return []


class Secrets:
    """One secret."""

    async def read(self, tenant_id: str, names: Any) -> Mapping[str, str]:
        if set(names) != {"TOKEN"}:
            raise SecretUnknown("there is no such secret")
        return {"TOKEN": f"{tenant_id}-hush"}


class Crunch:
    """The handler of the tests: counts its calls, and waits if it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.cancelled = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        self.calls.append(helpers.idempotency_key)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return HandlerResult({"config": config, "context": dict(context)})


class Faulty(LocalTransport):
    """Loses, doubles or keeps messages, and loses its connection, as the test says."""

    connected: Callable[[], None]
    missed: Callable[[], None]
    jobs: Callable[[NodeJob], list[NodeJob]] = staticmethod(lambda job: [job])
    reports: Callable[[JobReport], list[JobReport]] = staticmethod(lambda report: [report])

    async def add_node_job(self, job: NodeJob) -> None:
        for each in self.jobs(job):
            await super().add_node_job(each)

    async def add_result(self, reply_to: str, report: JobReport) -> bool:
        there = True
        for each in self.reports(report):
            there = await super().add_result(reply_to, each) and there
        return there

    def when_connected(self, act: Callable[[], None]) -> None:
        self.connected = act
        super().when_connected(act)

    async def register_results_worker(
        self, name: str, receive: Callable[[JobReport], None], *, missed: Callable[[], None]
    ) -> None:
        self.missed = missed
        await super().register_results_worker(name, receive, missed=missed)

    def disconnect(self) -> None:
        """The connection is lost, for so long that the queue of reports goes with it."""
        self.is_connected = False
        self._receivers, self._broker.receivers = self._broker.receivers, {}

    def connect_again(self) -> None:
        """As it was."""
        self._broker.receivers = self._receivers
        self.missed()
        self.is_connected = True
        self.connected()

    _receivers: dict[str, Callable[[JobReport], None]]


async def test_a_worker_reports_jobs_of_executors_as_under_way() -> None:
    """It reported none, so after its loss all of its runs were taken over one after the other, each of them alone."""
    world = World()
    world.handler.may_end.clear()
    async with running(world):
        for run in ("run-1", "run-2"):
            world.worker.execute(bare_head(run, "acme", "w"), DISPATCH, node({}), {"input": 1})
        assert world.worker._pool_tasks.take_busy_max() == 2
        world.handler.may_end.set()
        await world.outcome()
        await world.outcome()
        assert [world.worker._pool_tasks.take_busy_max() for _ in range(2)] == [2, 0], "the most since the last look"


class World:
    """A worker and an executor of one broker."""

    def __init__(self, *, key: bytes | None = None, values: JobValues | None = None, silent_s: float = 60.0) -> None:
        self.broker, self.handler, self.silent_s = LocalBroker(), Crunch(), silent_s
        self.stored: dict[str, bytes] = {}
        spec = HandlerSpec("crunch", "Crunch", None, execute=self.handler.execute, secrets=Secrets())
        types = self.types = NodeTypeRegistry({"crunch": spec})
        self.to_worker, self.to_executor = Faulty(self.broker), Faulty(self.broker)
        self.seals = JobSeals(lambda: None if key is None else SecretCipher(key))
        self.resolver = ConfigResolver(types, self.seals)
        self.results: asyncio.Queue[NodeResult] = asyncio.Queue()
        self.sender, self.worker = self.another_worker("w", self.to_worker)
        self.executor = JobExecutor(
            transport=self.to_executor,
            handlers=ResolvedTypes(types, StepFunctionHandler([__name__])),
            values=values or NoServer(),
            pools=["gpu"],
            concurrency=4,
            beat_s=0.02,
        )

    async def referenced_values(self, instance_id: str, sha256s: Collection[str]) -> Collection[str]:
        """What the log of the run has."""
        return [each for each in sha256s if each in self.stored]

    def another_worker(self, name: str, transport: Transport) -> tuple[JobSender, PoolTaskWorker]:
        """Its sender, and its task worker."""
        sender = JobSender(
            transport=transport,
            resolver=self.resolver,
            stored=self,
            letters=cast("DeadLetterRows", self),
            pools=["default"],
            name=name,
            silent_s=self.silent_s,
            resend_s=self.silent_s,
            search_s=0.05,
        )
        queue = PoolTaskQueue(None, sender)
        worker = PoolTaskWorker(elsewhere=sender, handlers=self.types, tasks=queue, clock=SystemClock(), concurrency=1)
        worker.report_to(lambda _, result: self.results.put_nowait(result))
        return sender, worker

    def dispatch(self, **config: Any) -> None:
        self.worker.execute(bare_head("run", "acme", "w"), DISPATCH, node(config), {"input": "{{x}}"})

    async def outcome(self) -> Completed | Failed:
        async with asyncio.timeout(PATIENCE_S):
            outcome = (await self.results.get()).outcome
        assert isinstance(outcome, Completed | Failed)
        return outcome


def node(config: Mapping[str, Any]) -> PlanNode:
    return PlanNode(
        id="n",
        type="crunch",
        config=config,
        output_variable=None,
        join_any=False,
        error_handling="continue",
        retry=RetryPolicy(max_attempts=1),
        timeout_ms=None,
        handles=frozenset(),
        exits=frozenset(),
        home=Body(loop=None),
        pool="gpu",
    )


@asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    asked, ready = asyncio.Event(), asyncio.Event()
    await world.sender.start()
    executing = asyncio.create_task(world.executor.run_until(asked, grace=Grace(0), ready=lambda _: ready.set()))
    await ready.wait()
    yield world
    asked.set()
    await executing
    await world.sender.stop()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 -- tasks of the worker and the executor do it in their own time
            await asyncio.sleep(0.005)


async def test_a_lost_job_is_sent_again() -> None:
    async with running(World(silent_s=0.1)) as world:
        lost: list[NodeJob] = []
        world.to_worker.jobs = lambda job: [job] if lost else swallowed(lost, job)
        world.dispatch(text="{{ctx.input}}")
        outcome = await world.outcome()
        assert isinstance(outcome, Completed)
        assert outcome.output.value == {"config": {"text": "{{x}}"}, "context": {"input": "{{x}}"}}
        assert lost[0].sending == 1


async def test_few_jobs_are_with_the_broker_at_once_and_tenants_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_sender, "QUEUED_MAX", 2)
    async with running(World()) as world:
        sent: list[NodeJob] = []
        world.to_worker.jobs = lambda job: noted(sent, job)
        executor = world.broker.consumers[0]
        pools, executor.pools = executor.pools, frozenset()
        for tenant, count in (("large", 6), ("small", 2)):
            for number in range(count):
                head = bare_head(f"{tenant}-{number}", tenant, "w")
                world.worker.execute(head, DISPATCH, node({}), {"input": "{{x}}"})
        await until(lambda: len(sent) == 2)
        assert world.sender._next() is None, "a third one waits here"
        executor.pools = pools
        world.broker.hand_out()
        for _ in range(8):
            assert isinstance(await world.outcome(), Completed)
        assert [each.tenant_id for each in sent[:4]].count("small") == 2, "six jobs of another one do not delay it"


async def test_copies_of_a_job_that_has_ended_are_withdrawn() -> None:
    async with running(World(silent_s=0.1)) as world:
        late: list[NodeJob] = []
        world.to_worker.jobs = lambda job: [job] if len(late) > 1 else swallowed(late, job)
        withdrawn = asyncio.Event()
        cancel = world.to_worker.cancel

        async def note(ticket: str) -> None:
            await cancel(ticket)
            withdrawn.set()

        world.to_worker.cancel = note  # type: ignore[method-assign]
        world.dispatch()
        assert isinstance(await world.outcome(), Completed)
        async with asyncio.timeout(PATIENCE_S):
            await withdrawn.wait()
        assert len(world.handler.calls) == 1


async def test_a_double_job_is_executed_once_and_a_lost_result_comes_again() -> None:
    async with running(World(silent_s=0.1)) as world:
        lost: list[JobReport] = []
        world.to_worker.jobs = lambda job: [job, job]
        world.to_executor.reports = lambda report: (
            [report] if report.kind != "result" or lost else swallowed(lost, report)
        )
        world.dispatch()
        assert isinstance(await world.outcome(), Completed)
        assert len(world.handler.calls) == 1, "the kept result answers what is sent again"
        assert world.results.empty()


async def test_a_result_that_comes_twice_or_late_is_dropped() -> None:
    async with running(World()) as world:
        kept: list[JobReport] = []
        world.to_executor.reports = lambda report: 2 * noted(kept, report)
        world.dispatch()
        await world.outcome()
        (key,) = world.handler.calls
        await LocalTransport.add_result(world.to_executor, "w", JobReport(f"{key}-1", "result", kept[-1].body))
        assert world.results.empty()


async def test_a_silent_executor_is_given_up_and_the_first_result_counts() -> None:
    async with running(World(silent_s=0.1)) as world:
        silenced: list[JobReport] = []
        world.handler.may_end.clear()
        sent: list[NodeJob] = []
        world.to_worker.jobs = lambda job: noted(sent, job)
        world.to_executor.reports = lambda report: [report] if report.kind == "started" else swallowed(silenced, report)
        world.dispatch()
        await until(lambda: len(sent) > 1)
        world.to_executor.reports = lambda report: [report]
        world.handler.may_end.set()
        assert isinstance(await world.outcome(), Completed)
        assert len(world.handler.calls) == 1


async def test_a_stopped_job_is_cancelled_and_may_be_sent_again_with_another_ticket() -> None:
    async with running(World()) as world:
        world.handler.may_end.clear()
        world.dispatch()
        await until(lambda: bool(world.handler.calls))
        assert world.worker.withdraw("run") == [], "it has begun"
        world.worker.stop_job("run", DISPATCH)
        await until(lambda: world.handler.cancelled == 1)
        world.handler.may_end.set()
        world.dispatch()
        assert isinstance(await world.outcome(), Completed)
        assert len(world.handler.calls) == 2


async def test_a_job_that_an_executor_dropped_because_nobody_awaited_it_is_sent_after_the_next_connection() -> None:
    async with running(World()) as world:
        sent: list[NodeJob] = []
        world.to_worker.jobs = lambda job: noted(sent, job)
        told = asyncio.Event()
        add_result = world.to_executor.add_result

        async def note(reply_to: str, report: JobReport) -> bool:
            there = await add_result(reply_to, report)
            if not there:
                told.set()
            return there

        world.to_executor.add_result = note  # type: ignore[method-assign]
        queues = world.broker.consumers[0].pools
        world.broker.consumers[0].pools = frozenset()
        world.dispatch()
        await until(lambda: bool(sent))
        world.to_worker.disconnect()
        world.broker.consumers[0].pools = queues
        world.broker.hand_out()
        async with asyncio.timeout(PATIENCE_S):
            await told.wait()
        assert not world.handler.calls, "it is not executed for nobody"
        world.to_worker.connect_again()
        assert isinstance(await world.outcome(), Completed)
        assert [each.sending for each in sent] == [1, 2]


async def test_a_result_that_found_nobody_is_asked_for_after_the_next_connection() -> None:
    async with running(World()) as world:
        world.handler.may_end.clear()
        world.dispatch()
        await until(lambda: bool(world.handler.calls))
        world.to_worker.disconnect()
        world.handler.may_end.set()
        await until(lambda: not world.broker.consumers[0].under_way["gpu", "normal"])
        assert world.results.empty()
        world.to_worker.connect_again()
        assert isinstance(await world.outcome(), Completed)
        assert len(world.handler.calls) == 1


async def test_silence_before_a_connection_tells_nothing_of_a_job() -> None:
    async with running(World()) as world:
        world.handler.may_end.clear()
        world.dispatch()
        await until(lambda: bool(world.handler.calls))
        (sent,) = world.sender._sent.values()
        sent.last_sign_at, sent.silences = -1_000_000.0, 5
        world.to_worker.connected()
        assert (sent.last_sign_at > 0, sent.silences, sent.has_begun) == (True, 0, True)
        assert not world.sender._sought, "the reports of these jobs found their queue"
        world.handler.may_end.set()
        assert isinstance(await world.outcome(), Completed)


async def test_nothing_is_sent_again_while_the_broker_is_away() -> None:
    async with running(World()) as world:
        world.handler.may_end.clear()
        world.dispatch()
        await until(lambda: bool(world.handler.calls))
        (sent,) = world.sender._sent.values()
        sent.last_sign_at = -1_000_000.0
        world.to_worker.is_connected = False
        await world.sender._send_silent()
        assert (sent.sending, sent.has_begun) == (1, True)
        world.to_worker.is_connected = True
        await world.sender._send_silent()
        assert (sent.sending, sent.has_begun) == (2, False)
        world.handler.may_end.set()
        assert isinstance(await world.outcome(), Completed)


async def test_jobs_are_looked_at_however_often_nothing_was_heard_of_one() -> None:
    async with running(World()) as world:
        world.handler.may_end.clear()
        world.dispatch()
        await until(lambda: bool(world.handler.calls))
        (sent,) = world.sender._sent.values()
        sent.last_sign_at, sent.silences = -1_000_000.0, 2_000
        await world.sender._send_silent()
        assert sent.sending == 2
        world.handler.may_end.set()
        assert isinstance(await world.outcome(), Completed)


class Held:
    """Holds what the executor reports, of one kind, until it may go; the first of it reaches nobody then."""

    def __init__(self, world: World, kind: str) -> None:
        self._world, self._kind, self._send = world, kind, world.to_executor.add_result
        self.may_go, self.came = asyncio.Event(), asyncio.Event()
        world.to_executor.add_result = self._add_result  # type: ignore[method-assign]

    async def _add_result(self, reply_to: str, report: JobReport) -> bool:
        if report.kind != self._kind or self.may_go.is_set():
            return await self._send(reply_to, report)
        self.came.set()
        await self.may_go.wait()
        return False

    async def until_two_are_under_way(self) -> None:
        """The executor has a job and its repetition."""
        await until(
            lambda: sum(len(each.under_way.get(("gpu", "normal"), ())) for each in self._world.broker.consumers) == 2
        )
        await asyncio.sleep(0)  # the second one has begun


async def test_a_job_that_comes_again_before_its_cancelled_sending_is_forgotten_is_executed() -> None:
    async with running(World()) as world:
        world.handler.may_end.clear()
        world.dispatch()
        await until(lambda: bool(world.handler.calls))
        beat = Held(world, "beat")
        async with asyncio.timeout(PATIENCE_S):
            await beat.came.wait()
        world.worker.stop_job("run", DISPATCH)
        await until(lambda: world.handler.cancelled == 1)
        world.handler.may_end.set()
        world.dispatch()
        await beat.until_two_are_under_way()
        beat.may_go.set()
        assert isinstance(await world.outcome(), Completed)
        assert len(world.handler.calls) == 2


async def test_a_job_that_comes_again_while_the_first_sending_finds_no_listener_is_executed() -> None:
    async with running(World(silent_s=0.1)) as world:
        started = Held(world, "started")
        world.dispatch()
        await started.until_two_are_under_way()
        started.may_go.set()
        assert isinstance(await world.outcome(), Completed)
        assert len(world.handler.calls) == 1
        await until(lambda: not any(each.under_way.get(("gpu", "normal")) for each in world.broker.consumers))


@asynccontextmanager
async def taken_over(world: World) -> AsyncIterator[PoolTaskWorker]:
    """The first worker stops in order; another one owns the run and dispatches what it finds outstanding."""
    world.sender.leave()
    world.worker.stop_instance("run")
    await world.sender.stop()
    sender, worker = world.another_worker("w2", LocalTransport(world.broker))
    await sender.start()
    worker.note_dispatched_before("run", [DISPATCH])
    worker.execute(bare_head("run", "acme", "w"), DISPATCH, node({}), {"input": "{{x}}"})
    yield worker
    await sender.stop()


async def test_a_job_of_a_worker_that_stops_goes_on_and_reports_to_the_next_owner() -> None:
    async with running(World()) as world:
        world.handler.may_end.clear()
        sent: list[NodeJob] = []
        world.to_worker.jobs = lambda job: noted(sent, job)
        world.dispatch()
        await until(lambda: bool(world.handler.calls))
        told: list[JobReport] = []
        world.to_executor.reports = lambda report: noted(told, report)
        async with taken_over(world):
            await until(lambda: any(each.kind == "started" for each in told))
            world.handler.may_end.set()
            assert isinstance(await world.outcome(), Completed)
        assert (len(world.handler.calls), world.handler.cancelled, len(sent)) == (1, 0, 1)


async def test_a_job_that_was_taken_over_can_be_cancelled_by_its_next_owner() -> None:
    async with running(World()) as world:
        world.handler.may_end.clear()
        world.dispatch()
        await until(lambda: bool(world.handler.calls))
        async with taken_over(world) as worker:
            worker.stop_job("run", DISPATCH)
            await until(lambda: world.handler.cancelled > 0)
            assert world.handler.cancelled == 1


async def test_a_job_that_ended_while_nobody_owned_its_run_is_answered_with_its_result() -> None:
    async with running(World()) as world:
        world.handler.may_end.clear()
        world.dispatch()
        await until(lambda: bool(world.handler.calls))
        world.to_executor.reports = lambda report: []
        world.handler.may_end.set()
        await until(lambda: not world.broker.consumers[0].under_way["gpu", "normal"])
        world.to_executor.reports = lambda report: [report]
        async with taken_over(world):
            assert isinstance(await world.outcome(), Completed)
        assert len(world.handler.calls) == 1


async def test_a_job_that_no_executor_has_is_sent_by_the_next_owner() -> None:
    async with running(World()) as world:
        world.to_worker.jobs = lambda job: []
        world.dispatch()
        async with taken_over(world):
            assert isinstance(await world.outcome(), Completed)
        assert len(world.handler.calls) == 1


async def test_a_job_that_kills_its_executors_fails_for_good() -> None:
    async with running(World()) as world:

        async def deliver_again(job: NodeJob) -> None:
            world.broker.queues["gpu", "normal"] = deque([(job.to_json(), 5)])
            world.broker.hand_out()

        world.to_worker.add_node_job = deliver_again  # type: ignore[method-assign]
        world.dispatch()
        outcome = await world.outcome()
        assert isinstance(outcome, Failed)
        assert (outcome.error.code, outcome.retryable, world.handler.calls) == ("EXECUTOR_LOST", False, [])


class Server(ServerValues):
    """Answers what the executor asks, without a network."""

    def __init__(self, world: World) -> None:
        super().__init__("https://server", "ab_key")
        self.world, self.asked = world, list[str]()
        self.refusal: tuple[int, bytes] | None = None

    async def _asked(self, method: str, path: str, query: Any, body: Any) -> tuple[int, bytes]:
        self.asked.append(f"{method} {path}")
        if self.refusal is not None:
            return self.refusal
        if body is None:
            return 200, self.world.stored[path.rpartition("/")[2]]
        identity = JobIdentity(body["tenantID"], body["instanceID"], body["pool"], body["jobID"])
        return 200, orjson.dumps(self.world.seals.open(identity, body["sealed"]))


def world_with_server(key: bytes | None = b"k" * 32) -> tuple[World, Server]:
    world = World(key=key)
    server = Server(world)
    world.executor._values = server
    return world, server


async def test_secrets_travel_only_encrypted_and_a_server_opens_them() -> None:
    world, server = world_with_server()
    async with running(world):
        seen: list[bytes] = []
        world.to_worker.jobs = lambda job: noted_raw(seen, job)
        world.dispatch(token="Bearer {{secret.TOKEN}}")
        outcome = await world.outcome()
        assert seen
        assert all(b"hush" not in each for each in seen)
        assert isinstance(outcome, Completed)
        assert outcome.output.value["config"] == {"token": "Bearer ***"}, "it is masked in what comes back"
        assert server.asked == ["POST /v1/jobs/config"], "once"


REFUSED = orjson.dumps({"error": {"code": "UNAUTHORIZED", "message": "the API key is not valid"}})


@pytest.mark.parametrize(
    ("key", "refusal", "code"),
    [(None, None, "SECRET_KEY_MISSING"), (b"k" * 32, (401, REFUSED), "EXECUTOR_REFUSED")],
)
async def test_a_job_whose_secrets_cannot_be_had_fails_with_the_reason(
    key: bytes | None, refusal: tuple[int, bytes] | None, code: str
) -> None:
    world, server = world_with_server(key)
    server.refusal = refusal
    async with running(world):
        world.dispatch(token="Bearer {{secret.TOKEN}}")
        outcome = await world.outcome()
        assert isinstance(outcome, Failed)
        assert (outcome.error.code, world.handler.calls) == (code, [])


async def test_an_executor_without_a_key_says_so() -> None:
    async with running(World(key=b"k" * 32)) as world:
        world.dispatch(token="{{secret.TOKEN}}")
        outcome = await world.outcome()
        assert isinstance(outcome, Failed)
        assert outcome.error.code == "EXECUTOR_REFUSED"
        assert "no server and key" in outcome.error.message


async def test_a_job_waits_for_a_server_that_does_not_answer_and_can_be_cancelled_meanwhile() -> None:
    world, server = world_with_server()
    server.refusal = (503, b"")
    async with running(world):
        world.dispatch(token="{{secret.TOKEN}}")
        await until(lambda: bool(server.asked))
        world.worker.stop_job("run", DISPATCH)
        await until(lambda: not world.executor._running)
        assert (world.handler.calls, world.results.empty()) == ([], True)


async def test_large_values_of_the_log_are_fetched_and_others_travel_with_the_job() -> None:
    world, server = world_with_server()
    large, made = {"rows": ["r" * 70_000]}, "m" * 70_000
    raw = orjson.dumps(large["rows"][0])
    world.stored[hashlib.sha256(raw).hexdigest()] = raw
    async with running(world):
        seen: list[bytes] = []
        world.to_worker.jobs = lambda job: noted_raw(seen, job)
        context = {"input": large, "small": 1}
        head = bare_head("run", "acme", "w")
        world.worker.execute(head, DISPATCH, node({"body": "{{ctx.input.rows}}", "made": made}), context)
        outcome = await world.outcome()
        assert isinstance(outcome, Completed)
        assert outcome.output.value == {"config": {"body": large["rows"], "made": made}, "context": context}
        assert len(seen[0]) < 80_000, "only what was made is in the message"
        assert server.asked == [f"GET /v1/values/{hashlib.sha256(raw).hexdigest()}"], "fetched once for both places"


async def test_a_node_waits_for_a_database_that_is_away_and_no_attempt_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_sender, "LOOK_S", 0.01)
    world = World()
    refusals = [StoreUnavailable("the database is away")] * 3

    async def referenced(instance_id: str, sha256s: Collection[str]) -> Collection[str]:
        if refusals:
            raise refusals.pop()
        return ()

    world.referenced_values = referenced  # type: ignore[method-assign]
    async with running(world):
        world.dispatch(made="m" * 70_000)
        assert isinstance(await world.outcome(), Completed)
    assert refusals == []


async def test_a_job_that_is_too_large_fails_its_node() -> None:
    async with running(World()) as world:
        world.dispatch(text="x" * 9_000_000)
        outcome = await world.outcome()
        assert isinstance(outcome, Failed)
        assert (outcome.error.code, outcome.retryable) == ("VALUE_TOO_LARGE", False)
