"""The side of user code: its logger, its `print`, and its progress, each with the activation that it belongs to.

Used by handlers and steps through `helpers` and `ctx`. Nothing here waits: lines are handed to a `Sink`, which writes
them later. Safe in threads.
"""

from __future__ import annotations

import builtins
import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from anabranch.engine.tracebacks import lines_of_the_author

# 200 characters beside a bar.
PROGRESS_CHARACTERS_MAX = 200

_parent = logging.getLogger("anabranch.handlers")
"""What user code logs goes through it, too: programs that configure `logging` hear of it there."""

_print = builtins.print


class Progress(NamedTuple):
    """How far an attempt is, in its own words."""

    done: float
    total: float | None
    text: str

    def as_json(self) -> dict[str, Any]:
        """As it is stored and told."""
        return {"done": self.done, "total": self.total, "text": self.text}


class Sink(Protocol):
    """Takes what is said."""

    level: int
    """Lines below this level of `logging` are not wanted."""

    def take_line(self, origin: Origin, level: int, text: str) -> None:
        """Keep a line; from any thread."""

    def take_beginning(self, origin: Origin) -> None:
        """A step begins; the log may say so later, or only how it ended. On the event loop's thread."""

    def take_progress(self, origin: Origin, progress: Progress) -> None:
        """Keep how far it is now; from any thread."""


class Origin(Protocol):
    """An attempt of an activation: who says something."""

    tenant_id: str
    instance_id: str
    node_id: str
    scope: str
    attempt: int
    mask: Callable[[str], str]
    console: Sink | None
    """None: nothing is kept, as in tests of a handler alone."""
    lines_said: int
    """Of a workflow function, by this call of it: what it said in the calls before, it says again on replay."""
    is_first_call: bool
    """Of a workflow function: it has said nothing before this call."""

    @property
    def is_function(self) -> bool:
        """Is it a workflow function, which is called again and again?"""

    @property
    def is_step(self) -> bool:
        """Is it a step of one?"""

    def beat(self) -> None:
        """It lives: its heartbeat timeout begins anew. From any thread."""


present: ContextVar[Origin | None] = ContextVar("present_origin", default=None)
"""Whose code is running here."""


class ActivationLog(logging.Logger):
    """A logger whose lines belong to an attempt, without its secrets; its handlers are those of its parent."""

    def __init__(self, origin: Origin) -> None:
        console = origin.console
        super().__init__(_parent.name, logging.NOTSET if console is None else console.level)
        self.parent = _parent
        self._origin = origin

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
        """Keep the line, and hand it to the program's own logging where that is set up."""
        here = present.get()
        origin = self._origin
        if here is not None and here.instance_id == origin.instance_id:
            origin = here  # `ctx.log` in a step
        text = _formatted(msg, args)
        failure = _failure(exc_info)
        if failure is not None:
            text += f"\n{lines_of_the_author(failure)}{type(failure).__name__}: {failure}"
        text = origin.mask(text)
        console = origin.console
        if console is not None:
            console.take_line(origin, level, text)
        if _parent.isEnabledFor(level) and (console is None or _parent.hasHandlers()):
            named = {"instance_id": origin.instance_id, "node_id": origin.node_id, **(extra or {})}
            file, line, function, stack = self.findCaller(stack_info, stacklevel + 1)
            record = self.makeRecord(self.name, level, file, line, text, (), None, function, named, stack)
            _parent.handle(record)


@contextmanager
def prints_kept() -> Iterator[None]:
    """Within this context what handlers and steps `print` is also kept with their activations."""
    before = builtins.print
    if before is _print_and_keep:
        yield  # another engine of this process does it
        return
    builtins.print = _print_and_keep
    try:
        yield
    finally:
        builtins.print = before


def read_progress(done: float, total: float | None, text: str) -> Progress:
    """Progress as it is reported. Raises ValueError for what is no number."""
    given: Any
    for name, given in (("done", done), ("total", 0 if total is None else total)):
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        if not is_number or not math.isfinite(given) or given < 0:
            raise ValueError(f"progress: {name} is {given!r}; it is a number from 0")
    return Progress(done, total, str(text)[:PROGRESS_CHARACTERS_MAX])


def report_progress(origin: Origin, done: float, total: float | None, text: str) -> None:
    """Tell how far an attempt is. Raises ValueError."""
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


def _formatted(msg: object, args: Any) -> str:
    try:
        text = str(msg)
        if not args:
            return text
        return text % (args[0] if len(args) == 1 and isinstance(args[0], Mapping) and args[0] else args)
    except Exception:  # noqa: BLE001 -- `logging` does not raise where a line does not fit its arguments
        return f"{msg!r} with {args!r}"


def _failure(given: Any) -> BaseException | None:
    if isinstance(given, BaseException):
        return given
    if isinstance(given, tuple):
        return given[1] if isinstance(given[1], BaseException) else None
    return sys.exc_info()[1] if given else None
