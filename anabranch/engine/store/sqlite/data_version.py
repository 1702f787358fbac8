"""Detects commits of other processes to a SQLite file, on a connection of its own.

Made by `open_version_watch`, used by `engine.hints`. `PRAGMA data_version` compares two numbers in memory that all
processes on the file share, so it is cheap enough for frequent use on the event loop. Every commit writes to the
write-ahead log: while that file is unchanged the version is not read, which costs a tenth.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Collection
from pathlib import Path

from anabranch.engine.rules.events import Status
from anabranch.errors import StoreUnavailable

_ASK = "PRAGMA data_version"

_STATUSES = """SELECT instance_id, status FROM workflow_instances
    WHERE instance_id IN (SELECT value FROM json_each(?))"""

# 5 s: a commit writes to the log, waits for the disk, and only then moves the version: a log that was written longer
# ago than any disk takes belongs to a commit that has been seen. (Two writes within one tick of the kernel's clock, 10
# ms at most, leave the file with the same time.) A disk that takes longer costs a hint, and polling does without.
SETTLED_NS = 5_000_000_000


class SqliteDataVersion:
    """Watches the version of one file."""

    def __init__(self, path: Path, *, others_wrote: Callable[[], bool | None]) -> None:
        """`others_wrote` asks the connection that writes for this process, to which its own commits are no news."""
        self._path = path
        self.others_wrote = others_wrote
        self._log_path = f"{path}-wal"
        self._log: tuple[int, int, int] | None = None
        """The log when the version was last asked, if it was settled then: which file, its length, when written."""
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None

    async def open(self) -> None:
        """Connect, in a thread, because that reads from the disk."""
        self.close()
        try:
            self._connection, self._version = await asyncio.to_thread(self._connect)
        except sqlite3.Error as failure:
            raise self._unavailable(failure) from failure

    def moved(self) -> bool:
        """Does not wait for locks."""
        assert self._connection is not None, "called only while it is open"
        log = self._settled_log()
        if log is not None and log == self._log:
            return False
        try:
            version = _ask(self._connection)
        except sqlite3.OperationalError as failure:
            if failure.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return False
            raise self._unavailable(failure) from failure
        except sqlite3.Error as failure:
            raise self._unavailable(failure) from failure
        self._log = log
        before, self._version = self._version, version
        return version != before

    def ended(self, instance_ids: Collection[str]) -> Collection[str] | None:
        """Reads rows that were just written, so they are in memory; None while somebody holds a lock."""
        assert self._connection is not None, "called only while it is open"
        try:
            rows = self._connection.execute(_STATUSES, (json.dumps(list(instance_ids)),)).fetchall()
        except sqlite3.Error:
            return None  # the next look by a thread says what is wrong
        return [instance_id for instance_id, status in rows if Status(status).is_terminal]

    def _settled_log(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._log_path)
        except OSError:
            return None
        if abs(time.time_ns() - found.st_mtime_ns) < SETTLED_NS:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def close(self) -> None:
        """Close the connection; may be called twice."""
        connection, self._connection = self._connection, None
        self._log = None
        if connection is not None:
            connection.close()

    def _connect(self) -> tuple[sqlite3.Connection, int | None]:
        # Not `ro`: even reading needs the index of the write-ahead log beside it.
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
    # Fetch all rows: an unfinished statement would keep the log from being truncated.
    [(version,)] = connection.execute(_ASK).fetchall()
    return int(version)
