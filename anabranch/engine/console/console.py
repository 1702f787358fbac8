"""The console: collects the output of user code and stores it, within limits, beside the log.

One per process, made by the composition root. It writes in batches, independently of transitions: transitions never
wait for lines, and a crash loses the last ones. Lines that a workflow function repeats on replay are recognized by
their position, and are not stored, printed or announced again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import orjson

from anabranch.engine.console.console_rows import LINE_BYTES, ConsoleRows, Line, ProgressReport, level_name
from anabranch.engine.console.console_writer import (
    UNWRITTEN_BYTES_MAX,
    ConsoleOptions,
    ConsoleWriter,
    DoubtfulLine,
    RunLines,
    line_of,
)
from anabranch.engine.console.lines import LineOrigin, Progress, prints_kept
from anabranch.engine.rules.coded.names import FUNCTION_NODE_ID
from anabranch.engine.rules.events import ActivationKey
from anabranch.engine.rules.instants import to_iso
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.console")

# 4,096 characters of a line, as code nodes may send.
LINE_CHARACTERS_MAX = 4_096

# 500 ms: the stream gets lines that late at most, and so do rows while few runs say something. Watchers in this process
# do not wait for it.
WRITE_EVERY_S = 0.5

# 50 ms between two messages of lines to watchers; the first is sent at once.
ANNOUNCE_EVERY_S = 0.05

# 20,000 lines that are not collected yet, of half a second mostly; further ones are dropped and counted.
WAITING_MAX = 20_000

# 2,000 lines, some milliseconds, between two turns of the event loop.
AT_ONCE_MAX = 2_000

# 500 lines are encoded at once: their JSON is then still in the caches of the processor when it is printed.
COLLECTED_MAX = 500

# 1 s before a failed write is repeated.
RETRY_S = 1.0

# 1,000 attempts of one run whose beginning is stored; further ones are only announced to watchers.
STARTS_KEPT_MAX = 1_000

_time_ns = time.time_ns


class ConsoleObserver(Protocol):
    """Receives lines and progress of followed runs at once, before they are stored. Must not block or raise."""

    def lines_logged(self, instance_id: str, lines: Sequence[Line]) -> None:
        """New lines, in order."""

    def step_began(self, instance_id: str, key: ActivationKey, attempt: int) -> None:
        """A step begins."""

    def progress_made(self, reports: Sequence[ProgressReport]) -> None:
        """New progress of activations."""


_WaitingLine: TypeAlias = tuple[RunLines, tuple[str, str, int], int, int, str, int, bool]
"""A line that is not collected yet: run, dispatch (node, scope, attempt), level, nanoseconds since the epoch, text,
position, and whether it certainly is not a repetition.

