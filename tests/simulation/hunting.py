"""Run many worlds and report: for soaking, for hunting a mutant, for repeating and shrinking a failure.

Called by the tests and by `python -m tests.simulation`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

from tests.simulation.faults import Fault, only
from tests.simulation.mutants import Mutant
from tests.simulation.patching import patched
from tests.simulation.world import CODED_FROM, Outcome, is_coded, simulate

SEEDS_FILE = Path(__file__).with_name("seeds.txt")

# A mutant must be found within 200,000 callbacks: some ten worlds.
HUNT_STEPS_MAX = 200_000

# What stands before the names of mutants beside a seed that was kept for them: others are hunted without it.
FINDS = "what finds "

# Shrinking runs a world a time: forty of them are a few seconds.
SHRINK_RUNS_MAX = 40


@dataclass(slots=True)
class Tally:
    """What some worlds came to, small enough to be sent between processes."""

    steps: int = 0
    seeds: int = 0
    runs: int = 0
    commits: int = 0
    rarities: Counter[str] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """One more world."""
        self.steps += outcome.steps
        self.seeds += 1
        self.runs += outcome.runs
        self.commits += outcome.commits
        self.rarities += outcome.rarities
        if outcome.violations:
            self.failed.append(outcome.seed)

    def merge(self, other: Tally) -> None:
        """Another's worlds, too."""
        self.steps += other.steps
        self.seeds += other.seeds
        self.runs += other.runs
        self.commits += other.commits
        self.rarities += other.rarities
        self.failed += other.failed


@dataclass(frozen=True, slots=True)
class Catch:
    """How a mutant was found."""

    mutant: str
    steps: int
    """Callbacks run until it was."""
    outcome: Outcome


def known_seeds() -> list[int]:
    """Seeds that once failed: they are run first for ever."""
    return list(_notes())


def _notes() -> dict[int, str]:
    """What is written beside each known seed."""
    lines = SEEDS_FILE.read_text().splitlines() if SEEDS_FILE.exists() else []
    parts = (line.partition("#") for line in lines)
    return {int(seed): note.strip() for seed, _, note in parts if seed.strip()}


def _seeds_for(mutant: Mutant) -> list[int]:
    """The known seeds that a hunt begins with: those that find this mutant, then those that find no certain one."""
    finds = {seed: note.partition(FINDS)[2].split(", ") for seed, note in _notes().items()}
    first = [seed for seed, names in finds.items() if mutant.name in names]
    others = [seed for seed, names in finds.items() if names == [""]]
    return [seed for seed in (*first, *others) if is_coded(seed) is mutant.coded]


def remember_seed(seed: int, why: str) -> None:
    """Add a seed that failed."""
    if seed not in known_seeds():
        with SEEDS_FILE.open("a") as file:
            file.write(f"{seed}  # {why}\n")


def soak(seeds: Iterable[int]) -> Iterator[Outcome]:
    """These worlds, one after the other."""
    return map(simulate, seeds)


def hunt(mutant: Mutant, *, steps_max: int = HUNT_STEPS_MAX) -> Catch | None:
    """Run worlds with this defect until one shows it; None if none does within the steps."""
    steps = 0
    with patched(mutant.patches):
        for seed in chain(_seeds_for(mutant), count(CODED_FROM if mutant.coded else 1)):
            outcome = simulate(seed)
            steps += outcome.steps
            if outcome.violations:
                return Catch(mutant.name, steps, outcome)
            if steps >= steps_max:
                return None
    raise AssertionError("seeds do not run out")


def shrink(outcome: Outcome) -> Outcome:
    """The same failure with fewer faults: halves, then quarters and so on are left out while it still fails."""
    kept = [fault.number for fault in outcome.struck]
    best, invariant = outcome, outcome.violations[0].invariant
    size, runs = max(1, len(kept) // 2), 0
    while size >= 1 and runs < SHRINK_RUNS_MAX and kept:
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            runs += 1
            again = repeat(outcome.seed, fewer)
            if again.violations and again.violations[0].invariant == invariant:
                kept, best = fewer, again
                break
        else:
            size //= 2
    return best


def repeat(seed: int, faults: list[int] | None = None) -> Outcome:
    """The world of a seed, with these faults of its plan only."""
    if faults is None:
        return simulate(seed)

    def choose(plan: list[Fault]) -> list[Fault]:
        return only(plan, faults)

    return simulate(seed, choose=choose)


def report(outcome: Outcome) -> str:
    """A failure for somebody who has never seen a simulation: what, how to repeat it, what struck, the log."""
    numbers = ",".join(str(fault.number) for fault in outcome.struck) or "none"
    return "\n".join(
        [
            f"seed {outcome.seed} broke a promise after {outcome.steps} steps:",
            *(f"  {violation}" for violation in outcome.violations[:5]),
            f"repeat it:  python -m tests.simulation --seed {outcome.seed} --faults {numbers}",
            "the faults that were needed:",
            *(f"  {fault}" for fault in outcome.struck),
            "the run's row and log:",
            outcome.log,
        ]
    )
