"""The console: collects the output of user code and stores it, within limits, beside the log.

One per process, made by the composition root. It writes in batches, independently of transitions: transitions never
wait for lines, and a crash loses the last ones. Lines that a workflow function repeats on replay are recognized by
their position, and are not stored, printed or announced again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol, TextIO, TypeAlias

import orjson

from anabranch.engine.console.lines import LineOrigin, Progress, prints_kept
from anabranch.engine.rules.coded.names import FUNCTION_NODE_ID
from anabranch.engine.rules.instants import to_iso
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.console")

# 4,096 characters of a line, as code nodes may send.
LINE_CHARACTERS_MAX = 4_096

# The approximate size of a line in a message beside its text.
LINE_BYTES = 128

# 500 ms: larger writes cost less per line, and watchers in this process do not wait for the write.
WRITE_EVERY_S = 0.5

# 50 ms between two messages of lines to watchers; the first is sent at once.
TELL_EVERY_S = 0.05

# 20,000 unwritten lines, some megabytes; further ones are dropped and counted.
WAITING_MAX = 20_000

# 4,000 lines are encoded at once, which takes some milliseconds, and written in one statement, of 16 MB at most.
LINES_WRITTEN_MAX = 4_000

# 64 kB of lines share a row: readers decode rows as a whole.
ROW_BYTES_MAX = 65_536

# 500 rows, 32 MB of lines at most and mostly far less, are removed per statement.
ROWS_REMOVED_MAX = 500

# 1 s before a failed write is repeated.
RETRY_S = 1.0

# 10,000 runs, as many as a worker owns: for these the stored sizes are cached.
RUNS_KNOWN_MAX = 10_000

# 60 s: other processes write and remove lines of a tenant, too. Where one seems to be at its limit, its size is read
# again after this time.
SIZES_EVERY_S = 60.0

# Another process may have written lines of the run before: after a sixteenth of the limit, the stored size is read.
UNKNOWN_SHARE = 16

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
"""Names of levels in responses and settings."""

_time_ns = time.time_ns
_new_tuple = tuple.__new__

_DAY_US = 86_400_000_000

FULL = "the console of this run is full; further lines are dropped"


class Line(NamedTuple):
    """A line that user code logged or printed."""

    instance_id: str
    number: int
    """Microseconds since the epoch, unique within a process: the order of the lines of a run."""
    node_id: str
    scope: str
    attempt: int
    level: int
    text: str

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return LINE_BYTES + len(self.text)

    def as_json(self) -> dict[str, Any]:
        """The JSON form for lists and watchers."""
        return {
            "number": self.number,
            "at": to_iso(self.number // 1000),
            "level": level_name(self.level),
            "nodeID": self.node_id,
            "scope": self.scope,
            "attempt": self.attempt,
            "text": self.text,
        }


class StoredLines(NamedTuple):
    """Lines of one run that were written together, as they are stored."""

    instance_id: str
    number: int
    """That of the last line."""
    tenant_id: str
    position: int
    """For lines of a workflow function: the largest of their positions, else 0."""
    size: int
    """The length of `lines` in bytes."""
    lines: str
    """A JSON array of objects, as in `Line.as_json`."""

    def decoded(self) -> Iterator[Line]:
        """The lines, oldest first."""
        for told in orjson.loads(self.lines):
            place = told["nodeID"], told["scope"], told["attempt"], LEVELS[told["level"]]
            yield Line(self.instance_id, told["number"], *place, told["text"])


class ProgressReport(NamedTuple):
    """The last report of an activation: when its attempt began, and its progress."""

    instance_id: str
    node_id: str
    scope: str
    attempt: int
    at: int
    progress: Progress | None
    """None: it has only reported its beginning."""
    began_at: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The JSON form in the nodes of a run."""
        shown: dict[str, Any] = {}
        if self.progress is not None:
            shown["progress"] = {**self.progress.as_json(), "at": to_iso(self.at)}
        if self.began_at is not None:
            shown["beganAt"] = to_iso(self.began_at)
        return shown


