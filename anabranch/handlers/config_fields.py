"""Kinds of fields that several configs share, and their hints for forms."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.instants import from_iso
from anabranch.handlers.config_schema import UI

Widget: TypeAlias = Literal["code", "expression", "duration", "secret", "workflow", "query", "keyValue", "branches"]

Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": ["number", "string"], "description": "Milliseconds, or 500ms, 5s, 5m, 2h, 7d, PT5M"}),
]
"""A length of time, read as milliseconds."""


def _instant(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError("a point in time is text: ISO 8601 with an offset, such as 2026-01-31T08:00:00+01:00")
    try:
        return from_iso(value)
    except OverflowError:
        raise ValueError(f"{value!r} is beyond the calendar") from None


Instant = Annotated[
    int, BeforeValidator(_instant), WithJsonSchema({"type": "string", "description": "ISO 8601 with an offset"})
]
"""A point in time, read as milliseconds since the epoch."""


def x_ui(
    *,
    widget: Widget | None = None,
    group: str | None = None,
    advanced: bool = False,
    placeholder: str | None = None,
    show_if: dict[str, Any] | None = None,
    **further: Any,
) -> dict[str, Any]:
    """Hints about a field for forms in editors, for pydantic's `json_schema_extra`.

    `show_if` names other fields of the config by JSON pointer with the value, or a list of the values, that they
    must have; null is an absent field. A field that holds something is shown in any case.
    """
    hints = {"widget": widget, "group": group, "placeholder": placeholder, "showIf": show_if, **further}
    return {
        UI: {name: value for name, value in hints.items() if value is not None}
        | ({"advanced": True} if advanced else {})
    }
