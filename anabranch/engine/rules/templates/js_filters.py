"""Template filters that convert a value as JavaScript does: `js_text`, `js_number` and the like; and `must_be`.

Pure. Workflows that come from tools whose expressions are JavaScript use them, where `~` and `| float` would give
something else. Collected by `filters`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import orjson

from anabranch.engine.rules.templates.budget import (
    ITEM_UNITS,
    Refused,
    TemplateBudget,
    check_number,
    check_size,
    encode,
    is_number,
)
from anabranch.engine.rules.templates.filter_arguments import ABSENT, Filter, items_argument, text_argument, within_size
from anabranch.engine.rules.values import kind_of

# From here on, and below that, JavaScript writes a number with an exponent.
_EXPONENT_FROM = 1e21
_EXPONENT_BELOW = 1e-6

# What parsing costs, as that of `fromjson`.
_PARSE_FACTOR = 8

# As `in` pays for looking at each item.
_SEARCH_FACTOR = 2

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BASED = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_BLANKS = (
    " \t\n\r\v\f\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_TYPES = ("string", "number", "boolean", "array", "object")
_KINDS = {"string": str, "boolean": bool, "array": list, "object": dict}


def _js_text(value: Any, work: TemplateBudget, *, missing: Any = None) -> str:
    """As `String(value)`; without an argument, null and what is missing are the empty text, as in a template of n8n."""
    if value is ABSENT or value is None:
        if missing is None:
            return ""
        return "null" if value is None else str(missing)
    text = _text_of(value, work)
    check_size(len(text))
    return text


def _text_of(value: Any, work: TemplateBudget) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _number_text(value)
    if isinstance(value, dict):
        return "[object Object]"
    work.spend(len(value) * ITEM_UNITS + work.weigh(value))
    return ",".join("" if item is None else _text_of(item, work) for item in value)


def _number_text(number: float) -> str:
    if isinstance(number, int):
        return str(number) if abs(number) < _EXPONENT_FROM else _exponent(repr(float(number)))
    if number.is_integer() and abs(number) < _EXPONENT_FROM:
        return str(int(number))
    written = repr(number)
    if "e" in written and _EXPONENT_BELOW <= abs(number) < _EXPONENT_FROM:
        return format(Decimal(written), "f")
    return _exponent(written)


def _exponent(written: str) -> str:
    digits, mark, exponent = written.partition("e")
    return written if not mark else f"{digits.removesuffix('.0')}e{int(exponent):+d}"


def _js_number(value: Any, work: TemplateBudget) -> Any:
    """As `Number(value)`, where 3.0 is 3. Raises Refused where that is not a number."""
    if is_number(value):
        return check_number(_without_point(value))
    if value is None or isinstance(value, bool):
        return int(bool(value))
    if isinstance(value, str):
        work.spend(len(value))
        number = _number_of(value.strip(_BLANKS))
        if number is not None:
            return check_number(number)
    if isinstance(value, list):
        return _js_number(_text_of(value, work), work)
    raise Refused(f"`js_number`: {kind_of(value)} of this kind cannot be converted to a number")


def _number_of(text: str) -> float | int | None:
    if not text:
        return 0
    if _BASED.fullmatch(text):
        return int(text, 0)
    if not _NUMBER.fullmatch(text):
        return None
    return _without_point(float(text))


def _without_point(number: float) -> float:
    """3.0 as 3. From 2**53 on, where numbers are not exact any more, as it is."""
    return int(number) if abs(number) < 2**53 and number % 1 == 0 else number


def _js_join(value: Any, work: TemplateBudget, *, separator: Any = ",") -> str:
    """As `list.join(separator)`: null is the empty text."""
    if not isinstance(separator, str):
        raise Refused(f"`js_join` takes the text to put between, not {kind_of(separator)}")
    items = items_argument(value, "js_join", work)
    check_size(len(separator) * len(items))
    texts = ["" if item is None else _text_of(item, work) for item in items]
    size = sum(map(len, texts)) + len(separator) * len(texts)
    check_size(size)
    work.spend(size + len(texts) * ITEM_UNITS)
    return separator.join(texts)


def _js_length(value: Any, work: TemplateBudget) -> Any:
    """As `value.length`: of text in units of UTF-16, of an object its field. Raises Refused where there is none."""
    if isinstance(value, str):
        work.spend(len(value))
        return len(value) + sum(char > "\uffff" for char in value) if not value.isascii() else len(value)
    if isinstance(value, list):
        return len(value)
    if isinstance(value, dict) and "length" in value:
        return value["length"]
    raise Refused(f"`js_length`: {kind_of(value)} of this kind has no length")


def _js_includes(value: Any, work: TemplateBudget, *, item: Any) -> bool:
    """As `value.includes(item)`: a part of a text, or an item of a list; lists and objects equal no others."""
    if isinstance(value, str):
        part = _text_of(item, work)
        work.spend(len(value))
        return part in value
    if not isinstance(value, list):
        raise Refused(f"`js_includes` looks into text or a list, not into {kind_of(value)}")
    work.spend(work.weigh(value) * _SEARCH_FACTOR)
    if isinstance(item, (list, dict)):
        return False
    return any(each == item and isinstance(each, bool) is isinstance(item, bool) for each in value)


def _urlencode(value: Any, work: TemplateBudget) -> str:
    """As `encodeURIComponent`: percent signs for all but letters, digits and -_.!~*'()."""
    text = text_argument(_text_of(value, work), "urlencode", work)
    check_size(len(text) * 3)
    try:
        return within_size(quote(text, safe="-_.!~*'()"))
    except UnicodeEncodeError:
        raise Refused("`urlencode`: the text has half of a character in it") from None


