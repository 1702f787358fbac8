"""What the rooms of a SQL store share: its dialect and its lanes.

`inquiries`, `definitions` and `state_manager` build on it. Commits have lanes of their own,
so that no list or listing can delay one, and so has whatever may wait for a lock, so that nothing
else waits with it; where a database has a single writer, everything that writes goes to the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from anabranch.engine.store.sql.database_threads import DatabaseThreads
from anabranch.engine.store.sql.dialect import Dialect
from anabranch.errors import DatabaseAway

Answer = TypeVar("Answer")


class SqlComponent:
    """Runs functions on connections: to read, to write, to commit."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._reading: DatabaseThreads | None = None
        self._committing: DatabaseThreads | None = None
        self._writing: DatabaseThreads | None = None
        """For what is no commit and may wait for a lock."""
        self._families: DatabaseThreads | None = None
        """For commits that may wait for a lock."""

    async def read(self, work: Callable[[Connection], Answer]) -> Answer:
        """Run one reading statement."""
        return await self._started(self._reading).run(work, reads_only=True)

    async def write(self, work: Callable[[Connection], Answer]) -> Answer:
        """Run one writing transaction that is no commit of transitions, and may wait for locks."""
        return await self._started(self._writing).run(work)

    async def write_unhindered(self, work: Callable[[Connection], Answer]) -> Answer:
        """Run one writing transaction that is no commit of transitions, and waits for no lock."""
        return await self._started(self._reading if self.dialect.writing_lanes else self._committing).run(work)

    def write_blocking(self, work: Callable[[Connection], Answer], *, patience_s: float) -> Answer:
        """Do the same and wait for it in this thread, which must not be the event loop's."""
        lanes = self._started(self._reading if self.dialect.writing_lanes else self._committing)
        return lanes.run_blocking(work, patience_s=patience_s)

    async def commit_turns(self, work: Callable[[Connection], Answer], *, may_wait: bool) -> Answer:
        """Run a commit of transitions, apart from the others if it may wait for a lock. Raises LocksHeld at once."""
        return await self._started(self._families if may_wait else self._committing).run(work, lock_patience_s=0)

    def open_lanes(self) -> None:
        """Make the lanes; they connect when they are first used."""
        dialect = self.dialect
        self._reading = DatabaseThreads(dialect, count=dialect.reading_lanes, commits=False, name="store-read")
        self._committing = DatabaseThreads(
            dialect, count=dialect.commits_in_flight_max, commits=True, name="store-commit"
        )
        self._writing = self._families = self._committing
        if dialect.writing_lanes:
            self._writing = DatabaseThreads(dialect, count=dialect.writing_lanes, commits=False, name="store-write")
            self._families = DatabaseThreads(
                dialect, count=dialect.commits_in_flight_max, commits=True, name="store-families"
            )

    def renew_lanes(self) -> None:
        """Let every connection be replaced before it is used again."""
        for lane in self._all():
            lane.renew()

    async def close_lanes(self, *, patience_s: float | None = None) -> None:
        """Finish what is under way and disconnect; nothing happens if nothing is open.

        What is not finished within `patience_s` is left behind.
        """
        lanes = self._all()
        self._reading = self._committing = self._writing = self._families = None
        await asyncio.gather(*(asyncio.to_thread(lane.close, patience_s=patience_s) for lane in lanes))

    def _all(self) -> set[DatabaseThreads]:
        lanes = (self._reading, self._committing, self._writing, self._families)
        return {lane for lane in lanes if lane is not None}

    def _started(self, lanes: DatabaseThreads | None) -> DatabaseThreads:
        if lanes is None:
            raise DatabaseAway(f"{self.dialect.place}: the store is not started, or has been stopped")
        return lanes
