"""Jobs that executors execute: a broker that loses, doubles, delays and reorders messages, and executors that die.

Called by `machines` in worlds whose `work` is executed elsewhere. Sender, executor and messages are those of
`anabranch.transport`; only the queues between them are simulated. What goes wrong is drawn from the seed, as it comes.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from anabranch.dead_letters.dead_letters import DeadLetterRows
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.task_worker import Execution
from anabranch.grace import Grace
from anabranch.transport.job_executor import CompleteJob, JobExecutor
from anabranch.transport.job_messages import DeadMessage, JobReport, JobSearch, NodeJob, reports_in
from anabranch.transport.job_sender import JobSender
from anabranch.transport.transport_ports import ANSWER_S_MAX, Accept, JobDelivery, TransportUnavailable
from tests.simulation.loop import Owner, SimulatedLoop, outside
from tests.simulation.network import LATENCY_S_MAX, SENDER, Sender
from tests.simulation.nodes import WORK, Ledger, SimulatedTypes

# 2 s without a sign of life, with one every half second: as in a process, fifteen times faster.
SILENT_S = 2.0
BEAT_S = 0.5
SEARCH_S = 0.2

# A message may be later than what is sent again because of it.
LATE_S_MAX = 3.0

# 2 s: the queue of a worker that is gone, and what is still reported there.
REPORTS_KEPT_S = 2.0

# Something happens to the broker or an executor about twice a second.
STRIKE_EVERY_S = 0.5

# An executor gives up a job after five deaths; in these worlds none is as dangerous.
DELIVERIES_MAX = 3


@dataclass(slots=True, eq=False)
class _Consumer:
    owner: Owner
    accept: Accept
    concurrency: int
    cancelled: Callable[[str], None]
    sought: Callable[[JobSearch], None]
    unacknowledged: dict[asyncio.Task[None], tuple[bytes, int]] = field(default_factory=dict)


class SimulatedBroker:
    """The queues of a world."""

    def __init__(self, loop: SimulatedLoop, *, seed: int, rarities: Counter[str]) -> None:
        self.loop = loop
        self.rarities = rarities
        self.rng = random.Random(f"broker {seed}")
        self.is_calm = False
        self.away_until = 0.0
        self.outages = 0
        self._jobs: deque[tuple[bytes, int]] = deque()
        self._consumers: list[_Consumer] = []
        self._receivers: dict[str, tuple[Owner, Callable[[JobReport], None]]] = {}
        self.answered: set[tuple[str, str]] = set()
        """Which executor has reported the result of which job."""

    @property
    def is_away(self) -> bool:
        """Nobody reaches it now."""
        return self.loop.time() < self.away_until

    def check(self) -> None:
        """Raise TransportUnavailable if it cannot be reached, or does not answer this time."""
        if self.is_away or (not self.is_calm and self.rng.random() < 0.1):
            self.rarities["pools: broker did not confirm"] += 1
            raise TransportUnavailable("the broker has not confirmed")

    def carry(self, what: str, act: Callable[..., None], *arguments: Any, to: Owner | None = None) -> None:
        """Let a message arrive: once and soon, or lost, doubled or late."""
        for after_s in self._ways(what):
            context = outside() if to is None else to.context.copy()
            self.loop.call_later(after_s, act, *arguments, context=context)

    def _ways(self, what: str) -> list[float]:
        soon, fate = self.rng.random() * LATENCY_S_MAX, 1.0 if self.is_calm else self.rng.random()
        if fate < 0.06:
            self.rarities[f"pools: {what} lost"] += 1
            return []
        if fate < 0.16:
            self.rarities[f"pools: {what} doubled"] += 1
            return [soon, self.rng.choice((soon, self.rng.random() * LATE_S_MAX))]
        if fate < 0.26:
            self.rarities[f"pools: {what} late"] += 1
            return [self.rng.random() * LATE_S_MAX]
        return [soon]

    # -- jobs -----------------------------------------------------------------------------
    def queue(self, raw: bytes, deliveries: int = 0) -> None:
        """Keep a job until an executor has room."""
        self._jobs.append((raw, deliveries))
        self.hand_out()

    def hand_out(self) -> None:
        """Give waiting jobs to executors with room."""
        while self._jobs and not self.is_away:
            free = [each for each in self._consumers if len(each.unacknowledged) < each.concurrency]
            if not free:
                return
            consumer, (raw, deliveries) = self.rng.choice(free), self._jobs.popleft()
            task = self.loop.create_task(
                self._deliver(consumer, raw, deliveries), context=consumer.owner.context.copy()
            )
            consumer.unacknowledged[task] = raw, deliveries

    async def _deliver(self, consumer: _Consumer, raw: bytes, deliveries: int) -> None:
        task = asyncio.current_task()
        assert task is not None, "hand_out has made it"
        delivery = JobDelivery(deliveries, is_open=lambda: task in consumer.unacknowledged)
        await consumer.accept(NodeJob.from_json(raw), delivery)
        consumer.unacknowledged.pop(task, None)
        self.hand_out()

    def consume(self, consumer: _Consumer) -> None:
        """Let an executor take jobs."""
        self._consumers.append(consumer)
        self.hand_out()

    def tell_all(self, what: str, tell: Callable[[_Consumer], Callable[..., None]], *arguments: Any) -> None:
        """Tell every executor."""
        for each in self._consumers:
            self.carry(what, tell(each), *arguments, to=each.owner)

    # -- reports --------------------------------------------------------------------------
    def listen(self, name: str, owner: Owner, receive: Callable[[JobReport], None]) -> bool:
        """Let a worker receive reports; False if it had no queue."""
        had_one = name in self._receivers
        self._receivers[name] = owner, receive
        return had_one

    def report(self, reply_to: str, raw: bytes) -> bool:
        """Carry reports to a worker; False if it has no queue any more."""
        if reply_to not in self._receivers:
            self.rarities["pools: report returned"] += 1
            return False
        owner, receive = self._receivers[reply_to]
        for each in reports_in(raw)[0]:
            self.carry(each.kind, receive, each, to=owner)
        return True

    def expire_reports(self) -> None:
        """The broker, or the way to it, is away for so long that no worker keeps its queue."""
        self.rarities["pools: reports expired"] += 1
        self._receivers.clear()

    # -- ends -----------------------------------------------------------------------------
    def worker_ended(self, name: str) -> None:
        """Its queue goes after a while."""
        self.loop.call_later(REPORTS_KEPT_S, self._receivers.pop, name, None, context=outside())

    def executor_ended(self, owner: Owner) -> None:
        """What it has not acknowledged goes to others."""
        for consumer in [each for each in self._consumers if each.owner is owner]:
            self._consumers.remove(consumer)
            self._requeue(consumer)
        self.hand_out()

    def cut_one(self) -> None:
        """An executor loses its connection: others get what it executes, while it goes on."""
        if self._consumers:
            self.rarities["pools: executor cut off"] += 1
            self._requeue(self.rng.choice(self._consumers))
            self.hand_out()

    def lose_everything(self) -> None:
        """The broker is replaced by an empty one."""
        self.rarities["pools: broker lost its data"] += 1
        self._jobs.clear()
        self._receivers.clear()
        for consumer in self._consumers:
            consumer.unacknowledged.clear()

    def may_lose(self, owner: Owner) -> bool:
        """Whether none of the jobs of an executor has met many deaths."""
        mine = [each for each in self._consumers if each.owner is owner]
        return all(times < DELIVERIES_MAX for each in mine for _, times in each.unacknowledged.values())

    def _requeue(self, consumer: _Consumer) -> None:
        jobs, consumer.unacknowledged = list(consumer.unacknowledged.values()), {}
        self._jobs.extendleft((raw, min(times + 1, DELIVERIES_MAX)) for raw, times in jobs)


class SimulatedTransport:
    """The queues of one process."""

    def __init__(self, broker: SimulatedBroker, owner: Owner) -> None:
        self._broker = broker
        self._owner = owner
        self._results: dict[str, tuple[Callable[[JobReport], None], Callable[[], None]]] = {}
        """Who receives reports to a name, and whom it is told that some were missed."""
        self._after: list[Callable[[], None]] = []
        self._registered_after: int | None = None
        """How many outages there had been when its queues were registered."""

    @property
    def is_connected(self) -> bool:
        """Whether the broker is there, and has the queues of this process."""
        return not self._broker.is_away and self._registered_after == self._broker.outages

    def when_connected(self, act: Callable[[], None]) -> None:
        """Call this after each connection."""
        self._after.append(act)

    async def start(self) -> None:
        """Look every now and then whether the broker is there again."""
        self._broker.loop.create_task(self._keep_connected(), context=self._owner.context.copy())

    async def stop(self, *, patience_s: float = ANSWER_S_MAX) -> None:
        """Leave at once: nobody awaits reports here."""
        for name in self._results:
            self._broker.worker_ended(name)
        self._results.clear()

    async def _keep_connected(self) -> None:
        while True:
            if not (self._broker.is_away or self.is_connected):
                for name, (receive, missed) in self._results.items():
                    if not self._broker.listen(name, self._owner, receive):
                        missed()
                self._registered_after = self._broker.outages
                for act in self._after:
                    act()
            await asyncio.sleep(0.2)

    async def add_node_job(self, job: NodeJob) -> None:
        """Queue a job; that it is queued may not be known."""
        await self._way()
        if not self.is_connected:
            raise TransportUnavailable("the broker is not connected")
        self._broker.carry("job", self._broker.queue, job.to_json())
        self._broker.check()

    async def cancel(self, ticket: str) -> None:
        """Tell all executors."""
        await self._way()
        self._broker.tell_all("cancellation", lambda each: each.cancelled, ticket)

    async def search(self, search: JobSearch) -> None:
        """Ask all executors."""
        await self._way()
        self._broker.tell_all("search", lambda each: each.sought, JobSearch.from_json(search.to_json()))

    async def add_result(self, reply_to: str, report: JobReport) -> bool:
        """Report to a worker; that it is reported may not be known."""
        await self._way()
        if report.kind == "result":
            self._broker.answered.add((SENDER.get().worker_id, report.job_id))
        there = self._broker.report(reply_to, report.to_json())
        self._broker.check()
        return there

    async def register_task_worker(
        self,
        accept: Accept,
        *,
        pools: Sequence[str],
        concurrency: int,
        cancelled: Callable[[str], None],
        sought: Callable[[JobSearch], None],
    ) -> None:
        """Take jobs."""
        self._broker.consume(_Consumer(self._owner, accept, concurrency, cancelled, sought))

    async def stop_taking(self) -> None:
        """Executors of these worlds are killed, and never stop in order."""

    async def register_results_worker(
        self, name: str, receive: Callable[[JobReport], None], *, missed: Callable[[], None]
    ) -> None:
        """Receive reports, from the first connection on."""
        self._results[name] = receive, missed

    async def register_dead_letters(self, keep: Callable[[DeadMessage], Awaitable[None]]) -> None:
        """There are none: each job is given to executors until it is acknowledged."""

    async def _way(self) -> None:
        await asyncio.sleep(self._broker.rng.random() * LATENCY_S_MAX)
        self._broker.check()


class WorkElsewhere(JobSender):
    """Has every `work` executed by executors, whatever its pool is."""

    def __init__(self, broker: SimulatedBroker, owner: Owner, *, name: str) -> None:
        super().__init__(
            transport=SimulatedTransport(broker, owner),
            resolver=_AsItIs(),
            stored=_Nothing(),
            letters=cast("DeadLetterRows", _Nothing()),
            pools=(),
            name=name,
            silent_s=SILENT_S,
            resend_s=SILENT_S,
            search_s=SEARCH_S,
        )

    def takes(self, node: PlanNode) -> bool:
        """Jobs of `work`."""
        return node.type == WORK.type


class _AsItIs:
    """Configs of `work` have no templates and no secrets."""

    async def resolve(self, node: PlanNode, execution: Execution, job_id: str) -> tuple[Any, str | None]:
        return dict(node.config), None


class _Nothing:
    """No value of these worlds is large, and none is secret."""

    async def referenced_values(self, instance_id: str, sha256s: Collection[str]) -> Collection[str]:
        return ()

    async def complete(self, job: NodeJob) -> CompleteJob:
        raise AssertionError("no job refers to anything")

    async def stop(self) -> None:
        """There is nothing to stop."""


class Executors:
    """Executor processes, each followed by another one when it dies; and what happens to them and the broker."""

    def __init__(
        self, broker: SimulatedBroker, *, types: SimulatedTypes, ledger: Ledger, count: int, concurrency: int
    ) -> None:
        self._broker = broker
        self._types = types
        self._ledger = ledger
        self._concurrency = concurrency
        self._generation = 0
        self._owners: list[tuple[Owner, str] | None] = [None] * count
        self._has_ended = False

    def start(self) -> None:
        """An executor in every slot, and trouble from now on."""
        for slot in range(len(self._owners)):
            self._launch(slot)
        self._strike_later()

    def clear_up(self) -> None:
        """Nothing goes wrong any more; what stood still goes on."""
        self._broker.is_calm = True
        self._broker.away_until = 0.0
        for owner, _ in filter(None, self._owners):
            self._thaw(owner)
        self._broker.hand_out()

    def end(self) -> None:
        """Unwind what runs, and start nothing any more."""
        self._has_ended = True
        for owner, _ in filter(None, self._owners):
            self._broker.loop.kill(owner)

    def _launch(self, slot: int) -> None:
        if self._has_ended:
            return
        self._generation += 1
        owner, name = Owner(), f"executor{slot}.{self._generation}"
        owner.context.run(SENDER.set, Sender(name))
        executor = owner.context.run(
            lambda: JobExecutor(
                transport=SimulatedTransport(self._broker, owner),
                handlers=self._types,
                values=_Nothing(),
                pools=["default"],
                concurrency=self._concurrency,
                beat_s=BEAT_S,
            )
        )
        executor.name = name
        self._owners[slot] = owner, name
        living = executor.run_until(asyncio.Event(), grace=Grace(0), ready=lambda _: None)
        self._broker.loop.create_task(living, context=owner.context.copy())

    def _strike_later(self) -> None:
        if not (self._has_ended or self._broker.is_calm):
            after_s = self._broker.rng.uniform(0.1, 2 * STRIKE_EVERY_S)
            self._broker.loop.call_later(after_s, self._strike, context=outside())

    def _strike(self) -> None:
        broker, rng = self._broker, self._broker.rng
        if broker.is_calm or self._has_ended:
            return
        slot, choice = rng.randrange(len(self._owners)), rng.random()
        if choice < 0.4:
            self._kill(slot)
        elif choice < 0.6:
            self._freeze(slot, rng.uniform(0.1, 2 * SILENT_S))
        elif choice < 0.8:
            broker.cut_one()
        else:
            broker.away_until = broker.loop.time() + rng.uniform(0.1, SILENT_S)
            broker.outages += 1
            broker.rarities["pools: broker away"] += 1
            if choice > 0.93:
                broker.lose_everything()
            elif choice > 0.87:
                broker.expire_reports()
            broker.loop.call_at(broker.away_until, broker.hand_out, context=outside())
        self._strike_later()

    def _kill(self, slot: int) -> None:
        living = self._owners[slot]
        if living is None or not self._broker.may_lose(living[0]):
            return
        owner, name = living
        self._broker.rarities["pools: executor killed"] += 1
        self._owners[slot] = None
        self._broker.loop.kill(owner)
        self._ledger.forget_process(name)
        self._broker.executor_ended(owner)
        down_s = self._broker.rng.uniform(0.05, SILENT_S)
        self._broker.loop.call_later(down_s, self._launch, slot, context=outside())

    def _freeze(self, slot: int, seconds: float) -> None:
        living = self._owners[slot]
        if living is not None and not living[0].frozen:
            self._broker.rarities["pools: executor frozen"] += 1
            self._broker.loop.freeze(living[0])
            self._broker.loop.call_later(seconds, self._thaw, living[0], context=outside())

    def _thaw(self, owner: Owner) -> None:
        if owner.frozen and not owner.dead:
            self._broker.loop.thaw(owner)
