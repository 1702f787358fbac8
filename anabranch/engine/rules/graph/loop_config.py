"""The config of a loop node, with its defaults; the names of the types that repeat; what a mapped node is.

A *mapped* node (`forEach`) runs once for each item of a list: it is compiled into a loop with itself as the body.

Pure. Used by `document` (is it mapped?), `warnings` (how often can it repeat?) and `compile` (how does it iterate?).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.engine.rules.entry_points import ENTRY_POINT_TYPES

LOOP_TYPE = "loop"

CURSOR_TYPE = "cursor"
"""Hands out the next batch of a list in each pass of the region that it is in."""

CURSOR_POSITION = "__position"
"""The name in the context of a cursor under which it finds how many items it has handed out in the passes so far."""

FOR_EACH = "forEach"
MAPPING_FIELDS = ("concurrency", "onItemError", "batchSize")
"""Beside `forEach`: the fields of a mapped node, which its loop has by the same names in its config."""

NEVER_MAPPED = ENTRY_POINT_TYPES | {"end", "condition", "switch", CURSOR_TYPE, LOOP_TYPE}
"""These types decide where a run continues, so one of them cannot represent many items."""

# 100,000 items: each iteration leaves rows; split larger work into child runs.
ITERATIONS_MAX_FOR_EACH = 100_000

# 10,000 iterations open at once is what one instance's memory is dimensioned for.
CONCURRENCY_MAX = 10_000

ON_ITEM_ERROR = ("fail", "collect", "skip")

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


def is_list_or_template(source: Any) -> bool:
    """May it be what `forEach` goes through? What a template gives is known when it is resolved."""
    return isinstance(source, list) or (isinstance(source, str) and "{{" in source)


def batches_of(items: Sequence[Any], size: int | None) -> Sequence[Any]:
    """The items, or batches of them as lists."""
    return items if size is None else [items[at : at + size] for at in range(0, len(items), size)]
