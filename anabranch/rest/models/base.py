"""The forms of requests and answers, as pydantic models: requests are checked by them, answers described.

Names are the wire's (camelCase), as the documents are: an attribute is the field it stands for. The
forms of answers are open: a client must expect fields that it does not know.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.instants import from_iso, from_iso_or_date
from anabranch.service.runs.run_waits import WAIT_S_MAX

LIMIT_DEFAULT = 50
LIMIT_MAX = 100

# Rows of logs and steps are small, and a page of them ends early at 4 MB.
ROWS_LIMIT_MAX = 1_000


def _instant(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError("a time is text in ISO 8601 with an offset")
    try:
        return from_iso(value)
    except (ValueError, OverflowError):
        raise ValueError("a time is ISO 8601 with an offset, such as 2030-01-31T08:00:00+01:00") from None


def _day_or_instant(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError("a time is text in ISO 8601 with an offset, or a date")
    try:
        # In a query `+` is a space: whoever forgot to write %2B means the offset all the same.
        return from_iso_or_date(value.replace(" ", "+"))
    except (ValueError, OverflowError):
        raise ValueError(
            "a time is ISO 8601 with an offset, such as 2030-01-31T08:00:00+01:00, or a date, which begins in UTC"
        ) from None


def _wait_s(value: Any) -> float:
    if isinstance(value, str) and value.strip().isdecimal():
        raise ValueError(f"a wait has a unit: `{value.strip()[:20]}s`")
    try:
        wait_s = parse_duration(value) / 1000
    except ValueError:
        raise ValueError("a wait is a duration with its unit, such as `30s` or `500ms`") from None
    if wait_s > WAIT_S_MAX:
        raise ValueError(f"a request waits at most {WAIT_S_MAX:.0f}s; ask again to wait longer")
    return wait_s


_DATE_TIME = {"type": "string", "format": "date-time"}
Instant = Annotated[int, BeforeValidator(_instant), WithJsonSchema(_DATE_TIME)]
"""Milliseconds since the epoch, written as ISO 8601 with an offset."""
DayOrInstant = Annotated[
    int,
    BeforeValidator(_day_or_instant),
    WithJsonSchema({"anyOf": [_DATE_TIME, {"type": "string", "format": "date"}]}),
]
"""The same, where a date is the beginning of that day in UTC."""
WaitSeconds = Annotated[
    float,
    BeforeValidator(_wait_s),
    WithJsonSchema({"type": "string", "pattern": f"^({WAIT_S_MAX:.0f}|[1-5]?[0-9])s$", "examples": ["30s"]}),
]
"""Seconds, written as a duration with its unit."""

Key = Annotated[str, Field(min_length=1, max_length=255)]
Name = Annotated[str, Field(min_length=1, max_length=64)]


class Request(BaseModel):
    """Base of what is sent to us: JSON kinds are not converted, unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Query(BaseModel):
    """Base of query parameters, which are text."""

    model_config = ConfigDict(extra="forbid")


class Waiting(Query):
    """How long an answer may be waited for."""

    wait: WaitSeconds | None = Field(
        None, description=f"Answer when the run has ended, or this time is over: `30s`; at most {WAIT_S_MAX:.0f}s."
    )


class Form(BaseModel):
    """Base of documents that the service checks by itself: it refuses fields that it does not know."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    """Base of what we send."""

    model_config = ConfigDict(extra="allow")


class OpenAnswer(Answer):
    """Base of what has further fields by its nature: those of documents, or of a widget's type."""


class Page(Query):
    """Where a page begins, and how long it is."""

    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="How many items at most.")
    cursor: str | None = Field(None, min_length=1, description="nextCursor of the page before.")
