"""One simulated world from beginning to end: some processes, some clients, one database, and a plan of what goes wrong.

    outcome = simulate(seed)

First chaos, for a number of callbacks, with every commit judged; then nothing goes wrong any more and
everything must end within a bound. The same seed gives the same world, callback by callback.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, product

from anabranch.engine.ports import InstanceRow, NewVersion
from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.shared.blame import CRASH_DELAYS_MS
from anabranch.handlers import Services, builtin_types
from anabranch.testing.memory_store.database import MemoryDatabase
from tests.simulation.aftermath import last_look, look_how_soon, replay_completed, written_log
from tests.simulation.cases import SimulatedCase
from tests.simulation.character import (
    draw_character,
    entry_point_anywhere,
    poisoned,
    repairing,
    rolling_out,
    with_executors,
)
from tests.simulation.clients import Client, Known
from tests.simulation.coded_cases import CodedCase
from tests.simulation.control import under_control
from tests.simulation.faults import Fault, draw_plan, sparing
from tests.simulation.judge import Judge, Violation
from tests.simulation.loop import SimulatedLoop
from tests.simulation.machines import DatabaseClock, Machines
from tests.simulation.nodes import SimulatedTypes
from tests.simulation.processes import ChildrenHere

# Nobody may wait longer than this for the next row once nothing goes wrong: the longest delay of a case is 7 s, the
# longest lease 4 s, clients ask again after 4 s, and a run that has crashed alone is due after 100 s. (The database's
# clock may have been set back besides.)
QUIET_MS_MAX = 40_000 + max(CRASH_DELAYS_MS)

# 300,000 callbacks would mean that something spins; calm worlds need some thousands.
CALM_STEPS_MAX = 300_000

# Of the faults that were in store, a theft may let a run crash alone, and so delay it by 100 s, in which four idle
# processes take some 62,000 callbacks.
CALM_STEPS_PER_THEFT = 100_000

# Asking whether all has ended costs more than a callback.
STEPS_BETWEEN_LOOKS = 50

# After the last run has ended: long enough for every loop of the engine to have looked once more.
AFTERWARDS_S = 2.0

# A call to a database that was slow may need 3 s there and 3 s back, although it is slow no more: how soon something
# takes effect can only be measured after that.
ON_ITS_WAY_S = 7.0

# While calm, whoever waits for a signal is sent one so often.
# In every third world somebody pauses runs, in every other third somebody retries and forks them: the rest stay as
# they were before there were either.
WORLDS_PER_PAUSING = 3

# Of 24 worlds: in these, which are among that rest, workflows and tenants are paused, too, and a node type comes and
# goes with the processes; in the others no process ends but by what it executes.
GATED = frozenset({8, 11})
POISONED = frozenset({17, 20})
WORLDS_PER_ROUND = 24

# Of 13 worlds of drawn runs: in these runs begin at triggers and have nodes that run once per item. 13 and the numbers
# above have no common divisor: such worlds have pauses, repairs, gates and poison as often as others.
ENTRY_POINT = frozenset({4, 5})
WORLDS_PER_ENTRY_POINT = 13

# Of 17 worlds of drawn runs: in this one `work` is executed by executors.
POOLED = 12
WORLDS_PER_POOLED = 17

SIGNAL_EVERY_S = 0.8

# The other waits see their timeouts.
ANSWERED_IN_TIME = 0.3


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
    """The log of the run that the first violation is about."""


# A seed says which kind its world is of. Below the first number it has drawn runs, from there to the second coded
# runs; from the second on even seeds have drawn runs, odd ones coded runs, so that there is no end to either.
CODED_FROM = 1_000_000
MIXED_FROM = 2_000_000


def is_coded(seed: int) -> bool:
    """Is this the seed of a world with coded runs?"""
    return seed >= CODED_FROM and (seed < MIXED_FROM or seed % 2 == 1)


def world_seeds(number: int) -> tuple[int, int]:
    """The seeds of the world of this number with drawn runs, and of that with coded runs; no two numbers share one."""
    if number < CODED_FROM:
        return number, CODED_FROM + number
    return 2 * number, 2 * number + 1


Choice = Callable[[list[Fault]], list[Fault]]
"""Which faults of a plan are to happen."""


def simulate(seed: int, *, choose: Choice | None = None) -> Outcome:
    """The world of a seed; `choose` may leave faults out."""
    return _World(seed, choose).play()


class _World:
    """Everything that exists in one simulation."""

    def __init__(self, seed: int, choose: Choice | None) -> None:
        self._seed = seed
        character = draw_character(random.Random(f"character {seed}"), coded=is_coded(seed))
        if seed % WORLDS_PER_ENTRY_POINT in ENTRY_POINT and not is_coded(seed):
            character = entry_point_anywhere(character, random.Random(f"beginnings {seed}"))
        if seed % WORLDS_PER_POOLED == POOLED and not is_coded(seed):
            character = with_executors(character)
        if seed % WORLDS_PER_PAUSING == 1:
            character = repairing(character)
        self._is_gated = seed % WORLDS_PER_ROUND in GATED
        self._is_poisoned = seed % WORLDS_PER_ROUND in POISONED
        if self._is_gated:
            character = rolling_out(character)
        if self._is_poisoned:
            character = poisoned(character)
        self._character = character
        self._rarities: Counter[str] = Counter()
        self._loop = SimulatedLoop(seed=seed, in_order=is_coded(seed))
        self._clock = DatabaseClock(self._loop)
        self._judge = Judge(
            cases={
                **{(case.name, case.version): case for case in character.drawn_cases},
                **{(case.name, case.version): case for case in character.coded_cases},
            },
            rarities=self._rarities,
            crashes_max=character.crashes_max,
            lease_ms=character.lease_ms,
            log_limit=character.log_limit,
            loop=self._loop,
            seed=seed,
            only_poison_kills=self._is_poisoned and not is_coded(seed),
        )
        self._database = MemoryDatabase(now=self._clock.now, on_commit=self._judge.transaction)
        self._judge.pauses = self._database.pauses
        types = SimulatedTypes(
            builtin_types(Services(children=ChildrenHere(self._judge.processes))), self._judge.ledger, seed=seed
        )
        self._machines = Machines(
            loop=self._loop,
            database=self._database,
            database_clock=self._clock,
            judge=self._judge,
            types=types,
            code=[case.workflow(self._judge.steps) for case in character.coded_cases],
            character=character,
            rarities=self._rarities,
            seed=seed,
        )
        types.let_poison_kill(self._machines.poison)
        plan = draw_plan(
            random.Random(f"faults {seed}"),
            steps=character.chaos_steps,
            slots=character.slots,
            lease_s=character.lease_ms / 1000,
        )
        if self._is_poisoned:
            plan = sparing(plan)
        self._plan = deque(choose(plan) if choose else plan)
        self._clients: list[Client] = []
        self._client_tasks: list[asyncio.Task[None]] = []

    def play(self) -> Outcome:
        """Chaos, then calm, then the last look; no further than to the first broken promise."""
        violations = self._judge.violations
        compiled = {case.name: case.plan for case in self._character.drawn_cases}
        with under_control(self._judge, compiled, seed=self._seed), self._loop.running():
            self._begin()
            for act in (self._chaos, self._until_all_has_ended, self._probe, self._last_look):
                if not violations:
                    act()
            self._end()
        return Outcome(
            seed=self._seed,
            steps=self._loop.steps,
            trace=f"{self._loop.trace:016x}-{self._judge.digest}",
            runs=len(self._judge.runs),
            commits=self._judge.commits,
            violations=tuple(violations),
            struck=tuple(self._machines.struck),
            rarities=self._rarities,
            log=written_log(self._judge, self._database, violations[0].instance_id) if violations else "",
        )

    # -- acts -----------------------------------------------------------------------------
    def _begin(self) -> None:
        for coded in self._character.coded_cases:
            self._database.definitions.register(
                name=coded.name, version=coded.version, definition={"workflowOptions": coded.options}
            )
        tenants = {f"tenant{number}": Known() for number in range(self._character.tenants)}
        for tenant_id, case in product(tenants, self._character.drawn_cases):
            version = NewVersion(name=case.name, title=case.name, definition=case.document, kind=case.kind)
            self._database.definitions.save(version, tenant_id=tenant_id)
        self._machines.start()
        for number, tenant_id in zip(range(self._character.clients), cycle(tenants), strict=False):
            client = Client(
                rng=random.Random(f"client {self._seed} {number}"),
                cases=self._character.cases,
                known=tenants[tenant_id],
                judge=self._judge,
                database=self._database,
                processes=self._machines.reachable,
                name=f"client{number}",
                tenant_id=tenant_id,
            )
            self._clients.append(client)
            self._client_tasks.append(self._loop.create_task(client.act(self._character.runs_per_client)))
        if self._seed % WORLDS_PER_PAUSING == 0:
            dice = random.Random(f"pauses {self._seed}")
            self._client_tasks += [self._loop.create_task(client.pause_now_and_then(dice)) for client in self._clients]
        if self._is_gated:
            dice = random.Random(f"gates {self._seed}")
            names = [case.name for case in self._character.cases]
            for client in self._clients:
                self._client_tasks.append(self._loop.create_task(client.pause_now_and_then(dice)))
                self._client_tasks.append(self._loop.create_task(client.pause_workflows_now_and_then(dice, names)))
        if self._seed % WORLDS_PER_PAUSING == 1:
            dice = random.Random(f"repairs {self._seed}")
            self._client_tasks += [self._loop.create_task(client.repair_now_and_then(dice)) for client in self._clients]

    def _chaos(self) -> None:
        loop, plan, violations = self._loop, self._plan, self._judge.violations
        while loop.steps < self._character.chaos_steps and not violations:
            while plan and plan[0].step <= loop.steps:
                self._machines.strike(plan.popleft())
            self._step()

    def _until_all_has_ended(self) -> None:
        """From here on nothing new goes wrong; what went wrong before still has its consequences."""
        self._machines.clear_up()
        for client in self._clients:
            client.stopped = True
        helpful = self._loop.create_task(self._signal_whoever_waits())
        judge, loop, clock = self._judge, self._loop, self._clock
        judge.last_row_at = clock.now()
        steps_max = loop.steps + CALM_STEPS_MAX - CALM_STEPS_PER_THEFT * self._thefts
        while not judge.violations and not self._all_has_ended():
            for _ in range(STEPS_BETWEEN_LOOKS):
                self._step()
            quiet_ms = clock.now() - judge.last_row_at
            spins = loop.steps > steps_max + CALM_STEPS_PER_THEFT * self._thefts
            if quiet_ms > QUIET_MS_MAX + clock.set_back_by_ms or spins:
                self._accuse_stuck()
        helpful.cancel()

    def _probe(self) -> None:
        self._machines.clear()
        self._play_on(ON_ITS_WAY_S)
        for pause in list(self._database.pauses.values()):  # that was on its way when everything had ended
            self._database.unpause(tenant_id=pause.tenant_id, workflow_id=pause.workflow_id)
        probe = self._loop.create_task(look_how_soon(self._clients[0], self._judge))
        until = self._loop.time() + QUIET_MS_MAX / 1000
        while not probe.done() and not self._judge.violations:
            self._step()
            if self._loop.time() > until:
                self._judge.accuse("every call is answered", f"the probe waits in vain: {probe}")
        if probe.done():
            probe.result()
        probe.cancel()  # a world that is broken off has to end all the same

    def _last_look(self) -> None:
        self._play_on(AFTERWARDS_S)
        last_look(self._judge, self._machines, self._database, self._rarities)
        if not self._judge.violations:
            replay = self._loop.create_task(replay_completed(self._judge, self._database, self._rarities))
            until = self._loop.time() + QUIET_MS_MAX / 1000
            while not replay.done() and not self._judge.violations:
                self._step()
                if self._loop.time() > until:
                    self._judge.accuse("a finished run is replayed to its end", f"the replay waits in vain: {replay}")
            if replay.done():
                replay.result()
            replay.cancel()

    def _end(self) -> None:
        """Unwind whatever still stands, while there is a loop to do it in."""
        self._machines.end()
        for task in self._client_tasks:
            task.cancel()
        while self._loop.step():
            pass
        self._loop.close()

    # -- within ---------------------------------------------------------------------------
    @property
    def _thefts(self) -> int:
        return self._rarities["instance stolen before a commit"]

    def _play_on(self, seconds: float) -> None:
        until = self._loop.time() + seconds
        while self._loop.time() < until and not self._judge.violations:
            self._step()

    def _step(self) -> None:
        if not self._loop.step():
            self._judge.accuse("the world goes on", "nothing is scheduled any more")

    def _all_has_ended(self) -> bool:
        return not any(True for _ in self._database.open_rows()) and all(task.done() for task in self._client_tasks)

    def _accuse_stuck(self) -> None:
        for row in self._database.open_rows():
            what = f"it is {row.status}, held by {row.worker_id}, version {row.version}, and nothing happens any more"
            promise = "a started instance reaches a terminal status whatever crashes"
            self._judge.accuse(promise, what, row.head.instance_id)
            return
        waiting = [task for task in self._client_tasks if not task.done()]
        self._judge.accuse("every call is answered", f"{len(waiting)} clients wait in vain: {waiting[0]}")

    async def _signal_whoever_waits(self) -> None:
        """While calm: people answer the runs that wait for them; of those that wait only for a while, some.

        What somebody has paused and forgotten goes on; a fork that its plan has warned of is cancelled.
        """
        dice = random.Random(f"helpful {self._seed}")
        helpers = {client.tenant_id: client for client in self._clients}
        while True:
            await asyncio.sleep(SIGNAL_EVERY_S)
            for pause in list(self._database.pauses.values()):
                await helpers[pause.tenant_id].open_gate(pause.workflow_id)
            for instance_id, run in list(self._judge.runs.items()):
                row = self._database.instances[instance_id].row
                if run.ended is None and row.suspended_for is not None:
                    helper = helpers[row.head.tenant_id]
                    await (helper.cancel if _never_goes_on(row, run.case) else helper.resume)(instance_id)
                for waiting in list(run.waits.values()):
                    note = waiting.payload.value
                    if run.ended is None and ("dueAt" not in note or dice.random() < ANSWERED_IN_TIME):
                        tenant_id = self._database.instances[instance_id].row.head.tenant_id
                        await helpers[tenant_id].signal(instance_id, note["event"])


def _never_goes_on(row: InstanceRow, case: SimulatedCase | CodedCase) -> bool:
    """Whether a run is a fork whose log its function does not repeat, because of what rows do not say."""
    is_changed = row.suspended_for is SuspendReason.NONDETERMINISM and row.head.forked_from is not None
    return is_changed and isinstance(case, CodedCase) and case.hands_over