@dataclass(frozen=True, slots=True)
class LinesWanted:
    """Which lines of a run to read."""

    after: int = 0
    """Only those with a larger number."""
    limit: int = 1_000
    node_id: str | None = None
    scope: str | None = None
    level: int = 0
    """Only those of this level or above."""

    def has(self, line: Line) -> bool:
        """Whether this line is one of them."""
        return (
            line.number > self.after
            and line.level >= self.level
            and (self.node_id is None or line.node_id == self.node_id)
            and (self.scope is None or line.scope == self.scope)
        )


class Said(NamedTuple):
    """How many lines and bytes a run has written so far."""

    size: int
    position: int


class ConsoleRows(Protocol):
    """The storage of lines. Every method may raise StoreUnavailable."""

    async def write(self, rows: Sequence[StoredLines], reports: Sequence[ProgressReport]) -> None:
        """Store these rows; idempotent."""

    async def said(self, instance_ids: Sequence[str]) -> Mapping[str, Said]:
        """The sizes of these runs; runs without lines are absent."""

    async def sizes(self) -> Mapping[str, int]:
        """How many bytes of lines each tenant has."""

    async def remove(self, *, tenant_id: str, before: int, limit: int, spares_open: bool) -> int:
        """Remove at most `limit` rows whose lines have a smaller number; returns how many.

        `spares_open` keeps lines of workflow functions of open runs, which would write them again on replay.
        """

    async def read_lines(self, instance_id: str, wanted: LinesWanted) -> Sequence[Line]:
        """The next lines of a run, oldest first."""

    async def read_since(self, places: Mapping[str, int], *, limit: int) -> Sequence[Line]:
        """The next lines of these runs, for each after its own number."""

    async def last_numbers(self, instance_ids: Sequence[str]) -> Mapping[str, int]:
        """The number of the newest line of each of these runs; those without lines are absent."""

    async def read_progress(self, instance_ids: Sequence[str]) -> Sequence[ProgressReport]:
        """The last progress of each activation of these runs that has reported any."""

    async def number_to_keep(self, *, tenant_id: str, size: int) -> int | None:
        """The number of the first line to keep so that the newest `size` bytes stay; None: keep all."""


class ConsoleObserver(Protocol):
    """Receives lines and progress at once, before they are stored. Must not block or raise."""

    def follows(self, instance_id: str) -> bool:
        """Whether this run is watched."""

    def lines_said(self, instance_id: str, lines: Sequence[Line]) -> None:
        """New lines, in order."""

    def step_began(self, instance_id: str, place: tuple[str, str], attempt: int) -> None:
        """A step of a watched run begins."""

    def progress_made(self, reports: Sequence[ProgressReport]) -> None:
        """New progress of activations of watched runs."""


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


# 1,000 attempts of one run whose beginning is stored; further ones are only announced to watchers.
STARTS_KEPT_MAX = 1_000


class _Run:
    """Cached counts for one run."""

    __slots__ = ("head", "instance_id", "is_full", "is_known", "position", "size", "starts", "tenant_id", "told_until")

    def __init__(self, instance_id: str, tenant_id: str) -> None:
        self.instance_id = instance_id
        self.tenant_id = tenant_id
        self.head = f'{{"instanceID":"{instance_id}","tenant":{_tenant_as_json(tenant_id)},'
        """The beginning of each of its lines on the stream."""
        self.told_until = 0
        """The number of the last line that was written: watchers have heard of it."""
        self.size = self.position = 0
        self.is_known = False
        """`size` includes lines of other processes."""
        self.is_full = False
        self.starts = 0
        """Of how many attempts it was kept here when they began."""

    def says_anew(self, position: int) -> bool:
        """Whether this line of a function is certainly new."""
        return self.is_known and position > self.position


_Said: TypeAlias = tuple[_Run, int, tuple[str, str, int], int, str, int]
"""A line that is not written yet: run, number, place (node, scope, attempt), level, text, position.

The position is, for a workflow function, its attempt and the number of the line; 0 for lines that are not repeated on
replay.
"""


