"""Values of PostgreSQL as the Node.js driver `pg` turns them into JSON, for workflows imported from n8n.

Used by the driver of PostgreSQL, whose sessions write dates as ISO, intervals as ISO 8601 and bytes in hexadecimal.
Times without a time zone are taken for UTC, the default zone of Node.js.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import psycopg
from psycopg.adapt import Loader

_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?(?:\+00)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_INTERVAL = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d+))?S)?)?"
)
_POINT = re.compile(r"\(([^,()]+),([^,()]+)\)")


class _ServerTextLoader(Loader):
    """A value in the server's own words."""

    def load(self, data: Any) -> Any:
        return bytes(data).decode()


class _NodeInstantLoader(_ServerTextLoader):
    """A point in time with milliseconds, as JavaScript writes it; infinity and years beyond 9999 stay."""

    def load(self, data: Any) -> Any:
        text = super().load(data)
        found = _INSTANT.fullmatch(text)
        return text if found is None else f"{found[1]}T{found[2]}.{(found[3] or '').ljust(3, '0')[:3]}Z"


class _DateLoader(_ServerTextLoader):
    """Midnight of a day; infinity is not a JSON number."""

    def load(self, data: Any) -> Any:
        text = super().load(data)
        if "infinity" in text:
            return None
        return f"{text}T00:00:00.000Z" if _DATE.fullmatch(text) else text


class _FloatLoader(_ServerTextLoader):
    """A number; what is none in JSON is null."""

    def load(self, data: Any) -> Any:
        value = float(super().load(data))
        return value if math.isfinite(value) else None


class _BytesLoader(_ServerTextLoader):
    """Bytes as Node.js writes its Buffer."""

    def load(self, data: Any) -> Any:
        return {"type": "Buffer", "data": list(bytes.fromhex(super().load(data).removeprefix("\\x")))}


class _IntervalLoader(_ServerTextLoader):
    """An interval as an object of its parts that are not zero."""

    def load(self, data: Any) -> Any:
        """The parts as numbers; a text that is not an interval of this form stays."""
        text = super().load(data)
        found = _INTERVAL.fullmatch(text)
        if found is None:
            return text
        sign = -1 if found[6] else 1
        named = ("years", "months", "days", "hours", "minutes")
        parts: dict[str, float] = dict(zip(named, map(int, found.groups("0")[:5]), strict=True))
        parts["seconds"] = sign * int(found[7] or 0)
        fraction = sign * int((found[8] or "").ljust(6, "0")[:6]) / 1000
        parts["milliseconds"] = int(fraction) if fraction.is_integer() else fraction
        return {name: value for name, value in parts.items() if value}


class _PointLoader(_ServerTextLoader):
    """A point as `{x, y}`."""

    def load(self, data: Any) -> Any:
        text = super().load(data)
        found = _POINT.fullmatch(text)
        return text if found is None else {"x": float(found[1]), "y": float(found[2])}


class _NumericListLoader(_ServerTextLoader):
    """A list of decimals as numbers; alone they are text."""

    def load(self, data: Any) -> Any:
        text = super().load(data).replace("{", "[").replace("}", "]").replace("NULL", "null")
        return json.loads(re.sub(r"NaN|-?Infinity", "null", text))


# By name, or by number where the type has no name of its own.
NODE_LOADERS: dict[str | int, type[Loader]] = {
    "int8": _ServerTextLoader,
    "timestamp": _NodeInstantLoader,
    "timestamptz": _NodeInstantLoader,
    "date": _DateLoader,
    "float4": _FloatLoader,
    "float8": _FloatLoader,
    "bytea": _BytesLoader,
    "interval": _IntervalLoader,
    "point": _PointLoader,
    psycopg.adapters.types["numeric"].array_oid: _NumericListLoader,
}
