"""Running migrations: one at a time, on either database, from inside the package.

Called through `anabranch.migrations`. Blocks: an async caller uses a thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, text
from sqlalchemy.exc import DBAPIError

from anabranch.deferred import deferred
from anabranch.engine.store.opening import dialect_of
from anabranch.engine.store.schema import SCHEMA_REVISION, metadata
from anabranch.engine.store.sql.dialect import Dialect
from anabranch.engine.store.sql.processes import note_support, older_processes
from anabranch.engine.store.sql.revision import (
    VERSION_TABLE,
    check_revision,
    is_supported,
    refuse_unversioned,
    revision_of,
)
from anabranch.engine.store.sql.store import CONNECT_PAUSE_S, CONNECT_WAIT_S
from anabranch.engine.store.sqlite.sqlite_dialect import SqliteDialect
from anabranch.errors import DatabaseMissing, OlderProcesses, SchemaMismatch, StoreUnavailable

# Four tenths of a second to import, and a database is migrated once.
if TYPE_CHECKING:
    from alembic import command
    from alembic import config as alembic_config
    from alembic import util as alembic_util
else:
    command = deferred("alembic.command")
    alembic_config = deferred("alembic.config")
    alembic_util = deferred("alembic.util")

log = logging.getLogger("anabranch.store")

SESSION_NAME = "anabranch migrate"

# 5 names in a message: enough to know which deployment it is.
OLDER_NAMED_MAX = 5

# Alembic keeps the migration that is running in module globals: one at a time per process.
_ALEMBIC = threading.Lock()

# As alembic makes it.
_VERSIONS = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def upgrade(url: str, *, connect_wait_s: float = CONNECT_WAIT_S, force: bool = False) -> str:
    """Bring a database to this program's schema; returns its version. Does nothing if it is there, or newer and
    supports this program.

    Makes the file and the directories above it for SQLite. Raises OlderProcesses while processes run that could not go
    on with the new schema, unless `force`; SchemaMismatch for a newer schema and for tables without a version,
    StoreUnavailable for an absent or read-only database, SettingsError for a bad URL.
    """
    dialect = dialect_of(url)
    with _connected(dialect, wait_s=connect_wait_s) as connection, dialect.migration(connection):
        found = revision_of(connection)
        if found != SCHEMA_REVISION:
            refuse_unversioned(connection, target=dialect.target)
            if found is None and isinstance(dialect, SqliteDialect):
                _make_tables(connection)
            elif found is not None and is_supported(connection, found):
                return found
            else:
                _refuse_newer(dialect, connection)
                if found is not None and not force:
                    _refuse_beside_older(dialect, connection, found)
                run_migrations(connection, target=dialect.target)
    return SCHEMA_REVISION


def _refuse_beside_older(dialect: Dialect, connection: Connection, found: str) -> None:
    older = older_processes(connection, dialect, found=found)
    if older:
        named = "; ".join(older[:OLDER_NAMED_MAX]) + ("; …" if len(older) > OLDER_NAMED_MAX else "")
        raise OlderProcesses(
            f"{dialect.target}: older processes run, and cannot go on with schema {SCHEMA_REVISION}: {named}"
        )


def run_migrations(connection: Connection, *, target: str) -> None:
    """Run all migrations that a database has not had, in a transaction of the caller. Raises SchemaMismatch."""
    try:
        with _ALEMBIC:
            command.upgrade(_configuration(connection), "head")
    except alembic_util.CommandError as unknown:  # alembic's word for a version that no migration leads on from
        raise SchemaMismatch(
            f"{target} has schema version {revision_of(connection)}; no migration leads from it"
            f" to version {SCHEMA_REVISION}",
            hint="Use the release that made this database, or restore it from a backup.",
        ) from unknown
    note_support(connection)


def _make_tables(connection: Connection) -> None:
    """Give an empty SQLite database what all migrations would: a tenth of the time for the first command of a user.

    On PostgreSQL migrations set what `metadata` does not have, such as the compression of columns.
    """
    metadata.create_all(connection, checkfirst=False)
    _VERSIONS.create(connection, checkfirst=False)
    connection.execute(_VERSIONS.insert().values(version_num=SCHEMA_REVISION))
    note_support(connection)


def current(url: str, *, connect_wait_s: float = CONNECT_WAIT_S) -> str | None:
    """The schema version of a database; None if it has none yet. Changes nothing."""
    dialect = dialect_of(url)
    if _is_file_missing(dialect):
        return None
    with _connected(dialect, wait_s=connect_wait_s, changes=False) as connection:
        return revision_of(connection)


def ensure_schema(
    url: str, *, auto_migrate: bool, creates: bool = True, connect_wait_s: float = CONNECT_WAIT_S
) -> None:
    """Make sure that a database can be worked with: an absent or empty one is brought to the current schema.

    Without `creates` such a database raises DatabaseMissing and stays as it is. One with an older schema is only
    migrated with `auto_migrate`. Raises SchemaMismatch, naming both versions, otherwise as `upgrade`.
    """
    found = current(url, connect_wait_s=connect_wait_s)
    if found is None and not creates:
        refuse_empty(url, connect_wait_s=connect_wait_s)
    if found is None or (auto_migrate and found < SCHEMA_REVISION):
        upgrade(url, connect_wait_s=connect_wait_s)
        return
    dialect = dialect_of(url)
    with _connected(dialect, wait_s=connect_wait_s) as connection:
        check_revision(connection, target=dialect.target)


def refuse_empty(url: str, *, connect_wait_s: float) -> NoReturn:
    """Raise DatabaseMissing, or SchemaMismatch where the tables of another program are."""
    dialect = dialect_of(url)
    if _is_file_missing(dialect):
        raise DatabaseMissing(f"there is no {dialect.target}")
    with _connected(dialect, wait_s=connect_wait_s, changes=False) as connection:
        refuse_unversioned(connection, target=dialect.target)
    raise DatabaseMissing(f"the {dialect.target} has no tables of anabranch")


def _is_file_missing(dialect: Dialect) -> bool:
    try:
        return isinstance(dialect, SqliteDialect) and not dialect.path.is_file()
    except OSError:
        return True  # a name that no file can have, or a folder that may not be read


def _refuse_newer(dialect: Dialect, connection: Connection) -> None:
    found = revision_of(connection)
    if found is not None and found > SCHEMA_REVISION:
        check_revision(connection, target=dialect.target)


@contextmanager
def _connected(dialect: Dialect, *, wait_s: float, changes: bool = True) -> Iterator[Connection]:
    """A connection, waited for; the driver's errors leave as StoreUnavailable.

    With `changes` a SQLite file is made where there is none, and set up for a store.
    """
    if isinstance(dialect, SqliteDialect) and changes:
        _make_folder(dialect.path)
    engine = dialect.reader() if isinstance(dialect, SqliteDialect) and not changes else dialect.engine(commits=False)
    give_up_at = time.monotonic() + (wait_s if dialect.is_remote else 0)
    try:
        while True:
            try:
                connection = engine.connect()
                break
            except DBAPIError as absent:
                message = dialect.describe(absent)
                if time.monotonic() + CONNECT_PAUSE_S > give_up_at:
                    raise StoreUnavailable(message) from absent
            log.warning("waiting for the database: %s", message)
            time.sleep(CONNECT_PAUSE_S)
        with connection:
            if dialect.is_remote:  # by this name a migration knows other waiting migrators, and does not wait for them
                connection.execute(text(f"SET application_name = '{SESSION_NAME}'"))
            yield connection
    except DBAPIError as error:
        raise StoreUnavailable(dialect.describe(error)) from error
    finally:
        engine.dispose()


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as refusal:
        raise StoreUnavailable(f"the directory {path.parent} for the database cannot be made: {refusal}") from refusal


def _configuration(connection: Connection) -> alembic_config.Config:
    configuration = alembic_config.Config()
    configuration.set_main_option("script_location", str(Path(__file__).parent))
    configuration.attributes["connection"] = connection
    return configuration
