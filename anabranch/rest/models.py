"""The forms of requests and answers, as pydantic models: requests are checked by them, answers described.

Names are the wire's (camelCase), as the documents are: an attribute is the field it stands for. The
forms of answers are open: a client must expect fields that it does not know.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from anabranch.engine.rules.instants import from_iso

LIMIT_DEFAULT = 50
LIMIT_MAX = 100


def _instant(value: Any) -> int:
    if not isinstance(value, str):
        raise ValueError("a time is text in ISO 8601 with an offset")
    try:
        return from_iso(value)
    except (ValueError, OverflowError):
        raise ValueError("a time is ISO 8601 with an offset, such as 2030-01-31T08:00:00+01:00") from None


def _query_instant(value: Any) -> int:
    # In a query `+` is a space: whoever forgot to write %2B means the offset all the same.
    return _instant(value.replace(" ", "+") if isinstance(value, str) else value)


_DATE_TIME = {"type": "string", "format": "date-time"}
Instant = Annotated[int, BeforeValidator(_instant), WithJsonSchema(_DATE_TIME)]
QueryInstant = Annotated[int, BeforeValidator(_query_instant), WithJsonSchema(_DATE_TIME)]
"""Milliseconds since the epoch, written as ISO 8601 with an offset."""

Key = Annotated[str, Field(min_length=1, max_length=255)]
Name = Annotated[str, Field(min_length=1, max_length=64)]


class Request(BaseModel):
    """Base of what is sent to us: JSON kinds are not converted, unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Query(BaseModel):
    """Base of query parameters, which are text."""

    model_config = ConfigDict(extra="forbid")


class Form(BaseModel):
    """Base of documents that the service checks by itself: it refuses fields that it does not know."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    """Base of what we send."""

    model_config = ConfigDict(extra="allow")


class AnyDocument(BaseModel):
    """Any JSON object: whatever is wrong with it is the answer."""


class Page(Query):
    """Where a page begins, and how long it is."""

    limit: int = Field(LIMIT_DEFAULT, ge=1, le=LIMIT_MAX, description="How many items at most.")
    cursor: str | None = Field(None, min_length=1, description="nextCursor of the page before.")
