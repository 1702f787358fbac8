"""What is peculiar to a world: how many processes, how they are set, which workflows its clients know.

Drawn from the seed by `world`. Small limits (two held instances, one transition a batch, a lease of less
than a second) are as likely as big ones: most defects hide where something is full or nearly over.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from tests.simulation.cases import (
    RANDOM_CASES,
    SimulatedCase,
    drawn_cases,
    poison_case,
    probe_case,
    random_case_of,
    repaired_cases,
)
from tests.simulation.coded_cases import (
    RANDOM_PROGRAMS,
    CodedCase,
    coded_cases,
    coded_child_cases,
    random_coded_case,
)
from tests.simulation.entry_point_cases import (
    RANDOM_ENTRY_POINT_CASES,
    called_case,
    entry_point_cases,
    random_entry_point_case_of,
)
from tests.simulation.family_cases import caller_case, child_cases, parent_cases

# In a third of the worlds some runs start others; the other worlds are left to what runs do alone.
WITH_FAMILIES = 1 / 3


# In a third of the worlds logs are so small that some runs end because theirs is full.
WITH_SMALL_LOGS = 1 / 3


@dataclass(frozen=True, slots=True)
class Character:
    """The settings of one world."""

    slots: int
    chaos_steps: int
    lease_ms: int
    concurrency: int
    held_max: int
    batch_transitions_max: int
    commits_in_flight_max: int
    crashes_max: int
    clients: int
    tenants: int
    """Clients belong to them in turn."""
    runs_per_client: int
    skew_ms: int
    """So far wrong a clock may be when its process starts."""
    drift: float
    """So much too fast or too slow may a clock be: half a per cent, or as in a machine whose oscillator is broken."""
    idle_slot: int | None
    """A slot that takes requests and runs nothing."""
    cases: tuple[SimulatedCase | CodedCase, ...]
    """What the clients start."""
    called: tuple[SimulatedCase, ...] = field(default=(), kw_only=True)
    """What only other runs start, apart from the children of every world."""
    codeless_slot: int | None = field(default=None, kw_only=True)
    """A slot whose processes know no coded workflow."""
    rolls_out: bool = field(default=False, kw_only=True)
    """Half of the processes, but none in the first slot, lack the node type `work` until all is calm."""
    has_executors: bool = field(default=False, kw_only=True)
    """`work` is executed by executors behind a broker."""
    log_limit: LogLimit
    """How large a log may become: in most worlds larger than any does."""
    evaluations_max: int
    """So many pure nodes a transition evaluates: with few, most are left for a later one."""

    @property
    def drawn_cases(self) -> tuple[SimulatedCase, ...]:
        """Every drawn workflow that is saved, the probe included, and what the others start."""
        drawn = (case for case in self.cases if isinstance(case, SimulatedCase))
        return (*drawn, probe_case(), *child_cases(), *self.called)

    @property
    def coded_cases(self) -> tuple[CodedCase, ...]:
        """Every coded workflow that workers know; none in a world of drawn runs."""
        coded = tuple(case for case in self.cases if isinstance(case, CodedCase))
        return (*coded, *coded_child_cases()) if coded else ()

    def options(self, slot: int) -> EngineOptions:
        """How the engine in this slot behaves."""
        return EngineOptions(
            lease_ms=self.lease_ms,
            concurrency=self.concurrency,
            held_max=self.held_max,
            held_per_tenant_max=self.held_max if self.tenants == 1 else self.held_max // 2,
            crashes_max=self.crashes_max,
            batch_transitions_max=self.batch_transitions_max,
            evaluations_max=self.evaluations_max,
            works=slot != self.idle_slot,
            log_limit=self.log_limit,
            watches_loop=False,
        )


def repairing(character: Character) -> Character:
    """The same for a world whose runs are retried and forked.

    Drawn runs have loops without a loop node there, and some kill their process; of the workers for coded runs, one may
    lack their code.
    """
    workers = character.slots - (character.idle_slot is not None)
    if character.coded_cases:
        return replace(character, codeless_slot=0 if workers > 1 else None)
    return replace(character, cases=(*character.cases, *repaired_cases()))


def with_executors(character: Character) -> Character:
    """The same for a world in which other processes execute `work`, behind a broker that keeps no promise."""
    return replace(character, has_executors=True)


def rolling_out(character: Character) -> Character:
    """The same for a world in which a node type comes and goes with the processes."""
    return replace(character, rolls_out=True)


def poisoned(character: Character) -> Character:
    """The same for a world in which some runs kill their process, and nothing else ends or interrupts one."""
    return replace(character, cases=(*character.cases, poison_case()), skew_ms=0)


def entry_point_anywhere(character: Character, rng: random.Random) -> Character:
    """The same for a world whose runs begin at triggers, and have nodes that run once per item of a list."""
    by_hand = rng.sample(entry_point_cases(), 4)
    by_dice = (random_entry_point_case_of(number) for number in rng.sample(range(RANDOM_ENTRY_POINT_CASES), 4))
    return replace(character, cases=(*by_hand, *by_dice, character.cases[0]), called=(called_case(),))


def draw_character(rng: random.Random, *, coded: bool) -> Character:
    """The character that these dice give, of a world of coded runs or of drawn ones alone."""
    slots = rng.choice((1, 2, 2, 3, 3, 4, 5))
    clients = rng.choice((1, 2, 3))
    return Character(
        slots=slots,
        chaos_steps=rng.choice((700, 1_500, 4_000, 8_000)),
        lease_ms=rng.choice((900, 1_500, 4_000)),
        concurrency=rng.choice((1, 2, 8)),
        held_max=rng.choice((2, 6, 100)),
        batch_transitions_max=rng.choice((1, 3, 256)),
        commits_in_flight_max=rng.choice((1, 2)),
        crashes_max=rng.choice((1, 1, 2, 10)),
        clients=clients,
        tenants=min(clients, rng.choice((1, 2, 3))),
        runs_per_client=rng.choice((4, 8, 16)),
        skew_ms=rng.choice((0, 20, 500)),
        drift=rng.choice((0.005, 0.05)),
        idle_slot=slots - 1 if slots > 1 and rng.random() < 0.2 else None,
        cases=_draw_coded_cases(rng) if coded else _draw_cases(rng),
        log_limit=_draw_log_limit(rng),
        evaluations_max=rng.choice((1, 3, 200)),
    )


def _draw_log_limit(rng: random.Random) -> LogLimit:
    if rng.random() >= WITH_SMALL_LOGS:
        return LOG_LIMIT
    return LogLimit(bytes_max=rng.choice((4_000, 12_000, LOG_LIMIT.bytes_max)), rows_max=rng.choice((20, 40, 100)))


def _draw_cases(rng: random.Random) -> tuple[SimulatedCase, ...]:
    drawn = rng.sample(drawn_cases(), rng.randint(2, 5))
    alone = (*drawn, *(random_case_of(number) for number in rng.sample(range(RANDOM_CASES), rng.randint(1, 4))))
    return (*alone, *rng.sample(parent_cases(), 3)) if rng.random() < WITH_FAMILIES else alone


def _draw_coded_cases(rng: random.Random) -> tuple[SimulatedCase | CodedCase, ...]:
    """Mostly coded workflows, and among them a few drawn ones, one of which starts coded ones."""
    by_hand = rng.sample(coded_cases(), rng.randint(2, 5))
    programs = (random_coded_case(number) for number in rng.sample(range(RANDOM_PROGRAMS), rng.randint(3, 6)))
    return (*by_hand, *programs, rng.choice(drawn_cases()), caller_case())
