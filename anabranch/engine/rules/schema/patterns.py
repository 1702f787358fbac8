"""Regular expressions of JSON Schemas: matched in time linear in the text, whatever the pattern.

Pure. Used by `json_schema` and `keywords`. Python's engine backtracks: `(a+)+$` takes years on forty letters. So
patterns of tenants run on pydantic's Rust engine, which does not backtrack. It supports neither look-around nor
back-references.
"""

from __future__ import annotations

import re

from pydantic_core import SchemaError, SchemaValidator, core_schema

# 256 characters: longer than any pattern a person can still read.
PATTERN_CHARACTERS_MAX = 256

# 10,000,000 letters times states: at worst a fifth of a second of the event loop.
MATCH_WORK_MAX = 10_000_000

_REPETITION = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_REASON_CHARACTERS_MAX = 80


class Pattern:
    """A compiled pattern. `matches` finds it anywhere in a text, as JSON Schema wants it."""

    __slots__ = ("_validator", "weight")

    def __init__(self, text: str) -> None:
        """Raises ValueError that names the unsupported construct."""
        if len(text) > PATTERN_CHARACTERS_MAX:
            raise ValueError(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters, this one has {len(text)}")
        schema = core_schema.str_schema(pattern=text, regex_engine="rust-regex", strict=True)
        try:
            self._validator = SchemaValidator(schema)
        except SchemaError as refusal:
            raise ValueError(f"the pattern cannot be used: {_reason(refusal)}") from None
        self.weight = _weight(text)
        """About how many states a matcher may be in at once: what a letter costs at worst."""

    def matches(self, text: str) -> bool:
        """Whether the text contains a match. Raises ValueError for a text that is too long for this pattern."""
        if len(text) * self.weight > MATCH_WORK_MAX:
            raise ValueError(f"a text of {len(text)} characters is too long for this pattern; set a `maxLength`")
        return self._validator.isinstance_python(text)


def _reason(refusal: SchemaError) -> str:
    """The engine's message, without its drawing of the pattern."""
    return str(refusal).rpartition("rror: ")[2].strip()[:_REASON_CHARACTERS_MAX]


def _weight(pattern: str) -> int:
    """The letters, classes and groups of a pattern, each as often as it may be repeated by count."""
    groups, last, position = [0], 0, 0
    while position < len(pattern):
        step = 1
        letter = pattern[position]
        if letter == "(":
            groups.append(0)
        elif letter == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif letter == "{" and (counts := _REPETITION.match(pattern, position)):
            times = max(1, *(int(count) for count in counts.groups() if count))
            groups[-1] += last * (times - 1)
            last *= times
            step = counts.end() - position
        else:
            if letter == "[" and (chars := _CLASS.match(pattern, position)):
                step = chars.end() - position
            elif letter == "\\":
                step = 2
            last = 1
            groups[-1] += 1
        position += step
    return max(1, sum(groups))
