"""Kinds of fields that several configs have: lengths of time and points in time."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.instants import from_iso

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
