"""Reports of a working process: how many runs it executes (for blame after a crash), and what it can run.

Written every third of a lease, so that the last one is recent when the leases of a lost process expire. They do not
decide whether a worker is alive: leases do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.engine.periodic_poller import Poller
from anabranch.engine.plans import PlanCache
from anabranch.engine.ports import Clock, Store, WorkerCode, WorkerReport
from anabranch.errors import StoreUnavailable

REPORTS_PER_LEASE = 3

# 1,000 runs a report: what is left is offered by the next one, or comes by its own schedule.
OFFERED_MAX = 1_000

# 10 s: more than a clock differs from the database's, or a commit takes.
OFFERS_SETTLE_MS = 10_000


class WorkerReports(Poller):
    """Reports how many runs this process executes, and its code and node types."""

    def __init__(
        self,
        *,
        store: Store,
        worker_id: str,
        clock: Clock,
        lease_ms: int,
        executing: Callable[[], int],
        plans: PlanCache,
        digests: Callable[[], Mapping[tuple[str, int], str]],
        release: str,
        unavailable: Callable[[StoreUnavailable], None],
        leader_read: Callable[[str | None], None],
    ) -> None:
        """`executing` returns the maximum of concurrent executions since its last call. `leader_read` is told after
        each report which worker leads."""
        super().__init__(
            self.report,
            name="reporting this worker",
            every_ms=lease_ms // REPORTS_PER_LEASE,
            sleep=clock.sleep,
            unavailable=unavailable,
        )
        self._store = store
        self._clock = clock
        self._worker_id = worker_id
        self._executing = executing
        self._plans = plans
        self._digests = digests
        self._release = release
        self._leader_read = leader_read
        self._offered_until = 0
        """Runs suspended before (ms) were offered to this process."""

    async def start(self) -> None:
        """Write the first report. Raises StoreUnavailable."""
        await self._report(None)
        await super().start()

    async def report(self) -> None:
        """Write a report. Raises StoreUnavailable."""
        await self._report(self._executing())

    async def _report(self, executing: int | None) -> None:
        now = self._clock.now()
        answer = await self._store.report_worker(
            WorkerReport(
                worker_id=self._worker_id,
                executing=executing,
                code=self._plans.known_code(),
                node_types=self._plans.known_types(),
                refused_since=self._offered_until,
            )
        )
        self._leader_read(answer.leader)
        if answer.are_refused:
            await self._offer_refused(now)

    async def _offer_refused(self, now: int) -> None:
        """Try runs that other code, or another release, could not continue: each once, later by its own schedule."""
        mine = WorkerCode(digests=self._digests(), release=self._release)
        if await self._store.offer_refused(mine, since=self._offered_until, limit=OFFERED_MAX) < OFFERED_MAX:
            self._offered_until = now - OFFERS_SETTLE_MS

    async def forget(self) -> None:
        """Remove the report of a process that has handed over everything. Raises StoreUnavailable."""
        await self._store.forget_worker(self._worker_id)
