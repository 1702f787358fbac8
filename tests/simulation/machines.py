"""The machines of a world: its slots, the processes that live in them one after the other, and what befalls them.

Called by `world`. Faults are planned in `faults`; here they strike, between two callbacks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anabranch.durable.definition import Workflow
from anabranch.errors import StoreUnavailable
from anabranch.testing.memory_store.database import MemoryDatabase
from tests.simulation.character import Character
from tests.simulation.faults import COMMIT_FAULTS, Fault, FaultKind
from tests.simulation.judge import Judge
from tests.simulation.loop import SimulatedLoop, outside
from tests.simulation.network import CommitFault, Weather
from tests.simulation.nodes import SimulatedTypes, WithoutWork
from tests.simulation.pools import Executors, SimulatedBroker
from tests.simulation.processes import SimulatedProcess, SkewedClock
from tests.simulation.tenant_order import WatchedJobs

# 2027-01-15: any day will do that looks like one in the logs.
EPOCH_MS = 1_800_000_000_000

# How long the slot of a process that could not start, or was dying, stays empty.
RESTART_S = 0.05

# Most results say nothing new when they come again; many must, for one of them to be dangerous.
DOUBLED_AT_ONCE = 6

# Most nodes fail never and few a second time.
ECHOED_AT_ONCE = 8

# Starts are few, and most of them come before anything goes wrong.
CREATIONS_AT_ONCE = 3

# The limit of takeovers is one or two in most worlds: so many crashes pass it, if a takeover in between does not count.
CRASHES = 4


class DatabaseClock:
    """The clock by which leases and timers are judged. It may be set, too."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._wrong_by_ms = 0
        self.set_back_by_ms = 0
        """How far it was set back altogether: so much later may anything be due."""

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return EPOCH_MS + int(self._loop.time() * 1000) + self._wrong_by_ms

    def jump(self, milliseconds: int) -> None:
        """Be set forwards or back."""
        self._wrong_by_ms += milliseconds
        self.set_back_by_ms += max(0, -milliseconds)


