"""Interfaces for hints: a line between the processes of one database, which worker leads, and a store that
reports its writes.

`engine.hints` sends and receives; a line is made in `engine.store`, for databases that have one. A hint may be lost,
repeated, late, forged, or from an installation in another schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from anabranch.engine.ports import InstanceRow, Outcome, Transition


class Channel(StrEnum):
    """The subject of a hint, with the name of its PostgreSQL channel."""

    TOUCHED = "anabranch_touched"
    """A process that does not own these runs wrote to them: their owner looks at once."""
    PENDING = "anabranch_pending"
    """There are runs to claim for any worker. Carries no ids."""
    WATCHED = "anabranch_watched"
    """These runs are watched in another process, which wants hints about changes. Repeated every few seconds."""
    AWAITED = "anabranch_awaited"
    """The ends of these runs are awaited in another process: it wants no hints about other changes. Repeated, too."""
    CHANGED = "anabranch_changed"
    """These watched runs have changed."""
    ENDED = "anabranch_ended"
    """These watched or awaited runs have ended: waiting callers look at once."""
    PAUSED = "anabranch_paused"
    """A workflow or tenant was paused or resumed: workers read the pauses. Carries no ids."""
    LEADER = "anabranch_leader"
    """A worker polls for all workers, or no longer does: see `leadership`. Carries that and its worker id."""


Receive = Callable[[Channel, Sequence[str]], None]
"""Receives the hints from the line. Must not block or raise."""


class HintLine(Protocol):
    """Short messages between the processes of one store; a sender does not receive its own."""

    speaker: int | None
    """What identifies the sender of its messages, once it has sent one."""

    async def send(self, hints: Mapping[Channel, Collection[str]]) -> None:
        """Send to all current listeners. Raises StoreUnavailable; some of it may then be lost."""

    async def listen(
        self, receive: Receive, *, connected: Callable[[], None], ignores: Callable[[int], bool] = lambda _: False
    ) -> None:
        """Pass messages of others to `receive`, from `connected` on, until cancelled.

        Those of speakers that `ignores` names are left out. Raises StoreUnavailable when the connection is lost or
        cannot carry messages.
        """

    async def close(self) -> None:
        """Close the sending connection; may be called twice, or before anything was sent."""


class LeaderRows(Protocol):
    """The row that says who leads, and the look at due runs. One statement each."""

    async def take(self, *, worker_id: str, lease_ms: int) -> bool:
        """Take or keep the lead for so long; False: another worker has it. Raises StoreUnavailable."""

    async def holder(self) -> str | None:
        """The worker that has the lead now; None: nobody. Raises StoreUnavailable."""

    async def give_up(self, *, worker_id: str) -> None:
        """Free the lead if this worker has it. Raises StoreUnavailable."""

    async def due(self, *, limit: int) -> tuple[int, int]:
        """How many runs a worker could claim now, counted up to a limit, and when the last of them became due (ms).

        Raises StoreUnavailable.
        """


class VersionWatch(Protocol):
    """Detects commits of any process, for stores without a hint line."""

    async def open(self) -> None:
        """Begin to watch; earlier commits do not count. Raises StoreUnavailable."""

    def moved(self) -> bool:
        """Whether any process, including this one, has committed since the last call. Takes microseconds and never
        waits.

        A commit hidden by a lock is reported by a later call. Raises StoreUnavailable.
        """

    def others_wrote(self) -> bool | None:
        """Whether anything but this store has committed since its `external_changes_possible`. Takes microseconds and
        never waits; None where that cannot be said now."""

    def ended(self, instance_ids: Collection[str]) -> Collection[str] | None:
        """Which of these few runs have ended, read without waiting for a lock or a thread; None where that cannot be
        said now. Call it while the watch is open."""

    def close(self) -> None:
        """Stop watching; may be called twice, or before `open`."""


class Notices(Protocol):
    """Receives from a store what it has just written, to send hints about it. Must not block or raise."""

    def committed(self, transitions: Sequence[Transition], outcome: Outcome) -> None:
        """A commit of transitions has returned."""

    def appended(self, row: InstanceRow, *, signal: str | None) -> None:
        """A signal of that name, or else the end of the run, was appended, owned or not; with the new row."""

    def released(self) -> None:
        """Runs were released for any worker to claim."""
