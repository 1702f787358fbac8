"""Arguments of template filters: the form of a filter, and checks of the value and the arguments that they take.

Pure. Used by `filters` and the modules with the filters themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget, check_size, look_up
from anabranch.engine.rules.values import kind_of
from anabranch.errors import TemplatePathMissing

# 256 characters for the path of an attribute: it is walked for each item.
ATTRIBUTE_LENGTH_MAX = 256

# What one item costs where C code alone walks over the items.
PASS_UNITS = 12

ABSENT: Any = object()
"""Stands for what is not there: an argument that was not given, a field that an item lacks."""

REQUIRED: Any = object()
"""Stands for a default where none is given: what is missing is an error."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter: its parameters after the value, in order, and what it does."""

    name: str
    run: Callable[..., Any]
    parameters: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    takes_view: bool = False
    """It can work on the context itself, without a copy of it."""
    takes_missing: bool = False
    """It is given ABSENT where the path before it finds nothing; for the others that is an error."""


def text_argument(value: Any, name: str, work: TemplateBudget) -> str:
    """The value of the filter `name`, if it is text; paid for. Raises Refused."""
    if not isinstance(value, str):
        raise Refused(f"`{name}` takes text, not {kind_of(value)}; `| string` makes text of it")
    work.spend(len(value))
    return value


def within_size(text: str) -> str:
    """The text, unless it is too large for a result. Raises Refused."""
    check_size(len(text))
    return text


def items_argument(value: Any, name: str, work: TemplateBudget) -> list[Any]:
    """The value of the filter `name`, if it is a list; paid for. Raises Refused."""
    if not isinstance(value, list):
        raise Refused(f"`{name}` takes a list, not {kind_of(value)}")
    work.spend(len(value) * PASS_UNITS)
    return value


def whole_argument(value: Any, name: str, parameter: str) -> int:
    """An argument, if it is a whole number. Raises Refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"`{name}`: {parameter} must be a whole number, not {kind_of(value)}")
    return value


def picked(items: list[Any], attribute: Any, work: TemplateBudget, *, default: Any = REQUIRED) -> list[Any]:
    """The value at a dotted path in each item, or `default`; without a path the items themselves.

    Raises TemplatePathMissing where nothing is found and there is no default.
    """
    if attribute is None:
        return items
    if not isinstance(attribute, str) or len(attribute) > ATTRIBUTE_LENGTH_MAX:
        raise Refused(f"`attribute` takes the name of a field, at most {ATTRIBUTE_LENGTH_MAX} characters")
    names = attribute.split(".")
    work.spend(len(items) * len(names) * ITEM_UNITS)
    found = [field_at(item, names) for item in items]
    if default is not REQUIRED:
        return [default if value is ABSENT else value for value in found]
    if any(value is ABSENT for value in found):
        raise TemplatePathMissing(f"the attribute `{attribute}` is missing in an item")
    return found


def field_at(item: Any, names: Sequence[str]) -> Any:
    """The value that a path of names (of fields, or numbers of items) leads to in an item; ABSENT if there is none."""
    for name in names:
        item = look_up(item, int(name) if isinstance(item, list) and name.isdecimal() else name, ABSENT)
        if item is ABSENT:
            break
    return item


def kinds_of(items: list[Any]) -> set[type]:
    """The types in a list, found in one pass of C code."""
    return set(map(type, items))
