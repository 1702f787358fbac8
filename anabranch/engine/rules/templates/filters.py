"""Template filters (after a `|`), except `default` and `otherwise`, which `expression` compiles.

Pure. Where Jinja2 has a filter of the same name, these follow it, on plain data: `attribute` is a dotted path into
objects and lists, never an attribute of a Python object. Each pays for what it reads and checks the size of its result
before it builds it. Add a new filter to `text_filters`, `list_filters`,
`date_filters` or `js_filters`, with its attack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from anabranch.engine.rules.templates.budget import (
    ITEM_UNITS,
    Refused,
    TemplateBudget,
    check_number,
    is_number,
)
from anabranch.engine.rules.templates.date_filters import DATE_FILTERS
from anabranch.engine.rules.templates.filter_arguments import PASS_UNITS, Filter, whole_argument
from anabranch.engine.rules.templates.js_filters import JS_FILTERS
from anabranch.engine.rules.templates.list_filters import LIST_FILTERS
from anabranch.engine.rules.templates.text_filters import TEXT_FILTERS
from anabranch.engine.rules.values import kind_of
from anabranch.errors import TemplatePathMissing

# Digits that a float can have; rounding integers further than that builds huge powers of ten.
ROUND_PRECISION_MAX = 20


# -- size and ends ------------------------------------------------------------------------


def _length(value: Any, work: TemplateBudget) -> int:
    if isinstance(value, (str, list, Mapping)):
        return len(value)
    raise Refused(f"`length` takes text, a list or an object, not {kind_of(value)}")


def _first(value: Any, work: TemplateBudget) -> Any:
    return _end(value, "first", 0)


def _last(value: Any, work: TemplateBudget) -> Any:
    return _end(value, "last", -1)


def _end(value: Any, name: str, index: int) -> Any:
    if not isinstance(value, (str, list)):
        raise Refused(f"`{name}` takes a list or text, not {kind_of(value)}")
    if not value:
        raise TemplatePathMissing(f"`{name}` of nothing: the list or text is empty")
    return value[index]


def _keys(value: Any, work: TemplateBudget) -> Any:
    if not isinstance(value, Mapping):
        raise Refused(f"`keys` takes an object, not {kind_of(value)}")
    names = list(value)
    work.spend(len(names) * ITEM_UNITS)
    return work.built(names, 2 + sum(len(name) + 3 for name in names))


def _values(value: Any, work: TemplateBudget) -> Any:
    if not isinstance(value, dict):
        raise Refused(f"`values` takes an object, not {kind_of(value)}")
    work.spend(len(value) * PASS_UNITS)
    return work.built(list(value.values()), work.weigh(value))


# -- numbers ------------------------------------------------------------------------------


def _round(value: Any, work: TemplateBudget, *, precision: Any = 0, method: Any = "common") -> float:
    digits = whole_argument(precision, "round", "precision")
    if not is_number(value) or abs(digits) > ROUND_PRECISION_MAX:
        raise Refused(f"`round` takes a number and at most {ROUND_PRECISION_MAX} digits, not {kind_of(value)}")
    if method == "common":
        return float(check_number(round(float(value), digits)))
    if method not in ("ceil", "floor"):
        raise Refused("`round(precision, method)`: the method is 'common', 'ceil' or 'floor'")
    scaled = check_number(float(value) * 10.0**digits)
    return float(check_number((math.ceil(scaled) if method == "ceil" else math.floor(scaled)) / 10.0**digits))


def _int(value: Any, work: TemplateBudget, *, default: Any = 0, base: Any = 10) -> Any:
    digits = whole_argument(base, "int", "base")
    try:
        if isinstance(value, str):
            work.spend(len(value))
            whole = _whole_of_text(value, digits)
        else:
            whole = int(value)
    except (ValueError, TypeError, OverflowError):
        return default
    return check_number(whole)


def _whole_of_text(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        if base != 10:
            raise
    return int(float(text))


def _float(value: Any, work: TemplateBudget, *, default: Any = 0.0) -> Any:
    try:
        if isinstance(value, str):
            work.spend(len(value))
        number = float(value)
    except (ValueError, TypeError, OverflowError):
        return default
    return check_number(number)


_OF_ANY_VALUE = (
    Filter("length", _length, takes_view=True),
    Filter("first", _first),
    Filter("last", _last),
    Filter("keys", _keys, takes_view=True),
    Filter("values", _values),
    Filter("round", _round, ("precision", "method")),
    Filter("int", _int, ("default", "base")),
    Filter("float", _float, ("default",)),
)

FILTERS: Mapping[str, Filter] = {
    each.name: each for each in (*_OF_ANY_VALUE, *TEXT_FILTERS, *LIST_FILTERS, *DATE_FILTERS, *JS_FILTERS)
}
"""By name."""

DEFAULT_PARAMETERS = ("default_value", "boolean")
"""Those of `default`, which `expression` compiles."""

FILTER_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "default": DEFAULT_PARAMETERS,
    "otherwise": ("value",),
    **{name: each.parameters for name, each in FILTERS.items()},
}
"""The parameters that each filter takes after its value, in order, by name."""
