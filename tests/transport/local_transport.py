"""Both queues inside one process: executors and workers of one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from anabranch.engine.rules.graph.priorities import HIGH, Priority
from anabranch.transport.job_messages import BadMessage, DeadMessage, JobReport, JobSearch, NodeJob, reports_in
from anabranch.transport.transport_ports import ANSWER_S_MAX, Accept, JobDelivery, TransportUnavailable

logger = logging.getLogger("anabranch.transport")

LocalQueue: TypeAlias = tuple[str, Priority]
"""Pool and priority."""


@dataclass(slots=True, eq=False)
class _Consumer:
    accept: Accept
    pools: frozenset[str]
    concurrency: int
    cancelled: Callable[[str], None]
    sought: Callable[[JobSearch], None]
    under_way: dict[LocalQueue, set[asyncio.Task[None]]] = field(default_factory=dict)

    def has_capacity(self, queue: LocalQueue) -> bool:
        return queue[0] in self.pools and len(self.under_way.get(queue, ())) < self.concurrency


@dataclass(slots=True)
class LocalBroker:
    """The broker that the transports of one process share. Messages cross it as bytes, as they would a real one."""

    queues: dict[LocalQueue, deque[tuple[bytes, int]]] = field(default_factory=dict)
    """Waiting jobs, with the number of their deliveries."""
    consumers: list[_Consumer] = field(default_factory=list)
    dead: deque[DeadMessage] = field(default_factory=deque)
    keepers: list[Callable[[DeadMessage], Awaitable[None]]] = field(default_factory=list)
    """Who takes what is dead."""
    receivers: dict[str, Callable[[JobReport], None]] = field(default_factory=dict)

    def hand_out(self) -> None:
        """Give waiting jobs to consumers with room."""
        for name in sorted(self.queues, key=lambda name: name[1] != HIGH):
            queue = self.queues[name]
            while queue:
                free = [each for each in self.consumers if each.has_capacity(name)]
                if not free:
                    break
                consumer = min(free, key=lambda each: len(each.under_way.get(name, ())))
                under_way = consumer.under_way.setdefault(name, set())
                task = asyncio.get_running_loop().create_task(self._deliver(consumer, name, *queue.popleft()))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                task.add_done_callback(lambda _: self.hand_out())

    async def keep_dead(self) -> None:
        """Give what is dead to who takes it."""
        while self.dead and self.keepers:
            letter = self.dead.popleft()
            try:
                await self.keepers[0](letter)
            except BaseException as failure:
                self.dead.appendleft(letter)  # it is given again with the next one
                if not isinstance(failure, Exception):
                    raise
                logger.warning("a dead letter cannot be stored: %r", failure)
                break

    async def _deliver(self, consumer: _Consumer, name: LocalQueue, raw: bytes, deliveries: int) -> None:
        try:
            job = NodeJob.from_json(raw)
        except BadMessage:
            self.dead.append(DeadMessage(raw, name[0], "rejected"))
            await self.keep_dead()
            return
        try:
            try:
                await consumer.accept(job, JobDelivery(deliveries, is_open=lambda: True))
            except TransportUnavailable:
                await asyncio.get_running_loop().create_future()  # until its consumer stops
        except asyncio.CancelledError:
            self.queues[name].appendleft((raw, deliveries + 1))
            raise


class LocalTransport:
    """The queues of one party in this process."""

    is_connected = True

    def __init__(self, broker: LocalBroker) -> None:
        self._broker = broker
        self._own: list[_Consumer] = []
        self._names: list[str] = []

    def when_connected(self, act: Callable[[], None]) -> None:
        """It always is."""
        act()

    async def start(self) -> None:
        """Nothing to connect to."""

    async def stop(self, *, patience_s: float = ANSWER_S_MAX) -> None:
        """Take and receive nothing more; jobs that are not done with go to others. Nothing here has to be waited for,
        however short `patience_s` is."""
        self._broker.consumers[:] = [each for each in self._broker.consumers if each not in self._own]
        under_way = [task for each in self._own for tasks in each.under_way.values() for task in tasks]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for name in self._names:
            self._broker.receivers.pop(name, None)

    async def add_node_job(self, job: NodeJob) -> None:
        """Queue a job behind those of its pool."""
        self._broker.queues.setdefault((job.pool, job.priority), deque()).append((job.to_json(), 0))
        self._broker.hand_out()

    async def cancel(self, ticket: str) -> None:
        """Tell all consumers."""
        for each in self._broker.consumers:
            each.cancelled(ticket)

    async def search(self, search: JobSearch) -> None:
        """Ask all consumers."""
        for each in self._broker.consumers:
            each.sought(JobSearch.from_json(search.to_json()))

    async def register_task_worker(
        self,
        accept: Accept,
        *,
        pools: Sequence[str],
        concurrency: int,
        cancelled: Callable[[str], None],
        sought: Callable[[JobSearch], None],
    ) -> None:
        """Take jobs of these pools."""
        consumer = _Consumer(accept, frozenset(pools), concurrency, cancelled, sought)
        self._own.append(consumer)
        self._broker.consumers.append(consumer)
        self._broker.hand_out()

    async def stop_taking(self) -> None:
        """Leave waiting jobs to others."""
        for each in self._own:
            each.pools = frozenset()

    async def register_dead_letters(self, keep: Callable[[DeadMessage], Awaitable[None]]) -> None:
        """Take what is dead, now and later."""
        self._broker.keepers.append(keep)
        await self._broker.keep_dead()

    async def add_result(self, reply_to: str, report: JobReport) -> bool:
        """Hand the report on at once."""
        receive = self._broker.receivers.get(reply_to)
        if receive is None:
            return False
        for each in reports_in(report.to_json())[0]:
            receive(each)
        return True

    async def register_results_worker(
        self, name: str, receive: Callable[[JobReport], None], *, missed: Callable[[], None]
    ) -> None:
        """Receive the reports to this name; none is missed before `stop`."""
        self._names.append(name)
        self._broker.receivers[name] = receive
