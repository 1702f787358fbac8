"""The config of a loop node, with its defaults; the names of the types that repeat.

Pure. Used by `warnings` (how often can it repeat?) and `compile` (how does it iterate?).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LOOP_TYPE = "loop"

CURSOR_TYPE = "cursor"
"""Hands out the next batch of a list in each pass of the region that it is in."""

CURSOR_POSITION = "__position"
"""The name in the context of a cursor under which it finds how many items it has handed out in the passes so far."""

# 100,000 items: each iteration leaves rows; split larger work into child runs.
ITERATIONS_MAX_FOR_EACH = 100_000

# 100,000 items: as many as a loop has iterations.
BATCH_SIZE_MAX = 100_000

# 1,000 iterations: a condition that never turns false is the usual mistake, and should be noticed soon.
ITERATIONS_MAX_WHILE = 1_000


def is_while(config: Mapping[str, Any]) -> bool:
    """Whether a loop with this config is a `while` loop (else: forEach)."""
    mode = config.get("mode")
    return mode == "while" if mode is not None else config.get("while") is not None


def iterations_max(config: Mapping[str, Any]) -> int:
    """How many iterations a loop with this config may have."""
    return whole_number(config, "maxIterations", ITERATIONS_MAX_WHILE if is_while(config) else ITERATIONS_MAX_FOR_EACH)


def concurrency(config: Mapping[str, Any]) -> int:
    """How many iterations may be open at once; always 1 in `while`, where each needs the last one's result."""
    return 1 if is_while(config) else whole_number(config, "concurrency", 1)


def whole_number(config: Mapping[str, Any], name: str, default: int) -> int:
    """The integer in a field; the default if the field is absent or not an integer."""
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
