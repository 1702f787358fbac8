"""Search text by a regular expression in time linear in the text, whatever the pattern.

Pure. Python's engine backtracks: `(a+)+$` takes years on forty letters. RE2 does not; it has no look-around and no
back-references. Used by the template filter `regex_find`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from anabranch.deferred import deferred
from anabranch.engine.rules.templates.budget import WORK_MAX

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

# Workflows use the same few patterns again and again; one takes some kilobytes.
_PATTERNS_KEPT = 256


def find(pattern: str, text: str, group: int | str = 0) -> str | None:
    """The first match of the pattern in the text, or one of its groups; None where there is none.

    Raises ValueError for a pattern that cannot be used, a group that it does not have, and a text that is too long
    for it.
    """
    compiled = _compiled(pattern, bool(group))
    if len(text) * compiled.programsize * _INSTRUCTION_UNITS > WORK_MAX:
        longest = WORK_MAX // (compiled.programsize * _INSTRUCTION_UNITS)
        raise ValueError(f"with this pattern a text may have {longest} characters, this one has {len(text)}")
    groups = compiled.groupindex if isinstance(group, str) else range(compiled.groups + 1)
    if group not in groups:
        raise ValueError(f"the pattern has no group {group!r}")
    found = compiled.search(text)
    return None if found is None else found.group(group)


@lru_cache(maxsize=_PATTERNS_KEPT)
def _compiled(pattern: str, with_groups: bool) -> re2._Regexp:  # noqa: FBT001 -- part of the cache's key
    if len(pattern) > REGEX_CHARACTERS_MAX:
        raise ValueError(f"a pattern has at most {REGEX_CHARACTERS_MAX} characters, this one has {len(pattern)}")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not with_groups
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as refusal:
        reason = refusal.args[0]
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"the pattern cannot be used: {shown}") from None
    if compiled.programsize > REGEX_INSTRUCTIONS_MAX:
        raise ValueError("the pattern is too large: it repeats too much")
    return compiled
