"""What the rooms of a SQL store share: its dialect and its lanes.

`inquiries`, `definitions` and `state_manager` build on it. Commits have lanes of their own,
so that no list or listing can delay one; where a database has a single writer, everything
that writes goes there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from anabranch.engine.store.dialect import Dialect
from anabranch.engine.store.lanes import Lanes
from anabranch.errors import DatabaseAway

Answer = TypeVar("Answer")


class SqlRoom:
    """Runs functions on connections: to read, to write, to commit."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._reading: Lanes | None = None
        self._committing: Lanes | None = None

    async def read(self, work: Callable[[Connection], Answer]) -> Answer:
        """Run one reading statement."""
        return await self._started(self._reading).run(work, reads_only=True)

    async def write(self, work: Callable[[Connection], Answer]) -> Answer:
        """Run one writing transaction that is no commit of turns."""
        return await self._started(self._committing if self.dialect.writes_apart else self._reading).run(work)

    def write_blocking(self, work: Callable[[Connection], Answer], *, patience_s: float) -> Answer:
        """Run a writing transaction and wait for it in this thread, which must not be the event loop's."""
        lanes = self._started(self._committing if self.dialect.writes_apart else self._reading)
        return lanes.run_blocking(work, patience_s=patience_s)

    async def commit_turns(self, work: Callable[[Connection], Answer]) -> Answer:
        """Run a commit of turns."""
        return await self._started(self._committing).run(work)

    def open_lanes(self) -> None:
        """Make the lanes; they connect when they are first used."""
        dialect = self.dialect
        self._reading = Lanes(dialect, count=dialect.reading_lanes, commits=False, name="store-read")
        self._committing = Lanes(dialect, count=dialect.commits_in_flight_max, commits=True, name="store-commit")

    async def close_lanes(self) -> None:
        """Finish what is under way and disconnect; nothing happens if nothing is open."""
        lanes = [lane for lane in (self._committing, self._reading) if lane is not None]
        self._reading = self._committing = None
        for lane in lanes:
            await asyncio.to_thread(lane.close)

    def _started(self, lanes: Lanes | None) -> Lanes:
        if lanes is None:
            raise DatabaseAway(f"{self.dialect.place}: the store is not started, or has been stopped")
        return lanes