class Machines:
    """Slots with processes in them."""

    def __init__(
        self,
        *,
        loop: SimulatedLoop,
        database: MemoryDatabase,
        database_clock: DatabaseClock,
        judge: Judge,
        types: SimulatedTypes,
        code: Sequence[Workflow],
        character: Character,
        rarities: Counter[str],
        seed: int,
    ) -> None:
        self._loop = loop
        self._database = database
        self._judge = judge
        self._types = types
        self._code = code
        self._character = character
        self._rarities = rarities
        self._rng = random.Random(f"machines {seed}")
        self._releases = random.Random(f"releases {seed}")
        """Which processes lack a node type."""
        self._generation = 0
        self._calm = False
        self._ended = False
        self._weather = [Weather(seed=seed * 31 + slot, rarities=rarities) for slot in range(character.slots)]
        self._slots: list[SimulatedProcess | None] = [None] * character.slots
        self.database_clock = database_clock
        self._broker: SimulatedBroker | None = None
        self._executors: Executors | None = None
        if character.has_executors:
            self._broker = SimulatedBroker(loop, seed=seed, rarities=rarities)
            judge.answered = self._broker.answered
            self._executors = Executors(
                self._broker,
                types=types,
                ledger=judge.ledger,
                count=1 + seed % 3,
                concurrency=character.concurrency,
            )
        self.struck: list[Fault] = []
        """Faults that happened to something."""

    def start(self) -> None:
        """A process in every slot."""
        for slot in range(self._character.slots):
            self._launch(slot)
        if self._executors is not None:
            self._executors.start()

    def clear_up(self) -> None:
        """Nothing new goes wrong; what stood still goes on."""
        self._calm = True
        for weather in self._weather:
            weather.clear_up()
        for process in self.living():
            self._thaw(process)
        if self._executors is not None:
            self._executors.clear_up()

    def poison(self, worker_id: str, instance_id: str) -> bool:
        """This run, which this process executes, kills it, as long as things go wrong at all; did it?"""
        found = [(slot, each) for slot, each in enumerate(self._slots) if each is not None]
        for slot, process in found:
            if process.worker_id == worker_id and not self._calm and not process.dead:
                self._rarities["process killed by what it executed"] += 1
                self._from_outside(0.0, self._crash_by, slot, process, instance_id)
                return True
        return False

    def clear(self) -> None:
        """From now on nothing goes wrong at all."""
        for weather in self._weather:
            weather.clear()

    def end(self) -> None:
        """Unwind whatever still runs, and start nothing any more."""
        self._ended = True
        for process in self.living():
            self._loop.kill(process.owner)
        if self._executors is not None:
            self._executors.end()

    def living(self) -> Iterator[SimulatedProcess]:
        """Those that have neither crashed nor gone."""
        return (process for process in self._slots if process is not None and not process.dead)

    def reachable(self) -> list[SimulatedProcess]:
        """Those that answer requests."""
        return [process for process in self.living() if process.ready]

    def strike(self, fault: Fault) -> None:
        """Let a planned fault happen, if there is anything for it to happen to."""
        process, weather = self._slots[fault.slot], self._weather[fault.slot]
        if process is None or process.dead:
            return
        self.struck.append(fault)
        until = self._loop.time() + fault.seconds
        match fault.kind:
            case FaultKind.CRASH:
                self._rarities["process crashed"] += 1
                self._crash(fault.slot, process, fault.seconds)
            case FaultKind.CRASH_LOOP:
                for slot in range(len(self._slots)) if fault.count > 1 else (fault.slot,):
                    self._crash_again(slot, times=CRASHES, every_s=fault.seconds)
            case FaultKind.STOP:
                if process.ready:
                    grace_s = 0.0 if fault.count > 1 else 0.2
                    process.run(self._stop(fault.slot, process, grace_s=grace_s, down_s=fault.seconds))
            case FaultKind.FREEZE:
                self._freeze(process, fault.seconds)
            case FaultKind.DYING:
                process.dying = True
                self._from_outside(fault.seconds, self._crash, fault.slot, process, RESTART_S)
            case FaultKind.CALL_LOST:
                weather.calls.extend([fault.number % 2 == 0] * fault.count)
            case FaultKind.DATABASE_AWAY:
                for each in self._weather if fault.count > 2 else (weather,):
                    each.away_until = until
            case FaultKind.DATABASE_SLOW:
                weather.slow_until, weather.slow_s = until, fault.seconds / 4
            case FaultKind.RESULTS_DOUBLED:
                weather.results.extend([fault.seconds] * fault.count * DOUBLED_AT_ONCE)
            case FaultKind.RESULTS_LATE:
                weather.results.extend([None] * fault.count)
            case FaultKind.FAILURES_ECHOED:
                weather.echoes += fault.count * ECHOED_AT_ONCE
            case FaultKind.CLOCK_JUMP:
                self._rarities["clock of a process jumped"] += 1
                process.clock.jump(round(fault.seconds * 1000))
            case FaultKind.DATABASE_CLOCK_JUMP:
                self._rarities["clock of the database jumped"] += 1
                self.database_clock.jump(round(fault.seconds * 1000))
            case FaultKind.CREATION_LATE:
                weather.new_runs.extend([fault.seconds] * fault.count * CREATIONS_AT_ONCE)
            case FaultKind.SIGNAL_LOST:
                fate = CommitFault.LOST_AFTER if fault.number % 2 else CommitFault.LOST_BEFORE
                weather.signals.extend([fate] * fault.count)
            case _:
                weather.commits.extend([(COMMIT_FAULTS[fault.kind], fault.seconds)] * fault.count)

    # -- processes ------------------------------------------------------------------------
    def _launch(self, slot: int) -> None:
        """Start a new process in this slot."""
        if self._ended:
            return
        self._generation += 1
        worker_id = f"w{slot}.{self._generation}"
        character = self._character
        clock = SkewedClock(
            self._loop,
            rate=1 + self._rng.uniform(-character.drift, character.drift),
            wrong_by_ms=self._rng.randint(-character.skew_ms, character.skew_ms),
            database_now=self._database.now(),
        )
        process = SimulatedProcess(
            loop=self._loop,
            database=self._database,
            weather=self._weather[slot],
            types=WithoutWork(self._types) if self._lacks_work(slot) else self._types,
            code=() if slot == character.codeless_slot else self._code,
            options=character.options(slot),
            clock=clock,
            worker_id=worker_id,
            commits_in_flight_max=character.commits_in_flight_max,
            broker=self._broker,
        )
        tasks = process.engine._tasks
        tasks._jobs = WatchedJobs(tasks._jobs, accuse=self._judge.accuse, rarities=self._rarities)
        self._slots[slot] = process
        self._judge.processes[worker_id] = process
        process.run(self._start(slot, process))

    def _lacks_work(self, slot: int) -> bool:
        """Is the next process in this slot of a release that has no `work`?"""
        lacks = self._character.rolls_out and slot > 0 and not self._calm and self._releases.random() < 0.5
        self._rarities["process without a node type"] += lacks
        return lacks

    async def _start(self, slot: int, process: SimulatedProcess) -> None:
        try:
            await process.start()
        except StoreUnavailable:
            self._from_outside(RESTART_S, self._crash, slot, process, RESTART_S)
        else:
            process.ready = True

    def _crash_by(self, slot: int, process: SimulatedProcess, instance_id: str) -> None:
        """The process is gone because of this run. A suspect that it had just taken is not to blame, and is blamed."""
        if not process.dead:
            taken = [row for row in self._database.rows() if row.worker_id == process.worker_id]
            alone = [row.head.instance_id for row in taken if row.blame is not None and row.blame.company == 1]
            self._judge.died_beside(each for each in alone if each != instance_id)
        self._crash(slot, process, RESTART_S)

    def _crash(self, slot: int, process: SimulatedProcess, down_s: float) -> None:
        """The process is gone, if it was not already; another follows."""
        if process.dead:
            return
        process.crash()
        if self._broker is not None:
            self._broker.worker_ended(process.worker_id)
        self._judge.processes.pop(process.worker_id, None)
        self._judge.ledger.forget_process(process.worker_id)
        self._judge.steps.forget_process(process.worker_id)
        self._slots[slot] = None
        self._from_outside(down_s, self._launch, slot)

    def _crash_again(self, slot: int, *, times: int, every_s: float) -> None:
        """Crash whatever runs in this slot, and its successor, and so on."""
        if self._calm:
            return
        process = self._slots[slot]
        if process is not None and not process.dead:
            self._rarities["process crashed"] += 1
            self._rarities["process crashed again and again"] += 1
            self._crash(slot, process, RESTART_S)
        if times > 1:
            self._from_outside(every_s, lambda: self._crash_again(slot, times=times - 1, every_s=every_s))

    async def _stop(self, slot: int, process: SimulatedProcess, *, grace_s: float, down_s: float) -> None:
        process.ready = False
        await process.stop(grace_s=grace_s)
        self._from_outside(0.0, self._crash, slot, process, down_s)

    def _from_outside(self, after_s: float, act: Callable[..., None], *arguments: Any) -> None:
        """Do something that no process does."""
        self._loop.call_later(after_s, act, *arguments, context=outside())

    def _freeze(self, process: SimulatedProcess, seconds: float) -> None:
        if process.frozen:
            return
        if seconds * 1000 > self._character.lease_ms:
            self._rarities["process frozen past its lease"] += 1
        process.freeze()
        self._from_outside(seconds, self._thaw, process)

    def _thaw(self, process: SimulatedProcess) -> None:
        if process.frozen and not process.dead:
            process.thaw()
