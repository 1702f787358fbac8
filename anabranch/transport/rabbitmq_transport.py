"""Both queues on a broker of RabbitMQ, with aio-pika. Imported only where `ANABRANCH_BROKER_URL` is set.

For each pool a quorum queue of each priority, one queue of reports for each worker, fanouts of cancellations and
searches, and a queue for messages that no executor can read or survive. Every publication is confirmed. A lost
connection is made again, and everything is declared again then: the broker may have been replaced.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractIncomingMessage, AbstractQueue

from anabranch.engine.rules.graph.priorities import HIGH, PRIORITIES
from anabranch.errors import AnabranchError
from anabranch.transport.job_messages import BadMessage, DeadMessage, JobReport, JobSearch, NodeJob, reports_in
from anabranch.transport.transport_ports import ANSWER_S_MAX, Accept, JobDelivery, TransportUnavailable

logger = logging.getLogger("anabranch.transport")

# It logs lost connections with tracebacks; here they are logged in one line.
logging.getLogger("aiormq").setLevel(logging.CRITICAL)

JOBS_PREFIX = "anabranch.jobs."
HIGH_SUFFIX = ".high"
REPORTS_PREFIX = "anabranch.reports."
CANCELLED = "anabranch.cancelled"
SOUGHT = "anabranch.sought"
DEAD = "anabranch.dead"

# 1 s, then twice as long each time, up to 10 s: soon enough after a restart, and no storm before it.
RECONNECT_S = 1.0
RECONNECT_S_MAX = 10.0

# 10 s between two heartbeats, unless the URL has `heartbeat=`: without any, the broker ends a connection after 20 to 30
# s, and this process after 35 s. With the default of 60 s a connection that loses everything stood for three minutes.
HEARTBEAT_S = 10

# 30 s: a worker that is away for longer sends its jobs again anyway. Less than until another one owns the runs of a
# worker that died: its jobs that nobody has begun are then dropped, and do not run beside those of the next owner.
REPORTS_KEPT_MS = 30_000

# 20 deliveries without an acknowledgement: executors give up a job long before; only one that none can read gets there.
DELIVERIES_MAX = 20

# A week: an executor acknowledges a job when it has ended. By default the broker takes it away after half an hour.
EXECUTION_MS_MAX = 604_800_000

# 1 s to acknowledge what has just ended, and to delete queues of reports, before the connection is left: it is enough
# to send both, nothing depends on the answers.
STOP_S = 1.0

# 1,000 reports on their way to a worker: some hundred milliseconds of its work.
REPORTS_PREFETCH = 1_000

# 500 reports or 1 MB in one message: what 64 executions report within some tens of milliseconds, and far below the
# 8 MB of a message.
BATCH_REPORTS_MAX = 500
BATCH_BYTES_MAX = 1_048_576

_T = TypeVar("_T")

_Outbox: TypeAlias = deque[tuple[bytes, asyncio.Future[bool]]]
"""Reports, each with a future for its confirmation."""


@contextmanager
def _to_broker(what: str) -> Iterator[None]:
    """Raise TransportUnavailable for whatever aio-pika raises.

    Only call aio-pika within it: when a connection breaks off, that has many names. If heartbeats stop, what awaits the
    broker even ends with CancelledError, although nobody has cancelled this task.
    """
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise TransportUnavailable(f"{what}: the connection was lost") from None
    except AnabranchError:
        raise
    except Exception as fault:
        raise TransportUnavailable(f"{what}: {fault!r}") from fault


async def _answered(answer: Awaitable[_T]) -> _T:
    """The broker's answer. Each answer has a time of its own: a slow broker is not asked everything again."""
    async with asyncio.timeout(ANSWER_S_MAX):
        return await answer