def _must_be(value: Any, work: TemplateBudget, *, type: Any) -> Any:
    """The value, if it has this type; null, and what is missing, is null. Raises Refused for others."""
    _check_type("must_be", type)
    if value is ABSENT or value is None:
        return None
    if type == "number":
        has_it = is_number(value)
    else:
        has_it = isinstance(value, _KINDS[type])
    if not has_it:
        raise Refused(f"`must_be`: {kind_of(value)}, where {type} is expected")
    return value


def _check_type(name: str, type: Any) -> None:
    if not isinstance(type, str) or type not in _TYPES:
        raise Refused(f"`{name}(type)`: the type is one of {', '.join(_TYPES)}")


def _js_type(value: Any, work: TemplateBudget, *, type: Any) -> Any:
    """As a field that is declared to have this type; null, and what is missing, is null."""
    _check_type("js_type", type)
    if value is ABSENT or value is None:
        return None
    made = _CONVERT[type](value, work)
    if made is ABSENT:
        raise Refused(f"`js_type`: {kind_of(value)} of this kind is not converted to {type}")
    return made


def _to_string(value: Any, work: TemplateBudget) -> Any:
    return encode(value).decode() if isinstance(value, (list, dict)) else _text_of(value, work)


def _to_number(value: Any, work: TemplateBudget) -> Any:
    try:
        return ABSENT if isinstance(value, str) and not value.strip(_BLANKS) else _js_number(value, work)
    except Refused:
        return ABSENT


def _to_boolean(value: Any, work: TemplateBudget) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    number = _to_number(value, work)
    return bool(number) if number is not ABSENT and number in (0, 1) else ABSENT


def _to_array(value: Any, work: TemplateBudget) -> Any:
    read = _parsed(value, work) if isinstance(value, str) else value
    return read if isinstance(read, list) else ABSENT


def _to_object(value: Any, work: TemplateBudget) -> Any:
    read = _parsed(value, work) if isinstance(value, str) else value
    return read if isinstance(read, dict) or read is None else ABSENT


def _parsed(text: str, work: TemplateBudget) -> Any:
    work.spend(len(text) * _PARSE_FACTOR)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return ABSENT


_CONVERT = {
    "string": _to_string,
    "number": _to_number,
    "boolean": _to_boolean,
    "array": _to_array,
    "object": _to_object,
}


JS_FILTERS = (
    Filter("js_text", _js_text, ("missing",), takes_missing=True),
    Filter("js_number", _js_number),
    Filter("js_join", _js_join, ("separator",)),
    Filter("js_length", _js_length),
    Filter("js_includes", _js_includes, ("item",), required=("item",)),
    Filter("urlencode", _urlencode),
    Filter("js_type", _js_type, ("type",), required=("type",), takes_missing=True),
    Filter("must_be", _must_be, ("type",), required=("type",), takes_missing=True),
)
