"""History watch: notice that the database went back to a past that this process has already acted upon.

A standby that is promoted without the last commits of its primary, or a restored backup, lacks rows that were
acknowledged. What followed from them has happened: handlers ran, callers were answered. Such runs are suspended
(HISTORY_LOST), so that nothing is done twice without anybody knowing. `Reconciler` does so for an owned run that it
reads again; the watch looks at all others that this process has written to lately, after the database's epoch has
changed. Meanwhile no process takes over runs (`Store.epoch`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import islice

from anabranch.engine.observers import REMEMBERED_MS, Acknowledged
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import Clock, Epoch, Position, Store
from anabranch.engine.rules.event_payloads import RunSuspended
from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.shared.log_limit import UNLIMITED_LOG
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# 1,000 runs a statement, by their primary keys.
COMPARED_MAX = 1_000

# 20 names in a line of the log: enough to look for the others.
NAMED_MAX = 20

LOST_ROWS_HINT = (
    "What followed from the lost rows may have happened already. Resume the run to go on from the last stored row:"
    " that repeats it, under the same idempotency keys. Or cancel it."
)


class HistoryWatch(Poller):
    """Compares acknowledged rows with stored ones when the database may have lost some."""

    def __init__(self, *, store: Store, acknowledged: Acknowledged, clock: Clock, every_ms: int) -> None:
        super().__init__(
            self.look,
            name="watching the database's history",
            every_ms=lambda: REMEMBERED_MS if self._epoch is None else every_ms,
            sleep=clock.sleep,
        )
        self._store = store
        self._acknowledged = acknowledged
        self._epoch: Epoch | None = None

    async def start(self) -> None:
        """Begin to watch. A database without epochs only needs old rows to be forgotten. Raises StoreUnavailable."""
        try:
            self._epoch = await self._store.epoch()
        except StoreUnavailable:  # a server that does not tell its line refuses the first question only
            self._epoch = await self._store.epoch()
        await super().start()

    async def look(self) -> None:
        """Compare, if the epoch has changed since the last time. Raises StoreUnavailable."""
        self._acknowledged.forget_old()
        if self._epoch is None:
            return
        epoch = await self._store.epoch()
        if epoch != self._epoch:
            await self.compare()
            self._epoch = epoch

    async def compare(self) -> None:
        """Suspend every open run with fewer rows than were acknowledged, or with others. Raises StoreUnavailable."""
        known = self._acknowledged.all()
        absent: list[str] = []
        ids = iter(known)
        while some := list(islice(ids, COMPARED_MAX)):
            stored = await self._store.positions({instance_id: known[instance_id][0] for instance_id in some})
            absent += [instance_id for instance_id in some if instance_id not in stored]
            await self._set_aside(stored, known)
        for instance_id in absent:
            self._acknowledged.forget(instance_id)
        if absent:
            named = ", ".join(absent[:NAMED_MAX]) + (", …" if len(absent) > NAMED_MAX else "")
            logger.error(
                "the database was failed over or restored to an earlier state: %d runs that were stored are not there"
                " any more, unless they were removed: %s", len(absent), named,
            )  # fmt: skip

    async def _set_aside(self, stored: Mapping[str, Position], known: Mapping[str, tuple[int, int | None]]) -> None:
        for instance_id, position in stored.items():
            seq, written_at = known[instance_id]
            is_other = written_at is not None and position.written_at != written_at
            if position.last_seq >= seq and not is_other:
                continue
            if position.status.is_terminal:
                self._acknowledged.forget(instance_id)
            else:
                await suspend_for_lost_rows(
                    instance_id,
                    tenant_id=position.tenant_id,
                    seq=seq,
                    stored=position.last_seq,
                    store=self._store,
                    acknowledged=self._acknowledged,
                )


async def suspend_for_lost_rows(
    instance_id: str, *, tenant_id: str, seq: int, stored: int, store: Store, acknowledged: Acknowledged
) -> None:
    """Suspend a run whose stored log of `stored` rows lacks the acknowledged row `seq`. Raises StoreUnavailable."""
    if seq > stored:
        lacks = f"rows {stored + 1} to {seq} of its log were stored, and are not there any more"
    else:
        lacks = f"row {seq} of its log is not the one that was stored"
    message = f"{lacks}: the database was failed over or restored to an earlier state"
    logger.error("run %s is suspended: %s", instance_id, message, extra={"instance_id": instance_id})
    suspension = RunSuspended(SuspendReason.HISTORY_LOST, message, LOST_ROWS_HINT)
    result = await store.append_suspension(instance_id, suspension, tenant_id=tenant_id, log_limit=UNLIMITED_LOG)
    if result.row is not None:  # else it is suspended for lost rows already, or has ended
        acknowledged.forget(instance_id)
        acknowledged.note(instance_id, result.row.last_seq)
