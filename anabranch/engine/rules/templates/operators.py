"""Template operators: `==`, `<`, `in`, `+` and the like on plain data.

Pure. Used by `expression`. Booleans are not numbers in arithmetic and comparisons, only `~` joins text, and no
operation makes a value that stores would refuse.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from anabranch.engine.rules.templates.budget import (
    Refused,
    TemplateBudget,
    check_number,
    check_size,
    is_number,
)
from anabranch.engine.rules.values import kind_of

Binary: TypeAlias = Callable[[Any, Any, TemplateBudget], Any]

# Comparing each item takes about twice as long as reading the text.
_SEARCH_FACTOR = 2


def _equal(left: Any, right: Any, work: TemplateBudget) -> bool:
    if isinstance(left, (str, list, dict)) and type(left) is type(right):
        if len(left) != len(right):
            return False
        work.spend(min(work.weigh(left), work.weigh(right)))
    return bool(left == right)


def _in_order(sign: str, holds: Callable[[Any, Any], bool]) -> Binary:
    def compare(left: Any, right: Any, work: TemplateBudget) -> bool:
        """Compare two numbers, two texts or two lists. Raises Refused for other values."""
        if is_number(left) and is_number(right):
            return holds(left, right)
        if isinstance(left, (str, list)) and type(left) is type(right):
            work.spend(min(work.weigh(left), work.weigh(right)))
            try:
                return holds(left, right)
            except TypeError:
                raise Refused(f"`{sign}`: the items of these lists have no order among each other") from None
        raise Refused(f"`{sign}` compares two numbers or two texts, not {kind_of(left)} and {kind_of(right)}")

    return compare


def _contains(left: Any, right: Any, work: TemplateBudget) -> bool:
    if isinstance(right, str):
        work.spend(len(right))
        return isinstance(left, str) and left in right
    if isinstance(right, list):
        work.spend(work.weigh(right) * _SEARCH_FACTOR)
        return left in right
    if isinstance(right, Mapping):  # an object, or the context itself
        return isinstance(left, str) and left in right
    raise Refused(f"`in` looks into text, a list or an object, not into {kind_of(right)}")


COMPARISONS: Mapping[str, Binary] = {
    "eq": _equal,
    "ne": lambda left, right, work: not _equal(left, right, work),
    "lt": _in_order("<", operator.lt),
    "lteq": _in_order("<=", operator.le),
    "gt": _in_order(">", operator.gt),
    "gteq": _in_order(">=", operator.ge),
    "in": _contains,
    "notin": lambda left, right, work: not _contains(left, right, work),
}
"""By Jinja2's names of comparisons."""


def _add(left: Any, right: Any, work: TemplateBudget) -> Any:
    if isinstance(left, list) and isinstance(right, list):
        weight = work.weigh(left) + work.weigh(right)
        check_size(weight)
        work.spend(len(left) + len(right))
        return work.built(left + right, weight)
    if is_number(left) and is_number(right):
        return check_number(left + right)
    hint = "; `~` joins text" if isinstance(left, str) or isinstance(right, str) else ""
    raise Refused(f"`+` takes two numbers or two lists, not {kind_of(left)} and {kind_of(right)}{hint}")


def _arithmetic(sign: str, calculate: Callable[[Any, Any], Any]) -> Binary:
    def apply(left: Any, right: Any, work: TemplateBudget) -> Any:
        if not (is_number(left) and is_number(right)):
            raise Refused(f"`{sign}` takes two numbers, not {kind_of(left)} and {kind_of(right)}")
        try:
            return check_number(calculate(left, right))
        except ZeroDivisionError:
            raise Refused(f"`{sign}` by zero") from None

    return apply


BINARY: Mapping[str, Binary] = {
    "+": _add,
    "-": _arithmetic("-", operator.sub),
    "*": _arithmetic("*", operator.mul),
    "/": _arithmetic("/", operator.truediv),
    "//": _arithmetic("//", operator.floordiv),
    "%": _arithmetic("%", operator.mod),
}
"""By sign."""


def _signed(sign: str, calculate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(value: Any) -> Any:
        if not is_number(value):
            raise Refused(f"the sign `{sign}` takes a number, not {kind_of(value)}")
        return check_number(calculate(value))

    return apply


UNARY: Mapping[str, Callable[[Any], Any]] = {"-": _signed("-", operator.neg), "+": _signed("+", operator.pos)}
"""By sign."""
