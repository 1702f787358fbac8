"""Template filters for text: `upper`, `replace`, `split`, `regex_find`, `tojson` and the like.

Pure. Collected by `filters`.
"""

from __future__ import annotations

from typing import Any

import orjson

from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget, check_size, encode
from anabranch.engine.rules.templates.filter_arguments import (
    Filter,
    items_argument,
    kinds_of,
    picked,
    text_argument,
    whole_argument,
    within_size,
)
from anabranch.engine.rules.templates.linear_regex import find
from anabranch.engine.rules.templates.operators import COMPARISONS
from anabranch.engine.rules.values import VALUE_DEPTH_MAX, kind_of

# 64 characters to trim: stripping compares each character of the text with each of these.
TRIM_CHARACTERS_MAX = 64

# How much longer than running over the text parsing takes, measured on lists of short items.
_PARSE_FACTOR = 8

# A search by pattern costs some ten times as much as running over the text in C code.
_SEARCH_FACTOR = 10


def _upper(value: Any, work: TemplateBudget) -> str:
    return within_size(text_argument(value, "upper", work).upper())


def _lower(value: Any, work: TemplateBudget) -> str:
    return within_size(text_argument(value, "lower", work).lower())


def _trim(value: Any, work: TemplateBudget, *, chars: Any = None) -> str:
    if chars is not None and not (isinstance(chars, str) and len(chars) <= TRIM_CHARACTERS_MAX):
        raise Refused(f"`trim(chars)` takes text of at most {TRIM_CHARACTERS_MAX} characters")
    return text_argument(value, "trim", work).strip(chars)


def _replace(value: Any, work: TemplateBudget, *, old: Any, new: Any, count: Any = None) -> str:
    text = text_argument(value, "replace", work)
    if not (isinstance(old, str) and isinstance(new, str)):
        raise Refused(f"`replace` takes two texts, not {kind_of(old)} and {kind_of(new)}")
    found = text.count(old)
    if count is not None:
        found = min(found, max(0, whole_argument(count, "replace", "count")))
    size = len(text) + found * (len(new) - len(old))
    check_size(size)
    work.spend(size)
    return text.replace(old, new, found)


def _join(value: Any, work: TemplateBudget, *, d: Any = "", attribute: Any = None) -> str:
    if not isinstance(d, str):
        raise Refused(f"`join` takes the text to put between, not {kind_of(d)}")
    items = picked(items_argument(value, "join", work), attribute, work)
    check_size(len(d) * (len(items) - 1))
    texts = _texts_of(items, work)
    size = sum(map(len, texts)) + len(d) * max(0, len(texts) - 1)
    check_size(size)
    work.spend(size)
    return d.join(texts)


def _string(value: Any, work: TemplateBudget) -> str:
    return work.text_of(value)


def _tojson(value: Any, work: TemplateBudget) -> str:
    work.spend(work.weigh(value))
    raw = encode(value)
    check_size(len(raw))
    return raw.decode()


def _fromjson(value: Any, work: TemplateBudget) -> Any:
    text = text_argument(value, "fromjson", work)
    work.spend(len(text) * _PARSE_FACTOR)
    try:
        read = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise Refused("`fromjson` needs JSON text, and this text is not valid JSON") from None
    if text.count("[") + text.count("{") > VALUE_DEPTH_MAX and _is_deep(read):
        raise Refused(f"`fromjson`: the text is nested more than {VALUE_DEPTH_MAX} levels deep")
    return read


def _split(value: Any, work: TemplateBudget, *, separator: Any = None, count: Any = None) -> Any:
    if separator is not None and not (isinstance(separator, str) and separator):
        raise Refused("`split` takes the text to split at; without one it splits at blanks and line ends")
    limit = -1 if count is None else max(0, whole_argument(count, "split", "count"))
    text = text_argument(value, "split", work)
    parts = text.split(separator, limit)
    work.spend(len(parts) * ITEM_UNITS)
    return work.built(parts, 2 + len(text) + 3 * len(parts))


def _contains(value: Any, work: TemplateBudget, *, item: Any) -> bool:
    if isinstance(value, str) and not isinstance(item, str):
        raise Refused(f"`contains`: text contains text, not {kind_of(item)}")
    return bool(COMPARISONS["in"](item, value, work))


def _startswith(value: Any, work: TemplateBudget, *, prefix: Any) -> bool:
    return text_argument(value, "startswith", work).startswith(_affix(prefix, "startswith"))


def _endswith(value: Any, work: TemplateBudget, *, suffix: Any) -> bool:
    return text_argument(value, "endswith", work).endswith(_affix(suffix, "endswith"))


def _affix(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise Refused(f"`{name}` takes text to look for, not {kind_of(value)}")
    return value


def _slice(value: Any, work: TemplateBudget, *, start: Any, end: Any = None) -> Any:
    begin = whole_argument(start, "slice", "start")
    stop = None if end is None else whole_argument(end, "slice", "end")
    if isinstance(value, str):
        return text_argument(value, "slice", work)[begin:stop]
    items = items_argument(value, "slice", work)[begin:stop]
    return work.built(items, 2 + sum(work.weigh(item) + 1 for item in items))


def _regex_find(value: Any, work: TemplateBudget, *, pattern: Any, group: Any = 0) -> str | None:
    """The first match or one of its groups; None where nothing matches, or the group took no part."""
    text = text_argument(value, "regex_find", work)
    if not isinstance(pattern, str):
        raise Refused(f"`regex_find` takes a pattern, not {kind_of(pattern)}")
    if not isinstance(group, str):
        group = whole_argument(group, "regex_find", "group")
    try:
        found = find(pattern, text, group)
    except ValueError as refusal:
        raise Refused(f"`regex_find`: {refusal}") from None
    work.spend(len(text) * _SEARCH_FACTOR)
    return found


def _texts_of(items: list[Any], work: TemplateBudget) -> list[str]:
    kinds = kinds_of(items)
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


TEXT_FILTERS = (
    Filter("upper", _upper),
    Filter("lower", _lower),
    Filter("trim", _trim, ("chars",)),
    Filter("replace", _replace, ("old", "new", "count"), required=("old", "new")),
    Filter("split", _split, ("separator", "count")),
    Filter("contains", _contains, ("item",), required=("item",), takes_view=True),
    Filter("startswith", _startswith, ("prefix",), required=("prefix",)),
    Filter("endswith", _endswith, ("suffix",), required=("suffix",)),
    Filter("slice", _slice, ("start", "end"), required=("start",)),
    Filter("regex_find", _regex_find, ("pattern", "group"), required=("pattern",)),
    Filter("join", _join, ("d", "attribute")),
    Filter("string", _string),
    Filter("tojson", _tojson),
    Filter("fromjson", _fromjson),
)
