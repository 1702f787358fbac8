"""Rows of the console: lines in rows, the last progress of activations, and the interface of their table.

Written by the console, read by the service and by watchers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.console.lines import Progress
from anabranch.engine.rules.instants import to_iso

# The size of a line beside its text, roughly.
LINE_BYTES = 128

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
"""Names of levels in responses and settings."""


@lru_cache(maxsize=256)
def level_name(level: int) -> str:
    """The name of a `logging` level: the nearest known one below it."""
    return next((name for name, number in reversed(LEVELS.items()) if level >= number), "debug")


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
    """Lines of one run that share a row, as they are stored."""

    instance_id: str
    number: int
    """That of the last line."""
    tenant_id: str
    position: int
    """For lines of a workflow function: the largest of their positions, else 0."""
    size: int
    """The length of `lines` in bytes."""
    lines: str
    """A JSON array of objects, as in `Line.as_json`, without what follows from the number."""

    def decoded(self) -> Iterator[Line]:
        """The lines, oldest first."""
        for fields in orjson.loads(self.lines):
            origin = fields["nodeID"], fields["scope"], fields["attempt"], LEVELS[fields["level"]]
            yield Line(self.instance_id, fields["number"], *origin, fields["text"])


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
    """A filter for the lines of a run."""

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


class StoredSize(NamedTuple):
    """How many bytes of lines of a run are stored, and the largest position of those of its function."""

    size: int
    position: int


class ConsoleRows(Protocol):
    """The storage of lines. Every method may raise StoreUnavailable."""

    async def write(self, rows: Sequence[StoredLines], reports: Sequence[ProgressReport]) -> None:
        """Store these rows, without those of runs that do not exist any more; idempotent."""

    async def stored_sizes(self, instance_ids: Sequence[str]) -> Mapping[str, StoredSize]:
        """The sizes of these runs; runs without lines are absent."""

    async def sizes(self) -> Mapping[str, int]:
        """How many bytes of lines each tenant has."""

    async def remove(self, *, tenant_id: str, before: int, limit: int, spares_open: bool) -> int:
        """Remove at most `limit` rows whose lines have a smaller number; returns how many.

        `spares_open` keeps lines of workflow functions of open runs, which would write them again on replay.
        """

    async def read_lines(self, instance_id: str, wanted: LinesWanted) -> Sequence[Line]:
        """The next lines of a run, oldest first."""

    async def read_since(self, after: Mapping[str, int], *, limit: int) -> Sequence[Line]:
        """The next lines of these runs, for each after its own number."""

    async def last_numbers(self, instance_ids: Sequence[str]) -> Mapping[str, int]:
        """The number of the newest line of each of these runs; those without lines are absent."""

    async def read_progress(self, instance_ids: Sequence[str]) -> Sequence[ProgressReport]:
        """The last progress of each activation of these runs that has reported any."""

    async def number_to_keep(self, *, tenant_id: str, size: int) -> int | None:
        """The number of the first line to keep so that the newest `size` bytes stay; None: keep all."""
