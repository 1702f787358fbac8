"""A backup of a SQLite database into one file, while processes work on it.

Called by the command `backup`. A PostgreSQL database has tools of its own (docs/operations.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from anabranch.dataclass import dataclass
from anabranch.engine.store.opening import dialect_of
from anabranch.engine.store.sqlite.sqlite_backup import copy_database
from anabranch.engine.store.sqlite.sqlite_dialect import SqliteDialect
from anabranch.errors import BackupDamaged, InvalidRequest

# A backup has everything that the database has: only its owner may read it.
_OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True)
class Backup:
    """A finished backup."""

    file: Path
    bytes: int
    taken_at: int
    """Milliseconds since the epoch; nothing that was committed later is in it."""
    ms: int


def back_up(
    database_url: str, target: Path, *, progress: Callable[[int, int], None] = lambda left, all_: None
) -> Backup:
    """Copy a database into the new file `target`, which exists only once it is whole and checked.

    Raises InvalidRequest if the file exists or cannot be written, or if the database is not SQLite; StoreUnavailable,
    BackupDamaged.
    """
    dialect = dialect_of(database_url)
    if not isinstance(dialect, SqliteDialect):
        raise InvalidRequest(
            "`anabranch backup` copies SQLite databases", hint="For PostgreSQL use pg_dump: docs/operations.md, Backup."
        )
    began_at, began = int(time.time() * 1000), time.monotonic()
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        if target.exists():
            raise InvalidRequest(f"{target} exists already", hint="Give each backup a name of its own, such as a date.")
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY))
        try:
            faults = copy_database(dialect.path, partial, progress=progress)
            if faults:
                raise BackupDamaged(f"the copy is damaged: {faults[0]}", details={"findings": faults})
            _sync(partial)
            partial.rename(target)
        finally:
            with suppress(FileNotFoundError):
                partial.unlink()
        _sync(target.absolute().parent)
    except OSError as refusal:
        raise InvalidRequest(f"{target} cannot be written: {refusal.strerror}", hint="Choose another file.") from None
    return Backup(target, target.stat().st_size, began_at, round((time.monotonic() - began) * 1000))


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
