"""Parameters of headers such as `form-data; name="a"`, from callers who may be hostile.

Pure. Called by `form_parts` and `webhook_requests`. Each character is looked at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

# 20 parameters of one header: a part of a form has two or three.
PARAMETERS_MAX = 20

_PARAMETER = re.compile(
    r""";[ \t]*+(?P<name>[^=;"]*+)"""
    r"""(?>(?:=[ \t]*+(?:"(?P<quoted>(?>(?:[^"\\]|\\.)*))"?[^;]*+|(?P<plain>[^;]*+)))?)[^;]*+""",
    re.DOTALL,
)
# What RFC 8187 names, and what is written in its place.
_CHARSETS = frozenset({"utf-8", "iso-8859-1", "us-ascii"})


class TooManyParameters(ValueError):
    """The header has more of them than are read."""


def parameters_of(header: str) -> dict[str, str]:
    """By small names; of one that is given twice the first counts, and `name` before `name*`.

    Raises TooManyParameters.
    """
    plain: dict[str, str] = {}
    encoded: dict[str, str] = {}
    for number, (name, value) in enumerate(_written(header)):
        if number >= PARAMETERS_MAX:
            raise TooManyParameters(f"a header has more than {PARAMETERS_MAX} parameters")
        if name.endswith("*"):
            encoded.setdefault(name[:-1], _decoded(value))
        else:
            plain.setdefault(name, value)
    return encoded | plain


def _written(header: str) -> Iterator[tuple[str, str]]:
    position = header.find(";")
    while 0 <= position < len(header) and (found := _PARAMETER.match(header, position)):
        quoted = found["quoted"]
        value = (found["plain"] or "").strip() if quoted is None else quoted.replace("\\\\", "\\").replace('\\"', '"')
        yield found["name"].strip().lower(), value
        position = found.end()


def _decoded(value: str) -> str:
    """`UTF-8''na%C3%AFve` without its character set and language."""
    charset, mark, rest = value.partition("'")
    _, second, text = rest.partition("'")
    if not mark or not second or charset.lower() not in _CHARSETS:
        return value
    return unquote_to_bytes(text).decode(charset, "replace")