class RabbitTransport:
    """The queues of one process on a broker."""

    def __init__(self, url: str, *, name: str) -> None:
        self._url = url
        self._name = name
        self._registered: list[Callable[[], Any]] = []
        self._after: list[Callable[[], None]] = []
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._registered_all = asyncio.Event()
        """All consumers are registered with the present connection; each connection has another event. When one has
        gone, its event is set too, for those who still wait for it."""
        self._fanouts: dict[str, AbstractExchange] = {}
        self._reports: list[str] = []
        """The queues of reports to this process."""
        self._declared: dict[str, asyncio.Task[None]] = {}
        self._lost = asyncio.Event()
        """Something of the present connection is gone."""
        self._keeping: asyncio.Task[None] | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._takes_jobs = True
        self._consumers: list[tuple[AbstractQueue, str]] = []
        """Of the queues of jobs, with their tags on the present connection."""
        self._outboxes: dict[str, _Outbox] = {}
        """Reports that wait for the publication before them, by the names of their workers."""

    @property
    def is_connected(self) -> bool:
        """Whether messages can be sent now.

        Not before all consumers are registered: an executor drops a job whose sender has no queue of reports.
        """
        if self._channel is None or self._channel.is_closed or self._lost.is_set():
            return False
        return self._registered_all.is_set()

    def when_connected(self, act: Callable[[], None]) -> None:
        """Call this after each connection."""
        self._after.append(act)

    async def start(self) -> None:
        """Begin to connect."""
        self._keeping = asyncio.create_task(self._keep_connected(), name="broker-connection")

    async def stop(self, *, patience_s: float = ANSWER_S_MAX) -> None:
        """Disconnect; the broker gives what is not acknowledged within a second to others. One that does not answer is
        left after `patience_s`, of which half at most is for acknowledgements.

        The queue for reports is deleted: an executor that takes a job of this process then finds that nobody awaits it.
        """
        end_at = asyncio.get_running_loop().time() + patience_s
        if self._under_way and self.is_connected:
            await asyncio.wait(self._under_way, timeout=min(STOP_S, patience_s / 2))
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end_at):
                await self._delete_reports()
        for task in self._under_way:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end_at):  # when nothing is left, the connection is closed without an answer
                await self._disconnect()

    async def _delete_reports(self) -> None:
        """Delete the queues of reports, once nobody declares them again."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        channel = self._channel
        if self._reports and channel is not None and self.is_connected:
            with suppress(TransportUnavailable), _to_broker("a queue cannot be deleted"):
                for name in self._reports:
                    await channel.queue_delete(name, timeout=STOP_S)

    # -- jobs -----------------------------------------------------------------------------
    async def add_node_job(self, job: NodeJob) -> None:
        """Publish a job to the queue of its pool."""
        if not self.is_connected:
            raise TransportUnavailable("the broker is not connected")
        queue = _jobs_queue(job.pool, job.priority)
        await self._declare_jobs(queue)
        if not await self._publish(queue, job.to_json(), persistent=True):
            self._declared.pop(queue, None)
            raise TransportUnavailable(f"the queue {queue} was deleted; it is declared again")

    async def cancel(self, ticket: str) -> None:
        """Tell all executors."""
        await self._broadcast(CANCELLED, ticket.encode())

    async def search(self, search: JobSearch) -> None:
        """Ask all executors."""
        await self._broadcast(SOUGHT, search.to_json())

    async def _broadcast(self, fanout: str, raw: bytes) -> None:
        exchange = self._fanouts.get(fanout)
        if exchange is None or not self.is_connected:
            raise TransportUnavailable("the broker is not connected")
        with _to_broker("the broker has not confirmed"):
            await exchange.publish(aio_pika.Message(raw), "", mandatory=False, timeout=ANSWER_S_MAX)

    async def register_task_worker(
        self,
        accept: Accept,
        *,
        pools: Sequence[str],
        concurrency: int,
        cancelled: Callable[[str], None],
        sought: Callable[[JobSearch], None],
    ) -> None:
        """Consume the queues of these pools."""

        async def take(message: AbstractIncomingMessage, registered_all: asyncio.Event) -> None:
            """Execute a job; one that cannot be read is rejected, which makes it a dead letter."""
            deliveries = message.headers.get("x-delivery-count", 0)
            try:
                job = NodeJob.from_json(message.body)
            except BadMessage as refusal:
                logger.error("a job cannot be read and goes to %s: %s", DEAD, refusal.message)
                await message.reject(requeue=False)
                return
            unacknowledged = deliveries if isinstance(deliveries, int) else 0
            self._keep(self._executed(accept, job, unacknowledged, message, registered_all))

        async def receive(message: AbstractIncomingMessage) -> None:
            if message.exchange == CANCELLED:
                cancelled(message.body.decode(errors="replace"))
                return
            try:
                sought(JobSearch.from_json(message.body))
            except BadMessage as refusal:
                logger.warning("a search for jobs is dropped: %s", refusal.message)

        async def consume() -> None:
            """Declare and consume the queues of jobs, and a queue of our own for cancellations and searches."""
            channel = await self._open(concurrency)  # of each consumer, so of each queue
            take_now = partial(take, registered_all=self._registered_all)
            for name in [_jobs_queue(pool, priority) for pool in pools for priority in PRIORITIES]:
                if self._takes_jobs:
                    await self._declare_jobs(name)
                    queue = await channel.get_queue(name, ensure=False)
                    self._consumers.append((queue, await _answered(queue.consume(take_now))))
            if not self._takes_jobs:
                await self.stop_taking()
            own = await _answered(channel.declare_queue(exclusive=True, auto_delete=True))
            for fanout in (CANCELLED, SOUGHT):
                await _answered(own.bind(fanout))
            await _answered(own.consume(receive, no_ack=True))

        await self._register(consume)

    async def stop_taking(self) -> None:
        """Cancel the consumers of jobs.

        An answer that is given up closes the channel, and all that was taken by it goes to others, also what is being
        executed. So each has the time in which a broker that is well answers, however busy it is.
        """
        self._takes_jobs = False
        lost = self._lost
        try:
            with _to_broker("a consumer cannot be cancelled"):
                while self._consumers:
                    queue, tag = self._consumers.pop()
                    await _answered(queue.cancel(tag))
        except (TransportUnavailable, asyncio.CancelledError):
            lost.set()  # a broker that stands still does not confirm that the channel is closed
            raise

    async def _executed(
        self,
        accept: Accept,
        job: NodeJob,
        unacknowledged: int,
        message: AbstractIncomingMessage,
        registered_all: asyncio.Event,
    ) -> None:
        # Jobs come as soon as the first consumer is registered: only after the last one they can be cancelled, or given
        # back.
        await registered_all.wait()
        delivery = JobDelivery(unacknowledged, is_open=lambda: registered_all is self._registered_all)
        if not delivery.is_open():
            return
        try:
            await accept(job, delivery)
        except TransportUnavailable as fault:
            logger.debug("a job goes back with the connection: %s", fault.message)
            return
        except Exception:
            logger.exception("a job failed outside its handler", extra={"instance_id": job.instance_id})
        await _acknowledge(message)

    async def register_dead_letters(self, keep: Callable[[DeadMessage], Awaitable[None]]) -> None:
        """Consume the queue of dead letters, which all workers share."""

        async def take(message: AbstractIncomingMessage) -> None:
            deaths: Any = message.headers.get("x-death") or [{}]
            dead = DeadMessage(message.body, str(deaths[0].get("queue", "")), str(deaths[0].get("reason", "")))
            self._keep(self._keep_dead(keep, dead, message))

        async def consume() -> None:
            channel = await self._open(1)
            queue = await channel.get_queue(DEAD, ensure=False)
            await _answered(queue.consume(take))

        await self._register(consume)

    async def _keep_dead(
        self, keep: Callable[[DeadMessage], Awaitable[None]], dead: DeadMessage, message: AbstractIncomingMessage
    ) -> None:
        """Keep it until that succeeds: the broker drops what comes back too often."""
        while True:
            try:
                await keep(dead)
                break
            except AnabranchError as failure:
                logger.warning("a dead letter cannot be stored: %s; trying again in %.0f s", failure, RECONNECT_S_MAX)
            except Exception:
                logger.exception("a dead letter cannot be stored; trying again in %.0f s", RECONNECT_S_MAX)
            await asyncio.sleep(RECONNECT_S_MAX)
        await _acknowledge(message)

    # -- reports --------------------------------------------------------------------------
    async def add_result(self, reply_to: str, report: JobReport) -> bool:
        """Publish a report to the queue of a worker, together with others that wait for it by then."""
        confirmed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting = self._outboxes.get(reply_to)
        if waiting is None:
            waiting = self._outboxes[reply_to] = deque()
            self._keep(self._publish_reports(reply_to, waiting))
        waiting.append((report.to_json(), confirmed))
        return await confirmed

    async def _publish_reports(self, reply_to: str, waiting: _Outbox) -> None:
        """Publish what waits, one message after the other, until nothing does: that keeps the order of reports.

        A message costs the broker, this process and the worker far more than a report in it.
        """
        batch: list[tuple[bytes, asyncio.Future[bool]]] = []
        try:
            while waiting:
                batch = _taken(waiting)
                raw = b"[" + b",".join(raw for raw, _ in batch) + b"]"
                there = await self._publish(REPORTS_PREFIX + reply_to, raw, persistent=False)
                for _, confirmed in batch:
                    if not confirmed.done():
                        confirmed.set_result(there)
                batch = []
        except TransportUnavailable as fault:
            logger.debug("reports to %s were not confirmed: %s", reply_to, fault.message)
        finally:  # whatever it was: who waits here tries again, with an outbox that is published
            del self._outboxes[reply_to]
            for _, confirmed in [*batch, *waiting]:
                if not confirmed.done():
                    confirmed.set_exception(TransportUnavailable("the broker has not confirmed a report"))

    async def register_results_worker(
        self, name: str, receive: Callable[[JobReport], None], *, missed: Callable[[], None]
    ) -> None:
        """Consume the queue of this name, which is deleted when nobody has for a while."""

        async def take(message: AbstractIncomingMessage) -> None:
            reports, refusals = reports_in(message.body)
            for refusal in refusals:
                logger.warning("a report is dropped: %s", refusal.message)
            for report in reports:
                receive(report)
            await _acknowledge(message)

        async def consume() -> None:
            if not await self._exists(REPORTS_PREFIX + name):
                missed()
            channel = await self._open(REPORTS_PREFETCH)
            arguments: Any = {"x-queue-type": "quorum", "x-expires": REPORTS_KEPT_MS}
            queue = await _answered(channel.declare_queue(REPORTS_PREFIX + name, durable=True, arguments=arguments))
            await _answered(queue.consume(take))

        self._reports.append(REPORTS_PREFIX + name)
        await self._register(consume)

    # -- the connection -------------------------------------------------------------------
    async def _register(self, consume: Callable[[], Any]) -> None:
        self._registered.append(consume)
        if self.is_connected:
            await consume()

    async def _open(self, prefetch: int) -> AbstractChannel:
        """A channel for consumers, each of which holds at most so many unacknowledged messages."""
        channel = await self._new_channel()
        await _answered(self._watch(channel))
        await _answered(channel.set_qos(prefetch_count=prefetch))
        return channel

    async def _exists(self, queue: str) -> bool:
        """Whether there is this queue; asked on a channel of its own, which the broker closes if there is none."""
        channel = await self._new_channel()
        try:
            await _answered(channel.get_queue(queue, ensure=True))
        except aio_pika.exceptions.ChannelNotFoundEntity:
            return False
        await _answered(channel.close())
        return True

    async def _new_channel(self) -> AbstractChannel:
        connection = self._connection
        assert connection is not None, "consumers are registered with a connection"
        return await _answered(connection.channel())

    async def _watch(self, channel: AbstractChannel) -> None:
        """Connect anew when the channel is closed or one of its consumers cancelled, as when its queue is deleted."""
        lost = self._lost
        channel.close_callbacks.add(lambda *_: lost.set())
        underlay: Any = await channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(lambda *_: lost.set())

    async def _keep_connected(self) -> None:
        pause_s = RECONNECT_S
        while True:
            try:
                with _to_broker("the broker cannot be reached"):
                    closed = await self._connect()
            except TransportUnavailable as fault:
                logger.warning("%s; trying again in %.0f s", fault.message, pause_s)
                await self._disconnect()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RECONNECT_S_MAX)
                continue
            pause_s = RECONNECT_S
            for act in self._after:
                act()
            await closed.wait()
            logger.warning("the connection to the broker is lost")
            await self._disconnect()

    async def _connect(self) -> asyncio.Event:
        url = _with_heartbeats(self._url)
        connection = await _answered(aio_pika.connect(url, client_properties={"connection_name": self._name}))
        self._connection, closed = connection, asyncio.Event()
        self._lost = closed
        connection.close_callbacks.add(lambda *_: closed.set())
        channel = await _answered(connection.channel(publisher_confirms=True, on_return_raises=True))
        channel.close_callbacks.add(lambda *_: closed.set())
        self._declared.clear()
        for fanout in (CANCELLED, SOUGHT):
            declared = channel.declare_exchange(fanout, aio_pika.ExchangeType.FANOUT, durable=True)
            self._fanouts[fanout] = await _answered(declared)
        await _answered(channel.declare_queue(DEAD, durable=True, arguments={"x-queue-type": "quorum"}))
        self._channel = channel
        for consume in self._registered:
            await consume()
        self._registered_all.set()
        return closed

    async def _disconnect(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        registered_all, self._registered_all = self._registered_all, asyncio.Event()
        registered_all.set()
        self._consumers.clear()
        self._fanouts.clear()
        if connection is not None:
            with suppress(TransportUnavailable), _to_broker("the connection cannot be closed"):
                async with asyncio.timeout(ANSWER_S_MAX):
                    await connection.close()

    async def _declare_jobs(self, queue: str) -> None:
        """Declare a queue of jobs, once for each connection."""
        known = self._declared.get(queue)
        if known is None:
            known = self._declared[queue] = asyncio.ensure_future(self._declare_queue(queue))
        try:
            await asyncio.shield(known)
        except TransportUnavailable:
            self._declared.pop(queue, None)
            raise

    async def _declare_queue(self, queue: str) -> None:
        channel = self._channel
        if channel is None:
            raise TransportUnavailable("the broker is not connected")
        arguments: Any = {
            "x-queue-type": "quorum",
            "x-delivery-limit": DELIVERIES_MAX,
            "x-consumer-timeout": EXECUTION_MS_MAX,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": DEAD,
        }
        with _to_broker(f"the queue {queue} cannot be declared"):
            await channel.declare_queue(queue, durable=True, arguments=arguments, timeout=ANSWER_S_MAX)

    async def _publish(self, queue: str, raw: bytes, *, persistent: bool) -> bool:
        """Publish and wait for the confirmation; False if there is no such queue."""
        channel = self._channel
        if channel is None or channel.is_closed:
            raise TransportUnavailable("the broker is not connected")
        mode = aio_pika.DeliveryMode.PERSISTENT if persistent else aio_pika.DeliveryMode.NOT_PERSISTENT
        message = aio_pika.Message(raw, content_type="application/json", delivery_mode=mode)
        with _to_broker("the broker has not confirmed"):
            try:
                await channel.default_exchange.publish(message, queue, timeout=ANSWER_S_MAX)
            except aio_pika.exceptions.PublishError:
                return False
        return True

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)


async def _acknowledge(message: AbstractIncomingMessage) -> None:
    with suppress(TransportUnavailable), _to_broker("a message cannot be acknowledged"):  # then it comes again
        await message.ack()


def _with_heartbeats(url: str) -> str:
    parts = urlsplit(url)
    if "heartbeat" in parse_qs(parts.query, keep_blank_values=True):
        return url
    return urlunsplit(parts._replace(query="&".join(filter(None, [parts.query, f"heartbeat={HEARTBEAT_S}"]))))


def _jobs_queue(pool: str, priority: str) -> str:
    return JOBS_PREFIX + pool + (HIGH_SUFFIX if priority == HIGH else "")


def _taken(waiting: _Outbox) -> list[tuple[bytes, asyncio.Future[bool]]]:
    """The reports of the next message: at least one."""
    batch = [waiting.popleft()]
    size = len(batch[0][0])
    while waiting and len(batch) < BATCH_REPORTS_MAX and size + len(waiting[0][0]) <= BATCH_BYTES_MAX:
        batch.append(waiting.popleft())
        size += len(batch[-1][0])
    return batch
