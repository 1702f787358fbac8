"""Claim and adopt runs that no worker advances: expired leases, due timers, runs that wait to start.

One statement every half second claims them, longest overdue first. `postgresql_claim` and `sqlite_claim` say which
runs it may take; this module says how many, and what is done with them. Age alone never fails a run. An adopted
instance is folded from its log, and outstanding commands are performed with the same attempt numbers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from anabranch.dataclass import dataclass
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.log_pages import pages_of
from anabranch.engine.observers import Observers
from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.ownership.owned_instances import OfferResult
from anabranch.engine.periodic_poller import STOP_S, Poller
from anabranch.engine.plans import PlanCache
from anabranch.engine.ports import CLAIM_WEIGHT_MAX, ClaimRequest, Clock, Loaded, ParkedRun, Store, TenantCapacities
from anabranch.engine.rules.evolve import AnyPlan, AnyState, evolve, new_state
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# 100 instances per claim, with 32 MB of logs (`CLAIM_WEIGHT_MAX`): one aggregate query reads them, and the next claim
# follows at once. With more, the first of several workers took most of a batch of starts (`benchmarks.scale`).
CLAIM_MAX = 100

NOT_TAKEN = OfferResult(owned=False)


@dataclass(slots=True)
class _Leases:
    """The leases of several runs, which are extended together."""

    extended_at: float
    """Monotonic seconds just before the last request that extended them."""


class Claimer(Poller):
    """Claims and adopts, within the limit of owned instances."""

    def __init__(
        self,
        *,
        store: Store,
        orchestrator: Orchestrator,
        plans: PlanCache,
        observers: Observers,
        clock: Clock,
        options: EngineOptions,
        covers: Callable[[], bool] = lambda: False,
    ) -> None:
        """`covers`: whether another worker looks for due runs, and tells of them: then only who has runs polls."""
        super().__init__(self.claim_due, name="claiming", every_ms=options.poll_ms, sleep=clock.sleep,
                         only_on_request=lambda: self._is_idle and covers(),
                         unavailable=orchestrator.note_failure)  # fmt: skip
        self._store = store
        self._orchestrator = orchestrator
        self._plans = plans
        self._observers = observers
        self._clock = clock
        self._options = options
        self._tenant_max = options.tenant_max
        self._only = options.only
        """What is adopted, if not all (`anabranch run`)."""
        self._claiming = asyncio.Lock()
        """One claim at a time: two would count on the same capacity."""
        self._postponed: list[tuple[Loaded, float]] = []
        """Claimed, but their plans could not be read from the store; with the time of the claim."""
        self._sits_out: str | None = None
        """The tenant that had most of a full claim: the next claim leaves it out, so that others' runs are found."""
        self._may_find_more = False
        """Did the last claim leave something behind that the next one could take at once?"""
        self._large: dict[str, Loaded] = {}
        """Claimed, with logs that are read page by page: one after the other, while others are claimed."""
        self._reading: asyncio.Task[None] | None = None
        self._takes_parked = False
        """Between `start` and `stop`."""
        self._claims_parked = False
        """A claim for a signal is under way, or about to be."""
        self._signalled: set[asyncio.Task[OfferResult]] = set()
        """Signals to parked runs that are being taken over."""

    @property
    def _is_idle(self) -> bool:
        """A hint is enough to claim: there is capacity for all that it may be about."""
        return not (self._orchestrator.owned or self._postponed or self._large)

    def restrict(self, instance_ids: Sequence[str]) -> None:
        """Adopt only these instances from now on."""
        self._only = list(instance_ids)

    async def start(self) -> None:
        """Begin to claim at once."""
        self.soon()
        self._takes_parked = self._only is None
        await super().start()

    async def stop(self) -> None:
        """Stop claiming; may be called twice, or before start."""
        self._takes_parked = False
        await super().stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S), self._claiming:
                pass  # the claim for a signal is over, and its run adopted
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def claim_once(self, *, steal: bool = False) -> int:
        """Claim due instances within the available capacity; returns how many. Raises StoreUnavailable.

        All but those with large logs are adopted when this returns.
        """
        async with self._claiming:
            return await self._claim_within_capacity(steal=steal)

    async def signal_parked(self, run: ParkedRun, signal: SignalSent) -> OfferResult:
        """Take over a run that no worker owns before it is due, for a signal, and wait until that is decided.

        `owned` False: the run does not wait, has a long log, or may not be taken here, or a claim is under way, for
        which no caller waits. Raises StoreUnavailable.
        """
        if not self._takes_parked or self._claiming.locked() or self._claims_parked:
            return NOT_TAKEN
        self._claims_parked = True  # at once: of several signals of one turn the others are appended
        # A task of its own: a caller who stops waiting must not leave a claimed run without an owner.
        taking = asyncio.create_task(self._take_parked(run, signal), name="signal-to-parked")
        self._signalled.add(taking)
        taking.add_done_callback(self._signalled.discard)
        return await asyncio.shield(taking)

    async def _take_parked(self, run: ParkedRun, signal: SignalSent) -> OfferResult:
        try:
            async with self._claiming:
                capacity = self._capacity()
                if capacity <= 0 or self._has_stopped():
                    return NOT_TAKEN
                asked_at = self._clock.monotonic()
                wanted = self._request(limit=1, large=False, parked=run, capacities=self._capacities_left(without=None))
                claimed = await self._store.claim(wanted)
                if self._has_stopped():  # meanwhile: what it has claimed is handed over
                    return NOT_TAKEN
                await self._adopt_all(claimed, asked_at)
        except StoreUnavailable as failure:
            self._orchestrator.note_failure(failure)
            raise
        finally:
            self._claims_parked = False
        head = self._orchestrator.head_of(run.instance_id)
        if head is None or head.tenant_id != run.tenant_id:  # it was adopted meanwhile, and is not the sender's
            return NOT_TAKEN
        # Nothing has run since the adoption: the next transition decides both, before the run would be parked again.
        return await self._orchestrator.ask(run.instance_id, signal)

    def _has_stopped(self) -> bool:
        return not self._takes_parked

    async def claim_due(self) -> bool:
        """Claim due instances within the available capacity; True if the next claim may find more. Raises
        StoreUnavailable."""
        self.found = await self.claim_once() > 0
        return self._may_find_more

    async def _claim_within_capacity(self, *, steal: bool) -> int:
        await self._adopt_postponed()
        self._may_find_more = False
        capacity = self._capacity()
        if capacity <= 0:
            return 0
        sat_out, self._sits_out = self._sits_out, None
        asked_at = self._clock.monotonic()
        capacities = self._capacities_left(without=sat_out)
        claimed = await self._store.claim(
            self._request(limit=capacity, large=not self._large, steal=steal, capacities=capacities)
        )
        self._plan_next(claimed, limit=capacity, sat_out=sat_out)
        await self._adopt_all(claimed, asked_at)
        return len(claimed)

    def _capacity(self) -> int:
        """How many runs may be claimed now."""
        owned = self._orchestrator.owned
        if owned.suspects.keeps_others_back:
            return 0
        return min(CLAIM_MAX, self._options.held_max - len(owned) - len(self._large))

    def _request(
        self,
        *,
        limit: int,
        large: bool,
        capacities: Mapping[str, int],
        steal: bool = False,
        parked: ParkedRun | None = None,
    ) -> ClaimRequest:
        return ClaimRequest(
            worker_id=self._orchestrator.worker_id,
            limit=limit,
            lease_ms=self._options.lease_ms,
            only=self._only,
            steal=steal,
            parked=parked,
            known_code=self._plans.known_code(),
            known_types=self._plans.known_types(),
            capacities=TenantCapacities(self._tenant_max, capacities),
            large=large,
            suspects=self._orchestrator.owned.suspects.capacity,
            crashes_max=self._options.crashes_max,
            away_until=self._orchestrator.store_failed_at,
        )

    async def _adopt_all(self, claimed: Sequence[Loaded], asked_at: float) -> None:
        """Adopt what a request at `asked_at` has claimed; large logs later, by a task of their own."""
        for one in claimed:
            # Before its log is read, which may already crash the process.
            self._orchestrator.owned.suspects.note(one.row.head.instance_id, one.row.blame)
        for one in claimed:
            row = one.row
            if one.events or row.last_seq == 0:
                await self._adopt(one, asked_at)
            else:
                self._large[row.head.instance_id] = one
        if self._large and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._adopt_large(asked_at), name="large-logs")

    def _capacities_left(self, *, without: str | None) -> dict[str, int]:
        """How many more runs may be taken of each tenant that has some here."""
        owned = self._orchestrator.owned.by_tenant
        capacities = {tenant_id: max(0, self._tenant_max - count) for tenant_id, count in owned.items()}
        if without is not None:
            capacities[without] = 0
        return capacities

    def _plan_next(self, claimed: Sequence[Loaded], *, limit: int, sat_out: str | None) -> None:
        """Plan whether another claim follows at once, and which tenants it leaves out.

        Claims take the most overdue runs first, so without this a tenant with ten thousand of them would delay all
        others.
        """
        taken = Counter(one.row.head.tenant_id for one in claimed)
        owned = self._orchestrator.owned
        was_cut = any(count + owned.count_of(of) >= self._tenant_max for of, count in taken.items())
        was_cut |= sum(one.row.log_weight for one in claimed) >= CLAIM_WEIGHT_MAX
        is_full = len(claimed) >= limit
        if is_full and sat_out is None:
            tenant_id, most = taken.most_common(1)[0]
            self._sits_out = tenant_id if most > limit // 2 else None
        self._may_find_more = is_full or was_cut or sat_out is not None

    async def _adopt_postponed(self) -> None:
        """Adopt claimed instances that could not be read because the store became unavailable, while their leases
        last."""
        postponed, self._postponed = self._postponed, []
        for claimed, asked_at in postponed:
            if self._clock.monotonic() - asked_at < self._options.lease_ms / 1000 / 2:
                await self._adopt(claimed, asked_at)
            else:
                self._not_adopted(claimed.row.head.instance_id)

    async def _adopt(self, claimed: Loaded, asked_at: float) -> None:
        head = claimed.row.head
        try:
            state = self._new_state(head, await self._plans.plan_of(head))
            for event in claimed.events:
                evolve(state, event)
            self._orchestrator.adopt(claimed, state, asked_at=asked_at)
        except StoreUnavailable as failure:
            self._orchestrator.note_failure(failure)
            self._postponed.append((claimed, asked_at))
        except Exception as defect:
            logger.exception("a run could not be adopted", extra={"instance_id": head.instance_id})
            self._not_adopted(head.instance_id)
            await self._orchestrator.after_defect(head, defect)

    def _not_adopted(self, instance_id: str) -> None:
        """A claimed run is not owned after all, so it is not a suspect of this process."""
        if not self._orchestrator.owns(instance_id):
            self._orchestrator.owned.suspects.note(instance_id, None)

    def _new_state(self, head: InstanceHead, plan: AnyPlan) -> AnyState:
        return new_state(plan, head, log_limit=self._options.log_limit)

    async def _adopt_large(self, asked_at: float) -> None:
        """Adopt runs with large logs, one after the other, while their leases are extended."""
        leases = _Leases(asked_at)
        try:
            while self._large:
                instance_id, claimed = next(iter(self._large.items()))
                try:
                    await self._adopt_by_pages(claimed, leases)
                except StoreUnavailable:
                    raise
                except Exception as defect:
                    logger.exception("a run could not be adopted", extra={"instance_id": instance_id})
                    await self._orchestrator.after_defect(claimed.row.head, defect)
                self._large.pop(instance_id, None)
                self._not_adopted(instance_id)
        except StoreUnavailable as failure:
            self._orchestrator.note_failure(failure)  # their leases expire, and they are claimed again
        finally:
            left, self._large = list(self._large), {}
            for instance_id in left:
                self._not_adopted(instance_id)

    async def _adopt_by_pages(self, claimed: Loaded, leases: _Leases) -> None:
        """Adopt a run whose log is read page by page; one with a log beyond the limit ends, unread."""
        row, head, limit = claimed.row, claimed.row.head, self._options.log_limit
        if limit.is_passed(log_bytes=row.log_bytes, rows=row.last_seq):
            await self._store.fail_full(tenant_id=head.tenant_id, instance_id=head.instance_id, log_limit=limit)
            return
        plan = await self._plans.plan_of(head)
        state, telemetry = self._new_state(head, plan), self._observers.telemetry_of(head, plan)
        async for page in pages_of(self._store, claimed):
            for event in page:
                evolve(state, event)
            if telemetry is not None:
                telemetry.read(page)  # at once: the pages are not kept
            await self._extend_large(leases)
            if head.instance_id not in self._large:
                return  # another worker owns it by now
        if state.last_seq == row.last_seq:  # otherwise its rows were removed meanwhile
            self._orchestrator.adopt(claimed, state, asked_at=leases.extended_at, telemetry=telemetry)

    async def _extend_large(self, leases: _Leases) -> None:
        """Extend the leases of runs whose logs are being read when a third has passed; forget lost ones."""
        asked_at = self._clock.monotonic()
        if asked_at - leases.extended_at < self._options.lease_ms / 1000 / 3:
            return
        ours = await self._store.extend(
            worker_id=self._orchestrator.worker_id, instance_ids=list(self._large), lease_ms=self._options.lease_ms
        )
        leases.extended_at = asked_at
        for instance_id in self._large.keys() - ours:
            del self._large[instance_id]
