"""Leases: extend those of owned instances, and drop instances in time if that fails.

Leases avoid double work; safety comes from the version check. A worker whose lease has expired must not run handlers
beside its successor. So an instance whose lease was not extended for two thirds of its length is dropped, before
another worker may adopt it.
"""

from __future__ import annotations

import time
from collections import deque

from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import Clock, Store

# Twelve looks per lease: extension starts with half of it left, and can be repeated before two thirds are over. With
# six, one that failed could not, nor one that came a moment too early.
LOOKS_PER_LEASE = 12

# A sixth of a lease for the statement of the watch, as long as until its next one.
BLOCKED_PATIENCE = 1 / 6


class Leases:
    """Extends leases of idle instances (commits extend the busy ones), and drops those that could not be extended."""

    def __init__(self, *, store: Store, orchestrator: Orchestrator, clock: Clock, lease_ms: int) -> None:
        self._store = store
        self._orchestrator = orchestrator
        self._clock = clock
        self._lease_ms = lease_ms
        look_ms = lease_ms // LOOKS_PER_LEASE
        self._extending = Poller(
            self.extend_due,
            name="extending leases",
            every_ms=look_ms,
            sleep=clock.sleep,
            retry_last_ms=look_ms,
            unavailable=orchestrator.note_failure,
        )
        # Separate from extending, which may hang as long as the database does.
        self._guarding = Poller(
            self._guard,
            name="dropping what could not be extended",
            every_ms=look_ms,
            sleep=clock.sleep,
            retry_last_ms=look_ms,
        )
        self._kept: deque[tuple[set[str], float]] = deque()
        """What the watch has extended while the event loop was blocked, with the times when it asked."""

    async def start(self) -> None:
        """Begin to extend leases."""
        await self._extending.start()
        await self._guarding.start()

    async def stop(self) -> None:
        """Stop; may be called twice, or before start."""
        await self._extending.stop()
        await self._guarding.stop()

    def keep_from_thread(self) -> None:
        """Extend every lease, from a thread while the event loop is blocked. Raises StoreUnavailable.

        Changes no state of the event loop, which learns of it at its next look, before it drops anything. The end of a
        lease is not part of the version check, so no transition under way loses by this.
        """
        owned_ids = self._orchestrator.owned_ids
        if owned_ids:
            asked_at = time.monotonic()  # the event loop's clock, too
            kept = self._store.extend_blocking(
                worker_id=self._orchestrator.worker_id,
                instance_ids=owned_ids,
                lease_ms=self._lease_ms,
                patience_s=self._lease_ms / 1000 * BLOCKED_PATIENCE,
            )
            self._kept.append((kept, asked_at))

    async def extend_due(self) -> None:
        """Extend, in one statement, every lease with at most half of it left."""
        self._note_kept()
        horizon = self._clock.now() + self._lease_ms // 2
        due = [instance_id for instance_id, _, until in self._orchestrator.owned.settled_leases() if until <= horizon]
        if not due:
            return
        asked_at = self._clock.monotonic()
        asked_at_ms = self._clock.now()
        kept = await self._store.extend(
            worker_id=self._orchestrator.worker_id, instance_ids=due, lease_ms=self._lease_ms
        )
        for instance_id in kept:
            self._orchestrator.owned.lease_extended(instance_id, until=asked_at_ms + self._lease_ms, asked_at=asked_at)
        lost = [instance_id for instance_id in due if instance_id not in kept]
        if lost:
            await self._orchestrator.refresh(lost)

    def drop_unextended(self) -> None:
        """Drop instances whose lease was not extended for two thirds of its length."""
        self._note_kept()
        latest = self._clock.monotonic() - self._lease_ms / 1000 * 2 / 3
        for instance_id, extended_at in self._orchestrator.owned.extensions():
            if extended_at < latest:
                self._orchestrator.owned.drop(instance_id, "its lease could not be extended")

    async def _guard(self) -> None:
        self.drop_unextended()

    def _note_kept(self) -> None:
        while self._kept:
            kept, asked_at = self._kept.popleft()
            until = self._clock.now() - int((self._clock.monotonic() - asked_at) * 1000) + self._lease_ms
            for instance_id in kept:
                self._orchestrator.owned.lease_extended(instance_id, until=until, asked_at=asked_at)
