"""Query results as JSON: values, column names, and size limits.

Pure. Drivers call it row by row, so that an endless result stops at its limit, not after it was read.
`docs/data-queries.md` documents the forms.
"""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from anabranch.dataclass import dataclass
from anabranch.queries.drivers.driver_requests import QueryRequest
from anabranch.queries.query_faults import failed, too_large

# 64 KiB of rows per message: parsing takes less than a millisecond.
_CHUNK_BYTES = 65_536

_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**64 - 1


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of an answer, and how many rows there are, or were changed."""

    rows: list[dict[str, Any]]
    row_count: int

    def as_json(self) -> dict[str, Any]:
        """The output of a dataQuery node."""
        return {"rows": self.rows, "rowCount": self.row_count}


class Collector:
    """Takes rows one by one and passes them on as JSON. Raises NodeFailure at the row that exceeds a limit."""

    def __init__(
        self, columns: Iterable[str], request: QueryRequest, send: Callable[[bytes | bytearray], None]
    ) -> None:
        self.count = 0
        self._columns = column_names(columns)
        self._request = request
        self._send = send
        self._bytes = self._memory = 0
        self._row_memory = sys.getsizeof(dict.fromkeys(self._columns))
        self._waiting = bytearray()

    def add(self, values: Sequence[Any]) -> None:
        """One more row."""
        if self.count >= self._request.rows_max:
            raise too_large(f"more than {self._request.rows_max} rows; add LIMIT, or select less")
        try:
            row = dict(zip(self._columns, map(json_form, values), strict=True))
            # Counted as text: what is cheap to hold in a database can be long once it is written down.
            text = orjson.dumps(row)
            self._memory += self._row_memory + sum(map(_footprint, row.values()))
        except (RecursionError, orjson.JSONEncodeError):
            raise failed("the answer holds a JSON value that is nested too deep") from None
        self._bytes += len(text)
        if self._bytes > self._request.bytes_max:
            raise too_large(f"more than {self._request.bytes_max} bytes; select fewer columns or rows")
        if self._memory > self._request.memory_max:
            raise too_large(f"values that take more than {self._request.memory_max} bytes of memory; select less")
        self.count += 1
        # Copied at once: a result of `dumps` has room for a kilobyte, and thousands of them are slow to get.
        self._waiting += b"," if self._waiting else b"["
        self._waiting += text
        if len(self._waiting) >= _CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the buffered rows."""
        if self._waiting:
            self._waiting += b"]"
            self._send(self._waiting)
            self._waiting = bytearray()


def column_names(columns: Iterable[str]) -> list[str]:
    """The keys of a row: a repeated name becomes `name_2`, `name_3`; one without a name is `column`."""
    given = [str(name) or "column" for name in columns]
    taken: set[str] = set()
    names = []
    for name in given:
        candidate, number = name, 1
        while candidate in taken or (number > 1 and candidate in given):
            number += 1
            candidate = f"{name}_{number}"
        taken.add(candidate)
        names.append(candidate)
    return names


def json_form(value: Any) -> Any:
    """The JSON form of a database value; types without one become text."""
    if value is None or isinstance(value, bool | str):
        return value.replace("\x00", "\ufffd") if isinstance(value, str) else value
    if isinstance(value, int):
        return value if _INTEGER_MIN <= value <= _INTEGER_MAX else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _not_finite(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {str(key): json_form(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [json_form(child) for child in value]
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "S"
    if isinstance(value, set | frozenset):
        return sorted(json_form(child) for child in value)
    return str(value)


def _footprint(value: Any) -> int:
    """How many bytes of memory a JSON value takes in Python: a few characters of text can be a hundred of these."""
    size = sys.getsizeof(value)
    if type(value) is dict:
        return size + sum(map(_footprint, value.values())) + sum(map(sys.getsizeof, value))
    return size + sum(map(_footprint, value)) if type(value) is list else size


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
