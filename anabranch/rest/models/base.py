"""Base pydantic models: they validate requests and describe responses.

Attributes have the names of the JSON fields (camelCase). Responses are open: a client must accept unknown fields.
"""

# ruff: noqa: N815 -- the names on the wire are camelCase
from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

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
        raise ValueError("a time must be text in ISO 8601 with an offset")
    try:
        return from_iso(value)
    except (ValueError, OverflowError):
        raise ValueError("a time must be ISO 8601 with an offset, such as 2030-01-31T08:00:00+01:00") from None


def _day_or_instant(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError("a time must be text in ISO 8601 with an offset, or a date")
    try:
        # In a query `+` is a space: accept it where %2B was meant.
        return from_iso_or_date(value.replace(" ", "+"))
    except (ValueError, OverflowError):
        raise ValueError(
            "a time must be ISO 8601 with an offset, such as 2030-01-31T08:00:00+01:00, or a date, which begins in UTC"
        ) from None


def _wait_s(value: Any) -> float:
    if isinstance(value, str) and value.strip().isdecimal():
        raise ValueError(f"the wait has no unit; write `{value.strip()[:20]}s`")
    try:
        wait_s = parse_duration(value) / 1000
    except ValueError:
        raise ValueError("a wait must be a duration with a unit, such as `30s` or `500ms`") from None
    if wait_s > WAIT_S_MAX:
        raise ValueError(f"a request waits at most {WAIT_S_MAX:.0f}s; repeat it to wait longer")
    return wait_s


_DATE_TIME = {"type": "string", "format": "date-time"}
Instant = Annotated[int, BeforeValidator(_instant), WithJsonSchema(_DATE_TIME)]
"""Milliseconds since the epoch, as ISO 8601 with an offset."""
DayOrInstant = Annotated[
    int,
    BeforeValidator(_day_or_instant),
    WithJsonSchema({"anyOf": [_DATE_TIME, {"type": "string", "format": "date"}]}),
]
"""The same; a date stands for the start of that day in UTC."""
WaitSeconds = Annotated[
    float,
    BeforeValidator(_wait_s),
    WithJsonSchema({"type": "string", "pattern": f"^({WAIT_S_MAX:.0f}|[1-5]?[0-9])s$", "examples": ["30s"]}),
]
"""Seconds, written as a duration with its unit."""

Key = Annotated[str, Field(min_length=1, max_length=255)]
Name = Annotated[str, Field(min_length=1, max_length=64)]


class RequestModel(BaseModel):
    """Base of requests: JSON types are not converted, unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Query(BaseModel):
    """Base of query parameters, which are text."""

    model_config = ConfigDict(extra="forbid")


class Waiting(Query):
    """How long to wait for the end of a run."""

    wait: WaitSeconds | None = Field(
        None, description=f"Answer when the run has ended, or this time is over: `30s`; at most {WAIT_S_MAX:.0f}s."
    )


class Form(BaseModel):
    """Base of documents that the service checks: it rejects unknown fields."""

    model_config = ConfigDict(extra="forbid")


class ResponseModel(BaseModel):
    """Base of responses."""

    model_config = ConfigDict(extra="allow")


Item = TypeVar("Item")


class ListModel(ResponseModel, Generic[Item]):
    """Base of lists."""

    items: list[Item]
    nextCursor: str | None


class OpenResponseModel(ResponseModel):
    """Base of responses with additional fields, such as those of a document or a widget type."""


class Page(Query):
    """The cursor and the size of a page."""

    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="How many items at most.")
    cursor: str | None = Field(None, min_length=1, description="nextCursor of the page before.")
