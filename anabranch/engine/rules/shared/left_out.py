"""Rows that a reopening left out: they stay in the log, but folds skip them.

Pure. Called by the folds and all other readers of logs. A reopening (INSTANCE_REOPENED) names earlier rows; the row of
the run has those of all its reopenings, so that they are known before the first event is folded.
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
    """Whether this row is left out."""
    position = bisect_right(ranges, (seq, _LAST)) - 1
    return position >= 0 and ranges[position][1] >= seq


def together(*parts: Iterable[Sequence[int]]) -> Ranges:
    """The ranges in order, with adjacent ones merged."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted((each[0], each[1]) for part in parts for each in part):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def reopened_by(left_out: Ranges, *, after_seq: int) -> list[int]:
    """The rows after a seq that reopened the run: each follows the rows that it left out."""
    return [last + 1 for _, last in left_out if last + 1 > after_seq]
