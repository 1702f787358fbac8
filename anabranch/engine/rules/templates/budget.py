"""The cost of templates: the size of values, their text, and one budget for a resolution.

Pure. Used by the other modules of this package only. Each operation checks that its result stays within
`RESULT_BYTES_MAX` before it builds it, and pays for what it reads. So memory and time are bounded for any text and any
data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import orjson

from anabranch.engine.rules.values import VALUE_BYTES_MAX

# The result of a template becomes a config value or an output, which are limited to 1 MB.
RESULT_BYTES_MAX = VALUE_BYTES_MAX

# 16 MB of JSON touched per resolution: sixteen passes over the largest value there is. On a
# small machine that is about a tenth of a second, in which other instances wait.
WORK_MAX = 16 * 1_048_576

# An item that Python handles one by one takes as long as some 32 bytes that C code runs over.
ITEM_UNITS = 32

# The size that a number, boolean or null counts for; it only has to be more than 0.
_SCALAR_BYTES = 8

# The range of integers that can be stored.
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**64 - 1


NO_SECRETS: Mapping[str, str] = MappingProxyType({})


class Refused(Exception):
    """An expression is invalid or too expensive; the template adds which one."""


class BudgetExceeded(Refused):
    """An expression costs more, or its result is larger, than is allowed: no fallback takes its place."""


class SecretMisplaced(Refused):
    """An expression reads a secret where secrets are not available, or does more with it than insert it."""


class TemplateBudget:
    """The budget of one resolution, the secrets it may insert, and the weights of the lists and objects it met."""

    __slots__ = ("_weights", "limit", "secrets", "spent")

    def __init__(self, secrets: Mapping[str, str] = NO_SECRETS, limit: int = WORK_MAX) -> None:
        self.secrets = secrets
        """Separate from the context, because the context can be listed, logged and passed on."""
        self.limit = limit
        """What it may cost."""
        self.spent = 0
        """The cost of the resolution so far."""
        self._weights: dict[int, tuple[Any, int]] | None = None
        """The value is kept beside its weight, because an id is only valid while its object lives. None: nothing was
        weighed yet, as by most templates."""

    def spend(self, units: int) -> None:
        """Pay for touching this many bytes of JSON. Raises Refused once the budget is gone."""
        self.spent += units
        if self.spent > self.limit:
            raise BudgetExceeded(f"it processes more than {self.limit} bytes of data; prepare them in an earlier node")

    def note(self, other: TemplateBudget) -> None:
        """Add the cost of a template with its own budget; this refuses nothing."""
        self.spent += other.spent

    def weigh(self, value: Any) -> int:
        """About how many bytes of JSON a value has. Measured once per list or object."""
        if isinstance(value, str):
            return len(value) + 2
        if not isinstance(value, (list, dict)):
            return _SCALAR_BYTES
        known = None if self._weights is None else self._weights.get(id(value))
        if known is not None:
            return known[1]
        weight = len(encode(value))
        self.spend(weight)
        self._note_weight(value, weight)
        return weight

    def _note_weight(self, value: Any, weight: int) -> None:
        if self._weights is None:
            self._weights = {}
        self._weights[id(value)] = (value, weight)

    def built(self, value: Any, weight: int) -> Any:
        """Accept a list or object built from parts if its weight is within the limit.

        A part may occur in it many times, so the weight is the sum of all parts; encoding it to measure could exhaust
        the memory.
        """
        check_size(weight)
        self._note_weight(value, weight)
        return value

    def text_of(self, value: Any) -> str:
        """A value inside text: text as it is, everything else as JSON (`true`, `null`, `[1,2]`)."""
        if isinstance(value, str):
            return value
        if isinstance(value, (list, dict)):
            self.spend(self.weigh(value))
        text = encode(value).decode()
        check_size(len(text))
        return text


Evaluate: TypeAlias = Callable[[Mapping[str, Any], TemplateBudget], Any]
"""A compiled expression: the context and the budget in, a value out."""


def check_size(size: int) -> None:
    """Refuse a result of more than `RESULT_BYTES_MAX` characters or bytes."""
    if size > RESULT_BYTES_MAX:
        raise BudgetExceeded(f"its result is larger than {RESULT_BYTES_MAX} bytes")


def encode(value: Any) -> bytes:
    """The JSON text of a value. Raises Refused for what JSON cannot hold."""
    try:
        return orjson.dumps(value)
    except TypeError:
        raise Refused("it contains a value that is not JSON") from None


def is_number(value: Any) -> bool:
    """True for integers and floats; booleans are not numbers here."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_number(value: Any) -> Any:
    """The value, unless it is a number that cannot be stored: not finite, or an integer beyond 64 bits."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused("the number is not finite")
    if isinstance(value, int) and not _INTEGER_MIN <= value <= _INTEGER_MAX:
        raise Refused("the integer needs more than 64 bits")
    return value


def look_up(value: Any, key: Any, default: Any) -> Any:
    """Look up a path in a value: entries of objects by text, entries of lists by integer, nothing else."""
    if isinstance(value, dict):
        return value.get(key, default) if isinstance(key, str) else default
    if isinstance(value, list) and isinstance(key, int) and not isinstance(key, bool):
        return value[key] if -len(value) <= key < len(value) else default
    return default
