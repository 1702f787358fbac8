"""Each hole of the engine's ancestor, put back, is found; so the simulation looks where it must."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import anabranch
from tests.simulation.coded_mutants import CODED_MUTANTS
from tests.simulation.faults import Fault
from tests.simulation.hunting import HUNT_STEPS_MAX, hunt, repeat, report, shrink
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.patching import Patch, patched
from tests.simulation.world import simulate

# The promise of the project: sixteen holes at least.
MUTANTS_MIN = 16

PRODUCT = Path(anabranch.__file__).parent

ALL_MUTANTS = (*MUTANTS, *CODED_MUTANTS)


# 200,000 steps take some seconds, and minutes on a machine that does much else.
HUNT_SECONDS_MAX = 300


@pytest.mark.timeout(HUNT_SECONDS_MAX)
@pytest.mark.parametrize("mutant", ALL_MUTANTS, ids=lambda mutant: mutant.name)
def test_the_simulation_finds(mutant: Mutant) -> None:
    catch = hunt(mutant)
    assert catch is not None, (
        f"{mutant.name} survived {HUNT_STEPS_MAX} steps: {mutant.hole}, and nobody notices.\n"
        "Either it is no defect any more, or the worlds do not go where it shows."
    )


def test_there_are_enough_mutants_and_no_two_alike() -> None:
    assert len(MUTANTS) >= MUTANTS_MIN
    assert len({mutant.name for mutant in ALL_MUTANTS}) == len(ALL_MUTANTS)
    assert len({mutant.patches for mutant in ALL_MUTANTS}) == len(ALL_MUTANTS)


def test_mutants_use_only_attributes_that_there_are() -> None:
    """Otherwise one raises AttributeError, and is found for that."""
    there_are = {name for file in PRODUCT.rglob("*.py") for name in re.findall(r"\w+", file.read_text())}
    missing = {
        (mutant.name, name)
        for mutant in ALL_MUTANTS
        for patch in mutant.patches
        for name in re.findall(r"[a-z_]\w*\.([a-z_]\w*)", patch.new)
        if name not in there_are
    }
    assert not missing


def test_a_failure_is_shrunk_repeated_and_reported() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == "job-only-in-memory")
    found = hunt(mutant)
    assert found is not None
    with patched(mutant.patches):
        smallest = shrink(found.outcome)
        again = repeat(smallest.seed, [fault.number for fault in smallest.struck])
    assert len(smallest.struck) <= len(found.outcome.struck)
    assert [str(each) for each in again.violations] == [str(each) for each in smallest.violations]
    text = report(smallest)
    assert f"python -m tests.simulation --seed {smallest.seed} --faults " in text
    assert "INPUT_SET" in text, "the log of the run is shown"


def test_a_mutant_is_gone_when_its_hunt_is_over() -> None:
    hunt(next(mutant for mutant in MUTANTS if mutant.name == "all-join-runs-early"))
    assert not simulate(3).violations


def test_a_mutant_whose_code_has_moved_says_so() -> None:
    with (
        pytest.raises(LookupError, match="write the patch of this mutant anew"),
        patched([Patch("rules.drawn.joins:join_decision", "no such code", "")]),
    ):
        pass


def test_leaving_out_every_fault_leaves_a_world_without_any() -> None:
    def none(plan: list[Fault]) -> list[Fault]:
        return []

    assert simulate(5, choose=none).struck == ()
