"""The buffer of the console: which lines are kept, which of them share a row, and when rows are written.

Used by `Console` only, on its event loop. A row costs several times as much as a line, so the lines of a run wait for
one another, the longer the more runs say something.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TextIO

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.console.console_rows import LEVELS, ConsoleRows, Line, ProgressReport, StoredLines, StoredSize
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.console")

# 64 kB of lines share a row: readers decode rows as a whole.
ROW_BYTES_MAX = 65_536

# 100 rows, about a millisecond of the database, may be written every time. If more runs than that have unwritten lines,
# those of a run wait for later ones.
RUNS_AT_ONCE_MAX = 100

# 5 s at most: of 10,000 runs that say 20,000 lines a second, ten lines share a row then.
LINES_WAIT_S = 5.0

# 32 MB of unwritten lines, more than 20,000 short lines a second make in that time, are written without waiting.
HURRY_BYTES = 33_554_432

# 64 MB of unwritten lines: what 20,000 lines a second make while the database is away for half a minute. Further ones
# are dropped and counted.
UNWRITTEN_BYTES_MAX = 67_108_864

# 1,000 rows of 4 MB in total are written in one statement: commits of runs do not wait longer than some milliseconds.
ROWS_WRITTEN_MAX = 1_000
BYTES_WRITTEN_MAX = 4_194_304

# 10 rows of a write that the database refuses, each found by some twenty smaller writes. If there are more, the fault
# is not theirs, and all that is left of the write is dropped: it would keep the database busy in vain.
REFUSED_MAX = 10

# 500 rows, 32 MB of lines at most and mostly far less, are removed per statement.
ROWS_REMOVED_MAX = 500

# 10,000 runs, as many as a worker owns: for these the stored sizes are cached.
RUNS_KNOWN_MAX = 10_000

# 60 s: other processes write and remove lines of a tenant, too. Where one seems to be at its limit, its size is read
# again after this time.
SIZES_EVERY_S = 60.0

# Another process may have written lines of the run before: after a sixteenth of the limit, the stored size is read.
UNKNOWN_SHARE = 16

FULL = "the console of this run is full; further lines are dropped"

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Limits and retention of the console."""

    level: int = LEVELS["info"]
    run_bytes_max: int = 1_048_576
    """1 MB of one run: ten thousand short lines."""
    tenant_bytes_max: int = 268_435_456
    """256 MB of one tenant."""
    retention_days: int = 7
    """7 days: causes are usually investigated soon, and the log of the run stays longer."""
    stream: TextIO | None = None
    """A stream that also receives the lines as JSON; None: no stream."""


class DoubtfulLine(NamedTuple):
    """A line of which it is not known yet whether it is kept: it may be a repetition, or exceed a limit."""

    number: int
    encoded: str
    position: int
    is_announced: bool
    """Watchers have heard it already."""


class RunLines:
    """The lines of one run in this process: those of its open row, and counts of the others."""

    __slots__ = (
        "doubtful",
        "granted",
        "head",
        "instance_id",
        "is_followed",
        "is_full",
        "is_known",
        "left",
        "lines",
        "number",
        "opened_at",
        "position",
        "row_position",
        "size",
        "starts",
        "tenant_id",
        "used",
    )

    def __init__(self, instance_id: str, tenant_id: str) -> None:
        self.instance_id = instance_id
        self.tenant_id = tenant_id
        self.head = f'{{"instanceID":"{instance_id}","tenant":{_tenant_as_json(tenant_id)},'
        """The beginning of each of its lines on the stream."""
        self.is_followed = False
        """Somebody watches it through this process."""
        self.lines: list[str] = []
        """Those of the open row, each as JSON without the braces."""
        self.number = 0
        """That of the last of them."""
        self.row_position = 0
        """The largest position of one of them."""
        self.opened_at = 0.0
        """When the first of them came (monotonic)."""
        self.used = 0
        """Their bytes, without what was used of `granted`."""
        self.granted = self.left = 0
        """Bytes of lines that are kept without a decision, and how many of them are left."""
        self.size = 0
        """Bytes of all rows before the open one, with those of other processes that were stored at the last reading."""
        self.position = 0
        """The largest position of a line of its function that was kept."""
        self.is_known = False
        """What is stored of it was read since this process took the run over."""
        self.is_full = False
        """Its last line says that no more are kept."""
        self.doubtful: list[DoubtfulLine] | None = None
        """Lines to decide about once the stored counts are known, and all later ones; None: there are none."""
        self.starts = 0
        """Of how many attempts it was kept here when they began."""

    def settle(self) -> int:
        """Count what was used of the grant, and end it. Returns the bytes of the open row."""
        self.used += self.granted - self.left
        self.granted = self.left = 0
        return self.used

    def close(self) -> StoredLines:
        """The open row; there is none afterwards."""
        size = self.settle()
        row = StoredLines(
            self.instance_id, self.number, self.tenant_id, self.row_position, size, f"[{{{'},{'.join(self.lines)}}}]"
        )
        self.lines = []
        self.size += size
        self.used = self.row_position = 0
        return row


