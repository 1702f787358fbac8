"""The runs that are recorded: by name, the function and its input."""

from __future__ import annotations

from typing import Any

from tests.golden.coded import eighteen
from tests.golden.coded.programs import PROGRAMS, Function

CASES: dict[str, tuple[Function, Any]] = {name: (function, None) for name, function in PROGRAMS.items()} | {
    f"{name}/{seed}": (function, seed) for name, function in eighteen.PROGRAMS.items() for seed in eighteen.SEEDS
}