class _RunLines:
    """Lines of one run that are written together, oldest first."""

    __slots__ = ("encoded", "is_full", "numbers", "position", "positions", "size")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.encoded: list[str] = []
        """Each line as JSON, without the braces."""
        self.positions: dict[int, int] | None = None
        """By number, of those that have one."""
        self.size = self.position = 0
        self.is_full = False
        """The last one says that no more are kept."""

    def add(self, number: int, encoded: str, position: int) -> None:
        """Add the next line."""
        self.numbers.append(number)
        self.encoded.append(encoded)
        self.size += _bytes(encoded)
        if position:
            self.position = max(self.position, position)

    def rows(self, run: _Run) -> Iterator[StoredLines]:
        """The lines in as few rows as they fit into, if one is not enough."""
        first, size = 0, 0
        for end, encoded in enumerate(self.encoded):
            added = _bytes(encoded)
            if size and size + added > ROW_BYTES_MAX:
                yield self.row(run, first, end, size)
                first, size = end, 0
            size += added
        yield self.row(run, first, len(self.encoded), size)

    def row(self, run: _Run, first: int, end: int, size: int) -> StoredLines:
        """Some of the lines in one row."""
        encoded = self.encoded if first == 0 and end == len(self.encoded) else self.encoded[first:end]
        told = "[{" + "},{".join(encoded) + "}]"
        # As `StoredLines(…)` does, in a third of the time: there is one for each run that says something.
        return _new_tuple(
            StoredLines, (run.instance_id, self.numbers[end - 1], run.tenant_id, self.position, size, told)
        )


