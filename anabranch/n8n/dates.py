"""Formats of dates: those of Luxon and Moment, which n8n uses, as letters of strftime.

Pure. Called by `expressions` and the mapping of `dateTime`.
"""

from __future__ import annotations

import re
from typing import Any

from anabranch.n8n.phrases import Untranslatable

_LUXON = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "LLLL": "%B",
    "MMM": "%b",
    "LLL": "%b",
    "MM": "%m",
    "LL": "%m",
    "dd": "%d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "a": "%p",
    "EEEE": "%A",
    "cccc": "%A",
    "EEE": "%a",
    "ccc": "%a",
    "E": "%u",
    "c": "%u",
    "X": "%s",
    "ZZZ": "%z",
    "kkkk": "%G",
    "WW": "%V",
    "ooo": "%j",
    "T": "%H:%M",
    "TT": "%H:%M:%S",
}
_MOMENT = {
    "YYYY": "%Y",
    "YY": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "DD": "%d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "A": "%p",
    "dddd": "%A",
    "ddd": "%a",
    "X": "%s",
    "ZZ": "%z",
}
# 200 characters: no date is written at such length.
_FORMAT_MAX = 200
_WORD = re.compile(r"([A-Za-z])\1*|'([^']*)'|\[([^\]]*)\]|[^A-Za-z]")


def format_of(written: str, *, moment: bool = False) -> str | None:
    """A format of Luxon, or of Moment, by strftime's letters; None if one of its words has no letter."""
    if len(written) > _FORMAT_MAX:
        return None
    known, made = (_MOMENT if moment else _LUXON), ""
    for found in _WORD.finditer(written):
        quoted = found[3] if moment else found[2]
        if quoted is not None:
            made += quoted.replace("%", "%%")
        elif found[1] is None:
            made += found[0].replace("%", "%%")
        elif found[0] in known:
            made += known[found[0]]
        else:
            return None
    return made


DATE_PARTS = {
    "year": "%Y",
    "month": "%m",
    "day": "%d",
    "hour": "%H",
    "minute": "%M",
    "second": "%S",
    "weekday": "%u",
    "weekdayLong": "%A",
    "weekdayShort": "%a",
    "monthLong": "%B",
    "monthShort": "%b",
    "weekNumber": "%V",
    "ordinal": "%j",
}

_UNITS = {"ms": "milliseconds"}
_KNOWN_UNITS = ("milliseconds", "seconds", "minutes", "hours", "days", "weeks", "months", "quarters", "years")


def unit_of(written: Any) -> str:
    """A unit of Luxon, as ours. Raises Untranslatable."""
    name = _UNITS.get(written, written)
    plural = name if isinstance(name, str) and name.endswith("s") else f"{name}s"
    if plural not in _KNOWN_UNITS:
        raise Untranslatable(f"`{written}` is not a unit of time here")
    return plural


def strftime_of(form: str) -> str:
    """A format of Luxon by strftime's letters. Raises Untranslatable."""
    written = format_of(form)
    if written is None:
        raise Untranslatable(f"the date format `{form}` has no counterpart")
    return written
