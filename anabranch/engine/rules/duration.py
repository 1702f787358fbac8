"""Parse durations into milliseconds. Pure.

Used for every duration in the input: node timeouts, delays, backoffs, retention, deadlines, settings. Add a new
notation here and in `tests/spec`.
"""

from __future__ import annotations

import math
import re
from typing import Any

# 5 years: anything longer is almost certainly a mistake in the unit.
DURATION_MS_MAX = 5 * 366 * 86_400_000

# 64 characters hold every sensible duration; longer text is refused before a pattern is matched against it.
DURATION_TEXT_MAX = 64

ACCEPTED_TEXT = "`500ms`, `5s`, `5m`, `2h`, `7d`, or ISO 8601 such as `PT5M` or `P7D`; 0 to 5 years"
"""What a command takes, whose arguments are text."""
ACCEPTED = f"milliseconds as a number, {ACCEPTED_TEXT}"

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_SHORT = re.compile(rf"({_NUMBER})\s?(ms|s|m|h|d)")
_ISO = re.compile(
    rf"P(?:(?P<w>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
    rf"(?P<time>T(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?"
)


def parse_duration(value: Any) -> int:
    """Milliseconds of a duration as people write it, rounded to the nearest whole one.

    Accepts a number of milliseconds, `500ms 5s 5m 2h 7d` (decimals too) and ISO 8601 with
    weeks, days, hours, minutes and seconds; months and years have no fixed length. Raises
    ValueError, saying what is accepted, for anything else and beyond `DURATION_MS_MAX`.
    """
    milliseconds = _milliseconds(value)
    if milliseconds is None or not 0 <= milliseconds <= DURATION_MS_MAX:
        raise ValueError(f"{_shown(value)} is not a duration: write {ACCEPTED}")
    return math.floor(milliseconds + 0.5)


def format_duration(milliseconds: int) -> str:
    """The shortest text that `parse_duration` reads back as exactly this many milliseconds."""
    for unit in ("d", "h", "m", "s"):
        if milliseconds and milliseconds % _UNIT_MS[unit] == 0:
            return f"{milliseconds // _UNIT_MS[unit]}{unit}"
    return f"{milliseconds}ms"


def _milliseconds(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, str) or len(value) > DURATION_TEXT_MAX:
        return None
    text = value.strip()
    short = _SHORT.fullmatch(text)
    if short is not None:
        return float(short[1]) * _UNIT_MS[short[2]]
    return _iso_milliseconds(text)


def _iso_milliseconds(text: str) -> float | None:
    parts = _ISO.fullmatch(text)
    if parts is None or text.endswith(("P", "T")):
        return None
    amounts = {"w": 7 * _UNIT_MS["d"], "d": _UNIT_MS["d"], "h": _UNIT_MS["h"], "m": _UNIT_MS["m"], "s": _UNIT_MS["s"]}
    return sum(float(parts[name] or 0) * unit for name, unit in amounts.items())


def _shown(value: Any) -> str:
    if isinstance(value, (str, int, float)):
        text = repr(value) if not isinstance(value, int) or abs(value) <= DURATION_MS_MAX * 1000 else "a huge number"
        return text if len(text) <= DURATION_TEXT_MAX + 2 else text[:DURATION_TEXT_MAX] + "…'"
    return f"a value of type {type(value).__name__}"
