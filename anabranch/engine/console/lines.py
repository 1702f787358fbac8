"""Console API for user code: logger, `print` and progress, each for the activation that the code runs in.

Used by handlers and steps through `helpers` and `ctx`. Nothing here waits: a `Sink` writes the lines later.
Thread-safe.
"""

from __future__ import annotations

import builtins
import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, cast

from anabranch.engine.tracebacks import lines_of_the_author

# 200 characters beside a bar.
PROGRESS_CHARACTERS_MAX = 200

_parent = logging.getLogger("anabranch.handlers")
"""User code's lines also go to this logger, for programs that configure `logging`."""

_manager = logging.Logger.manager

_print = builtins.print

_new = object.__new__

# Certainly no mapping; to ask that of any object takes longer than the rest of a line.
_PLAIN = frozenset({str, int, float, bool, type(None)})


class Progress(NamedTuple):
    """Progress that an attempt has reported."""

    done: float
    total: float | None
    text: str

    def as_json(self) -> dict[str, Any]:
        """The JSON form for storage and watchers."""
        return {"done": self.done, "total": self.total, "text": self.text}


class Sink(Protocol):
    """Receives lines and progress."""

    level: int
    """Lines below this level of `logging` are dropped."""

    def take_line(self, origin: LineOrigin, level: int, text: str) -> None:
        """Add a line; thread-safe."""

    def take_beginning(self, origin: LineOrigin) -> None:
        """A step starts; the log may record that later, or only its end. Call it on the event loop's thread."""

    def take_start(self, origin: LineOrigin, *, is_kept: bool) -> None:
        """A handler has begun, after its attempt was queued: tell watchers, and `is_kept`, keep it for later ones.

        On the event loop's thread.
        """

    def take_progress(self, origin: LineOrigin, progress: Progress) -> None:
        """Keep the current progress; thread-safe."""


class LineOrigin(Protocol):
    """The attempt of an activation that a line comes from."""

    tenant_id: str
    instance_id: str
    node_id: str
    scope: str
    attempt: int

    @property
    def dispatch(self) -> tuple[str, str, int]:
        """The last three."""

    mask: Callable[[str], str]
    console: Sink | None
    """None: lines are dropped, as in tests of a single handler."""
    lines_logged: int
    """For a workflow function: how many lines this call has written, also those that were dropped. A replay repeats the
    lines of earlier calls."""
    is_first_call: bool
    """For a workflow function: no earlier call has written lines."""

    @property
    def began_at_ms(self) -> int | None:
        """When its handler began, by the store's clock; None of a step, which is never queued."""

    @property
    def is_function(self) -> bool:
        """Whether it is a workflow function, which is called repeatedly."""

    @property
    def is_step(self) -> bool:
        """Whether it is a step of a workflow function."""

    def beat(self) -> None:
        """Restart the heartbeat timeout; thread-safe."""


present: ContextVar[LineOrigin | None] = ContextVar("present_origin", default=None)
"""The attempt whose code is running in this context."""


class _LazyList:
    """An attribute of a logger: a list that is created when something first reads it. Most loggers end before that."""

    def __set_name__(self, owner: type[ActivationLog], name: str) -> None:
        self._name = name

    def __get__(self, log: ActivationLog, owner: type[ActivationLog]) -> list[Any]:
        log.is_extended = True
        made: list[Any] = log.__dict__.setdefault(self._name, [])
        return made


def _logs(level: int) -> Callable[..., None]:
    """The method that logs at this level. Usually only the console listens; then no record is made."""

    def log_line(self: ActivationLog, msg: object, *args: object, **more: Any) -> None:
        """Log a line, as the method of `logging.Logger` with the name of this level does."""
        if more or not self.level or self.is_extended or _parent.isEnabledFor(level):
            if self.isEnabledFor(level):
                more["stacklevel"] = more.get("stacklevel", 1) + 1
                self._log(level, msg, args, **more)
            else:
                _count_only(self.origin)
            return
        if level < self.level or self.disabled or _manager.disable >= level:
            _count_only(self.origin)
            return
        origin, here = self.origin, present.get()
        if here is not origin and here is not None and here.instance_id == origin.instance_id:
            origin = here  # `ctx.log` in a step
        console = origin.console
        if console is not None:
            # As `_formatted` does, without a call for what most lines are.
            text = msg if not args and type(msg) is str else _formatted(msg, args)
            if origin.mask is not str:
                text = origin.mask(text)
            console.take_line(origin, level, text)

    return log_line


