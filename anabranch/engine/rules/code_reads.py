"""Code reads: find the names of `ctx` that the code of a code node reads.

Pure. Forks compare these, and the handler gives the code no others: large values that it does not read are not moved.
"""

from __future__ import annotations

import re

# `ctx["name"]`, and in JavaScript `ctx.name`; in Python that is a method of a dictionary, such as `ctx.get`.
_BY_INDEX = r"\bctx\s*\[\s*[\"']([A-Za-z_]\w*)[\"']\s*\]"
_NAMES_READ = {
    "javascript": re.compile(rf"{_BY_INDEX}|\bctx\s*(?:\?\s*)?\.\s*([A-Za-z_]\w*)(?![\w$])"),
    "python": re.compile(_BY_INDEX + "()"),
}
_ANY_READ = re.compile(r"\bctx\b")

# What every object of JavaScript has besides its own names: it may be asked for these.
_INHERITED = re.compile(r"constructor|hasOwnProperty|isPrototypeOf|propertyIsEnumerable|to\w*String|valueOf|__\w+__")

# Ways to a parameter, and to names, that the text does not show.
_ROUNDABOUT = re.compile(r"\b(?:arguments|eval|exec|Function|globals|locals|vars|inspect|_getframe)\b|\\u|\\x|\\N")


def names_read(code: str, language: str) -> frozenset[str] | None:
    """The names that code certainly reads; None: it may read any."""
    names = [by_index or dotted for by_index, dotted in _NAMES_READ[language].findall(code)]
    if len(names) < len(_ANY_READ.findall(code)) or _ROUNDABOUT.search(code):
        return None
    return None if any(map(_INHERITED.fullmatch, names)) else frozenset(names)
