"""Find SQLite databases near a path that does not exist, for hints.

Called by `session` and `doctor` for their hints. It reads names and first bytes, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from anabranch.errors import DatabaseMissing
from anabranch.settings import EMBEDDED_DATABASE_URL

SQLITE_SCHEME = "sqlite:///"
_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_FIRST_BYTES = b"SQLite format 3\x00"

# 5 names are read; more are a list. 1,000 files of a folder are looked at, and of a network drive no more.
SHOWN_MAX = 5
FILES_MAX = 1_000

HOW_TO_MAKE = "`anabranch run FILE`, `dev` or `migrate` makes one."


def hint_for(url: str) -> str:
    """A hint for a missing database."""
    if not url.startswith(SQLITE_SCHEME):
        return f"Check the name of the database in the URL. {HOW_TO_MAKE}"
    found = databases_near(Path(url.removeprefix(SQLITE_SCHEME)))
    if not found:
        return f"No SQLite database is near it. {HOW_TO_MAKE}"
    return f"There is {' and '.join(f'{SQLITE_SCHEME}{path}' for path in found)}: name one with --database-url."


@contextmanager
def named_in_hints(url: str) -> Iterator[None]:
    """Let a DatabaseMissing that is raised within name the databases that there are."""
    try:
        yield
    except DatabaseMissing as missing:
        raise DatabaseMissing(missing.message, hint=hint_for(url)) from None


def databases_near(path: Path) -> list[Path]:
    """SQLite files in the folder of the path and the current one, and the default database here and above."""
    default = Path(EMBEDDED_DATABASE_URL.removeprefix(SQLITE_SCHEME))
    here = Path.cwd()
    folders = [path.parent, Path(), default.parent]
    if not path.is_absolute():
        folders.append((Path("/") / path).parent)  # three slashes where four were meant
    candidates = [file for folder in folders for file in _databases_in(folder)]
    candidates += [above / default for above in here.parents if _is_sqlite(above / default)]
    by_file = {file.resolve(): file for file in reversed(candidates) if file.resolve() != path.resolve()}
    return list(reversed(by_file.values()))[:SHOWN_MAX]


def _databases_in(folder: Path) -> Iterator[Path]:
    try:
        files = sorted(islice(folder.iterdir(), FILES_MAX))
        yield from (file for file in files if file.suffix in _SUFFIXES and _is_sqlite(file))
    except OSError:
        return  # a folder that may not be read has nothing to name


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_FIRST_BYTES)) == _FIRST_BYTES
    except OSError:
        return False
