"""Some dozens of hostile worlds, each with all promises kept; `make simulate` runs hundreds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation import world
from tests.simulation.faults import Fault
from tests.simulation.hunting import known_seeds, report, shrink
from tests.simulation.rarities import EXPECTED
from tests.simulation.world import CODED_FROM, MIXED_FROM, is_coded, simulate, world_seeds

ROOT = Path(__file__).parents[2]

# 80 worlds are some 400,000 callbacks: under half a minute on a slow core, in lots that two workers can share.
SEEDS = range(1, 81)
CODED_SEEDS = range(CODED_FROM + 1, CODED_FROM + 65)
LOTS = 8

# Met in nearly every lot of ten worlds; the whole list is expected of `make simulate`.
COMMON = (
    "commit lost to an external write",
    "free instance claimed",
    "lapsed lease claimed",
    "process crashed",
    "run matched the oracle",
    "timer after restart",
    "unknown commit found not written",
    "zombie fenced",
)


# Worlds of the rarer kinds: workflows and tenants are paused, node types are missing; only poison ends a process.
OF_RARER_KINDS = (8, 17, 20, 32, 35, 41, 44, 56)
COMMON_THERE = (
    "process killed by what it executed",
    "process without a node type",
    "tenant paused",
    "what kills its process suspended",
    "workflow paused",
)

# Worlds whose runs begin at triggers, and have nodes that run once per item.
OF_ENTRY_POINTS = (148, 316, 421, 616)
COMMON_AT_ENTRY_POINTS = (
    "item of a node copied by a fork",
    "item of a node done",
    "item of a node recovered",
    "run begun at a trigger",
    "run matched the oracle",
)

COMMON_IN_CODE = (
    "coded: function called again",
    "coded: function suspended",
    "coded: run replayed at its end",
    "coded: step called again after a crash",
    "coded: step tried again",
)


@pytest.mark.parametrize("lot", range(LOTS))
def test_every_promise_is_kept_in_hostile_worlds(lot: int) -> None:
    rarities: Counter[str] = Counter()
    for seed in SEEDS[lot::LOTS]:
        outcome = simulate(seed)
        assert not outcome.violations, report(shrink(outcome))
        rarities += outcome.rarities
    missed = [name for name in COMMON if not rarities[name]]
    assert not missed, f"tested nothing: {missed} never happened"
    assert set(COMMON) <= set(EXPECTED)


@pytest.mark.parametrize("lot", range(LOTS))
def test_every_promise_is_kept_in_worlds_of_coded_runs(lot: int) -> None:
    rarities: Counter[str] = Counter()
    for seed in CODED_SEEDS[lot::LOTS]:
        outcome = simulate(seed)
        assert not outcome.violations, report(shrink(outcome))
        rarities += outcome.rarities
    missed = [name for name in COMMON_IN_CODE if not rarities[name]]
    assert not missed, f"tested nothing: {missed} never happened"
    assert set(COMMON_IN_CODE) <= set(EXPECTED)


def test_pauses_missing_types_and_poison_are_met() -> None:
    rarities: Counter[str] = Counter()
    for seed in OF_RARER_KINDS:
        outcome = simulate(seed)
        assert not outcome.violations, report(outcome)
        rarities += outcome.rarities
    assert not [name for name in COMMON_THERE if not rarities[name]]
    assert set(COMMON_THERE) <= set(EXPECTED)


def test_triggers_and_nodes_that_run_once_per_item_are_met() -> None:
    rarities: Counter[str] = Counter()
    for seed in OF_ENTRY_POINTS:
        outcome = simulate(seed)
        assert not outcome.violations, report(outcome)
        rarities += outcome.rarities
    assert not [name for name in COMMON_AT_ENTRY_POINTS if not rarities[name]]
    assert set(COMMON_AT_ENTRY_POINTS) <= set(EXPECTED)


@pytest.mark.parametrize("seed", known_seeds())
def test_a_seed_that_once_broke_a_promise_keeps_them_all(seed: int) -> None:
    outcome = simulate(seed)
    assert not outcome.violations, report(outcome)


def test_a_run_that_is_taken_again_and_again_while_it_is_alone_has_the_time_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its delays of 100 s take more callbacks than something that spins may have."""
    monkeypatch.setattr(world, "CALM_STEPS_MAX", 100_000)
    outcome = simulate(1500173)
    assert not outcome.violations, report(outcome)


def test_every_number_has_a_world_of_each_kind_and_the_recorded_seeds_keep_theirs() -> None:
    numbers = [*range(1, 50), *range(CODED_FROM - 5, CODED_FROM + 50), MIXED_FROM, 10**9]
    seeds = [seed for number in numbers for seed in world_seeds(number)]
    assert len(set(seeds)) == 2 * len(numbers)
    for number in numbers:
        assert [is_coded(seed) for seed in world_seeds(number)] == [False, True]
    assert [seed for seed in known_seeds() if is_coded(seed)] == [
        seed for seed in known_seeds() if CODED_FROM <= seed < MIXED_FROM or (seed > MIXED_FROM and seed % 2)
    ]
    assert not is_coded(CODED_FROM - 1) and is_coded(CODED_FROM) and is_coded(MIXED_FROM - 2)


@pytest.mark.parametrize("number", [1_500_000, 10**9])
def test_worlds_far_from_the_first_are_of_both_kinds(number: int) -> None:
    drawn, coded = (simulate(seed) for seed in world_seeds(number))
    assert not drawn.violations and not coded.violations
    assert not any(name.startswith("coded:") for name in drawn.rarities)
    assert any(name.startswith("coded:") for name in coded.rarities)


def test_a_peaceful_world_is_as_the_oracle_says() -> None:
    def nothing_goes_wrong(plan: list[Fault]) -> list[Fault]:
        return []

    matched = 0
    for seed in range(1, 6):
        outcome = simulate(seed, choose=nothing_goes_wrong)
        assert not outcome.violations, report(outcome)
        assert not outcome.struck
        matched += outcome.rarities["run matched the oracle"]
    assert matched


def test_the_same_seed_gives_the_same_world_callback_by_callback() -> None:
    for seed in (7, CODED_FROM + 7):
        first, second = simulate(seed), simulate(seed)
        assert (first.steps, first.trace) == (second.steps, second.trace)
        assert first.trace != simulate(seed + 1).trace


@pytest.mark.parametrize("seed", [7, CODED_FROM + 7])
def test_the_same_seed_gives_the_same_world_in_another_process(seed: int) -> None:
    """Whatever the order of that process's sets of text: its hash seed is another one."""
    here = simulate(seed)
    script = f"from tests.simulation.world import simulate; print(simulate({seed}).trace)"
    traces = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert traces == {here.trace}
