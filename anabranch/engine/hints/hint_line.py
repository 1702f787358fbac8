"""Interfaces for hints: a line between the processes of one database, and a store that reports its writes.

`engine.hints` sends and receives; a line is made in `engine.store`, for databases that have one. A hint may be lost,
repeated, late or forged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from anabranch.engine.ports import InstanceRow, Outcome, Transition


class Channel(StrEnum):
    """What a hint is about. The names are those of the PostgreSQL channels."""

    TOUCHED = "anabranch_touched"
    """Somebody who does not hold these runs wrote to them: their holder looks at once."""
    PENDING = "anabranch_pending"
    """Something may be claimed by any worker. Carries no ids."""
    WATCHED = "anabranch_watched"
    """Somebody watches these runs in another process: tell it when they change. Said again every few seconds."""
    CHANGED = "anabranch_changed"
    """These watched runs have changed."""
    ENDED = "anabranch_ended"
    """These watched runs have ended: who waits for that looks at once."""


Heard = Callable[[Channel, Sequence[str]], None]
"""Told what came over the line. Must not block or raise."""


class HintLine(Protocol):
    """Short messages between the processes of one store; says nothing to the process that sent them."""

    async def send(self, hints: Mapping[Channel, Collection[str]]) -> None:
        """Send this to all listeners; it is not kept. Raises StoreUnavailable: some of it may be lost."""

    async def listen(self, channels: Collection[Channel], heard: Heard, *, connected: Callable[[], None]) -> None:
        """Tell `heard` what others say, from `connected` on, until cancelled.

        Raises StoreUnavailable when the connection is lost, or carries no messages.
        """

    async def close(self) -> None:
        """Let the sending connection go; may be called twice, or before anything was sent."""


class VersionWatch(Protocol):
    """Shows that somebody has committed, where the processes of one store have no line between them."""

    async def open(self) -> None:
        """Begin to watch; what was committed before does not count. Raises StoreUnavailable."""

    def moved(self) -> bool:
        """Has anybody committed since the last call, this process included? Waits for nothing, and costs microseconds.

        What is said False because of somebody's lock is said True by a later call. Raises StoreUnavailable.
        """

    def close(self) -> None:
        """Watch no more; may be called twice, or before `open`."""


class Notices(Protocol):
    """Told by a store what it has just written, so that others can be told to look. Must not block or raise."""

    def committed(self, transitions: Sequence[Transition], outcome: Outcome) -> None:
        """A commit of transitions was answered."""

    def appended(self, row: InstanceRow, *, signal: str | None) -> None:
        """A signal of that name, or else the end of a run, was appended to it, held or not; its row after that."""

    def released(self) -> None:
        """Runs were handed over to the worker that claims them."""
