"""One simulated process: a real engine and its service, with a clock, a connection and a life of their own.

Called by `world`, which starts, crashes, freezes and thaws it between two callbacks, so at any
await. Nothing here decides what goes wrong: that is `faults`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from anabranch.durable.definition import Workflow, WorkflowRegistry
from anabranch.durable.runner import Runner
from anabranch.engine.clock import SystemClock
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.handler_contract import HandlerRegistry, Helpers
from anabranch.engine.lifecycle import Engine
from anabranch.engine.ownership.owned_instances import OwnedInstance
from anabranch.engine.rules.stimuli import Failed, FunctionBlocked, FunctionSuspended, NodeResult
from anabranch.service.runs.child_runs import ChildRuns
from anabranch.service.runs.step_signals import StepSignals
from anabranch.service.workflow_service import WorkflowService
from anabranch.testing.memory_store.database import MemoryDatabase
from tests.simulation.loop import Owner, SimulatedLoop
from tests.simulation.network import SENDER, Connection, Sender, Weather
from tests.simulation.pools import SimulatedBroker, WorkElsewhere

PENDING_MAX = 1_000
RETENTION_DAYS_MAX = 365

# A result that arrives up to 2 s late is later than most retries, and than some leases.
RESULT_LATE_S_MAX = 2.0

# A failure that is heard of every tenth of a second for three seconds is heard of during most retries.
ECHOES = 30
ECHO_EVERY_S = 0.1


class ConnectionLost(Exception):
    """The process that a client talked to is gone: what became of the request is not known."""


class SkewedClock(SystemClock):
    """The engine's clock on a machine whose oscillator is not quite right."""

    def __init__(self, loop: SimulatedLoop, *, rate: float, wrong_by_ms: int, database_now: int) -> None:
        super().__init__()
        self._loop = loop
        self._rate = rate
        self.adjust(database_now + wrong_by_ms)

    def monotonic(self) -> float:
        """Seconds as this machine counts them."""
        return self._loop.time() * self._rate

    def jump(self, milliseconds: int) -> None:
        """Be wrong by so much more, until the next answer of the store."""
        self.adjust(self.now() + milliseconds)