The position is, for a workflow function, its attempt and the number of the line; 0 for lines that are not repeated on
replay.
"""


class Console:
    """Collects lines and progress in one process. Call `start` before work begins and `stop` after it."""

    def __init__(self, *, rows: ConsoleRows, options: ConsoleOptions) -> None:
        self.level = options.level
        self._stream = options.stream
        self._observers: list[ConsoleObserver] = []
        self._followed: Counter[str] = Counter()
        """How often each run is followed through this process."""
        self._writer = ConsoleWriter(rows=rows, options=options)
        self._runs = self._writer.runs
        self._waiting: list[_WaitingLine] = []
        """Lines that are not collected yet. Threads append to it without a lock."""
        self._number = 0
        """That of the last collected line."""
        self._live: deque[Line | ProgressReport] = deque()
        self._dropped = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._stopping = asyncio.Event()
        self._is_due = self._announces_soon = False
        self._announced_at = 0.0
        self._writing: asyncio.Task[None] | None = None
        self._one_writes = asyncio.Lock()
        self._prints: AbstractContextManager[Any] = ExitStack()

    @property
    def runs(self) -> Container[str]:
        """The runs that have lines here."""
        return self._runs

    @property
    def rows(self) -> ConsoleRows:
        """The storage, for readers."""
        return self._writer.rows

    def connect(self, *, owns: Callable[[str], bool], is_watched: Callable[[str], bool]) -> None:
        """Tell it how to ask whether this process owns a run, and whether somebody watches one anywhere."""
        self._writer.owns, self._writer.is_watched = owns, is_watched

    def add(self, observer: ConsoleObserver) -> None:
        """Add an observer."""
        self._observers.append(observer)

    def remove(self, observer: ConsoleObserver) -> None:
        """Remove an observer."""
        self._observers.remove(observer)

    def follow(self, instance_id: str) -> None:
        """Announce what a run says to the observers, until an `unfollow` for each `follow`. Where nobody has followed
        it yet, its unwritten lines come first."""
        self._followed[instance_id] += 1
        run = self._runs.get(instance_id)
        if run is not None and not run.is_followed:
            run.is_followed = True
            run.settle()
            self._live.extend(self._writer.unwritten_of(run))
            self._announce_soon()

    def unfollow(self, instance_id: str) -> None:
        """Undo one `follow`."""
        self._followed[instance_id] -= 1
        if self._followed[instance_id] <= 0:
            del self._followed[instance_id]
            run = self._runs.get(instance_id)
            if run is not None:
                run.is_followed = False

    async def start(self) -> None:
        """Begin to write lines. Raises StoreUnavailable."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._stopping = asyncio.Event()
        await self._writer.read_sizes()
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
            unwritten = self._writer.unwritten_lines + len(self._waiting)
            logger.warning("%d lines of the console could not be written", unwritten)
        self._loop = None
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    # -- what is logged -------------------------------------------------------------------
    def take_line(self, origin: LineOrigin, level: int, text: str) -> None:
        """Add a line; thread-safe. Cut at `LINE_CHARACTERS_MAX`."""
        position, is_new = 0, True
        if origin.node_id == FUNCTION_NODE_ID:
            # Also of a line that is dropped: the next call must give the same numbers.
            origin.lines_logged += 1
            position, is_new = origin.attempt << 32 | origin.lines_logged, origin.is_first_call
        if level < self.level or self._loop is None:
            return
        run = self._runs.get(origin.instance_id)
        if run is None:
            run = self._new_run(origin)
        elif run.is_full:
            return
        if len(self._waiting) >= WAITING_MAX:
            self._dropped += 1
            return
        self._waiting.append((run, origin.dispatch, level, _time_ns(), text, position, is_new))
        if run.is_followed:
            self._soon(self._announce_soon)
        if not self._is_due:
            self._is_due = True
            self._soon(self._begin_writing)

    def take_adoption(self, instance_id: str) -> None:
        """This process has taken a run over: another one may have written lines of it since. Call it on the event
        loop's thread."""
        run = self._runs.get(instance_id)
        if run is not None:
            run.is_known = False
            run.settle()

    def take_beginning(self, origin: LineOrigin) -> None:
        """Announce at once that a step has begun; nothing is stored."""
        if origin.instance_id in self._followed:
            for observer in self._observers:
                observer.step_began(origin.instance_id, (origin.node_id, origin.scope), origin.attempt)

    def take_start(self, origin: LineOrigin, *, is_kept: bool) -> None:
        """Announce that a handler has begun, and on request store it, unless the attempt has already reported more."""
        if self._loop is None:
            return
        report = _report(origin, None)
        key = report[:3]
        if origin.instance_id in self._followed:
            self._live.append(report)
            self._announce_soon()
        reports = self._writer.reports
        found = reports.get(key)
        if found is not None and found.attempt == report.attempt:
            reports[key] = found._replace(began_at=report.began_at)  # it reported progress in its first step
            return
        if is_kept:
            run = self._runs.get(origin.instance_id) or self._new_run(origin)
            if run.starts < STARTS_KEPT_MAX:
                run.starts += 1
                self._keep(key, report)

    def take_progress(self, origin: LineOrigin, progress: Progress) -> None:
        """Keep the last progress of an attempt; thread-safe."""
        if self._loop is None:
            return
        report = _report(origin, progress)
        if origin.instance_id in self._followed:
            self._live.append(report)
            self._soon(self._announce_soon)
        self._keep(report[:3], report)

    def announce_now(self) -> None:
        """Announce all lines so far at once, before an end is announced. Call it on the event loop's thread."""
        self._announces_soon = False
        if self._loop is not None:
            self._announced_at = self._loop.time()
        self._collect()
        lines: dict[str, list[Line]] = {}
        reports: dict[tuple[str, str, str], ProgressReport] = {}
        while self._live:
            each = self._live.popleft()
            if isinstance(each, Line):
                lines.setdefault(each.instance_id, []).append(each)
            else:
                reports[each.instance_id, each.node_id, each.scope] = each
        for observer in self._observers:
            for instance_id, of_run in lines.items():
                observer.lines_logged(instance_id, of_run)
            if reports:
                observer.progress_made(list(reports.values()))

    async def write_run(self, instance_id: str) -> None:
        """Write what this run has said here so far, because somebody reads it. Raises StoreUnavailable."""
        self._collect()
        run = self._runs.get(instance_id)
        if run is not None and self._writer.has_unwritten(run):
            await self._write_all(only=run)

    async def remove_old(self) -> None:
        """Remove lines past their retention, and the oldest lines of tenants above their limit. Raises
        StoreUnavailable."""
        await self._writer.remove_old(now_us=_now_us())

    # -- collecting -----------------------------------------------------------------------
    def _new_run(self, origin: LineOrigin) -> RunLines:
        instance_id = origin.instance_id
        run = self._runs.setdefault(instance_id, RunLines(instance_id, origin.tenant_id))
        run.is_followed = instance_id in self._followed  # after it is known: in a thread, `follow` may come in between
        return run

    def _collect(self, most: int | None = None) -> None:
        """Pass waiting lines on to be written, on the event loop's thread."""
        waiting = self._waiting[:most]
        del self._waiting[: len(waiting)]  # threads may have appended others
        if self._writer.unwritten_bytes > UNWRITTEN_BYTES_MAX:
            self._dropped += len(waiting)
            return
        for first in range(0, len(waiting), COLLECTED_MAX):
            self._encode(waiting[first : first + COLLECTED_MAX])

    def _encode(self, some: Sequence[_WaitingLine]) -> None:
        """Give lines numbers, encode them, print them and pass them on. What many of them have alike is encoded
        once."""
        writer = self._writer
        texts, bytes_of_texts, is_ascii = _texts_as_json([line[4] for line in some])
        writer.expect(bytes_of_texts + LINE_BYTES * len(some))
        printed: list[str] = []
        add, number, at, at_until, at_level = printed.append, self._number, "", 0, -1
        by_level: dict[int, dict[tuple[str, str, int], str]] = {}
        shared_fields: dict[tuple[str, str, int], str] = {}
        for (run, dispatch, level, time_ns, _, position, is_new), text in zip(some, texts, strict=True):
            at_us = time_ns // 1000
            number = at_us if at_us > number else number + 1
            if number >= at_until:
                at, at_until = f'"at":"{to_iso(number // 1000)}",', number - number % 1000 + 1000
            if level != at_level:
                at_level, shared_fields = level, by_level.setdefault(level, {})
            shared = shared_fields.get(dispatch)
            if shared is None:
                shared = shared_fields[dispatch] = f',{_shared_fields_as_json(*dispatch, level)},"text":'
            line = f'"number":{number}{shared}{text}'
            size = len(line) if is_ascii else len(line.encode())
            if position or (run.left < size and not writer.grant(run, size)):
                kept = self._decide(run, DoubtfulLine(number, line, position, is_new and run.is_followed))
                if kept is None:
                    continue
                line = kept
            else:
                run.left -= size
                run.number = number
                run.lines.append(line)
            add(f"{run.head}{at}{line}")
        self._number = number
        self._print(printed)

    def _decide(self, run: RunLines, line: DoubtfulLine) -> str | None:
        """Add a line that needs a decision; returns it as it is kept, if it is known already that it is."""
        kept = self._writer.add(run, line)
        if run.is_followed and (kept is not None or (line.is_announced and run.doubtful is not None)):
            self._live.append(line_of(run.instance_id, kept or line.encoded))
        return kept

    async def _decide_doubtful(self) -> None:
        """Read what the decision about other lines needs. Raises StoreUnavailable."""
        printed: list[str] = []
        for run, lines in await self._writer.read_doubtful():
            for line in lines:
                kept = self._writer.admit(run, line)
                if kept is not None:
                    at = to_iso(line.number // 1000)
                    printed.append(f'{run.head}"at":"{at}",{kept}')
                    if run.is_followed and not line.is_announced:
                        self._live.append(line_of(run.instance_id, kept))
        self._print(printed)
        if self._live:
            self._announce_soon()

    def _print(self, printed: Sequence[str]) -> None:
        """Write lines, each as JSON without the last brace, to the stream."""
        if self._stream is None or not printed:
            return
        try:
            self._stream.write("}\n".join([*printed, ""]))
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads it any more
            return

    # -- writing --------------------------------------------------------------------------
    def _keep(self, key: tuple[str, str, str], report: ProgressReport) -> None:
        self._writer.reports[key] = report
        if not self._is_due:
            self._is_due = True
            self._soon(self._begin_writing)

    def _soon(self, function: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None:
            return
        if threading.get_ident() == self._thread:
            function()
        else:
            loop.call_soon_threadsafe(function)

    def _announce_soon(self) -> None:
        if not self._announces_soon and self._loop is not None:
            self._announces_soon = True
            self._loop.call_at(max(self._loop.time(), self._announced_at + ANNOUNCE_EVERY_S), self.announce_now)

    def _begin_writing(self) -> None:
        if self._loop is not None and (self._writing is None or self._writing.done()):
            self._writing = self._loop.create_task(self._write_soon(), name="console")

    async def _write_soon(self) -> None:
        retry_at = 0.0
        while True:
            await self._pause(WRITE_EVERY_S)
            try:
                if self._stopping.is_set() or time.monotonic() >= retry_at:
                    await self._write_all()
                else:
                    self._collect()
            except StoreUnavailable as failure:
                logger.info("the console is written later: %s", failure.message)
                if self._stopping.is_set():
                    return
                retry_at = time.monotonic() + RETRY_S
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

    async def _write_all(self, *, only: RunLines | None = None) -> None:
        """Collect and write what is due, or only what one run has said. Raises StoreUnavailable."""
        async with self._one_writes:
            for _ in range(0, len(self._waiting), AT_ONCE_MAX):
                self._collect(AT_ONCE_MAX)
                await asyncio.sleep(0)
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                logger.warning("%d lines were dropped: they came faster than they could be written", dropped)
            await self._decide_doubtful()
            await self._writer.write(everything=self._stopping.is_set(), only=only)

    def _is_behind(self) -> bool:
        return bool(self._waiting) or self._writer.is_behind


def _texts_as_json(texts: list[str]) -> tuple[list[str], int, bool]:
    """Each text as JSON, how long they are together, and whether they are ASCII. One call encodes them all."""
    if max(map(len, texts)) > LINE_CHARACTERS_MAX:
        texts = [f"{text[: LINE_CHARACTERS_MAX - 1]}…" if len(text) > LINE_CHARACTERS_MAX else text for text in texts]
    try:
        encoded = orjson.dumps(texts, option=orjson.OPT_INDENT_2)
    except TypeError:  # a surrogate
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        encoded = orjson.dumps(texts, option=orjson.OPT_INDENT_2)
    if rb"\u0000" in encoded:  # a database does not store it
        texts = [text.replace("\x00", "\ufffd") for text in texts]
        encoded = orjson.dumps(texts, option=orjson.OPT_INDENT_2)
    # Within a text JSON has no line breaks.
    return encoded.decode()[4:-2].split(",\n  "), len(encoded), encoded.isascii()


@lru_cache(maxsize=1_024)
def _shared_fields_as_json(node_id: str, scope: str, attempt: int, level: int) -> str:
    fields = {"level": level_name(level), "nodeID": node_id, "scope": scope, "attempt": attempt}
    return json.dumps(fields, separators=(",", ":"))[1:-1]  # in ASCII: its length is its size


def _report(origin: LineOrigin, progress: Progress | None) -> ProgressReport:
    key = origin.instance_id, origin.node_id, origin.scope
    return ProgressReport(*key, origin.attempt, _now_us() // 1000, progress, origin.began_at_ms)


def _now_us() -> int:
    # The machine's clock: lines come from any thread and only need an order.
    return _time_ns() // 1000
