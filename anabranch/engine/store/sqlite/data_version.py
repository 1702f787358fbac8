"""Has anybody committed to a SQLite file? A connection of its own that asks nothing else.

Made by `open_version_watch`, used by `engine.hints`. `PRAGMA data_version` compares two numbers in memory that all
processes on the file share, so it is asked on the event loop, and often.
"""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from anabranch.errors import StoreUnavailable

_ASK = "PRAGMA data_version"


class SqliteDataVersion:
    """Watches one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None

    async def open(self) -> None:
        """Connect, in a thread: that reads from the disk."""
        self.close()
        try:
            self._connection, self._version = await asyncio.to_thread(self._connect)
        except sqlite3.Error as failure:
            raise self._unavailable(failure) from failure

    def moved(self) -> bool:
        """A lock of somebody's is not waited for."""
        assert self._connection is not None, "called only while it is open"
        try:
            version = _ask(self._connection)
        except sqlite3.OperationalError as failure:
            if failure.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return False
            raise self._unavailable(failure) from failure
        except sqlite3.Error as failure:
            raise self._unavailable(failure) from failure
        before, self._version = self._version, version
        return version != before

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect(self) -> tuple[sqlite3.Connection, int | None]:
        # Not `ro`: a write-ahead log needs its index beside it, even to be read.
        connection = sqlite3.connect(
            f"{self._path.as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            return connection, _ask(connection)
        except sqlite3.Error:
            connection.close()
            raise

    def _unavailable(self, failure: sqlite3.Error) -> StoreUnavailable:
        return StoreUnavailable(f"SQLite database {self._path}: {failure}")


def _ask(connection: sqlite3.Connection) -> int:
    # All rows are fetched: a statement that is not at its end keeps the log from being emptied.
    [(version,)] = connection.execute(_ASK).fetchall()
    return int(version)
