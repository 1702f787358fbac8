"""How much work the rules do, counted and not timed: the same number on every machine.

Counts the lines of `anabranch/engine/rules` that are executed. Loops inside C functions are
not seen; whoever adds one over something that grows should think of `test_linear_cost`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from anabranch.engine import rules

_RULES = str(Path(rules.__file__).parent)


def lines_of(action: Callable[[], Any]) -> int:
    """The number of lines of the rules that an action executes."""
    count = 0

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(_RULES) else None

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def assert_linear(prepare: Callable[[int], Callable[[], Any]], *, small: int = 100, times: int = 8) -> None:
    """`prepare(n)` gives an action; that of `times` as many things does at most `times` as much work, and a bit."""
    few, many = lines_of(prepare(small)), lines_of(prepare(small * times))
    assert many <= few * times * 1.1, (
        f"{small} things took {few} lines, {small * times} took {many}: that is not linear"
    )
