"""Recovery: adopt whatever nobody advances: lapsed leases, due timers, runs that wait to start.

One statement every half second claims them, longest overdue first. Nothing fails for its age:
an adopted instance is folded from its log and what is outstanding is performed, with the same
attempt numbers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.plans import PlanCache
from anabranch.engine.ports import Claimed, Clock, Store
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# Parked timers are looked for at most this far apart; half the promised second of lateness.
POLL_MS = 500

# 500 instances a claim: one aggregate query reads their logs, and the next claim follows at once.
CLAIM_MAX = 500


class Recovery:
    """Claims and adopts, within the number of instances that this worker may hold."""

    def __init__(
        self,
        *,
        store: Store,
        orchestrator: Orchestrator,
        plans: PlanCache,
        clock: Clock,
        lease_ms: int,
        held_max: int,
        known_code: Callable[[], Sequence[tuple[str, int]]],
        only: Sequence[str] | None = None,
        poll_ms: int = POLL_MS,
    ) -> None:
        """`only` restricts what is adopted to these instances (`anabranch run`)."""
        self._store = store
        self._orchestrator = orchestrator
        self._plans = plans
        self._clock = clock
        self._lease_ms = lease_ms
        self._held_max = held_max
        self._known_code = known_code
        self._only = only
        self._poll_ms = poll_ms
        self._task: asyncio.Task[None] | None = None
        self._claiming = asyncio.Lock()
        """One claim at a time: two would count on the same room."""
        self._postponed: list[tuple[Claimed, float]] = []
        """Claimed, but the store did not answer what plan they follow; with the time of the claim."""

    def restrict(self, instance_ids: Sequence[str]) -> None:
        """From now on adopt only these instances."""
        self._only = list(instance_ids)

    async def start(self) -> None:
        """Begin to claim."""
        self._task = asyncio.create_task(self._claim_forever(), name="recovery")

    async def stop(self) -> None:
        """Claim no more; may be called twice, or before start."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def claim_once(self, *, steal: bool = False) -> int:
        """Claim what may be claimed and there is room for; how many were adopted. Raises StoreUnavailable."""
        async with self._claiming:
            return await self._claim_within_room(steal=steal)

    async def claim_all(self) -> None:
        """Claim until nothing is left that may be claimed, or no room. Raises StoreUnavailable."""
        while await self.claim_once() >= CLAIM_MAX:
            pass

    async def _claim_within_room(self, *, steal: bool) -> int:
        await self._adopt_postponed()
        room = min(CLAIM_MAX, self._held_max - len(self._orchestrator.held))
        if room <= 0:
            return 0
        asked_at = self._clock.monotonic()
        claimed = await self._store.claim(
            worker_id=self._orchestrator.worker_id,
            limit=room,
            lease_ms=self._lease_ms,
            only=self._only,
            steal=steal,
            known_code=self._known_code(),
        )
        for one in claimed:
            await self._adopt(one, asked_at)
        return len(claimed)

    async def _adopt_postponed(self) -> None:
        """What was claimed and could not be taken up since the store went away, while its lease is young."""
        postponed, self._postponed = self._postponed, []
        for claimed, asked_at in postponed:
            if self._clock.monotonic() - asked_at < self._lease_ms / 1000 / 2:
                await self._adopt(claimed, asked_at)

    async def _adopt(self, claimed: Claimed, asked_at: float) -> None:
        head = claimed.loaded.row.head
        try:
            plan = await self._plans.plan_of(head)
            self._orchestrator.adopt(claimed, plan, asked_at=asked_at)
        except StoreUnavailable as failure:
            self._orchestrator.note_failure(failure)
            self._postponed.append((claimed, asked_at))
        except Exception:
            # It stays claimed until the lease lapses: a pause, so that the next try is not at once.
            logger.exception("a run could not be taken up; tried again later", extra={"instance_id": head.instance_id})

    async def _claim_forever(self) -> None:
        while True:
            claimed = 0
            try:
                claimed = await self.claim_once()
            except StoreUnavailable as failure:
                self._orchestrator.note_failure(failure)
            except Exception:
                logger.exception("claiming went wrong; tried again")
            if claimed < CLAIM_MAX:
                await self._clock.sleep(self._poll_ms)
