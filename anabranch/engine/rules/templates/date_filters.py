"""Template filters for points in time: `date_add`, `date_diff`, `date_format`, `date_start` and the like.

Pure; what they do is in `moments`. Collected by `filters`.
"""

from __future__ import annotations

from typing import Any

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.filter_arguments import Filter, text_argument
from anabranch.engine.rules.templates.moments import (
    difference,
    formatted,
    in_zone,
    moment,
    moved,
    parsed,
    start_of,
    timestamp,
    written,
)


def _date_format(value: Any, work: TemplateBudget, *, format: Any, timezone: Any = None) -> str:
    return formatted(in_zone(moment(value, "date_format", work), timezone), format, "date_format", work)


def _date_parse(value: Any, work: TemplateBudget, *, format: Any, timezone: Any = None) -> str:
    return written(parsed(text_argument(value, "date_parse", work), format, timezone, "date_parse", work))


def _date_add(value: Any, work: TemplateBudget, *, amount: Any, unit: Any, timezone: Any = None) -> str:
    return written(moved(in_zone(moment(value, "date_add", work), timezone), amount, unit, "date_add"))


def _date_diff(value: Any, work: TemplateBudget, *, other: Any, unit: Any = "milliseconds") -> float | int:
    return difference(moment(value, "date_diff", work), moment(other, "date_diff", work), unit, "date_diff")


def _date_start(value: Any, work: TemplateBudget, *, unit: Any, timezone: Any = None) -> str:
    return written(start_of(in_zone(moment(value, "date_start", work), timezone), unit, "date_start"))


def _timestamp(value: Any, work: TemplateBudget) -> int:
    return timestamp(moment(value, "timestamp", work))


DATE_FILTERS = (
    Filter("date_add", _date_add, ("amount", "unit", "timezone"), required=("amount", "unit")),
    Filter("date_diff", _date_diff, ("other", "unit"), required=("other",)),
    Filter("date_format", _date_format, ("format", "timezone"), required=("format",)),
    Filter("date_parse", _date_parse, ("format", "timezone"), required=("format",)),
    Filter("date_start", _date_start, ("unit", "timezone"), required=("unit",)),
    Filter("timestamp", _timestamp),
)
