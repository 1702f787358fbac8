"""Filters of templates: what may stand behind a `|`, except `default`, which `template_expression` knows.

Pure. Each follows the Jinja2 filter of its name, on plain data: `attribute` is a dotted path
into objects and lists, never an attribute of a Python object. Each pays for what it touches
and checks the size of what it is about to make. A new filter is added here, with its attack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from anabranch.engine.rules.template_work import (
    RESULT_BYTES_MAX,
    Refused,
    Work,
    check_number,
    check_size,
    encode,
    is_number,
    kind_of,
    look_up,
)
from anabranch.engine.rules.values import Payload
from anabranch.errors import TemplatePathMissing, ValueNotStorable, ValueTooLarge

# 64 characters to trim: stripping compares each character of the text with each of these.
TRIM_CHARACTERS_MAX = 64

# Digits that a float can have; rounding integers further than that builds huge powers of ten.
ROUND_PRECISION_MAX = 20

# Sorting touches its items about this much more often than walking them does.
_SORT_FACTOR = 4

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
    return work.built(names, 2 + sum(len(name) + 3 for name in names))


def _values(value: Any, work: Work) -> Any:
    if not isinstance(value, dict):
        raise Refused(f"`values` takes an object, not {kind_of(value)}")
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
    texts, size = [], 0
    for item in _items(value, "join", work):
        texts.append(work.text_of(_attribute(item, attribute)))
        size += len(texts[-1]) + len(d)
        check_size(size - len(d))
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
    try:
        # Through Payload, so that what is read here could have come in by itself: depth, NUL, surrogates.
        return Payload.of(orjson.loads(text), bytes_max=RESULT_BYTES_MAX).value
    except orjson.JSONDecodeError:
        raise Refused("`fromjson` takes JSON text, and this is none") from None
    except (ValueNotStorable, ValueTooLarge) as refusal:
        raise Refused(f"`fromjson`: {refusal.message}") from None


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
    work.spend(work.weigh(items) * _SORT_FACTOR)
    try:
        ordered = sorted(items, key=_comparable(attribute, case_sensitive), reverse=bool(reverse))
    except TypeError:
        raise Refused("`sort` takes items of one kind that have an order: numbers, or texts") from None
    return work.built(ordered, work.weigh(items))


def _unique(value: Any, work: Work, *, case_sensitive: Any = False, attribute: Any = None) -> Any:
    items = _items(value, "unique", work)
    comparable = _comparable(attribute, case_sensitive)
    work.spend(work.weigh(items))
    # The JSON text stands for the item: lists and objects cannot be looked up as they are.
    seen = {orjson.dumps(comparable(item), option=orjson.OPT_SORT_KEYS): item for item in reversed(items)}
    return work.built(list(reversed(seen.values())), work.weigh(items))


def _min(value: Any, work: Work, *, case_sensitive: Any = False, attribute: Any = None) -> Any:
    return _extreme(min, value, work, case_sensitive, attribute)


def _max(value: Any, work: Work, *, case_sensitive: Any = False, attribute: Any = None) -> Any:
    return _extreme(max, value, work, case_sensitive, attribute)


def _extreme(choose: Callable[..., Any], value: Any, work: Work, case_sensitive: Any, attribute: Any) -> Any:
    name = choose.__name__
    items = _items(value, name, work)
    if not items:
        raise TemplatePathMissing(f"`{name}` of nothing: the list is empty")
    work.spend(work.weigh(items))
    try:
        return choose(items, key=_comparable(attribute, case_sensitive))
    except TypeError:
        raise Refused(f"`{name}` takes items of one kind that have an order: numbers, or texts") from None


def _sum(value: Any, work: Work, *, attribute: Any = None, start: Any = 0) -> Any:
    numbers = [start, *(_attribute(item, attribute) for item in _items(value, "sum", work))]
    for number in numbers:
        if not is_number(number):
            raise Refused(f"`sum` takes numbers, and one of the items is {kind_of(number)}")
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
    work.spend(len(value))
    return value


def _whole(value: Any, name: str, parameter: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(f"`{name}`: {parameter} must be a whole number, not {kind_of(value)}")
    return value


def _attribute(item: Any, path: Any) -> Any:
    """What a dotted path finds in an item; the item itself without a path."""
    if path is None:
        return item
    if not isinstance(path, str):
        raise Refused("`attribute` takes the name of a field as text")
    for name in path.split("."):
        item = look_up(item, int(name) if name.isdecimal() and isinstance(item, list) else name, _ABSENT)
        if item is _ABSENT:
            raise TemplatePathMissing(f"the attribute `{path}` is missing in an item")
    return item


def _comparable(attribute: Any, case_sensitive: Any) -> Callable[[Any], Any]:
    def key(item: Any) -> Any:
        value = _attribute(item, attribute)
        return value.lower() if isinstance(value, str) and not case_sensitive else value

    return key


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
