"""Template filters: what may follow a `|`, except `default`, which `expression` compiles.

Pure. Each follows the Jinja2 filter of its name, on plain data: `attribute` is a dotted path into objects and lists,
never an attribute of a Python object. Each pays for what it reads and checks the size of its result before it builds
it. Add a new filter here, with its attack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from anabranch.engine.rules.templates.budget import (
    ITEM_UNITS,
    Refused,
    Work,
    check_number,
    check_size,
    encode,
    is_number,
    kind_of,
    look_up,
)
from anabranch.engine.rules.values import VALUE_DEPTH_MAX
from anabranch.errors import TemplatePathMissing

# 64 characters to trim: stripping compares each character of the text with each of these.
TRIM_CHARACTERS_MAX = 64

# Digits that a float can have; rounding integers further than that builds huge powers of ten.
ROUND_PRECISION_MAX = 20

# 256 characters for the path of an attribute: it is walked for each item.
ATTRIBUTE_LENGTH_MAX = 256

# How much longer than running over the text these take, measured on lists of short items.
_SORT_FACTOR = 4
_PARSE_FACTOR = 8

# What one item costs where C code alone walks over the items.
_PASS_UNITS = 12

_NUMBERS: frozenset[type] = frozenset({int, float})
_SCALARS: frozenset[type] = frozenset({int, float, str, type(None)})

_ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter: its parameters after the value, in order, and what it does."""

    name: str
    run: Callable[..., Any]
    parameters: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    takes_view: bool = False
    """It can work on the context itself, without a copy of it."""


# -- size and ends ------------------------------------------------------------------------


def _length(value: Any, work: Work) -> int:
    if isinstance(value, (str, list, Mapping)):
        return len(value)
    raise Refused(f"`length` takes text, a list or an object, not {kind_of(value)}")


def _first(value: Any, work: Work) -> Any:
    return _end(value, "first", 0)


def _last(value: Any, work: Work) -> Any:
    return _end(value, "last", -1)


def _end(value: Any, name: str, index: int) -> Any:
    if not isinstance(value, (str, list)):
        raise Refused(f"`{name}` takes a list or text, not {kind_of(value)}")
    if not value:
        raise TemplatePathMissing(f"`{name}` of nothing: the list or text is empty")
    return value[index]


def _keys(value: Any, work: Work) -> Any:
    if not isinstance(value, Mapping):
        raise Refused(f"`keys` takes an object, not {kind_of(value)}")
    names = list(value)
    work.spend(len(names) * ITEM_UNITS)
    return work.built(names, 2 + sum(len(name) + 3 for name in names))


def _values(value: Any, work: Work) -> Any:
    if not isinstance(value, dict):
        raise Refused(f"`values` takes an object, not {kind_of(value)}")
    work.spend(len(value) * _PASS_UNITS)
    return work.built(list(value.values()), work.weigh(value))


# -- text ---------------------------------------------------------------------------------


def _upper(value: Any, work: Work) -> str:
    return _changed(_text(value, "upper", work).upper())


def _lower(value: Any, work: Work) -> str:
    return _changed(_text(value, "lower", work).lower())


def _trim(value: Any, work: Work, *, chars: Any = None) -> str:
    if chars is not None and not (isinstance(chars, str) and len(chars) <= TRIM_CHARACTERS_MAX):
        raise Refused(f"`trim(chars)` takes text of at most {TRIM_CHARACTERS_MAX} characters")
    return _text(value, "trim", work).strip(chars)


def _replace(value: Any, work: Work, *, old: Any, new: Any, count: Any = None) -> str:
    text = _text(value, "replace", work)
    if not (isinstance(old, str) and isinstance(new, str)):
        raise Refused(f"`replace` takes two texts, not {kind_of(old)} and {kind_of(new)}")
    found = text.count(old)
    if count is not None:
        found = min(found, max(0, _whole(count, "replace", "count")))
    size = len(text) + found * (len(new) - len(old))
    check_size(size)
    work.spend(size)
    return text.replace(old, new, found)


def _join(value: Any, work: Work, *, d: Any = "", attribute: Any = None) -> str:
    if not isinstance(d, str):
        raise Refused(f"`join` takes the text to put between, not {kind_of(d)}")
    items = _picked(_items(value, "join", work), attribute, work)
    check_size(len(d) * (len(items) - 1))
    texts = _texts_of(items, work)
    size = sum(map(len, texts)) + len(d) * max(0, len(texts) - 1)
    check_size(size)
    work.spend(size)
    return d.join(texts)


