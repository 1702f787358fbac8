"""Read the config of a widget; the error lists all problems.

Pure. Called by `widgets`. Each problem has its JSON pointer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.errors import InvalidRequest
from anabranch.service.widgets.number_formats import FORMATS

# 64 steps, as deep as any value may be; 255 characters a text, as for keys.
PATH_STEPS_MAX = 64
TEXT_CHARACTERS_MAX = 255

# 100 columns or series: more than a person can read side by side.
COLUMNS_MAX = 100

CHART_KINDS = ("line", "bar", "area", "pie", "scatter")

_CURRENCY = re.compile(r"currency:[A-Z]{3}")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, or a series of a chart."""

    key: str
    """A key of each row, or a dotted path into it."""
    label: str


@dataclass(frozen=True, slots=True)
class WidgetConfig:
    """The config as given; None for a missing field."""

    path: Sequence[str] = ()
    """Steps into the output; none: the whole output."""
    columns: Sequence[Column] | None = None
    x: str | None = None
    kind: str = CHART_KINDS[0]
    format: str | None = None
    label: str | None = None


def read_config(widget_type: Any, config: Any) -> WidgetConfig:
    """The config of a widget of this type; None is an empty one. Raises InvalidRequest."""
    known = _FIELDS.get(widget_type) if isinstance(widget_type, str) else None
    if known is None:
        raise _refused([("UNKNOWN_WIDGET", "/type", f"a widget must be one of {', '.join(_FIELDS)}")])
    if config is None:
        config = {}
    if not isinstance(config, Mapping):
        raise _refused([("WRONG_TYPE", "/config", "the config of a widget must be an object")])
    reader = _WidgetReader(config)
    unknown = [name for name in config if name not in known]
    reader.problems += [
        ("UNKNOWN_FIELD", f"/config/{_escaped(name)}", f"a {widget_type} has no field {str(name)[:64]!r}")
        for name in unknown[:COLUMNS_MAX]
    ]
    read = WidgetConfig(
        path=reader.path(),
        columns=reader.columns("series" if widget_type == "chart" else "columns"),
        x=reader.text("x"),
        kind=reader.one_of("kind", CHART_KINDS) or CHART_KINDS[0],
        format=reader.format(widget_type),
        label=reader.text("label"),
    )
    if reader.problems:
        raise _refused(reader.problems)
    return read


_FIELDS: dict[str, frozenset[str]] = {
    "table": frozenset({"path", "columns"}),
    "chart": frozenset({"path", "x", "series", "kind"}),
    "metric": frozenset({"path", "format", "label"}),
    "text": frozenset({"path", "format"}),
    "json": frozenset({"path"}),
}


@dataclass(slots=True)
class _WidgetReader:
    """Reads field by field and collects the problems."""

    config: Mapping[str, Any]
    problems: list[tuple[str, str, str]] = field(default_factory=list)

    def text(self, name: str) -> str | None:
        value = self.config.get(name)
        return None if value is None else self._text(value, f"/config/{name}")

    def one_of(self, name: str, known: Sequence[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in known:
            self.problems.append(("UNKNOWN_VALUE", f"/config/{name}", f"{name} must be one of {', '.join(known)}"))
        return value

    def format(self, widget_type: str) -> str | None:
        if widget_type == "text":
            return self.one_of("format", ("plain",))
        value = self.text("format")
        if value is not None and value not in FORMATS and not _CURRENCY.fullmatch(value):
            message = f"format must be one of {', '.join(FORMATS)}, currency:EUR"
            self.problems.append(("UNKNOWN_VALUE", "/config/format", message))
        return value

    def path(self) -> Sequence[str]:
        written = self.config.get("path")
        if written is None or written == "":
            return ()
        steps = self._text(written, "/config/path").split(".")
        if len(steps) > PATH_STEPS_MAX or not all(steps):
            message = f"path must be 1 to {PATH_STEPS_MAX} keys or positions, divided by dots: orders.0.total"
            self.problems.append(("BAD_PATH", "/config/path", message))
        return steps

    def columns(self, name: str) -> Sequence[Column] | None:
        written = self.config.get(name)
        if written is None:
            return None
        if not isinstance(written, list) or not 1 <= len(written) <= COLUMNS_MAX:
            message = f"{name} must be a list of 1 to {COLUMNS_MAX} keys, or of objects with key and label"
            self.problems.append(("WRONG_TYPE", f"/config/{name}", message))
            return None
        return [self._column(each, f"/config/{name}/{index}") for index, each in enumerate(written)]

    def _column(self, written: Any, pointer: str) -> Column:
        if not isinstance(written, Mapping):
            key = self._text(written, pointer)
            return Column(key, key)
        self.problems += [
            ("UNKNOWN_FIELD", f"{pointer}/{_escaped(name)}", "a column needs a key and a label")
            for name in written
            if name not in ("key", "label")
        ]
        key = self._text(written.get("key"), f"{pointer}/key")
        label = written.get("label")
        return Column(key, key if label is None else self._text(label, f"{pointer}/label"))

    def _text(self, value: Any, pointer: str) -> str:
        if isinstance(value, str) and 1 <= len(value) <= TEXT_CHARACTERS_MAX:
            return value
        self.problems.append(("WRONG_TYPE", pointer, f"must be text of 1 to {TEXT_CHARACTERS_MAX} characters"))
        return "?"


def _escaped(name: Any) -> str:
    """A key as a part of a JSON pointer, shortened."""
    return str(name)[:TEXT_CHARACTERS_MAX].replace("~", "~0").replace("/", "~1")


def _refused(problems: Sequence[tuple[str, str, str]]) -> InvalidRequest:
    details = [{"code": code, "pointer": pointer, "message": message} for code, pointer, message in problems]
    return InvalidRequest(
        "; ".join(f"{pointer}: {message}" for _, pointer, message in problems[:3]),
        hint="docs/widgets.md describes the config of each widget.",
        details=details,
    )
