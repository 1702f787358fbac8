"""Points in time: integers of milliseconds since the epoch inside, ISO 8601 with an offset outside."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_iso(at_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds, `2026-01-31T08:00:00.000+00:00`."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")


def to_iso_or_none(at_ms: int | None) -> str | None:
    """The same of a time that may be missing."""
    return None if at_ms is None else to_iso(at_ms)


def from_iso(text: str) -> int:
    """Milliseconds since the epoch. Raises ValueError unless the text is ISO 8601 with an offset (or Z) and lies in the
    years 1 to 9999 UTC, which `to_iso` can write.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset; write one, such as +01:00 or Z")
    at_ms = round((moment - _EPOCH) / timedelta(milliseconds=1))
    try:
        to_iso(at_ms)
    except OverflowError:
        raise ValueError(f"{text!r} is not within the years 1 to 9999 of UTC") from None
    return at_ms


def from_iso_or_date(text: str) -> int:
    """The same; a date alone means the beginning of that day in UTC."""
    return from_iso(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text)