class SimulatedProcess:
    """An engine that lives until it is stopped or crashes; then a new one takes its slot."""

    def __init__(
        self,
        *,
        loop: SimulatedLoop,
        database: MemoryDatabase,
        weather: Weather,
        types: HandlerRegistry,
        code: Iterable[Workflow],
        options: EngineOptions,
        clock: SkewedClock,
        worker_id: str,
        commits_in_flight_max: int,
        broker: SimulatedBroker | None = None,
    ) -> None:
        """With a `broker` every `work` is executed by executors."""
        self.loop = loop
        self.weather = weather
        self.worker_id = worker_id
        self.clock = clock
        self.owner = Owner()
        self.owner.context.run(SENDER.set, Sender(worker_id))
        self.types = types
        self.ready = False
        """Started, and not told to stop."""
        self.dying = False
        """Whatever its handlers return reaches nobody; it crashes soon."""
        self.thawed_at = loop.time()
        """When it was last known to have been standing still."""
        self._requests: dict[asyncio.Future[Any], None] = {}
        connection = Connection(database, weather, worker_id=worker_id, commits_in_flight_max=commits_in_flight_max)
        self.children, signals = ChildRuns(), StepSignals()
        runner = Runner(WorkflowRegistry(code if options.works else ()), children=self.children, signals=signals)
        self.sender = None if broker is None else WorkElsewhere(broker, self.owner, name=worker_id)
        # Built in its own context, as everything that runs in it.
        self.engine: Engine = self.owner.context.run(
            lambda: Engine(
                store=connection,
                handlers=types,
                functions=runner,
                options=options,
                clock=clock,
                worker_id=worker_id,
                code=runner.registries,
                elsewhere=self.sender,
            )
        )
        self.service = WorkflowService(
            engine=self.engine, node_types=types, retention_days_max=RETENTION_DAYS_MAX, pending_max=PENDING_MAX
        )
        self.children.connect(self.engine, self.service)
        signals.connect(self.service)
        runner.connect(self.engine)
        # The queue promises no more than a network would: results may be doubled, late, or lost with their process.
        self._deliver = self.engine.orchestrator.owned.receive
        self.engine.orchestrator._task_worker.report_to(self._receive_result)

    async def start(self) -> None:
        """Start the engine, and what has its jobs executed elsewhere. Raises StoreUnavailable."""
        await self.engine.start()
        if self.sender is not None:
            await self.sender.start()

    async def stop(self, *, grace_s: float) -> None:
        """Stop in order."""
        if self.sender is not None:
            self.sender.leave()
        await self.engine.stop(grace_s=grace_s)
        if self.sender is not None:
            await self.sender.stop()

    @property
    def dead(self) -> bool:
        """Crashed, or gone after a stop."""
        return self.owner.dead

    @property
    def frozen(self) -> bool:
        """Not running, and not knowing it."""
        return self.owner.frozen

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let this process do something."""
        return self.loop.create_task(work, context=self.owner.context.copy())

    def request(self, work: Callable[[WorkflowService], Coroutine[Any, Any, Any]]) -> asyncio.Future[Any]:
        """Ask this process for something, from outside; the answer may be ConnectionLost."""
        answer = self.loop.create_future()
        self._requests[answer] = None
        answer.add_done_callback(lambda done: self._requests.pop(done, None))
        self.run(self._answer(work, answer))
        return answer

    def freeze(self) -> None:
        """Stop running at once, as with SIGSTOP or a long pause of the machine."""
        self.loop.freeze(self.owner)

    def thaw(self) -> None:
        """Go on as if nothing had been."""
        self.thawed_at = self.loop.time()
        self.loop.thaw(self.owner)

    def crash(self) -> None:
        """Be gone at once; clients find their connections closed."""
        self.ready = False
        self.loop.kill(self.owner)
        for answer in list(self._requests):
            if not answer.done():
                answer.set_exception(ConnectionLost(self.worker_id))

    def dead_parts(self) -> list[str]:
        """Parts of the running engine that have ended although nobody stopped them."""
        engine = self.engine
        parts = [
            *engine.orchestrator._commit_loops,
            engine.orchestrator.owned.delays._task,
            engine.claimer._task,
            engine.housekeeping._task,
            engine._external._looking._task,
            engine._external._hinted._task,
            engine._leases._extending._task,
            engine._leases._guarding._task,
            *engine._tasks._consumers,
        ]
        return [f"{part.get_name()}: {part}" for part in parts if part is not None and part.done()]

    async def _answer(
        self, work: Callable[[WorkflowService], Coroutine[Any, Any, Any]], answer: asyncio.Future[Any]
    ) -> None:
        try:
            value = await work(self.service)
        except Exception as failure:  # noqa: BLE001 - the client is told, whatever it is
            if not answer.done():
                answer.set_exception(failure)
        else:
            if not answer.done():
                answer.set_result(value)

    def _receive_result(self, instance_id: str, result: NodeResult) -> None:
        weather = self.weather
        if self.dying:
            weather.rarities["result lost with its process"] += 1
            return
        if weather.echoes and isinstance(result.outcome, Failed):
            weather.echoes -= 1
            weather.rarities["failure echoed"] += 1
            for number in range(ECHOES):
                self.loop.call_later(ECHO_EVERY_S * number, self._deliver, instance_id, result)
        if not weather.results:
            self._deliver(instance_id, result)
            return
        again_after_s = weather.results.popleft()
        if again_after_s is None:
            weather.rarities["late result"] += 1
            again_after_s = weather.rng.random() * RESULT_LATE_S_MAX
        else:
            weather.rarities["doubled result"] += 1
            self._deliver(instance_id, result)
        owned = self.engine.orchestrator.owned.get(instance_id)
        self.loop.call_later(again_after_s, self._deliver_later, owned, instance_id, result)

    def _deliver_later(self, owned: OwnedInstance | None, instance_id: str, result: NodeResult) -> None:
        """A function is called many times in one attempt, and hands its answers to the very holding that called it.

        So none of them outlives that. What handlers and steps came to may come at any time.
        """
        of_a_call = isinstance(result.outcome, FunctionSuspended | FunctionBlocked)
        if not of_a_call or self.engine.orchestrator.owned.get(instance_id) is owned:
            self._deliver(instance_id, result)


class ChildrenHere:
    """The port of the `workflow` type, shared by all processes: a child is started by the one that asks for it."""

    def __init__(self, processes: Mapping[str, SimulatedProcess]) -> None:
        self._processes = processes

    async def start(self, helpers: Helpers, **asked: Any) -> str:
        """See `handlers.workflow.Children`."""
        return await self._processes[SENDER.get().worker_id].children.start(helpers, **asked)
