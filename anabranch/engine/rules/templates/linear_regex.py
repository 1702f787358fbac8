"""Search text by a regular expression in time linear in the text, whatever the pattern.

Pure. Python's engine backtracks: `(a+)+$` takes years on forty letters. RE2 does not; it has no look-around and no
back-references. Used by the template filter `regex_find`, the tests of nodes for lists and the node type `text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from anabranch.deferred import deferred
from anabranch.engine.rules.templates.budget import WORK_MAX, TemplateBudget

if TYPE_CHECKING:
    import re2
else:
    re2 = deferred("re2")

# 512 characters: longer than any pattern a person can still read.
REGEX_CHARACTERS_MAX = 512

# 5,000 instructions of RE2. A repetition such as `\pL{500}` makes hundreds of thousands of them.
REGEX_INSTRUCTIONS_MAX = 5_000

# At worst RE2 spends 20 ns on each letter for each instruction (measured), which is what 4 units of work take.
_INSTRUCTION_UNITS = 4

# One match of many costs some three microseconds (measured), mostly for its objects.
_MATCH_UNITS = 512

# To find the end of a match takes some 15 ns for each letter that the search looks ahead (measured).
_AHEAD_UNITS = 3

# A pattern without choices and without repeated groups never looks ahead of a match at what it looks at again for the
# next one. With both of these it may look at the whole rest of the text for every match.
_CHOICE = re.compile(r"\||\)[?*+{]")
_UNBOUNDED = re.compile(r"[*+]|\{[0-9]+,\}")

_GROUP = re.compile(r"\\([0-9\\])")

# Workflows use the same few patterns again and again; one takes some kilobytes.
_PATTERNS_KEPT = 256


def find(pattern: str, text: str, group: int | str = 0) -> str | None:
    """The first match of the pattern in the text, or one of its groups; None where there is none.

    Raises ValueError for a pattern that cannot be used, a group that it does not have, and a text that is too long
    for it.
    """
    compiled = _compiled(pattern, with_groups=bool(group))
    if len(text) * compiled.programsize * _INSTRUCTION_UNITS > WORK_MAX:
        longest = WORK_MAX // (compiled.programsize * _INSTRUCTION_UNITS)
        raise ValueError(f"with this pattern a text may have {longest} characters, this one has {len(text)}")
    groups = compiled.groupindex if isinstance(group, str) else range(compiled.groups + 1)
    if (group.encode() if isinstance(group, str) else group) not in groups:
        raise ValueError(f"the pattern has no group {group!r}")
    found = compiled.search(text.encode())
    part = None if found is None else found.group(group.encode() if isinstance(group, str) else group)
    return None if part is None else part.decode()


class Search:
    """All matches of a pattern in a text, within a budget. Raises ValueError for a pattern that cannot be used."""

    def __init__(self, pattern: str, work: TemplateBudget, *, ignore_case: bool = False) -> None:
        self._compiled = _compiled(pattern, with_groups=True, ignore_case=ignore_case)
        self._looks_ahead = bool(_CHOICE.search(pattern) and _UNBOUNDED.search(pattern))
        self._work = work

    def matches(self, text: str) -> bool:
        """Whether there is a match. Raises Refused if the budget does not suffice."""
        return next(self._found(text), None) is not None

    def each(self, text: str, group: int | str) -> Iterator[str | None]:
        """The matches, or one of their groups, in order; None where the group took no part. Raises Refused, and
        ValueError for a group that the pattern does not have.
        """
        number = self._compiled.groupindex.get(group.encode()) if isinstance(group, str) else group
        if number is None or not 0 <= number <= self._compiled.groups:
            raise ValueError(f"the pattern has no group {group!r}")
        for found in self._found(text):
            part = found.group(number)
            yield None if part is None else part.decode()

    def pieces(self, text: str, count: int | None) -> Iterator[str]:
        """The text between the matches, or the first `count` of them. Raises Refused."""
        data, end = text.encode(), 0
        for found in self._found(text, count):
            yield data[end : found.start()].decode()
            end = found.end()
        yield data[end:].decode()

    def replaced(self, text: str, replacement: str, count: int | None) -> Iterator[str]:
        """The pieces of the text with the matches, or the first `count` of them, replaced. Raises Refused, and
        ValueError for a group that the pattern does not have.
        """
        asked = [int(group) for group in _GROUP.findall(replacement) if group != "\\"]
        if max(asked, default=0) > self._compiled.groups:
            raise ValueError(f"the pattern has no group {max(asked)}")
        data, end = text.encode(), 0
        for found in self._found(text, count):
            yield data[end : found.start()].decode()
            yield _GROUP.sub(partial(_group_text, found), replacement)
            end = found.end()
        yield data[end:].decode()

    def _found(self, text: str, count: int | None = None) -> Iterator[re2._Match[bytes]]:
        data = text.encode()
        self._work.spend(len(data) * min(self._compiled.programsize, REGEX_INSTRUCTIONS_MAX) * _INSTRUCTION_UNITS)
        for number, found in enumerate(self._compiled.finditer(data), start=1):
            ahead = (len(data) - found.end()) * _AHEAD_UNITS if self._looks_ahead else 0
            self._work.spend(_MATCH_UNITS + ahead)
            yield found
            if number == count:
                return


def _group_text(found: re2._Match[bytes], group: re.Match[str]) -> str:
    if group[1] == "\\":
        return "\\"
    part = found.group(int(group[1]))
    return "" if part is None else part.decode()


@lru_cache(maxsize=_PATTERNS_KEPT)
def _compiled(pattern: str, *, with_groups: bool, ignore_case: bool = False) -> re2._Regexp[bytes]:
    if len(pattern) > REGEX_CHARACTERS_MAX:
        raise ValueError(f"a pattern has at most {REGEX_CHARACTERS_MAX} characters, this one has {len(pattern)}")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not with_groups
    options.case_sensitive = not ignore_case
    try:
        compiled = re2.compile(pattern.encode(), options)
    except re2.error as refusal:
        reason = refusal.args[0]
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"the pattern cannot be used: {shown}") from None
    if compiled.programsize > REGEX_INSTRUCTIONS_MAX:
        raise ValueError("the pattern is too large: it repeats too much")
    return compiled
