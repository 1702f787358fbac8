"""Points in time for templates and nodes: read, written, moved, compared, cut, in time zones.

Pure: no clock, no locale of the machine; the names of months and days are English. A point in time is ISO 8601 text
with an offset, `2026-01-31T08:00:00Z`, a date alone (the beginning of that day in UTC), or a number of milliseconds
since the epoch. Results are ISO 8601 with milliseconds. `name` is what the caller is called in messages. Everything
raises Refused for what makes no sense.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget, is_number
from anabranch.engine.rules.values import kind_of

# 64 characters hold every point in time and every name of a time zone.
DATE_CHARACTERS_MAX = 64

# 256 characters of a format: a sentence with a date in it.
FORMAT_CHARACTERS_MAX = 256

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CODE = re.compile(r"%(.?)", re.DOTALL)

_MONTHS = {"months": 1, "quarters": 3, "years": 12}
_FIXED = {
    "milliseconds": timedelta(milliseconds=1),
    "seconds": timedelta(seconds=1),
    "minutes": timedelta(minutes=1),
    "hours": timedelta(hours=1),
}
_CUT: Mapping[str, Any] = {
    "milliseconds": {},
    "seconds": {"microsecond": 0},
    "minutes": {"second": 0, "microsecond": 0},
    "hours": {"minute": 0, "second": 0, "microsecond": 0},
}
_DAYS = {"days": 1, "weeks": 7}
_UNITS = (*_FIXED, *_DAYS, *_MONTHS)

_DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


# -- what is done with them ---------------------------------------------------------------


def formatted(at: datetime, format: Any, name: str, work: TemplateBudget) -> str:
    """As text, by strftime's letters."""
    if not isinstance(format, str) or len(format) > FORMAT_CHARACTERS_MAX:
        raise Refused(f"`{name}` takes a format of at most {FORMAT_CHARACTERS_MAX} characters, such as '%Y-%m-%d'")

    def written_code(code: re.Match[str]) -> str:
        write = _CODES.get(code[1])
        if write is None:
            raise Refused(
                f"`{name}` does not support `{code[0]}`; it supports {' '.join('%' + each for each in _CODES)}"
            )
        return write(at)

    work.spend(len(format) * ITEM_UNITS)
    return _CODE.sub(written_code, format)


def parsed(text: str, format: Any, timezone: Any, name: str, work: TemplateBudget) -> datetime:
    """A point in time that is written in this form; without an offset in the text, in the time zone."""
    if not isinstance(format, str) or len(format) > FORMAT_CHARACTERS_MAX or len(text) > FORMAT_CHARACTERS_MAX:
        raise Refused(f"`{name}` takes text and a format of at most {FORMAT_CHARACTERS_MAX} characters")
    work.spend((len(format) + len(text)) * ITEM_UNITS)
    pattern, codes = _reader(format)
    found = pattern.fullmatch(text)
    if found is None:
        raise Refused(f"`{name}`: the text is not written as `{format}`")
    parts = dict(zip(codes, found.groups(), strict=True))
    try:
        return _within_years(_put_together(parts, zone(timezone)))
    except (ValueError, OverflowError):
        raise Refused(f"`{name}`: there is no such date or time") from None


def moved(at: datetime, amount: Any, unit: Any, name: str) -> datetime:
    """Later by so many units. Days, weeks, months and years follow the calendar of the time zone: noon stays noon when
    the clocks change.
    """
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise Refused(f"`{name}` takes a whole amount, not {kind_of(amount)}")
    known = unit_named(unit, name)
    try:
        if known in _FIXED:
            return _within_years((at.astimezone(UTC) + amount * _FIXED[known]).astimezone(at.tzinfo))
        if known in _DAYS:
            return _within_years(at + timedelta(days=amount * _DAYS[known]))
        return _within_years(_months_later(at, amount * _MONTHS[known]))
    except (ValueError, OverflowError):
        raise Refused(f"`{name}` leaves the years 1 to 9999") from None


