"""One simulated world from beginning to end: some processes, some clients, one database, and a plan of what goes wrong.

    outcome = simulate(seed)

First chaos, for a number of callbacks, with every commit judged; then nothing goes wrong any more and
everything must end within a bound. The same seed gives the same world, callback by callback.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import random
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from anabranch.engine import plans
from anabranch.engine.lifecycle import EngineOptions
from anabranch.engine.rules import turn
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.store.memory_database import MemoryDatabase
from anabranch.errors import StoreUnavailable
from tests.oracle.prediction import Ending, Observed, disagreements
from tests.simulation.cases import BUILTIN, RANDOM_CASES, SimulatedCase, drawn_cases, probe_case, random_case_of
from tests.simulation.clients import TENANT, Client, Known
from tests.simulation.facts import Facts
from tests.simulation.faults import COMMIT_FAULTS, Fault, FaultKind, draw_plan
from tests.simulation.judge import Judge, Violation
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Weather
from tests.simulation.nodes import SimulatedTypes
from tests.simulation.processes import SimulatedProcess, SkewedClock

# 2027-01-15: any day will do that looks like one in the logs.
EPOCH_MS = 1_800_000_000_000

# Nobody may wait longer than this for the next row once nothing goes wrong: the longest delay of a case is 7 s, the
# longest lease 4 s, and a clock may have been set back by as much.
QUIET_MS_MAX = 40_000

# A million callbacks would mean that something spins; calm worlds need a few ten thousand.
CALM_STEPS_MAX = 300_000

# After the last run has ended: long enough for every loop of the engine to have looked once more.
AFTERWARDS_S = 2.0

# "Takes effect within 1 s", measured from the answer; and how often the probe looks whether it may begin.
EFFECT_S_MAX = 1.0
PROBE_LOOK_S = 0.05

_EFFECT = "a cancel or signal from another process takes effect within 1 s"

# While calm, whoever waits for a signal is sent one so often.
SIGNAL_EVERY_S = 0.8

# Worlds make little garbage that needs a collector: looking for it at every turn of a few hundred objects, as is
# the default, costs a sixth of the time.
GARBAGE_THRESHOLDS = (50_000, 20, 100)

# Most results say nothing new when they come again; many must, for one of them to be dangerous.
DOUBLED_AT_ONCE = 6

# How long a process that goes wrong after it started is left down at least.
RESTART_S = 0.05

_ENDINGS = {
    EventType.NODE_COMPLETED: "completed",
    EventType.NODE_FAILED: "failed",
    EventType.NODE_SKIPPED: "skipped",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a world."""

    seed: int
    steps: int
    trace: str
    """The same for the same seed: a digest of every choice of the loop and of every row."""
    runs: int
    commits: int
    violations: tuple[Violation, ...]
    struck: tuple[Fault, ...]
    """The faults that struck, in order."""
    rarities: Counter[str]
    log: str
    """The log of the run that a violation is about."""


def simulate(seed: int, *, choose: Callable[[list[Fault]], list[Fault]] | None = None) -> Outcome:
    """The world of a seed; `choose` may leave faults out."""
    world = World(seed, choose=choose)
    return world.play()


@dataclass(slots=True)
class _Character:
    """What is peculiar to a world."""

    slots: int
    chaos_steps: int
    lease_ms: int
    concurrency: int
    held_max: int
    batch_turns_max: int
    commits_in_flight_max: int
    recoveries_max: int
    clients: int
    runs_per_client: int
    skew_ms: int
    idle_slot: int | None
    """A slot that takes requests and runs nothing."""
    cases: list[SimulatedCase] = field(default_factory=list)

    @classmethod
    def draw(cls, rng: random.Random) -> _Character:
        slots = rng.choice((1, 2, 2, 3, 3, 4, 5))
        return cls(
            slots=slots,
            chaos_steps=rng.choice((700, 1_500, 4_000, 8_000)),
            lease_ms=rng.choice((900, 1_500, 4_000)),
            concurrency=rng.choice((1, 2, 8)),
            held_max=rng.choice((2, 6, 100)),
            batch_turns_max=rng.choice((1, 3, 256)),
            commits_in_flight_max=rng.choice((1, 2)),
            recoveries_max=rng.choice((1, 2, 10)),
            clients=rng.choice((1, 2, 3)),
            runs_per_client=rng.choice((4, 8, 16)),
            skew_ms=rng.choice((0, 20, 500)),
            idle_slot=slots - 1 if slots > 1 and rng.random() < 0.2 else None,
            cases=_draw_cases(rng),
        )