def _string(value: Any, work: Work) -> str:
    return work.text_of(value)


def _tojson(value: Any, work: Work) -> str:
    work.spend(work.weigh(value))
    raw = encode(value)
    check_size(len(raw))
    return raw.decode()


def _fromjson(value: Any, work: Work) -> Any:
    text = _text(value, "fromjson", work)
    work.spend(len(text) * _PARSE_FACTOR)
    try:
        read = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Refused("`fromjson` takes JSON text, and this is none") from None
    if text.count("[") + text.count("{") > VALUE_DEPTH_MAX and _is_deep(read):
        raise Refused(f"`fromjson`: the text is nested more than {VALUE_DEPTH_MAX} levels deep")
    return read


# -- numbers ------------------------------------------------------------------------------


def _round(value: Any, work: Work, *, precision: Any = 0, method: Any = "common") -> float:
    digits = _whole(precision, "round", "precision")
    if not is_number(value) or abs(digits) > ROUND_PRECISION_MAX:
        raise Refused(f"`round` takes a number and at most {ROUND_PRECISION_MAX} digits, not {kind_of(value)}")
    if method == "common":
        return float(check_number(round(float(value), digits)))
    if method not in ("ceil", "floor"):
        raise Refused("`round(precision, method)`: the method is 'common', 'ceil' or 'floor'")
    scaled = check_number(float(value) * 10.0**digits)
    return float(check_number((math.ceil(scaled) if method == "ceil" else math.floor(scaled)) / 10.0**digits))


def _int(value: Any, work: Work, *, default: Any = 0, base: Any = 10) -> Any:
    digits = _whole(base, "int", "base")
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


def _float(value: Any, work: Work, *, default: Any = 0.0) -> Any:
    try:
        if isinstance(value, str):
            work.spend(len(value))
        number = float(value)
    except (ValueError, TypeError, OverflowError):
        return default
    return check_number(number)


# -- lists --------------------------------------------------------------------------------


def _sort(value: Any, work: Work, *, reverse: Any = False, case_sensitive: Any = False, attribute: Any = None) -> Any:
    items = _items(value, "sort", work)
    keys = _comparable(_picked(items, attribute, work), case_sensitive, work)
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


def _unique(value: Any, work: Work, *, case_sensitive: Any = False, attribute: Any = None) -> Any:
    items = _items(value, "unique", work)
    keys = _comparable(_picked(items, attribute, work), case_sensitive, work)
    work.spend(len(items) * ITEM_UNITS)
    if not _kinds(keys) <= _SCALARS:
        # JSON text stands for lists and objects, which cannot be looked up as they are.
        work.spend(work.weigh(items))
        keys = [orjson.dumps(key, option=orjson.OPT_SORT_KEYS).decode() for key in keys]
    # From the end, so that of equal items the first stays, where it was.
    firsts = dict(zip(reversed(keys), reversed(range(len(items))), strict=True))
    return work.built([items[position] for position in sorted(firsts.values())], work.weigh(items))


def _min(value: Any, work: Work, *, case_sensitive: Any = False, attribute: Any = None) -> Any:
    return _extreme(min, value, work, case_sensitive, attribute)


def _max(value: Any, work: Work, *, case_sensitive: Any = False, attribute: Any = None) -> Any:
    return _extreme(max, value, work, case_sensitive, attribute)


def _extreme(choose: Callable[..., Any], value: Any, work: Work, case_sensitive: Any, attribute: Any) -> Any:
    name = choose.__name__
    items = _items(value, name, work)
    if not items:
        raise TemplatePathMissing(f"`{name}` of nothing: the list is empty")
    keys = _comparable(_picked(items, attribute, work), case_sensitive, work)
    work.spend(work.weigh(items))
    try:
        return choose(items) if keys is items else items[choose(range(len(items)), key=keys.__getitem__)]
    except TypeError:
        raise Refused(f"`{name}` takes items of one kind that have an order: numbers, or texts") from None


