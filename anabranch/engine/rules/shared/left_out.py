"""Rows that a reopening has left out: they stay in the log, and no fold reads them any more.

Pure. Called by the folds and by all who read a log in another way. A reopening (INSTANCE_REOPENED) names rows before
it; the run's row has those of all its reopenings, so that they are known before the first event is folded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""First and last seq of each stretch of rows, in order, none beside another."""

NOTHING_LEFT_OUT: Ranges = ()

_LAST = 2**63


def is_left_out(ranges: Ranges, seq: int) -> bool:
    """Is this row left out?"""
    place = bisect_right(ranges, (seq, _LAST)) - 1
    return place >= 0 and ranges[place][1] >= seq


def together(*parts: Iterable[Sequence[int]]) -> Ranges:
    """All of these stretches, in order, neighbours as one."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted((each[0], each[1]) for part in parts for each in part):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)