class ActivationLog(logging.Logger):
    """A logger whose lines belong to an attempt, without its secrets; what it logs is also passed to its parent."""

    # One is made for every attempt that logs (`log_of`), so what is the same for all is set here, and what is not does
    # not need a dict.
    __slots__ = ("level", "origin")
    name = _parent.name
    parent = _parent
    propagate = True
    disabled = False
    handlers = cast("list[logging.Handler]", _LazyList())
    filters = cast("list[Any]", _LazyList())
    is_extended = False
    """Whether it may have handlers or filters of its own."""
    origin: LineOrigin

    debug = _logs(logging.DEBUG)
    info = _logs(logging.INFO)
    warning = _logs(logging.WARNING)
    error = _logs(logging.ERROR)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 -- the name is `logging`'s
        """Whether lines of this level are taken."""
        if self.disabled or self.manager.disable >= level:
            return False
        return level >= (self.level or self.getEffectiveLevel())

    def log(self, level: int, msg: object, *args: object, **more: Any) -> None:
        """Log a line of any level, as the method of `logging.Logger` does."""
        if not self.isEnabledFor(level):
            _count_only(self.origin)
            return
        more["stacklevel"] = more.get("stacklevel", 1) + 1
        super().log(level, msg, *args, **more)

    def _log(
        self,
        level: int,
        msg: object,
        args: Any,
        exc_info: Any = None,
        extra: Mapping[str, object] | None = None,
        stack_info: bool = False,  # noqa: FBT001, FBT002 -- as in `logging`
        stacklevel: int = 1,
    ) -> None:
        """Add the line, and pass it to its own handlers and to the program's own logging if that is configured."""
        origin, here = self.origin, present.get()
        if here is not None and here.instance_id == origin.instance_id:
            origin = here  # `ctx.log` in a step
        text = _formatted(msg, args)
        failure = _failure(exc_info) if exc_info else None
        if failure is not None:
            text += f"\n{lines_of_the_author(failure)}{type(failure).__name__}: {_shown(failure, str)}"
        text = origin.mask(text)
        console = origin.console
        passes_on = self.propagate and _parent.isEnabledFor(level) and (console is None or _parent.hasHandlers())
        record = None
        if passes_on or self.is_extended:
            named = {"instance_id": origin.instance_id, "node_id": origin.node_id, **(extra or {})}
            file, line, function, stack = self.findCaller(stack_info, stacklevel + 1)
            record = self.makeRecord(self.name, level, file, line, text, (), None, function, named, stack)
            if self.is_extended:
                kept: Any = self.filter(record)
                if not kept:
                    _count_only(self.origin)
                    return
                record = kept if isinstance(kept, logging.LogRecord) else record  # a filter may replace it
                text = origin.mask(record.getMessage())
        if console is not None:
            console.take_line(origin, level, text)
        if record is not None:
            for handler in self.handlers if self.is_extended else ():
                if level >= handler.level:
                    handler.handle(record)
            if passes_on:
                _parent.handle(record)


def log_of(origin: LineOrigin) -> ActivationLog:
    """A logger whose lines belong to this attempt."""
    # Without `Logger.__init__`, which would take longer than a line.
    log = _new(ActivationLog)
    log.origin = origin
    console = origin.console
    log.level = logging.NOTSET if console is None else console.level
    return log


@contextmanager
def prints_kept() -> Iterator[None]:
    """A context in which `print` of handlers and steps is also kept with their activations."""
    before = builtins.print
    if before is _print_and_keep:
        yield  # another engine of this process does it already
        return
    builtins.print = _print_and_keep
    try:
        yield
    finally:
        builtins.print = before


def read_progress(done: float, total: float | None, text: str) -> Progress:
    """Validate reported progress. Raises ValueError for values that are not numbers from 0."""
    given: Any
    for name, given in (("done", done), ("total", 0 if total is None else total)):
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        if not is_number or not math.isfinite(given) or given < 0:
            raise ValueError(f"progress: {name} is {given!r}; it is a number from 0")
    return Progress(done, total, str(text)[:PROGRESS_CHARACTERS_MAX])


def report_progress(origin: LineOrigin, done: float, total: float | None, text: str) -> None:
    """Report the progress of an attempt. Raises ValueError."""
    progress = read_progress(done, total, text)
    origin.beat()
    if origin.console is not None:
        origin.console.take_progress(origin, progress._replace(text=origin.mask(progress.text)))


def _print_and_keep(
    *values: object, sep: str | None = None, end: str | None = None, file: Any = None, **other: Any
) -> None:
    _print(*values, sep=sep, end=end, file=file, **other)
    origin = present.get()
    if origin is None or origin.console is None or not (file is None or file is sys.stdout):
        return
    text = (" " if sep is None else sep).join(map(str, values)).rstrip("\n")
    if text and origin.console.level <= logging.INFO:
        origin.console.take_line(origin, logging.INFO, origin.mask(text))
    elif text:
        _count_only(origin)


def _count_only(origin: LineOrigin) -> None:
    """Count a line that is not taken: in the next call of a function it may be, by a worker with another level."""
    here = present.get()
    if here is not None and here.instance_id == origin.instance_id:
        origin = here  # `ctx.log` in a step
    if origin.is_function:
        origin.lines_logged += 1


def _formatted(msg: object, args: Any) -> str:
    try:
        text = msg if type(msg) is str else str(msg)
        if not args:
            return text
        first = args[0]
        if type(first) in _PLAIN or len(args) > 1:
            formatted: str = text % args
            return formatted
        return str(text % (first if isinstance(first, Mapping) and first else args))
    except Exception:  # noqa: BLE001 -- `logging` does not raise where a line does not fit its arguments
        return f"{_shown(msg, repr)} with {_shown(args, repr)}" if args else _shown(msg, repr)


def _shown(value: object, how: Callable[[object], str]) -> str:
    try:
        return how(value)
    except Exception:  # noqa: BLE001 -- user code's __str__ and __repr__
        return f"<{type(value).__name__} that cannot be shown>"


def _failure(given: Any) -> BaseException | None:
    if isinstance(given, BaseException):
        return given
    if isinstance(given, tuple):
        return given[1] if isinstance(given[1], BaseException) else None
    return sys.exc_info()[1]
