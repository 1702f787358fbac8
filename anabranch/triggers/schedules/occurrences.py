"""Compute the occurrences of a schedule: when it is due, and which missed ones are started later.

Pure. Called by `scheduler`, and by the service when a schedule is saved. Knows time and no rows.
Times are milliseconds since the epoch; only whole seconds are ever named by a cron expression.

Cron expressions have five fields, or six with seconds in front, and follow Debian's cron. In a time
zone with summer time, fixed times (neither minute nor hour begins with `*`) happen once a day: a time
that the clocks skip happens at the first minute after the gap, a time that they show twice happens
the first time only. Where minute or hour begins with `*`, and with seconds, the clock on the wall
is followed: nothing happens in the gap, and the doubled hour happens twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import islice, takewhile
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from anabranch.dataclass import dataclass

# 128 characters: longer than any sensible expression (a list of all minutes has 169).
CRON_CHARACTERS_MAX = 128

# 1 s: occurrences are looked for twice a second, so that a shorter interval could not be kept.
EVERY_MS_MIN = 1_000

# 2 s: twice the lateness that is promised. What is later than that has been missed.
ON_TIME_MS = 2_000

# 1,000 occurrences: a week of every ten minutes. More than that at once would crowd out all other work.
MADE_UP_FOR_MAX = 1_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE_MS = 60_000

# The last time that a date can show in every time zone.
_LAST_MS = 253_402_128_000_000


class BadTiming(ValueError):
    """An invalid cron expression or time zone; the message has the reason, `field` which of the two."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class MissedPolicy(StrEnum):
    """The policy for missed occurrences."""

    SKIP = "skip"
    """Nothing."""
    ONE = "one"
    """One run for all of them, unless one is being started anyway: that of the latest."""
    ALL = "all"
    """A run for each of the latest `MADE_UP_FOR_MAX`."""


@dataclass(frozen=True, slots=True)
class Cron:
    """Points in time by a cron expression, in a time zone."""

    expression: str
    timezone: str


@dataclass(frozen=True, slots=True)
class Interval:
    """`anchor_at` + k × `every_ms` for k = 1, 2, 3…: what is late does not shift what follows."""

    anchor_at: int
    every_ms: int


Timing: TypeAlias = Cron | Interval


@dataclass(frozen=True, slots=True)
class Due:
    """The work for a schedule now."""

    starts: tuple[int, ...]
    """Occurrences that get a run, in their order."""
    following: int | None
    """The first occurrence after now; None if there is none."""


def check_timezone(name: str) -> None:
    """Return if this machine knows the time zone. Raises BadTiming."""
    _zone(name)


def next_after(timing: Timing, at: int) -> int | None:
    """The first occurrence later than `at`; None if there is none within 50 years. Raises BadTiming."""
    return next(_occurrences(timing, after=at), None)


def due_occurrences(timing: Timing, *, next_at: int, now: int, missed: MissedPolicy, awake_since: int) -> Due:
    """The occurrences to start from `next_at` to now, for a scheduler that has looked since `awake_since`.

    On time is what is at most `ON_TIME_MS` late, and the latest of all if we were awake at its time: that one was
    delayed, and is retried until the next one is due. The others were missed. Raises BadTiming.
    """
    few = ON_TIME_MS // EVERY_MS_MIN + 1
    count = MADE_UP_FOR_MAX if missed is MissedPolicy.ALL else few
    latest = _latest(timing, since=next_at, until=now, count=count)
    following = next_after(timing, now)
    if missed is MissedPolicy.ALL or not latest:
        return Due(tuple(latest), following)
    starts = [at for at in latest if now - at <= ON_TIME_MS]
    if not starts and (missed is MissedPolicy.ONE or latest[-1] >= awake_since):
        starts = latest[-1:]
    return Due(tuple(starts), following)


def occurrences_between(timing: Timing, *, since: int, until: int, count_max: int) -> list[int]:
    """The first `count_max` occurrences with since ≤ t < until, in their order. Raises BadTiming."""
    return list(islice(takewhile(lambda at: at < until, _occurrences(timing, after=since - 1)), count_max))


def _occurrences(timing: Timing, *, after: int) -> Iterator[int]:
    match timing:
        case Interval():
            return _interval_occurrences(timing, after)
        case Cron():
            return _cron_occurrences(timing, after)


def _interval_occurrences(timing: Interval, after: int) -> Iterator[int]:
    number = max(1, (after - timing.anchor_at) // timing.every_ms + 1)
    while (at := timing.anchor_at + number * timing.every_ms) <= _LAST_MS:
        yield at
        number += 1


def _cron_occurrences(timing: Cron, after: int) -> Iterator[int]:
    last = after
    for moment in _simulation(timing, after):
        # In the second of two equal hours the search begins again with the first.
        at = (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
        if at > last:
            yield at
            last = at


def _latest(timing: Timing, *, since: int, until: int, count: int) -> list[int]:
    """The last `count` occurrences from `since` to `until`, in their order.

    Occurrences can only be counted forwards, and there may be millions of them: the look back is
    lengthened until it shows enough, and shortened again where that was too far.
    """
    scanned_max = 4 * count
    whole = until - since + 1
    span, too_short, too_long = min(_MINUTE_MS, whole), 0, 0
    while True:
        upcoming = takewhile(lambda at: at <= until, _occurrences(timing, after=until - span))
        found = list(islice(upcoming, scanned_max + 1))
        if len(found) > scanned_max:
            too_long = span
        elif len(found) >= count or span == whole:
            return found[-count:]
        else:
            too_short = span
        span = (too_short + too_long) // 2 if too_long else min(span * 2, whole)


def _simulation(timing: Cron, after: int) -> CronSim:
    zone = _zone(timing.timezone)
    if len(timing.expression) > CRON_CHARACTERS_MAX:
        raise BadTiming("cron", f"a cron expression has at most {CRON_CHARACTERS_MAX} characters")
    try:
        return CronSim(timing.expression, (_EPOCH + timedelta(milliseconds=after)).astimezone(zone))
    except (CronSimError, ValueError, TypeError, AssertionError) as refusal:
        raise BadTiming(
            "cron",
            f"{timing.expression!r} is not a cron expression ({refusal}): write minute, hour, day of month, month and"
            " day of week, such as `0 9 * * MON-FRI`",
        ) from None


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # known everywhere, also where no table of time zones is installed
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadTiming("timezone", f"{name!r} is not a time zone: write an IANA name such as Europe/Zurich") from None