def difference(later: datetime, earlier: datetime, unit: Any, name: str) -> float | int:
    """The time between two moments; whole milliseconds, months and years, else with decimals."""
    known = unit_named(unit, name)
    if known in _MONTHS:
        return (
            _whole_months(earlier, later) // _MONTHS[known]
            if later >= earlier
            else -(_whole_months(later, earlier) // _MONTHS[known])
        )
    if known == "milliseconds":
        return round((later - earlier) / _FIXED[known])
    return (later - earlier) / (_FIXED[known] if known in _FIXED else timedelta(days=_DAYS[known]))


def start_of(at: datetime, unit: Any, name: str) -> datetime:
    """The beginning of the hour, day, week (Monday), month, quarter or year that it is in."""
    known = unit_named(unit, name)
    if known in _FIXED:
        return _started(at.replace(**_CUT[known]), name)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if known == "weeks":
        day -= timedelta(days=min(day.weekday(), (day.replace(tzinfo=None) - datetime.min).days))
    elif known == "months":
        day = day.replace(day=1)
    elif known == "quarters":
        day = day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
    elif known == "years":
        day = day.replace(month=1, day=1)
    return _started(day, name)


def _started(at: datetime, name: str) -> datetime:
    try:
        return _within_years(at)
    except OverflowError:
        raise Refused(f"`{name}` leaves the years 1 to 9999") from None


def timestamp(at: datetime) -> int:
    """Milliseconds since the epoch."""
    return round((at - _EPOCH) / timedelta(milliseconds=1))


# -- reading and writing ------------------------------------------------------------------


def moment(value: Any, name: str, work: TemplateBudget) -> datetime:
    """A value as a point in time."""
    work.spend(ITEM_UNITS)
    try:
        if is_number(value):
            return _EPOCH + timedelta(milliseconds=value)
        if isinstance(value, str) and len(value) <= DATE_CHARACTERS_MAX:
            at = datetime.fromisoformat(f"{value}T00:00:00Z" if _DATE.fullmatch(value) else value)
            if at.tzinfo is not None:
                return at
    except (ValueError, OverflowError):
        pass
    shown = "this text" if isinstance(value, str) else kind_of(value)
    raise Refused(
        f"`{name}` takes a point in time such as 2026-01-31T08:00:00Z, or milliseconds since the epoch, not {shown};"
        " `date_parse` reads other forms"
    )


def zone(name: Any) -> ZoneInfo:
    """The time zone of a name; UTC for none."""
    if name is None:
        return ZoneInfo("UTC")
    if not isinstance(name, str) or len(name) > DATE_CHARACTERS_MAX:
        raise Refused("a time zone is named as in 'Europe/Berlin'")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Refused(f"there is no time zone {name!r}; it is named as in 'Europe/Berlin'") from None


def in_zone(at: datetime, timezone: Any) -> datetime:
    """Without a time zone the offset stays that of the value."""
    try:
        return at if timezone is None else at.astimezone(zone(timezone))
    except OverflowError:
        raise Refused("the point in time is not within the years 1 to 9999 of that time zone") from None


def written(at: datetime) -> str:
    """ISO 8601 with milliseconds."""
    text = at.isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _within_years(at: datetime) -> datetime:
    """The same. Raises OverflowError for what is not within the years 1 to 9999 of UTC."""
    at.astimezone(UTC)
    return at


def unit_named(unit: Any, name: str) -> str:
    """`day` and `days` are the same."""
    if isinstance(unit, str):
        for known in _UNITS:
            if unit in (known, known[:-1]):
                return known
    raise Refused(f"`{name}` takes a unit: {', '.join(_UNITS)}")


def _months_later(at: datetime, months: int) -> datetime:
    """The same day of another month, or its last day where it is shorter."""
    year, month = divmod(at.year * 12 + at.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise ValueError(year)
    return at.replace(year=year, month=month + 1, day=min(at.day, calendar.monthrange(year, month + 1)[1]))


def _whole_months(earlier: datetime, later: datetime) -> int:
    later = later.astimezone(earlier.tzinfo)
    months = (later.year - earlier.year) * 12 + later.month - earlier.month
    return months - 1 if months and _months_later(earlier, months) > later else months


_CODES: Mapping[str, Callable[[datetime], str]] = {
    "Y": lambda at: f"{at.year:04}",
    "y": lambda at: f"{at.year % 100:02}",
    "m": lambda at: f"{at.month:02}",
    "d": lambda at: f"{at.day:02}",
    "H": lambda at: f"{at.hour:02}",
    "I": lambda at: f"{(at.hour + 11) % 12 + 1:02}",
    "M": lambda at: f"{at.minute:02}",
    "S": lambda at: f"{at.second:02}",
    "f": lambda at: f"{at.microsecond:06}",
    "p": lambda at: "AM" if at.hour < 12 else "PM",
    "j": lambda at: f"{at.timetuple().tm_yday:03}",
    "u": lambda at: str(at.isoweekday()),
    "V": lambda at: f"{at.isocalendar().week:02}",
    "G": lambda at: f"{at.isocalendar().year:04}",
    "A": lambda at: _DAY_NAMES[at.weekday()],
    "a": lambda at: _DAY_NAMES[at.weekday()][:3],
    "B": lambda at: _MONTH_NAMES[at.month - 1],
    "b": lambda at: _MONTH_NAMES[at.month - 1][:3],
    "z": lambda at: at.strftime("%z"),
    "Z": lambda at: at.tzname() or "",
    "s": lambda at: str((at - _EPOCH) // timedelta(seconds=1)),
    "%": lambda at: "%",
}
"""By strftime's letters."""

_READ: Mapping[str, str] = {
    "Y": r"([0-9]{4})",
    "y": r"([0-9]{2})",
    "m": r"([0-9]{1,2})",
    "d": r"([0-9]{1,2})",
    "H": r"([0-9]{1,2})",
    "I": r"([0-9]{1,2})",
    "M": r"([0-9]{1,2})",
    "S": r"([0-9]{1,2})",
    "f": r"([0-9]{1,6})",
    "p": r"([AaPp][Mm])",
    "B": "(" + "|".join(_MONTH_NAMES) + ")",
    "b": "(" + "|".join(name[:3] for name in _MONTH_NAMES) + ")",
    "A": "(" + "|".join(_DAY_NAMES) + ")",
    "a": "(" + "|".join(name[:3] for name in _DAY_NAMES) + ")",
    "z": r"(Z|[+-][0-9]{2}:?[0-9]{2})",
}
"""What each letter reads: patterns without repetition of repetitions, so that no text makes them slow."""


@lru_cache(maxsize=128)
def _reader(format: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    pattern, codes, position = "", [], 0
    for code in _CODE.finditer(format):
        pattern += re.escape(format[position : code.start()])
        position = code.end()
        if code[1] == "%":
            pattern += "%"
            continue
        if code[1] not in _READ or code[1] in codes:
            raise Refused(f"a format has {' '.join('%' + each for each in _READ)}, each once, not `{code[0]}`")
        codes.append(code[1])
        pattern += _READ[code[1]]
    return re.compile(pattern + re.escape(format[position:]), re.IGNORECASE | re.ASCII), tuple(codes)


def _put_together(parts: Mapping[str, str], zone: ZoneInfo) -> datetime:
    year = int(parts["Y"]) if "Y" in parts else _year_of_two_digits(int(parts.get("y", "70")))
    month = int(parts.get("m", "1"))
    for letter, length in (("B", None), ("b", 3)):
        if letter in parts:
            month = [name[:length].lower() for name in _MONTH_NAMES].index(parts[letter].lower()) + 1
    hour = (
        int(parts["H"]) if "H" in parts else _hour_of_twelve(int(parts["I"]), parts.get("p", "")) if "I" in parts else 0
    )
    at = datetime(
        *(year, month, int(parts.get("d", "1")), hour, int(parts.get("M", "0")), int(parts.get("S", "0"))),
        int(parts.get("f", "0").ljust(6, "0")),
        tzinfo=zone,
    )
    offset = parts.get("z")
    return at if offset is None else datetime.fromisoformat(at.replace(tzinfo=None).isoformat() + offset.upper())


def _year_of_two_digits(year: int) -> int:
    """POSIX: 69 to 99 are of the twentieth century."""
    return year + (1900 if year >= 69 else 2000)


def _hour_of_twelve(hour: int, half: str) -> int:
    if not 1 <= hour <= 12:
        raise ValueError(hour)
    return hour % 12 + (12 if half.lower() == "pm" else 0)
