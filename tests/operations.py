"""How much work a function does, counted in operations of the interpreter: a busy machine changes nothing about it.

Called by tests that guard against work that grows faster than its input. What a single call into C does counts as one
operation, however much it is.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def operations(act: Callable[[], object]) -> int:
    """The number of operations that `act` executes in this thread, without those of tracers that were there before."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    was_collecting, before = gc.isenabled(), sys.gettrace()
    gc.disable()  # other tests' tools listen to it, and would be counted
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
        if was_collecting:
            gc.enable()
    return count


def growth(act: Callable[[], object], twice_as_much: Callable[[], object]) -> float:
    """How many times as many operations the second one takes: 2 for linear work, 4 for quadratic work.

    Both are called once before: what they keep for later calls is not counted.
    """
    act()
    twice_as_much()
    return operations(twice_as_much) / operations(act)