class Console:
    """Collects lines and progress in one process. Call `start` before work begins and `stop` after it."""

    def __init__(self, *, rows: ConsoleRows, options: ConsoleOptions) -> None:
        self.level = options.level
        self._rows = rows
        self._options = options
        self._observers: list[ConsoleObserver] = []
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._tenants: dict[str, int] = {}
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: list[_Said] = []
        """Lines that are not written yet."""
        self._told: set[int] = set()
        """The numbers of those that watchers have been told."""
        self._untold: set[str] = set()
        """Runs with others among them."""
        self._unsure: Sequence[_Said] = ()
        """Lines that are being written. If that fails, it may have happened: exactly these are written again."""
        self._reports: dict[tuple[str, str, str], ProgressReport] = {}
        self._live: deque[Line | ProgressReport] = deque()
        self._dropped = 0
        self._sizes_read_at = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._stopping = asyncio.Event()
        self._is_due = self._tells_soon = False
        self._told_at = 0.0
        self._writing: asyncio.Task[None] | None = None
        self._prints: AbstractContextManager[Any] = ExitStack()

    @property
    def rows(self) -> ConsoleRows:
        """The storage, for readers."""
        return self._rows

    def add(self, observer: ConsoleObserver) -> None:
        """Add an observer."""
        self._observers.append(observer)

    def remove(self, observer: ConsoleObserver) -> None:
        """Remove an observer."""
        self._observers.remove(observer)

    async def start(self) -> None:
        """Begin to write lines. Raises StoreUnavailable."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._stopping = asyncio.Event()
        await self._read_sizes()
        self._prints = prints_kept()
        self._prints.__enter__()

    async def stop(self, *, patience_s: float = 1.0) -> None:
        """Write the remaining lines, for at most `patience_s`; may be called twice, or before start."""
        if self._loop is None:
            return
        self._prints.__exit__(None, None, None)
        self._stopping.set()
        try:
            async with asyncio.timeout(patience_s):
                if self._writing is not None:
                    await asyncio.shield(self._writing)
                await self._write_all()
        except (TimeoutError, StoreUnavailable):
            logger.warning("%d lines of the console could not be written", len(self._unsure) + len(self._waiting))
        self._loop = None
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    # -- what is said ---------------------------------------------------------------------
    def take_line(self, origin: LineOrigin, level: int, text: str) -> None:
        """Add a line; thread-safe. Cut at `LINE_CHARACTERS_MAX`."""
        if level < self.level or self._loop is None:
            return
        run = self._runs.get(origin.instance_id)
        if run is None:
            run = self._runs.setdefault(origin.instance_id, _Run(origin.instance_id, origin.tenant_id))
        elif run.is_full:
            return
        position = 0
        if origin.node_id == FUNCTION_NODE_ID:
            origin.lines_said += 1
            position = origin.attempt << 32 | origin.lines_said
        if len(self._waiting) >= WAITING_MAX:
            self._dropped += 1
            return
        if len(text) > LINE_CHARACTERS_MAX:
            text = text[: LINE_CHARACTERS_MAX - 1] + "…"
        if not text.isprintable():
            text = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
        with self._lock:
            number = _time_ns() // 1000
            if number <= self._number:
                number = self._number + 1
            self._number = number
            said = run, number, origin.dispatch, level, text, position
            self._waiting.append(said)
        if self._observers:
            # A line of a function may be a repetition; that is known once the counts of its run are.
            is_new = not position or origin.is_first_call or run.says_anew(position)
            self._soon(partial(self._announce, said, is_new=is_new))
        if not self._is_due:
            self._is_due = True
            self._soon(self._begin_writing)

    def take_beginning(self, origin: LineOrigin) -> None:
        """Announce at once that a step has begun; nothing is stored."""
        for observer in self._observers:
            if observer.follows(origin.instance_id):
                observer.step_began(origin.instance_id, (origin.node_id, origin.scope), origin.attempt)

    def take_start(self, origin: LineOrigin, *, is_kept: bool) -> None:
        """Announce that a handler has begun, and on request store it, unless the attempt has already reported more."""
        if self._loop is None:
            return
        report = _report(origin, None)
        key = report[:3]
        if self._is_followed(origin.instance_id):
            self._live.append(report)
            self._tell_soon()
        told = self._reports.get(key)
        if told is not None and told.attempt == report.attempt:
            self._reports[key] = told._replace(began_at=report.began_at)  # it reported progress in its first step
            return
        if is_kept:
            run = self._runs.setdefault(origin.instance_id, _Run(origin.instance_id, origin.tenant_id))
            if run.starts < STARTS_KEPT_MAX:
                run.starts += 1
                self._keep(key, report)

    def take_progress(self, origin: LineOrigin, progress: Progress) -> None:
        """Keep the last progress of an attempt; thread-safe."""
        if self._loop is None:
            return
        report = _report(origin, progress)
        if self._is_followed(origin.instance_id):
            self._live.append(report)
            self._soon(self._tell_soon)
        self._keep(report[:3], report)

    def tell_now(self) -> None:
        """Announce all lines so far at once, before an end is announced. Call it on the event loop's thread."""
        self._tells_soon = False
        if self._loop is not None:
            self._told_at = self._loop.time()
        lines: dict[str, list[Line]] = {}
        reports: dict[tuple[str, str, str], ProgressReport] = {}
        while self._live:
            each = self._live.popleft()
            if isinstance(each, Line):
                lines.setdefault(each.instance_id, []).append(each)
            else:
                reports[each.instance_id, each.node_id, each.scope] = each
        for observer in self._observers:
            for instance_id, said in lines.items():
                observer.lines_said(instance_id, said)
            if reports:
                observer.progress_made(list(reports.values()))

    # -- keeping --------------------------------------------------------------------------
    async def remove_old(self) -> None:
        """Remove lines past their retention, and the oldest lines of tenants above their limit. Raises
        StoreUnavailable."""
        sizes = await self._read_sizes()
        before = _now_us() - self._options.retention_days * _DAY_US
        for tenant_id, size in sizes.items():
            await self._remove(tenant_id, before, spares_open=True)
            if size > self._options.tenant_bytes_max:
                # Nine tenths stay, so that there is room until the next time.
                keep = self._options.tenant_bytes_max // 10 * 9
                number = await self._rows.number_to_keep(tenant_id=tenant_id, size=keep)
                if number is not None:
                    await self._remove(tenant_id, number, spares_open=False)

    async def _remove(self, tenant_id: str, before: int, *, spares_open: bool) -> None:
        while (
            await self._rows.remove(tenant_id=tenant_id, before=before, limit=ROWS_REMOVED_MAX, spares_open=spares_open)
            == ROWS_REMOVED_MAX
        ):
            pass

    # -- within ---------------------------------------------------------------------------
    def _keep(self, key: tuple[str, str, str], report: ProgressReport) -> None:
        self._reports[key] = report
        if not self._is_due:
            self._is_due = True
            self._soon(self._begin_writing)

    async def _read_sizes(self) -> Mapping[str, int]:
        sizes = await self._rows.sizes()
        self._tenants = dict(sizes)
        self._sizes_read_at = time.monotonic()
        return sizes

    def _announce(self, said: _Said, *, is_new: bool) -> None:
        """Tell watchers a line, on the event loop's thread; by then it may be written."""
        instance_id, number = said[0].instance_id, said[1]
        if number <= said[0].told_until:
            return
        if not is_new or not self._is_followed(instance_id):
            self._untold.add(instance_id)
            return
        if instance_id in self._untold:
            self._tell_earlier(instance_id)
        if number not in self._told:
            self._told.add(number)
            self._live.append(_line_of(said))
        self._tell_soon()

    def _is_followed(self, instance_id: str) -> bool:
        for observer in self._observers:  # noqa: SIM110 -- asked for each line: a generator would take longer
            if observer.follows(instance_id):
                return True
        return False

    def _tell_earlier(self, instance_id: str) -> None:
        """Tell what a run said before somebody followed it, if it is not written yet."""
        self._untold.discard(instance_id)
        for said in (*self._unsure, *self._waiting):
            run, number, position = said[0], said[1], said[-1]
            # Those of a function may be repetitions.
            if run.instance_id == instance_id and not position and number not in self._told:
                self._told.add(number)
                self._live.append(_line_of(said))

    def _soon(self, function: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None:
            return
        if threading.get_ident() == self._thread:
            function()
        else:
            loop.call_soon_threadsafe(function)

    def _tell_soon(self) -> None:
        if not self._tells_soon and self._loop is not None:
            self._tells_soon = True
            self._loop.call_at(max(self._loop.time(), self._told_at + TELL_EVERY_S), self.tell_now)

    def _begin_writing(self) -> None:
        if self._loop is not None and (self._writing is None or self._writing.done()):
            self._writing = self._loop.create_task(self._write_soon(), name="console")

    async def _write_soon(self) -> None:
        while True:
            await self._pause(WRITE_EVERY_S)
            try:
                await self._write_all()
            except StoreUnavailable as failure:
                logger.info("the console is written later: %s", failure.message)
                if self._stopping.is_set():
                    return
                await self._pause(RETRY_S)
            except Exception:
                logger.exception("lines of the console are lost")
            if not self._is_behind():
                self._is_due = False
                if not self._is_behind():
                    return
                self._is_due = True  # a thread has added lines in between

    async def _pause(self, seconds: float) -> None:
        """Wait, or return as soon as the console is stopped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _write_all(self) -> None:
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            logger.warning("%d lines were dropped: they came faster than they could be written", dropped)
        while self._is_behind():
            if not self._unsure:
                self._unsure = self._waiting[:LINES_WRITTEN_MAX]
                del self._waiting[: len(self._unsure)]
            reports, self._reports = self._reports, {}
            try:
                await self._write(self._unsure, list(reports.values()))
            except StoreUnavailable:
                self._reports = {**reports, **self._reports}
                raise
            except Exception:
                self._unsure = ()
                raise
            self._unsure = ()

    def _is_behind(self) -> bool:
        return bool(self._unsure or self._waiting or self._reports)

    async def _write(self, some: Sequence[_Said], reports: Sequence[ProgressReport]) -> None:
        encoded = _encoded(some)
        runs = _by_run(some, encoded)
        small = self._options.run_bytes_max // UNKNOWN_SHARE
        unknown = [run for run, lines in runs.items() if (lines.position or run.size > small) and not run.is_known]
        if unknown:
            await self._learn(unknown)
        if self._seems_full(runs) and time.monotonic() - self._sizes_read_at >= SIZES_EVERY_S:
            await self._read_sizes()
        tenants: Counter[str] = Counter()
        changed: dict[int, str | None] = {}
        """What is stored instead of some lines, by their numbers."""
        for run, lines in runs.items():
            if not self._fits(run, lines, tenants):
                runs[run] = self._fitting(run, lines, tenants, changed)
        rows: list[StoredLines] = []
        for run, lines in runs.items():
            if lines.size > ROW_BYTES_MAX:
                rows.extend(lines.rows(run))
            elif lines.size:
                rows.append(lines.row(run, 0, len(lines.encoded), lines.size))
        await self._rows.write(rows, reports)
        for run, lines in runs.items():
            run.size += lines.size
            if lines.is_full:
                run.is_full = True
            if lines.position > run.position:
                run.position = lines.position
        for tenant_id, size in tenants.items():
            self._tenants[tenant_id] = self._tenants.get(tenant_id, 0) + size
        while len(self._runs) > RUNS_KNOWN_MAX:
            self._runs.popitem(last=False)
        if self._observers:
            self._tell_written(some, changed)
        for said in some:
            said[0].told_until = said[1]
        self._print(some, encoded, changed)

    async def _learn(self, runs: Sequence[_Run]) -> None:
        """Read the stored counts of runs, which are needed before more of their lines are written."""
        said = await self._rows.said(sorted(run.instance_id for run in runs))
        for run in runs:
            found = said.get(run.instance_id, Said(0, 0))
            run.size, run.position, run.is_known = found.size, found.position, True

    def _seems_full(self, runs: Mapping[_Run, _RunLines]) -> bool:
        """Whether a tenant would exceed its limit."""
        added: Counter[str] = Counter()
        for run, lines in runs.items():
            added[run.tenant_id] += lines.size
        limit = self._options.tenant_bytes_max
        return any(self._tenants.get(tenant_id, 0) + size > limit for tenant_id, size in added.items())

    def _fits(self, run: _Run, lines: _RunLines, tenants: Counter[str]) -> bool:
        """Whether all lines of a run are new and within the limits. `tenants` counts what is stored of each."""
        tenant_id = run.tenant_id
        if lines.position or run.is_full or run.size + lines.size > self._options.run_bytes_max:
            return False
        counted = tenants[tenant_id] + lines.size
        if self._tenants.get(tenant_id, 0) + counted > self._options.tenant_bytes_max:
            return False
        tenants[tenant_id] = counted
        return True

    def _fitting(self, run: _Run, lines: _RunLines, tenants: Counter[str], changed: dict[int, str | None]) -> _RunLines:
        """The lines of a run to store: none that were stored before, or exceed a limit."""
        room = self._options.run_bytes_max - run.size
        # What exceeds the limit of the tenant is dropped until its oldest lines have made room.
        tenant_id = run.tenant_id
        room_of_tenant = self._options.tenant_bytes_max - self._tenants.get(tenant_id, 0) - tenants[tenant_id]
        fitting = _RunLines()
        fitting.is_full = run.is_full or room < 0
        stored_until = run.position
        positions = lines.positions or {}
        for number, encoded in zip(lines.numbers, lines.encoded, strict=True):
            position = positions.get(number, 0)
            is_repeated = 0 < position <= stored_until
            if is_repeated or fitting.is_full or fitting.size > room_of_tenant:
                changed[number] = None
                continue
            told = encoded
            if fitting.size + _bytes(encoded) > room:
                fitting.is_full = True
                changed[number] = told = _full_as_json(encoded)
            fitting.add(number, told, position)
            stored_until = max(stored_until, position)
        tenants[tenant_id] += fitting.size
        return fitting

    def _tell_written(self, some: Sequence[_Said], changed: Mapping[int, str | None]) -> None:
        """Tell watchers what they have not been told, because it might have been a repetition."""
        followed = {run for run in {said[0] for said in some} if self._is_followed(run.instance_id)}
        for said in some if followed else ():
            number = said[1]
            if said[0] in followed and number not in self._told:
                told = changed.get(number, "")
                if told is not None:
                    line = _line_of(said)
                    self._live.append(line._replace(level=LEVELS["warning"], text=FULL) if told else line)
        self._told.difference_update([said[1] for said in some])
        self._untold = {said[0].instance_id for said in self._waiting.copy() if said[1] not in self._told}
        if self._live:
            self.tell_now()

    def _print(self, some: Sequence[_Said], encoded: Sequence[str], changed: Mapping[int, str | None]) -> None:
        stream = self._options.stream
        if stream is None or not some:
            return
        if changed:
            kept = [changed.get(said[1], told) for said, told in zip(some, encoded, strict=True)]
            some = [said for said, told in zip(some, kept, strict=True) if told is not None]
            encoded = [told for told in kept if told is not None]
        try:
            stream.write("".join([f"{said[0].head}{told}}}\n" for said, told in zip(some, encoded, strict=True)]))
            stream.flush()
        except (OSError, ValueError):  # too old to be read
            return


def _encoded(some: Sequence[_Said]) -> list[str]:
    """Each line as JSON, without the braces: what many of them have alike is encoded once."""
    if not some:
        return []  # an array without elements is not indented
    # All texts in one call; within a text JSON has no line breaks.
    texts = orjson.dumps([said[4] for said in some], option=orjson.OPT_INDENT_2).decode()[4:-2].split(",\n  ")
    encoded: list[str] = []
    add, at_ms, at, at_level = encoded.append, 0, "", 0
    by_level: dict[int, dict[tuple[str, str, int], str]] = {}
    places: dict[tuple[str, str, int], str] = {}
    for (_, number, place, level, _, _), text in zip(some, texts, strict=True):
        if number // 1000 != at_ms:
            at_ms = number // 1000
            at = to_iso(at_ms)
        if level != at_level:
            at_level, places = level, by_level.setdefault(level, {})
        told = places.get(place)
        if told is None:
            told = places[place] = _place_as_json(*place, level)
        add(f'"number":{number},"at":"{at}",{told},"text":{text}')
    return encoded


def _by_run(some: Sequence[_Said], encoded: Sequence[str]) -> dict[_Run, _RunLines]:
    runs: dict[_Run, _RunLines] = {}
    for (run, number, _, _, _, position), told in zip(some, encoded, strict=True):
        lines = runs.get(run)
        if lines is None:
            lines = runs[run] = _RunLines()
        lines.numbers.append(number)
        lines.encoded.append(told)
        if position:
            if lines.positions is None:
                lines.positions = {}
            lines.positions[number] = position
    for lines in runs.values():
        lines.size = sum(map(_bytes, lines.encoded))
        if lines.positions is not None:
            lines.position = max(lines.positions.values())
    return runs


def _bytes(encoded: str) -> int:
    return len(encoded) if encoded.isascii() else len(encoded.encode())


def _line_of(said: _Said) -> Line:
    run, number, place, level, text, _ = said
    return Line(run.instance_id, number, *place, level, text)


def _full_as_json(encoded: str) -> str:
    told = {**orjson.loads(f"{{{encoded}}}"), "level": level_name(LEVELS["warning"]), "text": FULL}
    return orjson.dumps(told).decode()[1:-1]


@lru_cache(maxsize=1_024)
def _place_as_json(node_id: str, scope: str, attempt: int, level: int) -> str:
    told = {"level": level_name(level), "nodeID": node_id, "scope": scope, "attempt": attempt}
    return orjson.dumps(told).decode()[1:-1]


@lru_cache(maxsize=1_024)
def _tenant_as_json(tenant_id: str) -> str:
    return orjson.dumps(tenant_id).decode()


@lru_cache(maxsize=256)
def level_name(level: int) -> str:
    """The name of a `logging` level: the nearest known one below it."""
    return next((name for name, number in reversed(LEVELS.items()) if level >= number), "debug")


def _report(origin: LineOrigin, progress: Progress | None) -> ProgressReport:
    place = origin.instance_id, origin.node_id, origin.scope
    return ProgressReport(*place, origin.attempt, _now_us() // 1000, progress, origin.began_at_ms)


def _now_us() -> int:
    # The machine's clock: lines come from any thread and only need an order.
    return _time_ns() // 1000
