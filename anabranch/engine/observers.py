"""Observers: pass on committed events within this process, to watchers, metrics and traces.

The consequences of a commit start first: handlers do not wait for observers. `Acknowledged` remembers the last row of
each run, by which lost rows are noticed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence

from anabranch.dataclass import dataclass
from anabranch.engine.hints.hint_line import Notices
from anabranch.engine.ownership.owned_instances import OwnedInstance
from anabranch.engine.ports import Clock, InstanceRow, Observer
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.shared.log_limit import LOG_TOO_LARGE
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.telemetry import RunTelemetry, Telemetry

logger = logging.getLogger("anabranch.engine")

# 20 ms: the rows of several commits are counted together, and a batch of them takes a millisecond or two.
RECORD_MS = 20

# 5 minutes: a standby is not further behind unless it is broken.
REMEMBERED_MS = 300_000

# 50,000 runs in each half of the memory, some 10 MB.
REMEMBERED_MAX = 50_000


@dataclass(slots=True, eq=False)
class CommittedEvents:
    """Rows of a run, one at least, that are in the log now."""

    instance_id: str
    events: Sequence[Event]
    status: Status
    written: Sequence[Event] = ()
    """Those that this process has written; telemetry counts them."""
    owned: OwnedInstance | None = None
    """The run that they were written for."""


class Observers:
    """Passes on what was committed. If an observer raises, that is logged, and it is called again the next time."""

    def __init__(self, clock: Clock, telemetry: Telemetry | None = None) -> None:
        self.acknowledged = Acknowledged(clock)
        self._observers: list[Observer] = []
        self._telemetry = telemetry
        self._unrecorded: list[tuple[OwnedInstance, Sequence[Event], bool]] = []
        """Rows of a run that telemetry does not have yet, and whether this process has written them."""
        self._next_record: asyncio.TimerHandle | None = None
        self.written: Counter[str] = Counter()
        """How many events of each type were passed on."""

    def add(self, observer: Observer) -> None:
        """Add an observer."""
        self._observers.append(observer)

    def remove(self, observer: Observer) -> None:
        """Remove an observer."""
        self._observers.remove(observer)

    def telemetry_of(self, head: InstanceHead, plan: AnyPlan) -> RunTelemetry | None:
        """The telemetry of a run that this process owns; None without telemetry."""
        return None if self._telemetry is None else self._telemetry.of_run(head, plan)

    def adopted(self, owned: OwnedInstance, events: Sequence[Event]) -> None:
        """Pass the log of a run that was taken over, which others have counted, to telemetry within `RECORD_MS`."""
        if self._telemetry is not None:
            self._record_soon([(owned, events, False)])

    def committed(self, news: Sequence[CommittedEvents]) -> None:
        """Pass on what was committed, in the order of the commits: to observers one turn of the event loop later, to
        telemetry within `RECORD_MS`."""
        for one in news:
            last = one.events[-1]
            self.acknowledged.note(one.instance_id, last.seq, last.created_at)
        self.written.update([event.type for one in news for event in one.events])  # at once: each update has a price
        if self._observers:
            asyncio.get_running_loop().call_soon(self._notify, news)
        if self._telemetry is not None:
            self._record_soon([(one.owned, one.written, True) for one in news if one.owned is not None])

    def record(self) -> None:
        """Feed telemetry with what it does not have yet. Call it before metrics are read."""
        if self._next_record is not None:
            self._next_record.cancel()
            self._next_record = None
        unrecorded, self._unrecorded = self._unrecorded, []
        for owned, events, is_ours in unrecorded:
            if owned.telemetry is None:
                owned.telemetry = self.telemetry_of(owned.state.head, owned.state.plan)
            if owned.telemetry is not None:
                (owned.telemetry.wrote if is_ours else owned.telemetry.read)(events)
        for owned, _, _ in unrecorded:
            if not owned.is_owned:
                owned.telemetry = None  # an unwinding call may refer to `owned` for a while

    def _record_soon(self, rows: Sequence[tuple[OwnedInstance, Sequence[Event], bool]]) -> None:
        self._unrecorded += rows
        if self._next_record is None:
            self._next_record = asyncio.get_running_loop().call_later(RECORD_MS / 1000, self.record)

    def _notify(self, news: Sequence[CommittedEvents]) -> None:
        for one in news:
            for observer in self._observers:
                try:
                    observer.committed(one.instance_id, one.events, one.status)
                except Exception:
                    logger.exception("an observer failed", extra={"instance_id": one.instance_id})


class StoreNews:
    """Passes on what a store has just written (`Notices`): as hints to other processes, and to telemetry if it was
    appended without the engine.

    The engine reports its own commits to telemetry itself.
    """

    def __init__(
        self,
        *,
        hints: Notices,
        clock: Clock,
        telemetry: Telemetry | None,
        acknowledged: Callable[[str, int], None],
    ) -> None:
        """`acknowledged` is called with each appended row."""
        self._acknowledged = acknowledged
        self._hints = hints
        self._clock = clock
        self._telemetry = telemetry
        self.committed = hints.committed
        """A commit of transitions was answered."""

    def appended(self, row: InstanceRow, *, signal: str | None) -> None:
        """A signal of that name, or else the end of the run, was appended, owned or not."""
        self._acknowledged(row.head.instance_id, row.last_seq)
        self._hints.appended(row, signal=signal)
        if self._telemetry is None:
            return
        if signal is not None:
            self._telemetry.signalled(row.head, signal, seq=row.last_seq, at_ms=self._clock.now())
        elif row.completed_at is not None:
            code = LOG_TOO_LARGE if row.status is Status.FAILED else None
            self._telemetry.ended(row.head, row.status, code=code, at_ms=row.completed_at)

    def released(self) -> None:
        """Runs were released for any worker to claim."""
        self._hints.released()


class Acknowledged:
    """The last row of each run that the database has acknowledged to this process, or shown to it, lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent: dict[str, tuple[int, int | None]] = {}
        self._earlier: dict[str, tuple[int, int | None]] = {}
        """A run is in either: the recent ones become the earlier ones, which are forgotten."""
        self._since = clock.monotonic()

    def note(self, instance_id: str, seq: int, written_at: int | None = None) -> None:
        """This row was acknowledged, or read; `written_at` is its time, where it is known. Earlier rows are known by a
        later one."""
        known = self._recent.get(instance_id)
        if known is not None and known[0] > seq:
            return  # it was read before the later one was appended
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

    def all(self) -> dict[str, tuple[int, int | None]]:
        """The last row of every run, and when it was written."""
        return self._earlier | self._recent

    def _turn(self) -> None:
        self._earlier, self._recent = self._recent, {}
        self._since = self._clock.monotonic()
