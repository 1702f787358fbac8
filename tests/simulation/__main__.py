"""Simulate many worlds, hunt every mutant, and say what was met: `make simulate`.

    python -m tests.simulation                        as many seeds as 120 seconds hold, then all mutants
    python -m tests.simulation --first-seed 1500000   the same worlds again: it says at its start where it begins
    python -m tests.simulation --seed 42              one world again
    python -m tests.simulation --seed 42 --faults 3,7 with two of its faults only
    python -m tests.simulation --mutant NAME          hunt one mutant

The last line is one JSON object. The exit code is 1 if a promise was broken, a mutant survived, a
rare situation was never met, or too few steps were run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import secrets
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from tests.simulation.cases import RANDOM_CASES, drawn_cases, probe_case, random_case_of, repaired_cases
from tests.simulation.coded_cases import RANDOM_PROGRAMS, coded_cases, random_coded_case
from tests.simulation.coded_mutants import CODED_MUTANTS
from tests.simulation.hunting import (
    Catch,
    Tally,
    hunt,
    known_seeds,
    remember_seed,
    repeat,
    report,
    shrink,
    soak,
)
from tests.simulation.mutants import MUTANTS
from tests.simulation.rarities import EXPECTED
from tests.simulation.world import world_seeds

ALL_MUTANTS = (*MUTANTS, *CODED_MUTANTS)

# Two minutes are what a person or a CI job waits for gladly. On a machine where that is not enough for half a
# million steps, it takes longer.
SECONDS = 120.0
STEPS_MIN = 500_000
STEPS_MARK = 3_000_000

# Worlds of both kinds are handed out in small lots, so that the workers end together.
WORLDS_PER_LOT = 4

# Where a run begins that is not told where: no two begin at the same place, and a seed stays short enough to be typed.
FIRST_SEED_MAX = 1_000_000_000

WORKERS = 2

# One lot in hand and one waiting for each worker.
LOTS_AHEAD = 2 * WORKERS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 0 if all is well."""
    options = _options().parse_args(arguments)
    if options.seed is not None:
        return _one_seed(options.seed, options.faults)
    if options.mutant is not None:
        return _one_mutant(options.mutant)
    _prepare()
    first = secrets.randbelow(FIRST_SEED_MAX) if options.first_seed is None else options.first_seed
    print(f"worlds from {first} on; the same again: make simulate SEED={first}", flush=True)
    # Forked, so that the prepared cases are shared; before any thread exists.
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        began = time.monotonic()
        tally, room = Tally(), threading.Semaphore(LOTS_AHEAD)
        for part in pool.imap_unordered(_lot, _lots(first, began, options.seconds, tally, room)):
            tally.merge(part)
            room.release()
        seconds = time.monotonic() - began
        _show(tally, seconds)
        catches = dict(pool.imap_unordered(_hunted, range(len(ALL_MUTANTS)), chunksize=1)) if options.mutants else {}
    survivors = [ALL_MUTANTS[number].name for number, steps in catches.items() if steps is None]
    return _verdict(tally, catches, survivors)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long to soak (default: %(default)s)")
    parser.add_argument("--first-seed", type=int, help="the number of the first world (default: drawn anew)")
    parser.add_argument("--no-mutants", dest="mutants", action="store_false", help="soak only")
    parser.add_argument("--seed", type=int, help="run this world only")
    parser.add_argument("--faults", help="with --seed: only these faults of its plan, or none")
    parser.add_argument("--mutant", choices=[mutant.name for mutant in ALL_MUTANTS], help="hunt this mutant only")
    return parser


def _one_seed(seed: int, faults: str | None) -> int:
    numbers = None if faults is None else [int(number) for number in faults.split(",") if number.isdigit()]
    outcome = repeat(seed, numbers)
    if outcome.violations:
        print(report(outcome))
        return 1
    print(
        f"seed {seed}: {outcome.steps} steps, {outcome.runs} runs, {len(outcome.struck)} faults, trace {outcome.trace}"
    )
    return 0


def _one_mutant(name: str) -> int:
    catch = hunt(next(mutant for mutant in ALL_MUTANTS if mutant.name == name))
    if catch is None:
        print(f"{name} was not found")
        return 1
    print(f"{name} was found after {catch.steps} steps")
    print(report(catch.outcome))
    return 0


def _prepare() -> None:
    drawn_cases()
    repaired_cases()
    probe_case()
    coded_cases()
    for number in range(RANDOM_PROGRAMS):
        random_coded_case(number)
    for number in range(RANDOM_CASES):
        random_case_of(number)


def _lots(first: int, began: float, seconds: float, tally: Tally, room: threading.Semaphore) -> Iterator[list[int]]:
    """Seeds that once failed, then new ones of both kinds of worlds until the time is over and enough was done."""
    yield known_seeds()
    while time.monotonic() - began < seconds or tally.steps < STEPS_MIN:
        room.acquire()  # the pool would take all the lots there are at once
        yield [seed for number in range(first, first + WORLDS_PER_LOT) for seed in world_seeds(number)]
        first += WORLDS_PER_LOT


def _lot(seeds: list[int]) -> Tally:
    tally = Tally()
    for outcome in soak(seeds):
        tally.add(outcome)
        if outcome.violations:
            smallest = shrink(outcome)
            print(report(smallest), flush=True)
            remember_seed(outcome.seed, outcome.violations[0].invariant)
    return tally


def _hunted(number: int) -> tuple[int, int | None]:
    catch: Catch | None = hunt(ALL_MUTANTS[number])
    return number, None if catch is None else catch.steps


def _show(tally: Tally, seconds: float) -> None:
    print(
        f"{tally.seeds} worlds, {tally.runs} runs, {tally.commits} commits, {tally.steps} steps"
        f" ({tally.steps / seconds:,.0f} a second; the mark is {STEPS_MARK:,})"
    )
    print("rare situations met:")
    for name in sorted({*EXPECTED, *tally.rarities}):
        print(f"  {tally.rarities[name]:8}  {name}")


def _verdict(tally: Tally, catches: dict[int, int | None], survivors: list[str]) -> int:
    never_met = [name for name in EXPECTED if not tally.rarities[name]]
    for number, steps in sorted(catches.items()):
        found = "NOT FOUND" if steps is None else f"found after {steps} steps"
        print(f"  mutant {ALL_MUTANTS[number].name}: {found}")
    if never_met:
        print(f"tested nothing: never met {', '.join(never_met)}")
    for seed in tally.failed:
        print(f"failed: seed {seed}, added to seeds.txt")
    print(
        json.dumps(
            {
                "steps": tally.steps,
                "seeds": tally.seeds,
                "violations": len(tally.failed),
                "mutants_caught": len(catches) - len(survivors),
                "mutants": len(catches),
            }
        )
    )
    return 1 if tally.failed or survivors or never_met else 0


if __name__ == "__main__":
    sys.exit(main())