class ConsoleWriter:
    """All unwritten lines and progress of one process."""

    def __init__(self, *, rows: ConsoleRows, options: ConsoleOptions) -> None:
        self.rows = rows
        self.runs: OrderedDict[str, RunLines] = OrderedDict()
        """The runs that have said something, the oldest ones first."""
        self.reports: dict[tuple[str, str, str], ProgressReport] = {}
        """Unwritten progress, by activation."""
        self.unwritten_bytes = 0
        """About as many bytes of lines are not written yet."""
        self.owns: Callable[[str], bool] = lambda _: True
        """Whether this process owns a run. The lines of others do not wait for later ones."""
        self.is_watched: Callable[[str], bool] = lambda _: False
        """Whether somebody watches a run, in whatever process."""
        self._options = options
        self._open: dict[RunLines, None] = {}
        """Runs with an open row."""
        self._closed: deque[StoredLines] = deque()
        self._unsure: Sequence[StoredLines] = ()
        """Rows that are being written. If that fails, it may have happened: exactly these are written again."""
        self._doubtful: dict[RunLines, None] = {}
        """Runs with doubtful lines."""
        self._stored: dict[str, int] = {}
        """Bytes of lines that each tenant has stored."""
        self._stored_read_at = 0.0
        self._counted: Counter[str] | None = None
        """The same with unwritten ones, while one of the tenants may reach its limit."""

    # -- lines ----------------------------------------------------------------------------
    def expect(self, size: int) -> None:
        """About as many bytes of lines are added next."""
        self.unwritten_bytes += size
        limit = self._options.tenant_bytes_max
        if max(self._stored.values(), default=0) + self.unwritten_bytes <= limit:
            self._counted = None
            return
        self._counted = Counter(self._stored)
        for row in (*self._unsure, *self._closed):
            self._counted[row.tenant_id] += row.size
        for run in self._open:
            self._counted[run.tenant_id] += run.settle()  # so each of its lines is counted

    def grant(self, run: RunLines, size: int) -> bool:
        """Let lines of a run be appended to its open row without a decision, if one of this size can be."""
        if run.is_followed or run.is_full or run.doubtful is not None or self._counted is not None:
            return False
        used = run.settle()
        left = min(ROW_BYTES_MAX, self._limit_of(run) - run.size) - used
        if left < size:
            return False
        run.granted = run.left = left
        if not run.lines:
            self._open_row(run)
        return True

    def add(self, run: RunLines, line: DoubtfulLine) -> str | None:
        """Add a line. Returns it as it is kept; None: it is dropped, or `run` is doubtful."""
        if run.is_full:
            return None
        if run.doubtful is None and self._needs_reading(run, line):
            run.settle()  # later lines must not overtake this one
            run.doubtful = []
            self._doubtful[run] = None
        if run.doubtful is not None:
            run.doubtful.append(line)
            return None
        return self.admit(run, line)

    def admit(self, run: RunLines, line: DoubtfulLine) -> str | None:
        """Add a line that is not doubtful."""
        used, encoded, tenant_id = run.settle(), line.encoded, run.tenant_id
        size = _bytes(encoded)
        is_repeated = 0 < line.position <= run.position
        # What exceeds the limit of the tenant is dropped until its oldest lines have made room.
        if run.is_full or is_repeated or self._exceeds(tenant_id, size):
            return None
        if run.size + used + size > self._options.run_bytes_max:
            run.is_full = True
            encoded = _full_as_json(encoded)
            size = _bytes(encoded)
        if used and used + size > ROW_BYTES_MAX:
            self._close(run)
        if not run.lines:
            self._open_row(run)
        run.lines.append(encoded)
        run.number = max(run.number, line.number)
        run.used += size
        if line.position:
            run.position = run.row_position = line.position
        if self._counted is not None:
            self._counted[tenant_id] += size
        return encoded

    def unwritten_of(self, run: RunLines) -> Iterator[Line]:
        """The unwritten lines of a run, oldest first, without doubtful ones."""
        for row in (*self._unsure, *self._closed):
            if row.instance_id == run.instance_id:
                yield from row.decoded()
        for encoded in run.lines:
            yield line_of(run.instance_id, encoded)

    def has_unwritten(self, run: RunLines) -> bool:
        """Whether some of its lines are not written."""
        rows = (*self._unsure, *self._closed)
        return bool(run.lines or run.doubtful or any(row.instance_id == run.instance_id for row in rows))

    def _needs_reading(self, run: RunLines, line: DoubtfulLine) -> bool:
        size = _bytes(line.encoded)
        if not run.is_known and (line.position or run.size + run.settle() + size > self._limit_of(run)):
            return True
        return self._exceeds(run.tenant_id, size) and self._stored_are_old

    def _limit_of(self, run: RunLines) -> int:
        """How many bytes of lines a run may have before it is full, or before the stored ones have to be read."""
        limit = self._options.run_bytes_max
        return limit if run.is_known else limit // UNKNOWN_SHARE

    def _open_row(self, run: RunLines) -> None:
        run.opened_at = time.monotonic()
        self._open[run] = None

    def _exceeds(self, tenant_id: str, size: int) -> bool:
        return self._counted is not None and self._counted[tenant_id] + size > self._options.tenant_bytes_max

    # -- reading --------------------------------------------------------------------------
    async def read_doubtful(self) -> list[tuple[RunLines, list[DoubtfulLine]]]:
        """Read the counts that doubtful lines need. Returns these lines, to be admitted. Raises StoreUnavailable."""
        runs = list(self._doubtful)
        try:
            await self._read_counts([run for run in runs if not run.is_known])
        except StoreUnavailable:
            raise
        except Exception:
            self._release(runs)  # these lines are lost, others are not
            raise
        # A run that was taken over during the reading is read again.
        decided = self._release([run for run in runs if run.is_known])
        if decided:
            self.expect(0)
        return decided

    async def _read_counts(self, unknown: Sequence[RunLines]) -> None:
        if unknown:
            for run in unknown:
                run.is_known = True
            try:
                stored = await self.rows.stored_sizes(sorted({run.instance_id for run in unknown}))
            except BaseException:
                for run in unknown:
                    run.is_known = False
                raise
            for run in unknown:
                if run.is_known:
                    self._learn(run, stored.get(run.instance_id, StoredSize(0, 0)))
        if self._doubtful and self._counted is not None and self._stored_are_old:
            await self.read_sizes()

    def _release(self, runs: Sequence[RunLines]) -> list[tuple[RunLines, list[DoubtfulLine]]]:
        """The doubtful lines of these runs, which are no longer doubtful."""
        decided = [(run, run.doubtful or []) for run in runs]
        for run in runs:
            run.doubtful = None
            del self._doubtful[run]
        return decided

    def _learn(self, run: RunLines, stored: StoredSize) -> None:
        # A row whose write failed without an answer may count twice.
        rows = (*self._unsure, *self._closed)
        unwritten = sum(row.size for row in rows if row.instance_id == run.instance_id)
        run.size, run.position = stored.size + unwritten, max(stored.position, run.position)
        run.is_full = run.is_full or run.size > self._options.run_bytes_max

    async def read_sizes(self) -> Mapping[str, int]:
        """Read the stored size of each tenant. Raises StoreUnavailable."""
        sizes = await self.rows.sizes()
        self._stored = dict(sizes)
        self._stored_read_at = time.monotonic()
        return sizes

    @property
    def _stored_are_old(self) -> bool:
        return time.monotonic() - self._stored_read_at >= SIZES_EVERY_S

    # -- writing --------------------------------------------------------------------------
    @property
    def is_behind(self) -> bool:
        """Whether anything is not written."""
        return bool(self._unsure or self._closed or self._open or self._doubtful or self.reports)

    @property
    def unwritten_lines(self) -> int:
        """How many lines are not written."""
        rows = sum(len(list(row.decoded())) for row in (*self._unsure, *self._closed))
        return rows + sum(len(run.lines) for run in self._open) + sum(len(run.doubtful or ()) for run in self._doubtful)

    async def write(self, *, everything: bool = False, only: RunLines | None = None) -> None:
        """Write the rows that are due, or everything, or beside closed rows `only` those of a run; and all progress.
        Raises StoreUnavailable."""
        if only is None:
            self._close_due(everything=everything)
        elif only.lines:
            self._close(only)
        reports, self.reports = self.reports, {}
        while self._unsure or self._closed or reports:
            if not self._unsure:
                self._unsure = self._next_rows()
            try:
                await self._write_parts(self._unsure, list(reports.values()))
            except (StoreUnavailable, asyncio.CancelledError):  # who reads a run may not wait for the end of this
                self.reports = {**reports, **self.reports}
                raise
            except Exception:
                self._unsure = ()
                raise
            for row in self._unsure:
                self._stored[row.tenant_id] = self._stored.get(row.tenant_id, 0) + row.size
            self._unsure, reports = (), {}
        self.unwritten_bytes = sum(run.used + run.granted - run.left for run in self._open) + sum(
            len(line.encoded) for run in self._doubtful for line in run.doubtful or ()
        )
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Forget the oldest of too many runs, but none with unwritten lines: only it knows their positions."""
        for _ in range(len(self.runs)):
            if len(self.runs) <= RUNS_KNOWN_MAX:
                return
            oldest = next(iter(self.runs))  # asked anew every time: threads may add others
            run = self.runs[oldest]
            if run in self._open or run in self._doubtful:
                self.runs.move_to_end(oldest)
            else:
                del self.runs[oldest]

    async def _write_parts(self, rows: Sequence[StoredLines], reports: Sequence[ProgressReport]) -> None:
        """Write all at once; if a defect refuses that, in ever smaller parts, until only what it refuses is lost.

        Raises StoreUnavailable, and the defect where it refuses more than single rows.
        """
        refused = 0
        parts = [(rows, reports)]
        while parts:
            rows, reports = parts.pop()
            try:
                await self.rows.write(rows, reports)
            except StoreUnavailable:
                raise
            except Exception:
                if len(rows) + len(reports) > 1:
                    half, half_of_reports = len(rows) // 2, (len(reports) + 1) // 2
                    parts += [(rows[half:], reports[half_of_reports:]), (rows[:half], reports[:half_of_reports])]
                    continue
                refused += 1
                if refused > REFUSED_MAX:
                    raise
                lost = rows[0].instance_id if rows else reports[0].instance_id
                logger.exception("lines or progress of run %s are lost", lost)

    def _close_due(self, *, everything: bool) -> None:
        if everything or len(self._open) <= RUNS_AT_ONCE_MAX or self.unwritten_bytes > HURRY_BYTES:
            due = list(self._open)
        else:
            since, owns, is_watched = time.monotonic() - LINES_WAIT_S, self.owns, self.is_watched
            due = [
                run
                for run in self._open
                if run.opened_at <= since or not owns(run.instance_id) or is_watched(run.instance_id)
            ]
        for run in due:
            self._close(run)

    def _close(self, run: RunLines) -> None:
        self._closed.append(run.close())
        del self._open[run]

    def _next_rows(self) -> Sequence[StoredLines]:
        rows: list[StoredLines] = []
        size = 0
        while self._closed and len(rows) < ROWS_WRITTEN_MAX and size < BYTES_WRITTEN_MAX:
            rows.append(self._closed.popleft())
            size += rows[-1].size
        return rows

    # -- retention ------------------------------------------------------------------------
    async def remove_old(self, *, now_us: int) -> None:
        """Remove lines past their retention, and the oldest lines of tenants above their limit. Raises
        StoreUnavailable."""
        sizes = await self.read_sizes()
        before = now_us - self._options.retention_days * _DAY_US
        for tenant_id, size in sizes.items():
            await self._remove(tenant_id, before, spares_open=True)
            if size > self._options.tenant_bytes_max:
                # Nine tenths stay, so that there is room until the next time.
                keep = self._options.tenant_bytes_max // 10 * 9
                number = await self.rows.number_to_keep(tenant_id=tenant_id, size=keep)
                if number is not None:
                    await self._remove(tenant_id, number, spares_open=False)

    async def _remove(self, tenant_id: str, before: int, *, spares_open: bool) -> None:
        while (
            await self.rows.remove(tenant_id=tenant_id, before=before, limit=ROWS_REMOVED_MAX, spares_open=spares_open)
            == ROWS_REMOVED_MAX
        ):
            pass


def line_of(instance_id: str, encoded: str) -> Line:
    """A line of a run from its JSON without the braces."""
    (line,) = StoredLines(instance_id, 0, "", 0, 0, f"[{{{encoded}}}]").decoded()
    return line


def _bytes(encoded: str) -> int:
    return len(encoded) if encoded.isascii() else len(encoded.encode())


def _full_as_json(encoded: str) -> str:
    fields = {**orjson.loads(f"{{{encoded}}}"), "level": "warning", "text": FULL}
    return orjson.dumps(fields).decode()[1:-1]


@lru_cache(maxsize=1_024)
def _tenant_as_json(tenant_id: str) -> str:
    return orjson.dumps(tenant_id).decode()
