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

from anabranch.engine.poller import Poller
from anabranch.engine.ports import Clock, Epoch, Position, Store
from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.payloads import RunSuspended
from anabranch.engine.rules.shared.log_limit import UNLIMITED_LOG
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# 5 minutes: a standby is not further behind unless it is broken.
REMEMBERED_MS = 300_000

# 50,000 runs in each half of the memory, some 10 MB.
REMEMBERED_MAX = 50_000

# 1,000 runs a statement, by their primary keys.
COMPARED_MAX = 1_000

# 20 names in a line of the log: enough to look for the others.
NAMED_MAX = 20

HINT = (
    "What followed from the lost rows may have happened already. Resume the run to go on from the last stored row:"
    " that repeats it, under the same idempotency keys. Or cancel it."
)


class Acknowledged:
    """The last row of each run that the database has acknowledged to this process lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent: dict[str, tuple[int, int | None]] = {}
        self._earlier: dict[str, tuple[int, int | None]] = {}
        """A run is in either: the recent ones become the earlier ones, which are forgotten."""
        self._since = clock.monotonic()

    def note(self, instance_id: str, seq: int, written_at: int | None = None) -> None:
        """This row was acknowledged; `written_at` is its time, where it is known."""
        self._recent[instance_id] = (seq, written_at)
        if len(self._recent) >= REMEMBERED_MAX:
            self._turn()

    def forget_old(self) -> None:
        """Forget what was acknowledged long ago. Called now and then."""
        if self._clock.monotonic() - self._since > REMEMBERED_MS / 1000:
            self._turn()

    def last_seq(self, instance_id: str) -> int:
        """The last acknowledged row of a run; 0: none that is remembered."""
        found = self._recent.get(instance_id) or self._earlier.get(instance_id)
        return 0 if found is None else found[0]

    def forget(self, instance_id: str) -> None:
        """Nothing of this run is acknowledged any more."""
        self._recent.pop(instance_id, None)
        self._earlier.pop(instance_id, None)

    async def set_aside(self, store: Store, instance_id: str, *, tenant_id: str, seq: int, stored: int) -> None:
        """Suspend a run whose stored log of `stored` rows lacks the acknowledged row `seq`. Raises StoreUnavailable."""
        if seq > stored:
            lacks = f"rows {stored + 1} to {seq} of its log were stored, and are not there any more"
        else:
            lacks = f"row {seq} of its log is not the one that was stored"
        message = f"{lacks}: the database was failed over or restored to an earlier state"
        logger.error("run %s is suspended: %s", instance_id, message, extra={"instance_id": instance_id})
        said = RunSuspended(SuspendReason.HISTORY_LOST, message, HINT)
        result = await store.append_suspension(instance_id, said, tenant_id=tenant_id, log_limit=UNLIMITED_LOG)
        if result.row is not None:  # else it is suspended already, and looked at again when it is owned
            self.forget(instance_id)
            self.note(instance_id, result.row.last_seq)

    def all(self) -> dict[str, tuple[int, int | None]]:
        """The last row of every run, and when it was written."""
        return self._earlier | self._recent

    def _turn(self) -> None:
        self._earlier, self._recent = self._recent, {}
        self._since = self._clock.monotonic()


class HistoryWatch(Poller):
    """Compares acknowledged rows with stored ones when the database may have lost some."""

    def __init__(self, *, store: Store, acknowledged: Acknowledged, clock: Clock, every_ms: int) -> None:
        super().__init__(self.look, name="watching the database's history", every_ms=every_ms, sleep=clock.sleep)
        self._store = store
        self._acknowledged = acknowledged
        self._epoch: Epoch | None = None

    async def start(self) -> None:
        """Begin to watch, if the database tells its epoch. Raises StoreUnavailable."""
        try:
            self._epoch = await self._store.epoch()
        except StoreUnavailable:  # a server that does not tell its line refuses the first question only
            self._epoch = await self._store.epoch()
        if self._epoch is not None:
            await super().start()

    async def look(self) -> None:
        """Compare, if the epoch has changed since the last time. Raises StoreUnavailable."""
        self._acknowledged.forget_old()
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
                await self._acknowledged.set_aside(
                    self._store, instance_id, tenant_id=position.tenant_id, seq=seq, stored=position.last_seq
                )
