"""Formats of dates: those of Luxon and Moment, which n8n uses, as letters of strftime.

Pure. Called by `expressions` and the mapping of `dateTime`.
"""

from __future__ import annotations

import re

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
_WORD = re.compile(r"([A-Za-z])\1*|'([^']*)'|\[([^\]]*)\]|[^A-Za-z]")


def format_of(written: str, *, moment: bool = False) -> str | None:
    """A format of Luxon, or of Moment, by strftime's letters; None if one of its words has no letter."""
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
