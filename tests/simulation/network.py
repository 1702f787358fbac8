"""The network between one simulated process and the database, and what goes wrong on it.

The engine calls `Connection` as its store. `Weather` says what goes wrong now; `faults` changes
it. In fine weather every call takes a little while and succeeds. The database itself never
lies: what fails is the way to it, and the way back.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from anabranch.engine.ports import ClaimRequest, Loaded, Outcome
from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.transitions import Transition
from anabranch.errors import StoreUnavailable
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import Faults, MemoryStore
from tests.simulation.loop import outside

# Half of the calls are answered in the same instant and the others within 4 ms, as in one machine room.
LATENCY_S_MAX = 0.004

# While all is calm, 8 commits of a process still go wrong. With a hundred in a row, as plans of faults may leave them,
# it could keep no lease for long, and runs that are taken for the cause would wait for 100 s again and again.
COMMITS_LEFT_MAX = 8


@dataclass(frozen=True, slots=True)
class Sender:
    """Whose request the database is serving."""

    worker_id: str
    late: bool = False
    """The sender has given up on it: what it thinks of the instance may have changed since."""


NOBODY = Sender("")
THIEF = Sender("thief")
"""No process of ours: it takes an instance and never comes back."""

SENDER: contextvars.ContextVar[Sender] = contextvars.ContextVar("sender", default=NOBODY)


class CommitFault(Enum):
    """What happens to a commit."""

    LOST_BEFORE = "lost before it happened"
    LOST_AFTER = "happened, its answer lost"
    LATE = "reported lost, happens later"
    LOCKED = "some rows look locked, and others' neighbours"
    STOLEN = "an instance stolen just before"


class Weather(Faults):
    """What goes wrong for one slot at the moment. Times are seconds of the loop, ends excluded."""

    def __init__(self, *, seed: int, rarities: Counter[str]) -> None:
        self.rng = random.Random(seed)
        self.rarities = rarities
        self.away_until = 0.0
        """Until then the database cannot be reached."""
        self.slow_until = 0.0
        self.slow_s = 0.0
        """Until then each way takes up to so long."""
        self.commits: deque[tuple[CommitFault, float]] = deque()
        """The fates of the next commits, with a number of seconds for those that need one."""
        self.new_runs: deque[float] = deque()
        """The fates of the next commits with a creation in them: reported lost, and happening after so many seconds."""
        self.signals: deque[CommitFault] = deque()
        """The fates of the next commits with a signal in them."""
        self.calls: deque[bool] = deque()
        """The fates of the next other calls: answered never (True), or not even served (False)."""
        self.locks_rows = False
        self.results: deque[float | None] = deque()
        """The fates of the next results: delivered again after so many seconds, or (None) only after a while."""
        self.echoes = 0
        """So many of the next failures are delivered again and again, while they are tried again."""

    def clear_up(self) -> None:
        """Nothing new goes wrong. What was in store for the next calls still comes, and the latest of the commits."""
        self.away_until = self.slow_until = 0.0
        while len(self.commits) > COMMITS_LEFT_MAX:
            self.commits.popleft()

    def clear(self) -> None:
        """From now on nothing goes wrong."""
        self.clear_up()
        self.commits.clear()
        self.new_runs.clear()
        self.signals.clear()
        self.calls.clear()
        self.results.clear()
        self.echoes = 0

    async def before(self, operation: str) -> None:
        """The way to the database."""
        await asyncio.sleep(self._way_s())
        self._check_reachable()
        if operation != "commit" and self.calls and not self.calls[0]:
            self.calls.popleft()
            raise StoreUnavailable(f"the connection broke before the {operation}")

    async def after(self, operation: str) -> None:
        """The way back."""
        way_s = self._way_s()
        if way_s:
            await asyncio.sleep(way_s)
        self._check_reachable()
        if operation != "commit" and self.calls:
            self.calls.popleft()
            raise StoreUnavailable(f"the connection broke after the {operation}")

    def skip(self, transition: Transition) -> bool:
        """Is this row locked by somebody?"""
        return self.locks_rows and self.rng.random() < 0.5

    def _way_s(self) -> float:
        if asyncio.get_running_loop().time() < self.slow_until:
            return self.rng.random() * self.slow_s
        return max(0.0, self.rng.random() * 2 - 1) * LATENCY_S_MAX

    def _check_reachable(self) -> None:
        if asyncio.get_running_loop().time() < self.away_until:
            raise StoreUnavailable("the database is away")


class Connection(MemoryStore):
    """One process's store: the memory store, with weather on the way to it."""

    def __init__(
        self, database: MemoryDatabase, weather: Weather, *, worker_id: str, commits_in_flight_max: int
    ) -> None:
        super().__init__(database, faults=weather, commits_in_flight_max=commits_in_flight_max)
        self._weather = weather
        self._worker_id = worker_id
        self._unclear: dict[str, bool] = {}
        """Instances whose commit was reported lost: was it written?"""
        self._commits_in_flight = 0

    async def commit(self, transitions: Sequence[Transition], *, may_wait: bool = False) -> Outcome:
        """As the database does, unless the weather has a fate for this one."""
        weather = self._weather
        fault, seconds = self._fate(transitions)
        if fault is CommitFault.STOLEN:
            self._steal(transitions[0].instance_id, lease_ms=round(seconds * 1000))
        if fault is CommitFault.LOST_BEFORE or fault is CommitFault.LATE:
            return await self._lose(transitions, arrives_after_s=seconds if fault is CommitFault.LATE else None)
        self._commits_in_flight += 1
        if self._commits_in_flight > 1:
            weather.rarities["two commits in flight"] += 1
        weather.locks_rows = fault is CommitFault.LOCKED
        kept_waiting = self._kept_waiting(transitions) if fault is CommitFault.LOCKED else set()
        try:
            outcome = await super().commit(
                [transition for transition in transitions if transition.instance_id not in kept_waiting],
                may_wait=may_wait,
            )
        finally:
            self._commits_in_flight -= 1
            weather.locks_rows = False
        outcome = replace(outcome, locked=kept_waiting)
        self._count_losers(transitions, outcome)
        if fault is CommitFault.LOST_AFTER:
            self._unclear.update(
                (transition.instance_id, transition.instance_id in outcome.won) for transition in transitions
            )
            raise StoreUnavailable("the connection broke after the commit")
        return outcome

    async def load(self, instance_ids: Sequence[str], *, after_seq: int = 0) -> dict[str, Loaded]:
        """Count what a re-read finds out about unclear commits."""
        loaded = await super().load(instance_ids, after_seq=after_seq)
        for instance_id in instance_ids:
            written = self._unclear.pop(instance_id, None)
            if written is not None:
                self._weather.rarities[f"unknown commit found {'written' if written else 'not written'}"] += 1
        return loaded

    async def claim(self, wanted: ClaimRequest) -> list[Loaded]:
        """Count where claimed instances come from."""
        claimed = await super().claim(wanted)
        for one in claimed:
            self._weather.rarities[
                "lapsed lease claimed" if one.row.blame is not None else "free instance claimed"
            ] += 1
        return claimed

    def _fate(self, transitions: Sequence[Transition]) -> tuple[CommitFault | None, float]:
        weather = self._weather
        if weather.new_runs and any(transition.new_run is not None for transition in transitions):
            return CommitFault.LATE, weather.new_runs.popleft()
        if weather.signals and any(
            row.type is EventType.SIGNAL_RECEIVED for transition in transitions for row in transition.events
        ):
            weather.rarities["signal in a commit of unknown fate"] += 1
            return weather.signals.popleft(), 0.0
        return weather.commits.popleft() if weather.commits else (None, 0.0)

    def _steal(self, instance_id: str, *, lease_ms: int) -> None:
        token = SENDER.set(THIEF)
        stolen = self.database.claim(
            ClaimRequest(worker_id=THIEF.worker_id, limit=1, lease_ms=lease_ms, only=[instance_id], steal=True)
        )
        SENDER.reset(token)
        self._weather.rarities["instance stolen before a commit"] += len(stolen)

    async def _lose(self, transitions: Sequence[Transition], *, arrives_after_s: float | None) -> Outcome:
        """A request that was never answered; perhaps it is still on its way and is served when nobody expects it."""
        if arrives_after_s is not None:
            in_transit = outside()
            in_transit.run(SENDER.set, Sender(self._worker_id, late=True))
            loop = asyncio.get_running_loop()
            loop.call_later(arrives_after_s, self._serve_late, transitions, context=in_transit)
        await self._weather.before("commit")
        self._unclear.update(dict.fromkeys((transition.instance_id for transition in transitions), False))
        raise StoreUnavailable("the connection broke before the commit was answered")

    def _serve_late(self, transitions: Sequence[Transition]) -> None:
        outcome = self.database.commit(transitions, skip=lambda transition: False)
        self._weather.rarities["late commit won"] += len(outcome.won)
        self._weather.rarities["late commit lost"] += len(transitions) - len(outcome.won)

    def _kept_waiting(self, transitions: Sequence[Transition]) -> set[str]:
        """Some of the transitions: what they need besides their own rows is locked by somebody."""
        kept = {transition.instance_id for transition in transitions if self._weather.rng.random() < 0.25}
        if kept:
            self._weather.rarities["transition kept waiting by a lock"] += 1
        return kept

    def _count_losers(self, transitions: Sequence[Transition], outcome: Outcome) -> None:
        rarities = self._weather.rarities
        for transition in transitions:
            record = self.database.instances.get(transition.instance_id)
            if transition.instance_id in outcome.won or transition.instance_id in outcome.locked or record is None:
                continue
            if record.row.status.is_terminal:
                rarities["commit lost to the end of its run"] += 1
            elif record.row.worker_id != transition.worker_id:
                rarities["zombie fenced"] += 1
            elif record.row.version != transition.expected_version:
                rarities["commit lost to an external write"] += 1
            elif transition.not_before is not None:
                rarities["timer held back by the store's clock"] += 1
            else:
                rarities["commit lost to a lock"] += 1
