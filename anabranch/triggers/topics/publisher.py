"""The publisher: stores a message, then starts a run for each matching subscription.

The service publishes through it. In every working process its task finishes messages that a crash interrupted and
removes old ones. Two processes may finish the same message: each start has an idempotency key made of
subscription and message key, so there is one run.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import Clock
from anabranch.errors import AnabranchError, StoreUnavailable
from anabranch.run_requests import StartOptions
from anabranch.triggers.run_starter import REFUSED_FOR_GOOD, Starter
from anabranch.triggers.topics.saved_topics import (
    FAILED_TOPIC,
    FAILURE_KEY_PREFIX,
    Delivery,
    Message,
    SavedTopics,
    Subscription,
)
from anabranch.triggers.topics.topic_patterns import fits, heads_of

logger = logging.getLogger("anabranch.triggers")

# 10 s: the publishing process has started the runs by then, unless it crashed or too many runs are pending.
OWN_MS = 10_000

# 10,000 unfinished messages: that many only accumulate if runs cannot be started for minutes.
UNFINISHED_MAX = 10_000

# 32 starts at once: as many as share a commit well, and a message for thousands does not take all database threads.
STARTS_AT_ONCE_MAX = 32

# Once a second is looked for what others left unfinished, 20 messages at a time.
POLL_MS = 1_000
TAKEN_MAX = 20

# A day, during which a repeated message gets the answer of the first; removed 1,000 at a time, once a minute.
KEPT_MS = 86_400_000
REMOVED_MAX = 1_000
REMOVAL_PAUSE_S = 60.0


class Publisher(Poller):
    """Keeps messages and starts their runs."""

    def __init__(
        self,
        *,
        saved: SavedTopics,
        starter: Starter,
        clock: Clock,
        store_now: Callable[[], Awaitable[int]],
        own_ms: int = OWN_MS,
        unfinished_max: int = UNFINISHED_MAX,
        unfinished_per_tenant_max: int | None = None,
        covers: Callable[[], bool] | None = None,
        base_url: str = "",
    ) -> None:
        """`store_now` is the clock that the age of messages is judged by; `clock` only waits. `covers`: whether another
        process finishes what is left. `base_url` is where the pages of runs are."""
        super().__init__(
            self._take_up, name="finishing messages", every_ms=POLL_MS, sleep=clock.sleep, only_on_request=covers
        )
        self._own_ms = own_ms
        self._unfinished_max = unfinished_max
        self._unfinished_per_tenant_max = unfinished_per_tenant_max or unfinished_max
        self._saved = saved
        self._starter = starter
        self._clock = clock
        self._store_now = store_now
        self._removed_at: float | None = None
        self._base_url = base_url.rstrip("/")

    async def publish(self, topic: str, payload: Any, *, tenant_id: str, key: str | None) -> Message:
        """Store a message and start its runs.

        The message is durable when this returns; runs that could not be started yet are started later. A repeated key
        on this topic returns the stored message, whatever the payload. Raises StoreUnavailable, or TooManyPending if
        too many messages are unfinished.
        """
        candidates = await self._saved.subscriptions_by_head(heads_of(topic), tenant_id=tenant_id)
        # In a thread: ten thousand patterns full of wildcards take some tenths of a second.
        deliveries = await asyncio.to_thread(_owed, candidates, topic)
        message_id = str(uuid.uuid4())
        wanted = Message(message_id, tenant_id, topic, message_id if key is None else key, payload, deliveries)
        kept = await self._saved.add_message(
            wanted,
            own_ms=self._own_ms,
            unfinished_max=self._unfinished_max,
            unfinished_per_tenant_max=self._unfinished_per_tenant_max,
        )
        return await self._start_runs(kept)

    async def start(self) -> None:
        """Start finishing messages that others left. Another process takes what a `stop` interrupts."""
        self.soon()
        await super().start()

    async def finish_once(self) -> int:
        """Finish messages that no process is finishing; returns how many. Raises StoreUnavailable."""
        taken = await self._saved.take_unfinished(limit=TAKEN_MAX, own_ms=self._own_ms)
        for message in taken:
            await self._start_runs(message)
        return len(taken)

    async def remove_old(self) -> int:
        """Remove finished messages that are kept long enough; how many. Raises StoreUnavailable."""
        return await self._saved.remove_finished(before=await self._store_now() - KEPT_MS, limit=REMOVED_MAX)

    async def _take_up(self) -> bool:
        taken = await self.finish_once()
        await self._remove_now_and_then()
        return taken >= TAKEN_MAX

    async def _remove_now_and_then(self) -> None:
        now = self._clock.monotonic()
        if self._removed_at is None or now - self._removed_at >= REMOVAL_PAUSE_S:
            removed = await self.remove_old()
            if removed < REMOVED_MAX:
                self._removed_at = now

    async def _start_runs(self, message: Message) -> Message:
        """Start what has not started, and store the results; deliveries that fail for now stay unfinished and are
        retried."""
        if message.is_finished:
            return message
        slots = asyncio.Semaphore(STARTS_AT_ONCE_MAX)
        deliveries: Sequence[Delivery] = await asyncio.gather(
            *(self._deliver(message, delivery, slots) for delivery in message.deliveries)
        )
        finished = replace(message, deliveries=deliveries)
        try:
            await self._saved.save_deliveries(finished)
        except StoreUnavailable as failure:
            # The message is kept, and that is what was promised: it is taken up again, and finds these runs.
            logger.warning("message %s is finished later: %s", message.message_id, failure.message)
        return finished

    async def _deliver(self, message: Message, delivery: Delivery, slots: asyncio.Semaphore) -> Delivery:
        if delivery.is_done:
            return delivery
        async with slots:
            try:
                run = await self._starter.start_triggered_run(
                    delivery.workflow,
                    self._payload_of(message),
                    _options_of(message, delivery),
                    tenant_id=message.tenant_id,
                )
            except REFUSED_FOR_GOOD as refusal:
                logger.warning(
                    "topic %s: workflow %s does not take message %s: %s",
                    message.topic,
                    delivery.workflow,
                    message.message_id,
                    refusal.message,
                )
                return replace(delivery, error={"code": refusal.code, "message": refusal.message})
            except AnabranchError as hindrance:
                logger.info("message %s waits: %s", message.message_id, hindrance.message)
                return delivery
            except Exception:
                logger.exception("message %s could not start %s; retrying", message.message_id, delivery.workflow)
                return delivery
        return replace(delivery, instance_id=run.instance_id)

    def _payload_of(self, message: Message) -> Any:
        """The input of its runs: for a failure with the address of the page of the run that failed."""
        payload = message.payload
        return {**payload, "url": self._base_url + payload["link"]} if message.topic == FAILED_TOPIC else payload


def _options_of(message: Message, delivery: Delivery) -> StartOptions:
    """The options with which its run is started: for a subscription that a node has armed it begins at this node."""
    if message.topic == FAILED_TOPIC:
        return StartOptions(
            version=delivery.version,
            idempotency_key=f"{FAILURE_KEY_PREFIX}{delivery.subscription_id}:{message.key}",
            started_by=f"{message.payload['run']['instanceID']} {message.payload['depth']} {delivery.node_id}",
            trigger=delivery.node_id,
        )
    node = "" if delivery.node_id is None else f" {delivery.node_id}"
    return StartOptions(
        version=delivery.version,
        idempotency_key=delivery_key(delivery.subscription_id, message.key),
        started_by=f"{message.message_id} {message.topic}{node}",
        trigger=delivery.node_id,
    )


def delivery_key(subscription_id: str, message_key: str) -> str:
    """The idempotency key of a run: hashed, so that every key that a message may have fits."""
    return f"topic:{subscription_id}:{hashlib.sha256(message_key.encode()).hexdigest()}"


def _owed(candidates: Sequence[Subscription], topic: str) -> list[Delivery]:
    return [
        Delivery(each.subscription_id, each.workflow_id or each.workflow, version=each.version, node_id=each.node_id)
        for each in candidates
        if fits(each.pattern, topic)
    ]
