"""Time zones as data for imported code: the offsets of a zone with the times from which they hold.

Pure. The sandbox of code knows UTC only, so the code brings what it needs with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

# From 1970 to 2100: before, the first offset is taken, and after it the last.
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)

# 8 zones in one piece of code: each is some 4 kB of it.
ZONES_MAX = 8

UTC_NAMES = frozenset({"utc", "etc/utc", "gmt", "etc/gmt"})

# Its clock moves by half an hour, which the arithmetic of hours in `luxon.js` does not know.
_HALF_HOUR = "Australia/Lord_Howe"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]{0,63}")


def is_zone(name: str) -> bool:
    """Whether there is a time zone of this name."""
    return name.lower() in UTC_NAMES or (name != _HALF_HOUR and _transitions(name) is not None)


def zones_code(default: str, names: Iterable[str]) -> str:
    """The statements that give code its time zone, and the offsets of this one and others."""
    listed = {name: _transitions(name) for name in [default, *names] if name.lower() not in UTC_NAMES}
    zone = "UTC" if default.lower() in UTC_NAMES else default
    return f"const $zone = {json.dumps(zone)}, $zones = {json.dumps(listed, separators=(',', ':'))};"


@lru_cache(maxsize=64)
def _transitions(name: str) -> tuple[tuple[int, int], ...] | None:
    """Pairs of seconds since the epoch and minutes east of UTC; None if there is no such zone."""
    try:
        zone = ZoneInfo(name) if _NAME.fullmatch(name) else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = None
    if zone is None:
        return None
    found = [(0, _offset(_FIRST, zone))]
    step = timedelta(days=4)  # no zone changes its offset and changes it back within four days
    at = _FIRST
    while at < _LAST:
        if _offset(at + step, zone) != found[-1][1]:
            low, high = at, at + step
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
                low, high = (middle, high) if _offset(middle, zone) == found[-1][1] else (low, middle)
            found.append((int(high.timestamp()), _offset(high, zone)))
        at += step
    return tuple(found)


def _offset(at: datetime, zone: ZoneInfo) -> int:
    offset = at.astimezone(zone).utcoffset()
    assert offset is not None, "a zone has an offset at every time"
    return int(offset.total_seconds() // 60)
