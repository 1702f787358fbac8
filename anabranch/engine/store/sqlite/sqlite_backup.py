"""A consistent copy of a SQLite file that others are working on.

Called by `anabranch.backups`. Reads one snapshot with the online backup of SQLite: writers do not wait for it, and
whatever they commit meanwhile is not in the copy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from anabranch.engine.store.sqlite.sqlite_dialect import BUSY_TIMEOUT_MS
from anabranch.errors import StoreUnavailable

# 8 MB at once: between two parts Ctrl-C works, and progress can be told.
PAGES_AT_ONCE = 2_048

# 20 lines of `PRAGMA integrity_check`: the first one says enough to throw the copy away.
_FAULTS_MAX = 20


def copy_database(source: Path, target: Path, *, progress: Callable[[int, int], None]) -> list[str]:
    """Copy the present state of `source` into the empty file `target`, and return what is wrong with the copy.

    `progress` is called with the pages that are left, and with all of them. The copy is one file, without a log beside
    it.
    Raises StoreUnavailable if a file cannot be read or written.
    """
    try:
        with (
            closing(_opened(source)) as read,
            closing(sqlite3.connect(target, isolation_level=None)) as written,
        ):
            # The snapshot is held to the end: without it, the copy begins again with each commit of another process.
            read.execute("BEGIN")
            read.execute("SELECT count(*) FROM sqlite_master").fetchone()
            read.backup(written, pages=PAGES_AT_ONCE, sleep=0, progress=lambda _, left, all_: progress(left, all_))
            read.execute("ROLLBACK")
            written.execute("PRAGMA journal_mode = DELETE")
            found = written.execute(f"PRAGMA integrity_check({_FAULTS_MAX})").fetchall()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return [str(error)]
        raise StoreUnavailable(f"the database cannot be copied: {error}") from None
    return [] if found == [("ok",)] else [str(line) for (line,) in found]


def _opened(path: Path) -> sqlite3.Connection:
    """A connection that reads a file which must exist."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000
    )
    connection.execute("PRAGMA query_only = ON")
    return connection
