"""Template filters for lists: `sort`, `unique`, `sum`, `map`, `where`, `groupby` and the like.

Pure. Collected by `filters`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from anabranch.engine.rules.templates.budget import (
    ITEM_UNITS,
    Refused,
    TemplateBudget,
    check_number,
    is_number,
)
from anabranch.engine.rules.templates.filter_arguments import (
    ABSENT,
    PASS_UNITS,
    REQUIRED,
    Filter,
    items_argument,
    kinds_of,
    picked,
)
from anabranch.engine.rules.templates.operators import COMPARISONS
from anabranch.engine.rules.values import kind_of
from anabranch.errors import TemplatePathMissing

# How much longer than running over the text sorting takes, measured on lists of short items.
_SORT_FACTOR = 4

# The letters of `{"key":,"items":[]},`.
_GROUP_BYTES = 20

_NUMBERS: frozenset[type] = frozenset({int, float})
_SCALARS: frozenset[type] = frozenset({int, float, str, type(None)})


def _sort(
    value: Any, work: TemplateBudget, *, reverse: Any = False, case_sensitive: Any = False, attribute: Any = None
) -> Any:
    items = items_argument(value, "sort", work)
    keys = _comparable(picked(items, attribute, work), case_sensitive, work)
    work.spend(work.weigh(items) * _SORT_FACTOR)
    try:
        if keys is items:
            ordered = sorted(items, reverse=bool(reverse))
        else:
            # Positions are sorted, not pairs: where two keys are equal the items must not be compared.
            positions = sorted(range(len(items)), key=keys.__getitem__, reverse=bool(reverse))
            ordered = [items[position] for position in positions]
    except TypeError:
        raise Refused("`sort` takes items of one kind that have an order: numbers, or texts") from None
    return work.built(ordered, work.weigh(items))


def _unique(value: Any, work: TemplateBudget, *, case_sensitive: Any = False, attribute: Any = None) -> Any:
    items = items_argument(value, "unique", work)
    keys = _comparable(picked(items, attribute, work), case_sensitive, work)
    work.spend(len(items) * ITEM_UNITS)
    if not kinds_of(keys) <= _SCALARS:
        work.spend(work.weigh(items))
        keys = _json_names(keys)
    # From the end, so that of equal items the first stays, where it was.
    firsts = dict(zip(reversed(keys), reversed(range(len(items))), strict=True))
    return work.built([items[position] for position in sorted(firsts.values())], work.weigh(items))


def _min(value: Any, work: TemplateBudget, *, case_sensitive: Any = False, attribute: Any = None) -> Any:
    return _extreme(min, value, work, case_sensitive, attribute)


def _max(value: Any, work: TemplateBudget, *, case_sensitive: Any = False, attribute: Any = None) -> Any:
    return _extreme(max, value, work, case_sensitive, attribute)


def _extreme(choose: Callable[..., Any], value: Any, work: TemplateBudget, case_sensitive: Any, attribute: Any) -> Any:
    name = choose.__name__
    items = items_argument(value, name, work)
    if not items:
        raise TemplatePathMissing(f"`{name}` of nothing: the list is empty")
    keys = _comparable(picked(items, attribute, work), case_sensitive, work)
    work.spend(work.weigh(items))
    try:
        return choose(items) if keys is items else items[choose(range(len(items)), key=keys.__getitem__)]
    except TypeError:
        raise Refused(f"`{name}` takes items of one kind that have an order: numbers, or texts") from None


def _sum(value: Any, work: TemplateBudget, *, attribute: Any = None, start: Any = 0) -> Any:
    numbers = [start, *picked(items_argument(value, "sum", work), attribute, work)]
    if not kinds_of(numbers) <= _NUMBERS:
        wrong = next(number for number in numbers if not is_number(number))
        raise Refused(f"`sum` takes numbers, and one of the items is {kind_of(wrong)}")
    try:
        return check_number(sum(numbers))
    except OverflowError:
        raise Refused("the number is not finite") from None


def _map(value: Any, work: TemplateBudget, *, attribute: Any, default: Any = REQUIRED) -> Any:
    found = picked(items_argument(value, "map", work), _path(attribute, "map"), work, default=default)
    return work.built(found, 2 + sum(work.weigh(item) + 1 for item in found))


def _where(value: Any, work: TemplateBudget, *, attribute: Any, other: Any = ABSENT, test: Any = "==") -> Any:
    """The items whose field passes; an item without the field does not."""
    holds = _TESTS.get(test) if isinstance(test, str) else None
    if holds is None:
        raise Refused(f"`where(attribute, other, test)`: the test is one of {', '.join(_TESTS)}")
    items = items_argument(value, "where", work)
    fields = picked(items, _path(attribute, "where"), work, default=ABSENT)
    kept = [
        item
        for item, field in zip(items, fields, strict=True)
        if field is not ABSENT and (bool(field) if other is ABSENT else holds(field, other, work))
    ]
    return work.built(kept, 2 + sum(work.weigh(item) + 1 for item in kept))


def _groupby(value: Any, work: TemplateBudget, *, attribute: Any, default: Any = REQUIRED) -> Any:
    """Groups in the order in which their first items stand: `[{"key": …, "items": […]}, …]`."""
    items = items_argument(value, "groupby", work)
    keys = picked(items, _path(attribute, "groupby"), work, default=default)
    groups: dict[Any, dict[str, Any]] = {}
    work.spend(len(items) * ITEM_UNITS + sum(work.weigh(key) for key in keys))
    for name, key, item in zip(_json_names(keys), keys, items, strict=True):
        groups.setdefault(name, {"key": key, "items": []})["items"].append(item)
    weight = 2 + sum(work.weigh(item) + 1 for item in items)
    frames = sum(work.weigh(group["key"]) + _GROUP_BYTES for group in groups.values())
    return work.built(list(groups.values()), weight + frames)


def _path(attribute: Any, name: str) -> str:
    if not isinstance(attribute, str) or not attribute:
        raise Refused(f"`{name}` takes the name of a field, such as 'customer.name'")
    return attribute


def _json_names(keys: list[Any]) -> list[Any]:
    """JSON text stands for lists and objects, which cannot be looked up as they are."""
    return [orjson.dumps(key, option=orjson.OPT_SORT_KEYS).decode() for key in keys]


def _comparable(keys: list[Any], case_sensitive: Any, work: TemplateBudget) -> list[Any]:
    """Keys to compare items by: texts without regard to case, unless it matters."""
    if case_sensitive or str not in kinds_of(keys):
        return keys
    work.spend(sum(len(key) for key in keys if isinstance(key, str)))
    return [key.lower() if isinstance(key, str) else key for key in keys]


_TESTS: Mapping[str, Callable[[Any, Any, TemplateBudget], bool]] = {
    "==": COMPARISONS["eq"],
    "!=": COMPARISONS["ne"],
    "<": COMPARISONS["lt"],
    "<=": COMPARISONS["lteq"],
    ">": COMPARISONS["gt"],
    ">=": COMPARISONS["gteq"],
    "in": COMPARISONS["in"],
    "not in": COMPARISONS["notin"],
}


def _flatten(value: Any, work: TemplateBudget) -> Any:
    """One level: the items of the lists in it, and what is not a list as it is."""
    items = items_argument(value, "flatten", work)
    made: list[Any] = []
    for item in items:
        if isinstance(item, list):
            made.extend(item)
        else:
            made.append(item)
    work.spend(len(made) * PASS_UNITS)
    return work.built(made, work.weigh(items))


LIST_FILTERS = (
    Filter("flatten", _flatten),
    Filter("sort", _sort, ("reverse", "case_sensitive", "attribute")),
    Filter("unique", _unique, ("case_sensitive", "attribute")),
    Filter("sum", _sum, ("attribute", "start")),
    Filter("min", _min, ("case_sensitive", "attribute")),
    Filter("max", _max, ("case_sensitive", "attribute")),
    Filter("map", _map, ("attribute", "default"), required=("attribute",)),
    Filter("where", _where, ("attribute", "other", "test"), required=("attribute",)),
    Filter("groupby", _groupby, ("attribute", "default"), required=("attribute",)),
)
