"""What a workflow function asks for does not depend on the process: not on its hash seed, nor on addresses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.durable.loop_world import digest_of_all

ROOT = Path(__file__).parents[2]

HASH_SEEDS = ("1", "2")


def test_every_program_comes_to_the_same_under_other_hash_seeds_and_addresses() -> None:
    here = digest_of_all()

    others = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.durable.loop_world"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in HASH_SEEDS
    ]

    assert [other.communicate()[0].strip() for other in others] == [here] * len(others)
