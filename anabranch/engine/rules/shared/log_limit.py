"""The size limit of a log, and how a run ends that reaches it.

Pure. Decisions check each of their own rows, stores check signals from outside, and a claim checks the row of a run
before it reads the log.
"""

from __future__ import annotations

import re

from anabranch.dataclass import dataclass
from anabranch.errors import RunError

# A log is read whole when its run is taken over. 64 MB of payloads are four times what a run's context may hold, and
# a few seconds of reading; 1,000,000 rows take as long, however small their payloads are.
LOG_BYTES_MAX = 64 * 1_048_576
LOG_ROWS_MAX = 1_000_000

# Bounds of the setting. With less, hardly any run would complete; with more, no worker could take one over.
BYTES_MAX_LEAST, BYTES_MAX_MOST = 65_536, 4 * 1_073_741_824
ROWS_MAX_LEAST, ROWS_MAX_MOST = 100, 100_000_000

LOG_TOO_LARGE = "LOG_TOO_LARGE"

# A row takes some 512 bytes in memory beside its payload.
ROW_WEIGHT = 512

# The first two rows, the input and a test run's definition, have limits of their own.
ROWS_ALWAYS_TAKEN = 2


@dataclass(frozen=True, slots=True)
class LogLimit:
    """The size limit of one log. The row that ends a run, and the row by which a store suspends it, are always
    written."""

    bytes_max: int = LOG_BYTES_MAX
    """JSON bytes of all payloads."""
    rows_max: int = LOG_ROWS_MAX

    def __str__(self) -> str:
        return f"{self.bytes_max} bytes of payloads or {self.rows_max} rows"

    def is_passed(self, *, log_bytes: int, rows: int) -> bool:
        """Whether this exceeds the limit."""
        return log_bytes > self.bytes_max or rows > self.rows_max

    def error(self) -> RunError:
        """The error of a run that ends because its log is full."""
        return RunError(LOG_TOO_LARGE, "LogTooLarge", f"the log of the run would pass {self}")


LOG_LIMIT = LogLimit()

UNLIMITED_LOG = LogLimit(bytes_max=2**62, rows_max=2**31 - 1)
"""For the row that suspends a run, or lets it go on, without anybody who asked for it: it must not run on instead."""


_SIZE = re.compile(r"(\d{1,12})\s*(b|kb|mb|gb|tb)?", re.IGNORECASE)
_ROWS = re.compile(r"(\d{1,12})\s*rows?", re.IGNORECASE)
_UNITS = {"b": 1, "kb": 1_024, "mb": 1_048_576, "gb": 1_073_741_824, "tb": 1_099_511_627_776}


def parse_size(text: str | int) -> int:
    """A size as operators write it: `64MB`, or a number of bytes. Raises ValueError."""
    found = _SIZE.fullmatch(str(text).strip())
    if found is None:
        raise ValueError(f"{str(text).strip()!r} is not a size such as 64MB")
    return int(found[1]) * _UNITS[(found[2] or "b").lower()]


def parse_log_limit(text: str | int) -> LogLimit:
    """A limit as operators write it: `64MB`, a number of bytes, `1000000 rows`, or both with a comma between.

    A part left out keeps its default. Raises ValueError.
    """
    sizes: list[int] = []
    rows: list[int] = []
    for part in str(text).split(","):
        if found := _ROWS.fullmatch(part.strip()):
            rows.append(int(found[1]))
        elif _SIZE.fullmatch(part.strip()):
            sizes.append(parse_size(part))
        else:
            raise ValueError(
                f"{part.strip()!r} is neither a size such as 64MB nor a number of rows such as 1000000 rows"
            )
    if len(sizes) > 1 or len(rows) > 1:
        raise ValueError("it should name one size and one number of rows at most")
    limit = LogLimit(*(sizes or [LOG_BYTES_MAX]), *(rows or [LOG_ROWS_MAX]))
    if not BYTES_MAX_LEAST <= limit.bytes_max <= BYTES_MAX_MOST:
        raise ValueError("a size should be 64KB to 4GB")
    if not ROWS_MAX_LEAST <= limit.rows_max <= ROWS_MAX_MOST:
        raise ValueError("a number of rows should be 100 to 100,000,000")
    return limit


class LogFull(Exception):
    """A row does not fit into its run's log; it was neither written nor folded."""