def _draw_cases(rng: random.Random) -> list[SimulatedCase]:
    drawn = rng.sample(drawn_cases(), rng.randint(1, 3))
    return drawn + [random_case_of(number) for number in rng.sample(range(RANDOM_CASES), rng.randint(1, 4))]


class World:
    """Everything that exists in one simulation."""

    def __init__(self, seed: int, *, choose: Callable[[list[Fault]], list[Fault]] | None = None) -> None:
        self.seed = seed
        self.rng = random.Random(f"world {seed}")
        self.character = _Character.draw(random.Random(f"character {seed}"))
        self.rarities: Counter[str] = Counter()
        self.loop = SimulatedLoop(seed=seed)
        self.database = MemoryDatabase(now=self._database_now)
        self.judge = Judge(
            cases={case.name: case for case in self._all_cases()},
            rarities=self.rarities,
            recoveries_max=self.character.recoveries_max,
            lease_ms=self.character.lease_ms,
            loop=self.loop,
        )
        self.database.on_commit = self.judge.transaction
        self.types = SimulatedTypes(BUILTIN, self.judge.ledger, seed=seed)
        plan = draw_plan(
            random.Random(f"faults {seed}"),
            steps=self.character.chaos_steps,
            slots=self.character.slots,
            lease_s=self.character.lease_ms / 1000,
        )
        self.plan = deque(choose(plan) if choose else plan)
        self.struck: list[Fault] = []
        self.slots: list[SimulatedProcess | None] = [None] * self.character.slots
        self.weather = [Weather(seed=seed * 31 + slot, rarities=self.rarities) for slot in range(self.character.slots)]
        self.known = Known()
        self.calm = False
        self._database_wrong_by_ms = 0
        self._set_back_by_ms = 0
        """How far the database's clock was set back altogether: so much later may anything be due."""
        self._generation = 0
        self._clients: list[Client] = []
        self._client_tasks: list[asyncio.Task[None]] = []

    # -- the course of the world ----------------------------------------------------------
    def play(self) -> Outcome:
        """Chaos, then calm, then the last look."""
        with self._under_control():
            self._begin()
            self._chaos()
            if not self.judge.violations:
                self._become_calm()
                self._until_all_has_ended()
            if not self.judge.violations:
                self._probe()
            if not self.judge.violations:
                self._last_look()
            self._end()
        violations = tuple(self.judge.violations)
        return Outcome(
            seed=self.seed,
            steps=self.loop.steps,
            trace=f"{self.loop.trace:016x}-{self.judge.digest}",
            runs=len(self.judge.runs),
            commits=self.judge.commits,
            violations=violations,
            struck=tuple(self.struck),
            rarities=self.rarities,
            log=self._log_of(violations[0].instance_id) if violations else "",
        )

    def _end(self) -> None:
        """Unwind whatever still stands, while there is a loop to do it in."""
        for process in self._living():
            self.loop.kill(process.owner)
        for task in self._client_tasks:
            task.cancel()
        while self.loop.step() and not all(task.done() for task in self._client_tasks):
            pass
        self.loop.close()

    def _all_cases(self) -> list[SimulatedCase]:
        return [*self.character.cases, probe_case()]

    def _begin(self) -> None:
        for case in self._all_cases():
            self.database.definitions.save(
                tenant_id=TENANT,
                name=case.name,
                title=case.name,
                definition=case.document,
                kind="drawn",
                workflow_id=None,
                expected_version=None,
            )
        for slot in range(self.character.slots):
            self._launch(slot)
        for number in range(self.character.clients):
            client = Client(
                rng=random.Random(f"client {self.seed} {number}"),
                cases=self.character.cases,
                known=self.known,
                judge=self.judge,
                database=self.database,
                processes=self._reachable,
                name=f"client{number}",
            )
            self._clients.append(client)
            self._client_tasks.append(self.loop.create_task(client.act(self.character.runs_per_client)))

    def _chaos(self) -> None:
        loop, plan, violations = self.loop, self.plan, self.judge.violations
        while loop.steps < self.character.chaos_steps and not violations:
            while plan and plan[0].step <= loop.steps:
                self._strike(plan.popleft())
            if not loop.step():
                self.judge.accuse("the world goes on", "nothing is scheduled any more")

    def _become_calm(self) -> None:
        """From here on nothing goes wrong; what went wrong before still has its consequences."""
        self.calm = True
        for weather in self.weather:
            weather.clear_up()
        for process in self._living():
            if process.frozen:
                process.thaw()
        for client in self._clients:
            client.stopped = True
        self._client_tasks.append(self.loop.create_task(self._signal_whoever_waits()))

    def _until_all_has_ended(self) -> None:
        loop, judge = self.loop, self.judge
        self.judge.last_row_at = self._database_now()
        last = loop.steps + CALM_STEPS_MAX
        while not judge.violations and not self._all_has_ended():
            # Asking costs more than a callback.
            for _ in range(50):
                if not loop.step() or judge.violations:
                    break
            if self._database_now() - judge.last_row_at > QUIET_MS_MAX + self._set_back_by_ms or loop.steps > last:
                self._accuse_stuck()
                return

    def _all_has_ended(self) -> bool:
        return not any(True for _ in self.database.open_rows()) and all(task.done() for task in self._client_tasks[:-1])

    def _accuse_stuck(self) -> None:
        promise = "a started instance reaches a terminal status whatever crashes"
        for row in self.database.open_rows():
            what = (
                f"it is {row.status}, held by {row.worker_id}, version {row.version}, and nothing has happened for long"
            )
            self.judge.accuse(promise, what, row.head.instance_id)
            return
        pending = [task for task in self._client_tasks[:-1] if not task.done()]
        self.judge.accuse("every call is answered", f"{len(pending)} clients wait in vain: {pending[0]}")

    def _probe(self) -> None:
        """One more run, to see how soon it hears of a signal and of a cancel that came to any process."""
        for weather in self.weather:
            weather.clear()
        self._client_tasks[-1].cancel()  # nobody else shall answer the probe's wait
        probe = self.loop.create_task(self._look_how_soon())
        last = self.loop.steps + CALM_STEPS_MAX
        while not probe.done() and not self.judge.violations:
            if not self.loop.step() or self.loop.steps > last:
                self.judge.accuse("every call is answered", f"the probe waits in vain: {probe}")
        if probe.done():
            probe.result()

    async def _look_how_soon(self) -> None:
        client = self._clients[0]
        run = await client.start(probe_case())
        place = (run, "sleeper", "")
        while place not in self.judge.ledger.effects or ("ask", "") not in self.judge.facts(run).waits:
            await asyncio.sleep(PROBE_LOOK_S)
        await client.signal(run, "approved")
        await asyncio.sleep(EFFECT_S_MAX)
        if ("ask", "") not in self.judge.facts(run).endings:
            self.judge.accuse(_EFFECT, f"a signal has no effect within {EFFECT_S_MAX} s", run)
        await client.cancel(run)
        await asyncio.sleep(EFFECT_S_MAX)
        workers = [worker_id for _, worker_id in self.judge.ledger.effects[place].under_way]
        if workers:
            self.judge.accuse(_EFFECT, f"{workers} runs on {EFFECT_S_MAX} s after the cancel was acknowledged", run)

    def _last_look(self) -> None:
        """When all has ended, nobody holds, executes or expects anything, and every run is as it should be."""
        until = self.loop.time() + AFTERWARDS_S
        while self.loop.time() < until and self.loop.step() and not self.judge.violations:
            pass
        for process in self._living():
            for part in process.dead_parts():
                self.judge.accuse("no part of a living engine dies", part)
            held = process.engine.orchestrator.held_ids
            if held:
                self.judge.accuse(
                    "nothing is owed by a terminal instance", f"{process.worker_id} holds {held}", held[0]
                )
        for place, effects in self.judge.ledger.effects.items():
            if effects.under_way:
                workers = [worker_id for _, worker_id in effects.under_way]
                what = f"{place[1]} in {place[2]!r} is still executed by {workers}"
                self.judge.accuse("handlers in flight are told to stop", what, place[0])
        for instance_id, run in self.judge.runs.items():
            self._compare_with_oracle(instance_id, run)

    def _compare_with_oracle(self, instance_id: str, run: Facts) -> None:
        row = self.database.instances[instance_id].row
        ended = run.ended
        given_up = (
            ended is not None
            and ended.type is EventType.INSTANCE_FAILED
            and (ended.payload.value["code"] == "RECOVERY_LIMIT")
        )
        untouched = row.head.deadline_at is None and row.status is not Status.CANCELLED and not given_up
        if run.case.prediction is None or ended is None or not untouched:
            return
        observed = Observed(
            str(row.status.value),
            ended.payload.value if ended.type is EventType.INSTANCE_COMPLETED else None,
            ended.payload.value["code"] if ended.type is EventType.INSTANCE_FAILED else None,
            {
                place: Ending(_ENDINGS[each.type], each.attempt, each.payload.value)
                for place, each in run.endings.items()
            },
        )
        for disagreement in disagreements(run.case.prediction, observed):
            self.judge.accuse("a run ends as the contract says, whatever crashes", disagreement, instance_id)
        self.rarities["run matched the oracle"] += 1

    # -- processes ------------------------------------------------------------------------
    def _launch(self, slot: int) -> None:
        """Start a new process in this slot."""
        self._generation += 1
        worker_id = f"w{slot}.{self._generation}"
        character = self.character
        clock = SkewedClock(
            self.loop,
            rate=1 + self.rng.uniform(-0.005, 0.005),
            wrong_by_ms=self.rng.randint(-character.skew_ms, character.skew_ms),
            database_now=self._database_now(),
        )
        process = SimulatedProcess(
            loop=self.loop,
            database=self.database,
            weather=self.weather[slot],
            handlers=self.types,
            options=EngineOptions(
                lease_ms=character.lease_ms,
                concurrency=character.concurrency,
                held_max=character.held_max,
                recoveries_max=character.recoveries_max,
                batch_turns_max=character.batch_turns_max,
                works=slot != character.idle_slot,
            ),
            clock=clock,
            worker_id=worker_id,
            commits_in_flight_max=character.commits_in_flight_max,
        )
        self.slots[slot] = process
        self.judge.processes[worker_id] = process
        process.run(self._start(slot, process))

    async def _start(self, slot: int, process: SimulatedProcess) -> None:
        try:
            await process.engine.start()
        except StoreUnavailable:
            self._from_outside(RESTART_S, self._crash, slot, process, RESTART_S)
        else:
            process.ready = True

    def _crash(self, slot: int, process: SimulatedProcess, down_s: float) -> None:
        """The process is gone, if it was not already; another follows."""
        if process.dead:
            return
        process.crash()
        self.judge.processes.pop(process.worker_id, None)
        self.judge.ledger.forget_process(process.worker_id)
        self.slots[slot] = None
        self._from_outside(down_s, self._launch, slot)

    async def _stop(self, slot: int, process: SimulatedProcess, *, grace_s: float, down_s: float) -> None:
        process.ready = False
        await process.engine.stop(grace_s=grace_s)
        self._from_outside(0.0, self._crash, slot, process, down_s)

    def _from_outside(self, after_s: float, act: Callable[..., None], *arguments: Any) -> None:
        """Do something that no process does."""
        self.loop.call_later(after_s, act, *arguments, context=_OUTSIDE.copy())

    def _living(self) -> Iterator[SimulatedProcess]:
        return (process for process in self.slots if process is not None and not process.dead)

    def _reachable(self) -> list[SimulatedProcess]:
        return [process for process in self._living() if process.ready]

    # -- faults ---------------------------------------------------------------------------
    def _strike(self, fault: Fault) -> None:
        """Let a planned fault happen, if there is anything for it to happen to."""
        process, weather = self.slots[fault.slot], self.weather[fault.slot]
        if process is None or process.dead:
            return
        self.struck.append(fault)
        until = self.loop.time() + fault.seconds
        match fault.kind:
            case FaultKind.CRASH:
                self.rarities["process crashed"] += 1
                self._crash(fault.slot, process, fault.seconds)
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
                for each in self.weather if fault.count > 2 else (weather,):
                    each.away_until = until
            case FaultKind.DATABASE_SLOW:
                weather.slow_until, weather.slow_s = until, fault.seconds / 4
            case FaultKind.RESULTS_DOUBLED:
                weather.results.extend([fault.seconds] * fault.count * DOUBLED_AT_ONCE)
            case FaultKind.RESULTS_LATE:
                weather.results.extend([None] * fault.count)
            case FaultKind.FAILURES_ECHOED:
                weather.echoes += fault.count
            case FaultKind.CLOCK_JUMP:
                self.rarities["clock of a process jumped"] += 1
                process.clock.jump(round(fault.seconds * 1000))
            case FaultKind.DATABASE_CLOCK_JUMP:
                self.rarities["clock of the database jumped"] += 1
                self._database_wrong_by_ms += round(fault.seconds * 1000)
                self._set_back_by_ms += max(0, -round(fault.seconds * 1000))
            case FaultKind.BIRTH_LATE:
                weather.births.extend([fault.seconds] * fault.count)
            case _:
                weather.commits.extend([(COMMIT_FAULTS[fault.kind], fault.seconds)] * fault.count)

    def _freeze(self, process: SimulatedProcess, seconds: float) -> None:
        if process.frozen:
            return
        if seconds * 1000 > self.character.lease_ms:
            self.rarities["process frozen past its lease"] += 1
        process.freeze()
        self._from_outside(seconds, self._thaw, process)

    def _thaw(self, process: SimulatedProcess) -> None:
        if process.frozen and not process.dead:
            process.thaw()

    # -- surroundings ---------------------------------------------------------------------
    def _database_now(self) -> int:
        return EPOCH_MS + int(self.loop.time() * 1000) + self._database_wrong_by_ms

    async def _signal_whoever_waits(self) -> None:
        """While calm: people answer the runs that wait for them."""
        while True:
            await asyncio.sleep(SIGNAL_EVERY_S)
            for instance_id, run in list(self.judge.runs.items()):
                for waiting in list(run.waits.values()):
                    if run.ended is None and "dueAt" not in waiting.payload.value:
                        await self._clients[0].signal(instance_id, waiting.payload.value["event"])

    @contextmanager
    def _under_control(self) -> Iterator[None]:
        """No other dice, no other log, no compiling of what is compiled; the garbage waits."""
        compiled = {case.name: case.plan for case in self._all_cases()}
        dice = random.Random(f"uuid {self.seed}")
        complaints = _Complaints(self.judge)
        log = logging.getLogger("anabranch")
        thresholds = gc.get_threshold()
        kept = (plans.compile_plan, turn.decide, uuid.uuid4, log.level, log.propagate)
        plans.compile_plan = lambda document, node_types: compiled[document["name"]]
        turn.decide = self.judge.checked(turn.decide)
        uuid.uuid4 = lambda: uuid.UUID(int=dice.getrandbits(128), version=4)
        log.setLevel(logging.ERROR)
        log.propagate = False
        log.addHandler(complaints)
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        try:
            with self.loop.running():
                yield
        finally:
            gc.set_threshold(*thresholds)
            log.removeHandler(complaints)
            plans.compile_plan, turn.decide, uuid.uuid4, log.level, log.propagate = kept

    def _log_of(self, instance_id: str | None) -> str:
        record = None if instance_id is None else self.database.instances.get(instance_id)
        if instance_id is None or record is None:
            return ""
        writers = self.judge.facts(instance_id).writers
        lines = [f"{record.row}"]
        for number, row in enumerate(record.events):
            place = f"{row.node_id} {row.scope} #{row.attempt}" if row.node_id else ""
            writer = writers[number] if number < len(writers) else "?"
            handle = f" by {row.next_handle}" if row.next_handle else ""
            text = row.payload.raw.decode()[:160]
            lines.append(
                f"{row.seq:4} {row.created_at - EPOCH_MS:8} ms {writer:6} {row.type:20} {place}{handle} {text}"
            )
        return "\n".join(lines)


_OUTSIDE = contextvars.Context()
"""A context that belongs to no process."""


class _Complaints(logging.Handler):
    """What the engine logs as an error is one: no exception of its own is an everyday matter."""

    def __init__(self, judge: Judge) -> None:
        super().__init__(level=logging.ERROR)
        self._judge = judge

    def emit(self, record: logging.LogRecord) -> None:
        what = record.getMessage()
        if record.exc_info:
            what += "\n" + logging.Formatter().formatException(record.exc_info)
        self._judge.accuse("the shell meets no exception of its own", what, getattr(record, "instance_id", None))
