"""`dateTime`: reads, writes, moves, compares, takes apart and rounds points in time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import Field, model_validator

from anabranch.engine.rules.templates import moments
from anabranch.engine.rules.templates.budget import ITEM_UNITS, TemplateBudget
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.types.data.each_value import ValueConfig, converted, text_of
from anabranch.handlers.types.data.items import pure

_NODE = "dateTime"

# A point in time costs five microseconds to read, move and write (measured), so a list of them has some 20,000 at most.
_MOMENT_UNITS = 20 * ITEM_UNITS

_NEEDS: Mapping[str, tuple[str, ...]] = {
    "format": ("format",),
    "add": ("amount", "unit"),
    "difference": ("other",),
    "round": ("unit",),
}


class DateTimeConfig(ValueConfig):
    """What to do with which points in time."""

    operation: Literal["parse", "format", "add", "difference", "parts", "round"] = Field(
        description="`parse` text, write it in a `format`, `add` to it, take the `difference` to another, take it apart"
        " (`parts`), or `round` it.",
        json_schema_extra=x_ui(order=-1),
    )
    format: str | None = Field(
        None,
        max_length=moments.FORMAT_CHARACTERS_MAX,
        description="By strftime's letters, such as `%d.%m.%Y %H:%M`. `parse` without it reads ISO 8601.",
        json_schema_extra=x_ui(show_if={"/operation": ["parse", "format"]}, placeholder="%Y-%m-%d"),
    )
    amount: int | None = Field(
        None,
        description="How many units to add; negative to subtract.",
        json_schema_extra=x_ui(show_if={"/operation": "add"}),
    )
    other: Any = Field(
        None,
        description="The point in time that is subtracted from the source.",
        json_schema_extra=x_ui(widget="expression", show_if={"/operation": "difference"}, placeholder="{{ now }}"),
    )
    unit: (
        Literal["milliseconds", "seconds", "minutes", "hours", "days", "weeks", "months", "quarters", "years"] | None
    ) = Field(
        None,
        description="The unit to add, to round to, or to tell the difference in (milliseconds if not given).",
        json_schema_extra=x_ui(show_if={"/operation": ["add", "difference", "round"]}),
    )
    direction: Literal["down", "up", "nearest"] = Field(
        "down",
        description="Round `down` to the beginning of the unit, `up` to the next one, or to the `nearest` of both.",
        json_schema_extra=x_ui(show_if={"/operation": "round"}),
    )
    timezone: str | None = Field(
        None,
        max_length=moments.DATE_CHARACTERS_MAX,
        description="The time zone to reckon and write in, such as `Europe/Berlin`; without it, that of the value.",
        json_schema_extra=x_ui(placeholder="Europe/Berlin"),
    )

    @model_validator(mode="after")
    def _complete(self) -> DateTimeConfig:
        missing = [name for name in _NEEDS.get(self.operation, ()) if getattr(self, name) is None]
        if missing:
            raise ValueError(f"`{self.operation}` needs {' and '.join(f'`{name}`' for name in missing)}")
        return self


def evaluate(config: DateTimeConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """ISO 8601 with milliseconds, text, a number, or an object of parts, for each value."""
    return converted(config, _NODE, work, lambda value: _result(value, config, work)), None


def _result(value: Any, config: DateTimeConfig, work: TemplateBudget) -> Any:
    work.spend(_MOMENT_UNITS)
    if config.operation == "parse" and config.format is not None:
        text = text_of(value, _NODE, work)
        return moments.written(moments.parsed(text, config.format, config.timezone, _NODE, work))
    at = moments.in_zone(moments.moment(value, _NODE, work), config.timezone)
    match config.operation:
        case "parse":
            return moments.written(at)
        case "format":
            return moments.formatted(at, config.format, _NODE, work)
        case "add":
            return moments.written(moments.moved(at, config.amount, config.unit, _NODE))
        case "difference":
            return moments.difference(
                at, moments.moment(config.other, _NODE, work), config.unit or "milliseconds", _NODE
            )
        case "parts":
            return _parts(at)
        case "round":
            return moments.written(_rounded(at, config))


def _parts(at: datetime) -> dict[str, int]:
    """The weekday from 1, Monday, and the week are those of ISO 8601."""
    return {
        "year": at.year,
        "month": at.month,
        "day": at.day,
        "hour": at.hour,
        "minute": at.minute,
        "second": at.second,
        "millisecond": at.microsecond // 1_000,
        "weekday": at.isoweekday(),
        "week": at.isocalendar().week,
        "quarter": (at.month + 2) // 3,
        "dayOfYear": at.timetuple().tm_yday,
    }


def _rounded(at: datetime, config: DateTimeConfig) -> datetime:
    begin = moments.start_of(at, config.unit, _NODE)
    if config.direction == "down" or begin == at:
        return begin
    end = moments.moved(begin, 1, config.unit, _NODE)
    return begin if config.direction == "nearest" and at - begin < end - at else end


SPEC = HandlerSpec(
    type=_NODE,
    title="Date and time",
    config=DateTimeConfig,
    evaluate=pure(evaluate),
    category="data",
    icon="calendar",
    description="Reads, writes, moves, compares and rounds points in time.",
    side_effects="none",
    docs="#datetime",
)