def _sum(value: Any, work: Work, *, attribute: Any = None, start: Any = 0) -> Any:
    numbers = [start, *_picked(_items(value, "sum", work), attribute, work)]
    if not _kinds(numbers) <= _NUMBERS:
        wrong = next(number for number in numbers if not is_number(number))
        raise Refused(f"`sum` takes numbers, and one of the items is {kind_of(wrong)}")
    try:
        return check_number(sum(numbers))
    except OverflowError:
        raise Refused("the number is not finite") from None


# -- what they share ----------------------------------------------------------------------


def _text(value: Any, name: str, work: Work) -> str:
    if not isinstance(value, str):
        raise Refused(f"`{name}` takes text, not {kind_of(value)}; `| string` makes text of it")
    work.spend(len(value))
    return value


def _changed(text: str) -> str:
    check_size(len(text))
    return text


def _items(value: Any, name: str, work: Work) -> list[Any]:
    if not isinstance(value, list):
        raise Refused(f"`{name}` takes a list, not {kind_of(value)}")
    work.spend(len(value) * _PASS_UNITS)
    return value


def _whole(value: Any, name: str, parameter: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"`{name}`: {parameter} must be a whole number, not {kind_of(value)}")
    return value


def _picked(items: list[Any], attribute: Any, work: Work) -> list[Any]:
    """What a dotted path finds in each item; the items themselves without a path."""
    if attribute is None:
        return items
    if not isinstance(attribute, str) or len(attribute) > ATTRIBUTE_LENGTH_MAX:
        raise Refused(f"`attribute` takes the name of a field, at most {ATTRIBUTE_LENGTH_MAX} characters")
    names = attribute.split(".")
    work.spend(len(items) * len(names) * ITEM_UNITS)
    return [_pick(item, names) for item in items]


def _pick(item: Any, names: list[str]) -> Any:
    for name in names:
        item = look_up(item, int(name) if isinstance(item, list) and name.isdecimal() else name, _ABSENT)
        if item is _ABSENT:
            raise TemplatePathMissing(f"the attribute `{'.'.join(names)}` is missing in an item")
    return item


def _comparable(keys: list[Any], case_sensitive: Any, work: Work) -> list[Any]:
    """Keys to compare items by: texts without regard to case, unless it matters."""
    if case_sensitive or str not in _kinds(keys):
        return keys
    work.spend(sum(len(key) for key in keys if isinstance(key, str)))
    return [key.lower() if isinstance(key, str) else key for key in keys]


def _texts_of(items: list[Any], work: Work) -> list[str]:
    kinds = _kinds(items)
    if kinds <= {str}:
        return items
    if kinds <= {int}:
        return list(map(str, items))
    work.spend(len(items) * ITEM_UNITS)
    texts, size = [], 0
    for item in items:
        texts.append(work.text_of(item))
        size += len(texts[-1])
        check_size(size)
    return texts


def _kinds(items: list[Any]) -> set[type]:
    """The types in a list, found in one pass of C code."""
    return set(map(type, items))


def _is_deep(value: Any) -> bool:
    """Is it nested deeper than stores allow? Level by level: no recursion, each part is met once."""
    level = [value]
    for _ in range(VALUE_DEPTH_MAX):
        level = [
            child
            for part in level
            for child in (part.values() if isinstance(part, dict) else part)
            if isinstance(child, (list, dict))
        ]
        if not level:
            return False
    return True


_ALL = (
    Filter("length", _length, takes_view=True),
    Filter("upper", _upper),
    Filter("lower", _lower),
    Filter("trim", _trim, ("chars",)),
    Filter("replace", _replace, ("old", "new", "count"), required=("old", "new")),
    Filter("round", _round, ("precision", "method")),
    Filter("int", _int, ("default", "base")),
    Filter("float", _float, ("default",)),
    Filter("string", _string),
    Filter("join", _join, ("d", "attribute")),
    Filter("first", _first),
    Filter("last", _last),
    Filter("sort", _sort, ("reverse", "case_sensitive", "attribute")),
    Filter("unique", _unique, ("case_sensitive", "attribute")),
    Filter("sum", _sum, ("attribute", "start")),
    Filter("min", _min, ("case_sensitive", "attribute")),
    Filter("max", _max, ("case_sensitive", "attribute")),
    Filter("tojson", _tojson),
    Filter("fromjson", _fromjson),
    Filter("keys", _keys, takes_view=True),
    Filter("values", _values),
)

FILTERS: Mapping[str, Filter] = {each.name: each for each in _ALL}
"""By name."""
