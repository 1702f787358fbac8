"""Housekeeping: background work of every process that runs work.

It folds run counts, removes runs after their retention and deleted workflows that no run needs, trims the audit trail,
frees space, and cancels the runs that an interrupted forced delete left open. Started by `lifecycle`. The store ensures
that only one process at a time does it. The service also uses `cancel_runs_of_deleted_workflows`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from anabranch.engine.console.console import Console
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import Clock, Store

logger = logging.getLogger("anabranch.engine")

# 10 s: a count then has to add up only some thousand runs, and an idle database is rarely queried.
COUNT_EVERY_MS = 10_000

# 10,000 ended runs per transaction: some 20 ms of reading an index.
COUNTED_MAX = 10_000

# 1,000 runs with their logs per statement: on SQLite every commit waits for it.
REMOVED_MAX = 1_000

# 60 s: a deployment is over by then, and a suitable worker would have claimed the run.
UNFIT_AFTER_MS = 60_000

# 90 s, three leases: a worker that has not reported for so long is gone.
WORKER_SEEN_MS = 90_000

# 100 runs per look: each takes a transaction.
UNFIT_MAX = 100

# 100 workflows, or 10,000 rows of the audit trail, per transaction: as short as a removal of runs.
WORKFLOWS_REMOVED_MAX = 100
AUDIT_ROWS_REMOVED_MAX = 10_000

# 20 ms between two steps of freeing space, each of which takes some 10 ms: commits run in between.
GIVE_BACK_PAUSE_MS = 20

# 1,000 ids per page, 16 cancels at once: keeps the store's threads busy without delaying others.
CANCELS_PAGE = 1_000
CANCELS_AT_ONCE = 16

REASON_DELETED = "its workflow was deleted"


async def cancel_runs_of_deleted_workflows(store: Store, *, workflow_id: str | None = None) -> int:
    """Cancel the open runs of deleted workflows, or of this one; returns how many. Raises StoreUnavailable.

    Terminates, because no run is created on a deleted workflow.
    """
    cancelled = 0
    while runs := await store.runs_of_deleted_workflows(limit=CANCELS_PAGE, workflow_id=workflow_id):
        for start in range(0, len(runs), CANCELS_AT_ONCE):
            some = runs[start : start + CANCELS_AT_ONCE]
            await asyncio.gather(
                *(store.append_cancel(tenant_id=of, instance_id=run, reason=REASON_DELETED) for of, run in some)
            )
        cancelled += len(runs)
    return cancelled


class Housekeeping(Poller):
    """Counts every 10 s, and sweeps every `sweep_interval_ms`, for the first time after 10 s."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        sweep_interval_ms: int,
        audit_retention_days: int,
        console: Console | None = None,
        unfit_after_ms: int = UNFIT_AFTER_MS,
        covers: Callable[[], bool] | None = None,
    ) -> None:
        """`covers`: whether another worker does it now."""
        super().__init__(
            self._count_and_sweep,
            name="housekeeping",
            every_ms=COUNT_EVERY_MS,
            sleep=clock.sleep,
            only_on_request=covers,
        )
        self._store = store
        self._clock = clock
        self._sweep_interval_ms = sweep_interval_ms
        self._audit_retention_days = audit_retention_days
        self._console = console
        self._unfit_after_ms = unfit_after_ms
        self._swept_at: float | None = None
        self.swept = 0
        """Ended runs that this process has removed since it began."""

    async def count(self) -> None:
        """Fold all ended runs that can be counted for good. Raises StoreUnavailable."""
        while await self._store.fold_counts(limit=COUNTED_MAX):
            pass

    async def sweep(self) -> bool:
        """Remove everything past its retention, and free its space; False if another process is doing it.

        Raises StoreUnavailable.
        """
        await cancel_runs_of_deleted_workflows(self._store)
        removed = 0
        while some := await self._store.remove_expired(limit=REMOVED_MAX):
            removed += some
            self.swept += some
        if removed:
            logger.info("removed %d ended runs whose retention is over", removed)
        if some is None:
            return False
        while await self._store.remove_unused_workflows(limit=WORKFLOWS_REMOVED_MAX):
            pass
        while await self._store.trim_audit(retention_days=self._audit_retention_days, limit=AUDIT_ROWS_REMOVED_MAX):
            pass
        if self._console is not None:
            await self._console.remove_old()
        while await self._store.give_back_space():
            await self._clock.sleep(GIVE_BACK_PAUSE_MS)
        return True

    async def suspend_unfit(self) -> None:
        """Suspend runs that no worker can run, so that operators notice. Raises StoreUnavailable."""
        while await self._store.suspend_unfit(overdue_ms=self._unfit_after_ms, seen_ms=WORKER_SEEN_MS, limit=UNFIT_MAX):
            pass

    async def _count_and_sweep(self) -> None:
        trouble: Exception | None = None
        try:
            await self.count()
        except Exception as failure:  # noqa: BLE001 -- raised below: it must not keep the sweep from its turn
            trouble = failure
        await self.suspend_unfit()
        await self._sweep_if_due()
        if trouble is not None:
            raise trouble

    async def _sweep_if_due(self) -> None:
        now = self._clock.monotonic()
        if self._swept_at is not None and now - self._swept_at < self._sweep_interval_ms / 1000:
            return
        if await self.sweep():
            self._swept_at = now
