"""Widgets: convert the output of a run to the data of a table, a chart or a number.

Pure. Called by the service. An invalid config is an error; an output that does not fit is reported in the result,
because outputs change from run to run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anabranch.engine.rules.events import Status
from anabranch.engine.rules.values import kind_of
from anabranch.service.widgets.config import COLUMNS_MAX, Column, WidgetConfig, read_config
from anabranch.service.widgets.number_formats import formatted

# 1,000 rows or points: a screen has few more columns of pixels.
ROWS_MAX = 1_000

# The first 100 rows define the columns; rows of one kind have the same keys.
ROWS_SAMPLED = 100

# 100,000 characters of text: some forty pages.
TEXT_CHARACTERS_MAX = 100_000

_MISMATCH = "WIDGET_MISMATCH"


def shape(run: Mapping[str, Any], widget_type: Any, config: Any) -> dict[str, Any]:
    """`{instanceID, status, widgetType, data, ready, error}` of a run as `run_details` gives it.

    `ready` says that `data` can be drawn; whether it is final, the status says. `error` is that of
    a failed run, else why the output does not fit. Raises only InvalidRequest, with JSON pointers,
    for an invalid type or config.
    """
    wanted = read_config(widget_type, config)
    is_final = run.get("status") == Status.COMPLETED.value
    data, ready, error = None, False, run.get("error")
    try:
        value = _value_at(run.get("output"), wanted.path)
        if value is not None or is_final:
            data, ready = _SHAPES[widget_type](value, wanted), True
    except _Mismatch as mismatch:
        if is_final:  # before the end, missing values may still come
            error = {"code": _MISMATCH, "message": str(mismatch)}
    return {
        "instanceID": run.get("instanceID"),
        "status": run.get("status"),
        "widgetType": widget_type,
        "data": data,
        "ready": ready,
        "error": error,
    }


class _Mismatch(Exception):
    """The output does not fit this widget."""


def _table(value: Any, wanted: WidgetConfig) -> dict[str, Any]:
    rows = _rows(value)
    shown = rows[:ROWS_MAX]
    columns = _columns(shown) if wanted.columns is None else wanted.columns
    return {
        "columns": [{"key": column.key, "label": column.label} for column in columns],
        "rows": [{column.key: _cell(row, column.key) for column in columns} for row in shown],
        "rowCount": len(rows),
        "truncated": len(rows) > ROWS_MAX,
    }


def _chart(value: Any, wanted: WidgetConfig) -> dict[str, Any]:
    rows = _rows(value)
    shown = rows[:ROWS_MAX]
    series = _numeric_columns(shown, wanted.x) if wanted.columns is None else wanted.columns
    positions: list[Any] = list(range(len(shown))) if wanted.x is None else [_cell(row, wanted.x) for row in shown]
    return {
        "kind": wanted.kind,
        "x": positions,
        "series": [
            {"key": each.key, "label": each.label, "values": [_number(_cell(row, each.key)) for row in shown]}
            for each in series
        ],
        "truncated": len(rows) > ROWS_MAX,
    }


def _metric(value: Any, wanted: WidgetConfig) -> dict[str, Any]:
    number = _number(value)
    if number is None and (wanted.format is not None or isinstance(value, (dict, list))):
        raise _Mismatch(f"a metric needs a number, not {kind_of(value)}")
    text = _text_of(value) if number is None else formatted(number, wanted.format or "number")
    return {"value": value, "formatted": text[:TEXT_CHARACTERS_MAX], "label": wanted.label, "format": wanted.format}


def _text(value: Any, wanted: WidgetConfig) -> dict[str, Any]:
    text = _text_of(value)
    return {
        "text": text[:TEXT_CHARACTERS_MAX],
        "format": wanted.format or "plain",
        "truncated": len(text) > TEXT_CHARACTERS_MAX,
    }


def _json(value: Any, wanted: WidgetConfig) -> Any:
    return value


_SHAPES: dict[str, Callable[[Any, WidgetConfig], Any]] = {
    "table": _table,
    "chart": _chart,
    "metric": _metric,
    "text": _text,
    "json": _json,
}


# -- finding --------------------------------------------------------------------------------
def _value_at(value: Any, path: Sequence[str]) -> Any:
    for taken, step in enumerate(path):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and step.isascii() and int(step) < len(value):
            value = value[int(step)]
        else:
            holder = ".".join(path[:taken]) or "the output"
            raise _Mismatch(f"there is no {step!r} in {holder}")
    return value


def _rows(value: Any) -> Sequence[dict[str, Any]]:
    """A list of objects as it is; other values of a list as rows of one column; an object as the only row."""
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise _Mismatch(f"rows need a list, not {kind_of(value)}")
    return [item if isinstance(item, dict) else {"value": item} for item in value]


def _columns(rows: Sequence[dict[str, Any]]) -> list[Column]:
    keys = dict.fromkeys(key for row in rows[:ROWS_SAMPLED] for key in row)
    return [Column(key, key) for key in list(keys)[:COLUMNS_MAX]]


def _numeric_columns(rows: Sequence[dict[str, Any]], x: str | None) -> list[Column]:
    """Every column but `x` that has a number in one of the first rows."""
    return [
        column
        for column in _columns(rows)
        if column.key != x and any(_number(row.get(column.key)) is not None for row in rows[:ROWS_SAMPLED])
    ]


def _cell(row: dict[str, Any], key: str) -> Any:
    """The value of a key, else at the end of a dotted path; null where there is none."""
    if key in row:
        return row[key]
    try:
        return _value_at(row, key.split("."))
    except _Mismatch:
        return None


# -- reading --------------------------------------------------------------------------------
def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _text_of(value: Any) -> str:
    """Text as it is, empty for null, everything else as JSON. Templates in it stay text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
